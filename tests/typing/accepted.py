# SPDX-License-Identifier: Apache-2.0
"""A program that uses the public API as documented: type checkers accept every line. test_typing.py runs them."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from opentelemetry import context as context_api
from opentelemetry.trace import TracerProvider
from typing_extensions import assert_type

import torchspan
from torchspan import exceptions, inputs, observers, phase, sdk, testing, traces
from torchspan.callbacks import (
    INVALID_CALLBACK_HANDLE,
    CallbackHandle,
    DisableRecordFunctionGuard,
    RecordedRange,
    RecordFunction,
    RecordFunctionCallback,
    RecordScope,
    SamplingMode,
    add_global_callback,
    add_thread_local_callback,
    record_function,
    remove_callback,
)
from torchspan.observers import (
    CallableObservers,
    ErrorPolicy,
    Observation,
    ObserveContext,
    Observer,
    Registration,
    make_observable,
    observable,
    observe_function,
)


# --- decorators keep the type of the function -----------------------------------------------------------------
@record_function
def load(path: str) -> int:
    return len(path)


@record_function("load weights", scope=RecordScope.USER_SCOPE)
def load_weights(path: str) -> int:
    return len(path)


@record_function(scope=RecordScope.FUNCTION)
def load_scoped(path: str) -> int:
    return len(path)


@observable
def decode(tokens: list[int]) -> str:
    return str(tokens)


@observable(policy=ErrorPolicy(rethrow=True))
async def fetch(key: int) -> str:
    return str(key)


class Model:
    @record_function
    def forward(self, x: float) -> float:
        return x

    @observable
    def generate(self, x: float) -> float:
        return x

    @observable
    @staticmethod
    def tokens(text: str) -> list[str]:
        return [text]


def decorated() -> None:
    assert_type(load("model.pt"), int)
    assert_type(load_weights("model.pt"), int)
    assert_type(load_scoped("model.pt"), int)
    assert_type(decode([1]), str)
    assert_type(Model().forward(1.0), float)
    assert_type(Model().generate(1.0), float)
    assert_type(Model.tokens("text"), list[str])


def observed_functions() -> None:
    assert_type(decode.observers, CallableObservers)
    assert_type(Model.generate.observers, CallableObservers)
    with fetch.observers.post.add(on_call), make_observable(len).observers.pre.add(on_call):
        assert_type(decode.orig_func([1]), str)


async def awaited() -> None:
    assert_type(await fetch(1), str)


def ranges() -> None:
    with record_function("warm up", inputs=(1,)) as opened:
        assert_type(opened, RecordedRange)
        opened.set_outputs(2)


# --- one way to end a registration ----------------------------------------------------------------------------
def start(record: RecordFunction) -> float:
    assert_type(record.name, str)
    return 0.0


def end(record: RecordFunction, started: float) -> None:
    """Nothing is done."""


def on_call(context: ObserveContext) -> None:
    assert_type(context.callable, Callable[..., Any])


def registrations() -> None:
    callback = RecordFunctionCallback(
        start, end, scopes={phase.BUILD_ENGINE, RecordScope.USER_SCOPE}, sampling_mode=SamplingMode.PER_ROOT
    )
    handle = add_global_callback(callback)
    assert_type(handle, CallbackHandle)
    handle.remove()
    remove_callback(INVALID_CALLBACK_HANDLE)
    with add_thread_local_callback(callback) as local, DisableRecordFunctionGuard():
        assert_type(local, CallbackHandle)

    registration = observers.tensorrt.build_engine.post.add(on_call)
    assert_type(registration, Registration)
    registration.remove()
    with observe_function("json:dumps") as observation:
        assert_type(observation, Observation)
        assert_type(observation.observers, CallableObservers)
    observation.remove()
    with ExitStack() as stack:
        stack.enter_context(observers.torch_tensorrt.compile.pre.add(on_call))
        stack.enter_context(observers.torch.export.pre.add(on_call, scope="context", policy=ErrorPolicy(level=10)))

    on_batch: Observer[Callable[[int], None]] = Observer("on_batch", scope="process")
    with on_batch.add(lambda size: None):
        on_batch.observe(3)


# --- instrumentation, traces, tests ---------------------------------------------------------------------------
def instrumented(provider: TracerProvider) -> None:
    try:
        torchspan.instrument(tracer_provider=provider, detail="passes", heartbeat=1.5, without_gpu=True)
    except exceptions.ConfigurationError as error:
        assert_type(error.args, tuple[Any, ...])
    torchspan.mark_ready()
    torchspan.mark_not_ready()
    with torchspan.batch([context_api.get_current()]):
        torchspan.uninstrument()


def read() -> None:
    file = traces.read("trace.jsonl")
    compilation = file.one("torch_tensorrt.compile")
    assert_type(compilation, traces.Span)
    assert_type(file.below(compilation), list[traces.Span])
    assert_type(file.self_time(compilation), int)
    assert_type(file.outline(), str)


def tested() -> None:
    with testing.capture(detail="passes") as trace:
        assert_type(trace, testing.CapturedTrace)
    assert_type(trace.find("tensorrt.build_engine"), list[traces.Span])
    testing.without_gpu()


def exported() -> None:
    assert_type(sdk.FileSpanExporter("trace.jsonl", max_size=1_000_000).path, str)
    assert_type(sdk.TorchspanSampler("other=0.1").get_description(), str)


def observed(model: object) -> None:
    observer = inputs.InputObserver()
    with observer(model):
        """The model is called here."""
    assert_type(observer.infer_profile(percentile=99), inputs.InputProfile)
    assert_type(observer.merge(observer), inputs.InputObserver)
