# SPDX-License-Identifier: Apache-2.0
"""What `record_function` costs, over the same call without it, alongside what else could be put around a function.

Everything in one run: the candidates take turns around an empty function, and of each the fastest round counts. Bare calls
take turns with them and are taken off.
"""

import contextvars
import importlib.util
import math
import sys
import timeit
from pathlib import Path

import torch
import wrapt
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from table import NO_TARGET, Row, write
from torchspan.callbacks import (
    RecordFunctionCallback,
    SamplingMode,
    add_global_callback,
    clear_callbacks,
    record_function,
    remove_callback,
)
from torchspan.observers import Observer, observable

IDLE_NS, UNSAMPLED_NS = 100, 150
CROWD, CROWD_RATIO = 4_000, 1.2
REACHED = ["function", "method", "@observable"]
if sys.version_info >= (3, 11):  # before, a decorated generator has a frame of torchspan's around it
    REACHED.append("generator, exhausted")
CALLS, ROUNDS = 1_000, 600


def bare(x):
    return x


class Bare:
    def method(self, x):
        return x


async def coroutine(x):
    return x


def generator(x):
    yield x


async def async_generator(x):
    yield x


def gathered(function):
    async def run(x):
        return [each async for each in function(x)]

    return run


@wrapt.decorator
def through_wrapt(wrapped, _instance, args, kwargs):
    return wrapped(*args, **kwargs)


class Recorded(Bare):
    method = record_function("method")(Bare.method)


def awaited(function):
    def run(x):
        try:
            function(x).send(None)
        except StopIteration as stop:
            return stop.value

    return run


def exhausted(function):
    return lambda x: [each for each in function(x)]  # noqa: C416 - the loop is what is measured


def with_torchspan(x):
    with record_function("range"):
        return x


def with_torch(x):
    with torch.profiler.record_function("range"):
        return x


class Empty:
    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass


def with_nothing(x):
    with Empty():
        return x


def with_span(tracer):
    def run(x):
        with tracer.start_as_current_span("range"):
            return x

    return run


def theirs(function):
    """As Torch-TensorRT's module makes it, which importing the whole library would take seconds for."""
    package = importlib.util.find_spec("torch_tensorrt").submodule_search_locations[0]
    spec = importlib.util.spec_from_file_location("theirs", Path(package) / "dynamo" / "observer.py")
    module = sys.modules["theirs"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.observable()(function)


def costs(pairs):
    """Nanoseconds of each pair's second function over its first, by name; everything takes turns."""
    timers = {name: [timeit.Timer("f(1)", globals={"f": each}) for each in pair] for name, pair in pairs.items()}
    best = {name: [float("inf")] * 2 for name in pairs}
    for _ in range(ROUNDS):
        for name, pair in timers.items():
            best[name] = [min(old, timer.timeit(CALLS)) for old, timer in zip(best[name], pair, strict=True)]
    return {name: (with_it - without) / CALLS * 1e9 for name, (without, with_it) in best.items()}


def start(_record):
    return None


def end(_record, _context):
    pass


def figures():
    """(what, nanoseconds, target or None)."""
    recorded = record_function("function")(bare)
    idle = {
        "no callbacks: function": (bare, recorded),
        "no callbacks: method": (Bare().method, Recorded().method),
        "no callbacks: coroutine function": (awaited(coroutine), awaited(record_function("c")(coroutine))),
        "no callbacks: generator, exhausted": (exhausted(generator), exhausted(record_function("g")(generator))),
        "no callbacks: async generator, exhausted": (
            awaited(gathered(async_generator)),
            awaited(gathered(record_function("a")(async_generator))),
        ),
        "no callbacks: with record_function(…)": (bare, with_torchspan),
        "no callbacks: @observable": (bare, observable()(bare)),
        "no callbacks: Torch-TensorRT's @observable": (bare, theirs(bare)),
        "an empty with statement (a class in Python)": (bare, with_nothing),
        "torch.profiler.record_function": (bare, with_torch),
        "wrapt decorator": (bare, through_wrapt(bare)),
        "OpenTelemetry span, API without SDK": (bare, with_span(trace.NoOpTracer())),
        "OpenTelemetry span, recording, no processor": (
            bare,
            with_span(TracerProvider(shutdown_on_exit=False).get_tracer("bench")),
        ),
    }
    targets = {f"no callbacks: {each}": IDLE_NS for each in REACHED}
    for what, figure in costs(idle).items():
        yield what, figure, targets.get(what)
    function = {"": (bare, recorded)}
    for what, target, settings in (
        ("sampled per event, not picked", UNSAMPLED_NS, {"sampling_prob": 1e-9}),
        ("sampled per root, not picked", None, {"sampling_prob": 1e-9, "sampling_mode": SamplingMode.PER_ROOT}),
        ("a pair of empty callbacks runs", None, {}),
        (
            "the same with inputs, outputs and ids",
            None,
            dict.fromkeys(("needs_inputs", "needs_outputs", "needs_ids"), True),
        ),
    ):
        add_global_callback(RecordFunctionCallback(start, end, **settings))
        yield f"function: {what}", costs(function)[""], target
        if "per root" in what:
            with record_function("root"):
                yield "function: inside a tree that is not picked", costs(function)[""], None
        clear_callbacks()


def heard(scope):
    """An observer with one callback."""
    observer = Observer("heard", scope=scope)
    observer.add(nothing)
    return observer


def nothing():
    pass


def registered_and_removed(observer):
    with observer.add(nothing):
        pass


def a_pair_added_and_removed():
    remove_callback(add_global_callback(RecordFunctionCallback(start, end)))


def growth():
    """(what, nanoseconds alongside 1, nanoseconds alongside `CROWD`): each of what must not depend on how many others there are."""
    for scope in ("context", "process"):
        fire, register = [], []
        for count in (1, CROWD):
            context = contextvars.Context()
            crowd = context.run(lambda count=count: [heard(scope) for _ in range(count)])  # noqa: B023 - called here
            fire.append((context, crowd, timeit.Timer(crowd[0].observe)))
            register.append((context, crowd, timeit.Timer(lambda one=crowd[0]: registered_and_removed(one))))
        rows = [("an observer fires", fire), ("a callback is added and removed", register)]
        for what, sizes in rows[: 1 + (scope == "process")]:  # a context goes through its observers at each addition
            best = [math.inf, math.inf]
            for _ in range(ROUNDS // 4):
                took = [context.run(timer.timeit, CALLS // 10) for context, _, timer in sizes]
                best = [min(pair) for pair in zip(best, took, strict=True)]
            yield f"{what} ({scope})", *(each / (CALLS // 10) * 1e9 for each in best)
    best = [math.inf, math.inf]
    for _ in range(ROUNDS // 60):
        for index, count in enumerate((1, CROWD)):
            for _ in range(count):
                add_global_callback(RecordFunctionCallback(start, end))
            best[index] = min(best[index], timeit.timeit(a_pair_added_and_removed, number=CALLS // 10))
            clear_callbacks()
    yield "a global pair is added and removed", *(each / (CALLS // 10) * 1e9 for each in best)


def growth_rows():
    for what, alone_ns, crowded_ns in growth():
        yield Row(f"{what}, alongside 1", f"{alone_ns:.0f} ns", "", NO_TARGET)
        ratio = crowded_ns / alone_ns
        figure = f"{crowded_ns:.0f} ns, {ratio:.2f} of that"
        yield Row(f"{what}, alongside {CROWD:,}", figure, f"≤ {CROWD_RATIO}", ratio <= CROWD_RATIO)


def verdict(what, figure_ns, target_ns):
    if target_ns is None:
        return Row(what, f"{figure_ns:.0f} ns", "", NO_TARGET)
    return Row(what, f"{figure_ns:.0f} ns", f"≤ {target_ns} ns", figure_ns <= target_ns)


def main():
    rows = [*(verdict(*each) for each in figures()), *growth_rows()]
    return write(
        f"record_function over the bare call, Python {sys.version.split()[0]}, torch {torch.__version__}", rows
    )


if __name__ == "__main__":
    raise SystemExit(main())
