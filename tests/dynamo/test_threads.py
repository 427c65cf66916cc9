# SPDX-License-Identifier: Apache-2.0
"""Compilations in several threads, and what Inductor leaves to its workers."""

import contextlib
import itertools
import threading
import time
from asyncio import CancelledError
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
import torch
from opentelemetry.sdk.trace import SpanProcessor
from torch._inductor import async_compile
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.compile_worker.subproc_pool import SubprocPool

from dynamo.expected import P, frame, graph
from support import compiled
from support.stacks import innermost_frame
from support.tree import S, assert_times_nest, assert_trees, outline, without_clocks
from torchspan.hooks.adapters.dynamo import compile_lock
from torchspan.sdk import TorchspanIdGenerator

pytestmark = pytest.mark.slow

ONES = torch.ones(3, 3)
LIMIT_S = 60


def run(function, *args, backend="eager", **options):
    """What the function returns, called once and compiled."""
    return torch.compile(function, backend=backend, **options)(*args)


def until(is_so):
    """Returns as soon as `is_so()`."""
    end = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.001)


def waits_for_the_lock(thread):
    """Whether the thread is in the function that waits for Dynamo's lock."""
    frame = innermost_frame(thread)
    return frame is not None and frame.f_code.co_name == "_wait" and frame.f_globals is vars(compile_lock)


@pytest.fixture
def every_wait(monkeypatch, exporter):
    """Each wait is long enough for a span."""
    monkeypatch.setattr(compile_lock.Waits, "long_s", 0)
    exporter.with_waits = True


@pytest.fixture
def threads(tracer):
    """Starts a function in a thread, below a span of the thread's name."""
    started = []

    def start(name, function, *args, **options):
        def body():
            with tracer.start_as_current_span(name):
                function(*args, **options)

        thread = threading.Thread(target=body)
        started.append(thread)
        thread.start()
        return thread

    yield start
    for each in started:
        each.join(LIMIT_S)


crashes = pytest.mark.skipif(
    torch.__version__ < "2.12",
    reason="where a thread has waited for another one's compilation, torch 2.11 without a GPU crashes",
)
"""It does so without torchspan: FakeTensorMode asks for a device's guard, in a thread that has none."""


# --- waiting for Dynamo's lock ------------------------------------------------------------------------------------------
@crashes
def test_a_function_that_another_thread_compiled_meanwhile_is_compiled_again_for_no_guard(threads, spans):
    inside, done = threading.Event(), threading.Event()

    def backend(module, _inputs):
        inside.set()
        assert done.wait(LIMIT_S)
        return module.forward

    function = torch.compile(compiled.plain, backend=backend)
    first = threads("first", function, ONES)
    assert inside.wait(LIMIT_S)
    second = threads("second", function, ONES)
    until(lambda: waits_for_the_lock(second))
    done.set()
    first.join(LIMIT_S)
    second.join(LIMIT_S)
    _, again = spans("torch.compile_frame")
    assert again.attributes["torch.compile.recompile.class"] == "other"
    assert again.attributes["torch.compile.recompile.reason"] == (
        "Unexpected recompilation: runtime guards failed even though they passed during recompilation-reason analysis."
    )


@crashes
def test_a_thread_that_waits_for_another_ones_compilation_has_a_span_linked_to_it(every_wait, threads, exporter, spans):
    inside, done = threading.Event(), threading.Event()

    def backend(module, _inputs):
        inside.set()
        assert done.wait(LIMIT_S)
        return module.forward

    first = threads("first", run, compiled.plain, ONES, backend=backend)
    assert inside.wait(LIMIT_S)
    second = threads("second", run, compiled.adds, ONES, 1)
    until(lambda: waits_for_the_lock(second))
    done.set()
    first.join(LIMIT_S)
    second.join(LIMIT_S)
    assert sorted(outline(exporter.get_finished_spans())) == [
        "first\n  torch.compile_frame\n    torch.compile_phase backend_compile",
        "second\n  torch.compile_wait\n  torch.compile_frame\n    torch.compile_phase backend_compile",
    ]
    (waited,) = spans("torch.compile_wait")
    holder, _ = spans("torch.compile_frame")
    assert without_clocks(waited.attributes) == {
        "torchspan.keep": True,
        "code.function.name": "adds",
        "code.file.path": "support/compiled.py",
        "code.line.number": compiled.adds.__code__.co_firstlineno,
        "torch.compile.wait.ids": ("0/0",),
        "thread.id": second.ident,
    }
    assert [link.context for link in waited.links] == [holder.context]
    assert waited.end_time <= spans("torch.compile_frame")[1].start_time


def test_a_thread_that_compiles_alone_does_not_wait(every_wait, exporter):
    run(compiled.breaks_twice, ONES)
    run(compiled.plain, ONES, backend=lambda module, _inputs: run(compiled.adds, ONES, 1) is None or module.forward)
    assert "torch.compile_wait" not in {span.name for span in exporter.get_finished_spans()}


def test_what_the_lock_is_asked_for_the_lock_below_it_answers(instrument):
    followed = torch._dynamo.convert_frame.compile_lock
    with followed, followed:
        assert followed._is_owned()
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(followed.acquire, blocking=False).result() is False
            assert pool.submit(followed.acquire, timeout=0.001).result() is False
            with pytest.raises(RuntimeError):
                pool.submit(followed.release).result()
        instrument().uninstrument()
        original = torch._dynamo.convert_frame.compile_lock
        assert type(original) is type(threading.RLock())
        assert original._is_owned()
    assert not original._is_owned()


# --- Inductor's workers -------------------------------------------------------------------------------------------------
@pytest.fixture
def pool(monkeypatch):
    """Inductor's threads: two, which end with the test."""
    with ThreadPoolExecutor(2) as pool:
        monkeypatch.setattr(async_compile, "get_compile_threads", lambda: 2)
        monkeypatch.setattr(AsyncCompile, "pool", lambda: pool)
        yield pool


def compiling_in_threads(*tasks, results=None):
    """A backend that hands tasks to Inductor's threads in a phase of its own, and waits for them."""

    def backend(module, _inputs):
        with torch._dynamo.utils.dynamo_timed("PyCodeCache.load_by_key_path"):
            futures = [AsyncCompile.submit(each) for each in tasks]
            outcomes = [each.exception() or each.result() for each in futures]
        if results is not None:
            results.extend(outcomes)
        return module.forward

    return backend


def test_work_in_inductors_threads_lies_below_the_phase_that_submitted_it(every_phase, pool, exporter):
    def task():
        with torch._dynamo.utils.dynamo_timed("compile_file"):
            return threading.current_thread() is threading.main_thread()

    results = []
    run(compiled.plain, ONES, backend=compiling_in_threads(task, results=results))
    assert results == [False]
    worker = S(
        "torch.compile_worker", {"torchspan.keep": True, "torch.compile.worker.kind": "thread"}, P("compile_file")
    )
    assert_trees(
        exporter.get_finished_spans(),
        [
            frame(
                "0/0",
                "plain",
                7,
                P("bytecode_tracing"),
                P("insert_deferred_runtime_asserts"),
                P("backend_compile", P("PyCodeCache.load_by_key_path", worker)),
                P("build_guards"),
                P("gc"),
                **graph(8, 2),
            )
        ],
    )
    assert_times_nest(exporter.get_finished_spans())


def test_a_phase_that_left_work_to_a_thread_is_a_span_however_short(pool, exporter):
    run(compiled.plain, ONES, backend=compiling_in_threads(lambda: 1, lambda: 2))
    assert outline(exporter.get_finished_spans()) == [
        (
            "torch.compile_frame\n"
            "  torch.compile_phase backend_compile\n"
            "    torch.compile_phase PyCodeCache.load_by_key_path\n"
            "      torch.compile_worker\n"
            "      torch.compile_worker"
        )
    ]


@pytest.mark.fault("libraries", "a worker of Inductor's fails")
def test_what_fails_in_a_thread_of_inductors_marks_its_own_span(pool, spans):
    def failing():
        raise ValueError("ulterior secret of the program")

    results = []
    run(compiled.plain, ONES, backend=compiling_in_threads(failing, results=results))
    assert [str(each) for each in results] == ["ulterior secret of the program"]
    (worker,) = spans("torch.compile_worker")
    assert worker.attributes["error.type"] == "ValueError"
    assert "secret" not in worker.to_json()


def test_a_task_that_inductor_runs_at_once_is_not_a_worker(monkeypatch, exporter):
    monkeypatch.setattr(async_compile, "get_compile_threads", lambda: 1)

    def backend(module, _inputs):
        assert AsyncCompile.submit(threading.get_ident) == threading.get_ident()
        return module.forward

    run(compiled.plain, ONES, backend=backend)
    assert "torch.compile_worker" not in {span.name for span in exporter.get_finished_spans()}


def test_work_that_no_compilation_submitted_is_left_alone(pool, exporter):
    assert AsyncCompile.submit(threading.get_ident).result() != threading.get_ident()
    assert exporter.get_finished_spans() == ()


def test_work_in_a_process_of_inductors_is_a_span_until_its_future_is_done(instrument, spans, monkeypatch):
    submitted, futures = [], [Future(), Future(), Future()]

    def submit(_self, job, *args):
        submitted.append((job, args))
        return futures[len(submitted) - 1]

    instrument().uninstrument()
    monkeypatch.setattr(SubprocPool, "submit", submit)
    instrument()
    made = object.__new__(SubprocPool)

    def backend(module, _inputs):
        for each in (divmod, pow, AsyncCompile._get_ready):
            made.submit(each, 7, 2)
        return module.forward

    run(compiled.plain, ONES, backend=backend)
    assert submitted == [(divmod, (7, 2)), (pow, (7, 2)), (AsyncCompile._get_ready, (7, 2))]
    assert spans("torch.compile_worker") == []
    futures[0].set_result((3, 1))
    futures[1].set_exception(RuntimeError("ulterior secret of the program"))
    one, other = spans("torch.compile_worker")
    (backend_compile,) = spans("torch.compile_phase backend_compile")
    assert one.attributes == {"torchspan.keep": True, "torch.compile.worker.kind": "process"}
    assert other.attributes["error.type"] == "RuntimeError"
    assert [each.parent.span_id for each in (one, other)] == [backend_compile.context.span_id] * 2


# --- many -----------------------------------------------------------------------------------------------------------------
class Counted(SpanProcessor):
    """Spans that have started and not ended."""

    def __init__(self):
        self.open = set()

    def on_start(self, span, parent_context=None):
        self.open.add(span.context.span_id)

    def on_end(self, span):
        self.open.remove(span.context.span_id)


def cancelled(_module, _inputs):
    raise CancelledError


def failing(_module, _inputs):
    raise ValueError


def nested(module, _inputs):
    compile_a_new_function("eager")
    return module.forward


NUMBERS = itertools.count()


def compile_a_new_function(backend):
    """Calls a function that Dynamo has not seen; a backend may raise.

    It has a file and a module: torch 2.11 takes all functions without for one.
    """
    name, names = f"fresh{next(NUMBERS)}", {"__name__": __name__}
    exec(compile(f"def {name}(x):\n    return x.sin() + 1\n", __file__, "exec"), names)
    with contextlib.suppress(torch._dynamo.exc.BackendCompilerFailed, CancelledError):
        torch.compile(names[name], backend=backend)(ONES)


def test_a_hundred_compilations_in_four_threads_leave_distinct_ids_and_no_open_span(
    every_wait, provider, tracer, exporter
):
    tracer.id_generator = (
        TorchspanIdGenerator()
    )  # OpenTelemetry's own repeats ids: Dynamo restores the state of `random`
    counted = Counted()
    provider.add_span_processor(counted)
    backends = ["eager", failing, nested, cancelled, "eager"] * 5

    def work(thread):
        for backend in backends:
            with tracer.start_as_current_span(f"thread {thread}"):
                compile_a_new_function(backend)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    found = exporter.get_finished_spans()
    assert counted.open == set()
    assert len({span.context.span_id for span in found}) == len(found)
    frames = [span for span in found if span.name == "torch.compile_frame"]
    assert len(frames) == 120
    roots = [span for span in found if span.parent is None]
    assert sorted(span.name for span in roots) == [f"thread {number}" for number in range(4) for _ in range(25)]
    by_id = {span.context.span_id: span for span in found}
    assert all(by_id[span.parent.span_id].context.trace_id == span.context.trace_id for span in found if span.parent)
