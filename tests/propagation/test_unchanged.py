# SPDX-License-Identifier: Apache-2.0
"""What is replaced, restored, and looks and behaves like the original; what fails in them, and who else is there."""

import asyncio
import contextvars
import functools
import gc
import inspect
import logging
import multiprocessing.pool
import multiprocessing.process
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import wrapt
from opentelemetry import trace
from opentelemetry.instrumentation import utils

from support.own_failures import consequences
from support.work import span_id
from torchspan.base.context import threads
from torchspan.base.patching import Patches
from torchspan.hooks.propagation import _carrier

pytestmark = pytest.mark.slow

REPLACED = [
    (threading.Thread, "start"),
    (ThreadPoolExecutor, "submit"),
    (ProcessPoolExecutor, "submit"),
    *(
        (multiprocessing.pool.Pool, name)
        for name in ("__init__", "apply_async", "_map_async", "imap", "imap_unordered")
    ),
    (multiprocessing.process.BaseProcess, "start"),
    (multiprocessing.process.BaseProcess, "_bootstrap"),
    (subprocess.Popen, "__init__"),
    (utils, "_start_internal_or_server_span"),
]


def bound():
    return [vars(holder)[name] for holder, name in REPLACED]


def test_every_name_is_replaced_and_restored(instrument, tracer):
    before, bootstrap = bound(), threading.Thread._bootstrap
    instrumentor = instrument()
    assert not [name for (_, name), was, now in zip(REPLACED, before, bound(), strict=True) if was is now]
    with tracer.start_as_current_span("request"):
        thread = threading.Thread(target=lambda: None)
        thread.start()
        thread.join()
    instrumentor.uninstrument()
    assert [was is now for was, now in zip(before, bound(), strict=True)] == [True] * len(REPLACED)
    assert threading.Thread._bootstrap is bootstrap


def test_where_a_name_cannot_be_replaced_those_replaced_with_it_are_restored(instrument, monkeypatch):
    """make failing-calls: `BaseProcess.start` stayed replaced forever."""
    replace = Patches.replace_shared

    def refuse(patches, holder, name, make):
        if name == "_bootstrap":
            raise MemoryError
        replace(patches, holder, name, make)

    start = multiprocessing.process.BaseProcess.start
    monkeypatch.setattr(Patches, "replace_shared", refuse)
    instrument()
    assert multiprocessing.process.BaseProcess.start is start


def test_disabled_no_name_is_replaced(instrument):
    before = bound()
    instrument(propagation="off")
    assert bound() == before


def test_replaced_names_look_as_they_did(instrument):
    before = [(inspect.signature(each), each.__name__, each.__qualname__, each.__doc__) for each in bound()]
    instrument()
    assert [(inspect.signature(each), each.__name__, each.__qualname__, each.__doc__) for each in bound()] == before


def test_enabling_twice_replaces_once(instrument, caplog):
    instrumentor = instrument()
    once = bound()
    instrumentor.instrument()
    assert bound() == once


def test_what_another_package_put_over_it_stays_and_torchspans_below_it_does_nothing(
    instrument, tracer, both, parents, monkeypatch
):
    instrumentor = instrument()
    torchspans = threading.Thread.start

    def theirs(self):
        torchspans(self)

    monkeypatch.setattr(threading.Thread, "start", theirs)
    instrumentor.uninstrument()
    assert threading.Thread.start is theirs
    with tracer.start_as_current_span("request"):
        thread = threading.Thread(target=both, args=("work",))
        thread.start()
        thread.join()
    assert parents("work") == ("", "")


def test_work_that_is_under_way_when_we_are_disabled_continues(instrument, tracer, both, parents):
    instrumentor = instrument()
    go = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(go.wait, 60)
        with tracer.start_as_current_span("request") as request:
            queued = pool.submit(both, "queued")
            instrumentor.uninstrument()
            go.set()
            queued.result()
    assert parents("queued") == (span_id(request),) * 2


def test_a_thread_is_what_it_would_be_without_us(instrument, tracer):
    def described():
        thread = threading.Thread(target=lambda: seen.append(threading.current_thread()), name="mine", daemon=True)
        before = sorted(vars(thread)), repr(thread)
        thread.start()
        thread.join()
        return before, sorted(vars(thread)), thread.name, thread.daemon, thread is seen.pop()

    seen = []
    bare = described()
    instrument()
    with tracer.start_as_current_span("request"):
        assert described() == bare


def test_a_thread_cannot_be_started_twice_and_what_failed_leaves_nothing(instrument, tracer):
    instrument()
    with tracer.start_as_current_span("request"):
        thread = threading.Thread(target=lambda: None)
        thread.start()
        thread.join()
        with pytest.raises(RuntimeError, match="threads can only be started once"):
            thread.start()
        bad = threading.Thread.__new__(threading.Thread)
        with pytest.raises((RuntimeError, AttributeError)):
            bad.start()
        assert trace.get_current_span() is not trace.INVALID_SPAN


@pytest.mark.fault("threads", "one of the program's raises")
@pytest.mark.parametrize("switched", ["on", "off"])
def test_an_exception_in_a_thread_is_reported_as_usual(switched, instrument, tracer, monkeypatch):
    instrument(propagation=switched)
    reported = []
    monkeypatch.setattr(
        threading, "excepthook", lambda args: reported.append((args.exc_type, len(_frames(args.exc_traceback))))
    )
    with tracer.start_as_current_span("request"):
        thread = threading.Thread(target=lambda: 1 / 0)
        thread.start()
        thread.join()
    assert reported == [(ZeroDivisionError, 3)]  # _bootstrap_inner, run, the lambda


def _frames(entry):
    frames = []
    while entry is not None:
        frames.append(entry)
        entry = entry.tb_next
    return frames


def fails(error):
    raise error


def test_exceptions_and_results_of_items_are_the_programs_own_objects(instrument, tracer):
    instrument()
    error, result = KeyError("theirs"), object()
    with tracer.start_as_current_span("request"), ThreadPoolExecutor(1) as pool:
        assert pool.submit(fails, error).exception() is error
        assert pool.submit(lambda x, *, y: (x, y), result, y=result).result() == (result, result)
        with pytest.raises(TypeError, match="missing 1 required positional argument"):
            pool.submit()
    with pytest.raises(RuntimeError, match="cannot schedule new futures after shutdown"):
        pool.submit(fails, error)


def test_what_does_not_pickle_fails_where_and_as_it_did(instrument, tracer):
    def outcome():
        with ProcessPoolExecutor(1) as pool:
            return type(pool.submit(lambda: None).exception())

    bare = outcome()
    instrument()
    with tracer.start_as_current_span("request"):
        assert outcome() is bare


def test_a_work_item_pickles_as_what_it_carries():
    carrier = {"TRACEPARENT": "00-0a-0b-01"}
    item = pickle.loads(pickle.dumps(functools.partial(_carrier.within_context, carrier, len)))
    assert item("abc") == 3


def test_a_subclass_of_a_pool_gets_its_own_function(instrument, tracer):
    class Counting(ThreadPoolExecutor):
        def submit(self, function, /, *args, **kwargs):
            seen.append(function)
            return super().submit(function, *args, **kwargs)

    seen = []
    instrument()
    with tracer.start_as_current_span("request"), Counting(1) as pool:
        assert pool.submit(len, "abc").result() == 3
    assert seen == [len]


AT_THE_END = """
import threading, time
from concurrent.futures import ThreadPoolExecutor
from torchspan import TorchspanInstrumentor
TorchspanInstrumentor().instrument()
pool = ThreadPoolExecutor(1)
def late():
    threading.main_thread().join()
    time.sleep(0.5)
    try:
        pool.submit(print, "too late")
    except RuntimeError as error:
        print(error)
threading.Thread(target=late).start()
"""


def test_an_item_submitted_while_the_interpreter_ends_is_refused_as_usual(clean):
    done = subprocess.run([sys.executable, "-c", AT_THE_END], env=clean, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("cannot schedule new futures after interpreter shutdown\n", "")


def test_a_failure_of_torchspan_is_logged_once_and_the_work_continues(
    instrument, tracer, both, parents, monkeypatch, caplog
):
    instrument()
    monkeypatch.setattr(_carrier, "pack", lambda _context: fails(LookupError("torchspans")))
    with tracer.start_as_current_span("request"):
        for _ in range(3):
            assert subprocess.run(["true"], check=False).returncode == 0
        process = multiprocessing.get_context("fork").Process(target=len, args=("abc",))
        process.start()
        process.join()
    assert process.exitcode == 0
    assert consequences(caplog) == ["Propagating the context failed; the work continues, in traces of its own."]


@pytest.mark.fault("libraries", "a version lacks a name that torchspan reads")
def test_a_version_without_a_name_is_left_alone(caplog):
    caplog.set_level(logging.DEBUG, "torchspan")
    names = Patches()
    names.replace_shared(threading.Thread, "no_such_method", lambda original: original)
    names.undo()
    assert ["no_such_method" in message for message in caplog.messages] == [True]


def test_a_method_that_another_package_wrapped_is_called_as_one(instrument, tracer, monkeypatch):
    def theirs(wrapped, instance, args, kwargs):
        seen.append((type(instance), args))
        return wrapped(*args, **kwargs)

    seen = []
    wrapped = wrapt.FunctionWrapper(vars(subprocess.Popen)["__init__"], theirs)
    monkeypatch.setattr(subprocess.Popen, "__init__", wrapped)
    instrument()
    with tracer.start_as_current_span("request"):
        subprocess.run(["true"], check=True)
    assert seen == [(subprocess.Popen, (["true"],))]


def test_an_argument_that_is_not_a_function_is_refused_as_usual(instrument, tracer):
    instrument()
    with tracer.start_as_current_span("request"), ThreadPoolExecutor(1) as pool:
        assert isinstance(pool.submit(None).exception(), TypeError)


# --- another Python: each thread has a context of its own --------------------------------------------------------


class ThreadOf314(threading.Thread):
    """Stands in for Python 3.14's, which this machine may not have: `run` is called in a context of the thread's own."""

    def __init__(self, *, target, context=None):
        super().__init__(target=target)
        self._context = context

    if sys.version_info < (3, 14):

        def run(self):
            self._context.run(super().run)


@pytest.fixture
def thread_of_314(monkeypatch, instrument):
    """The class, by the flag `thread_inherit_context`, where `Thread.start` is what it is in that version."""

    def make(*, inherits):
        original = threading.Thread.start

        def start(self):
            if getattr(self, "_context", None) is None:
                self._context = contextvars.copy_context() if inherits else contextvars.Context()
            original(self)

        monkeypatch.setattr(threading.Thread, "start", start)
        monkeypatch.setattr(threads, "sys", SimpleNamespace(version_info=(3, 14), modules=sys.modules))
        instrument()
        return ThreadOf314

    return make


@pytest.mark.parametrize("inherits", [False, True])
def test_a_thread_with_a_context_of_its_own_has_the_parent(inherits, thread_of_314, tracer, both, parents):
    thread = thread_of_314(inherits=inherits)(target=lambda: both("work"))
    with tracer.start_as_current_span("request") as request:
        thread.start()
        thread.join()
    assert parents("work") == (span_id(request),) * 2


@pytest.mark.parametrize("inherits", [False, True])
def test_such_a_thread_releases_the_span_too(inherits, thread_of_314, tracer, both, parents, links):
    go = threading.Event()
    thread = thread_of_314(inherits=inherits)(target=lambda: go.wait(60) and both("work"))
    with tracer.start_as_current_span("request") as request:
        thread.start()
    go.set()
    thread.join()
    assert (parents("work"), links("work")) == (("", ""), ([], [span_id(request)]))


def test_a_context_that_the_program_gives_a_thread_is_left_as_it_is(thread_of_314, tracer, both, parents):
    thread = thread_of_314(inherits=False)(target=lambda: both("work"), context=contextvars.Context())
    with tracer.start_as_current_span("request"):
        thread.start()
        thread.join()
    assert parents("work") == ("", "")


# --- alongside OpenTelemetry's own ----------------------------------------------------------------------------------


def submitted(work):
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()


def threaded(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def in_executor(work):
    async def main():
        await asyncio.get_running_loop().run_in_executor(None, work)

    asyncio.run(main())


@pytest.fixture(params=["theirs first", "torchspans first"])
def alongside_theirs(request, instrument):
    """OpenTelemetry's own instrumentation of threads is on as well."""
    theirs = pytest.importorskip(
        "opentelemetry.instrumentation.threading", reason="opentelemetry-instrumentation-threading is not installed"
    ).ThreadingInstrumentor()
    if request.param == "theirs first":
        theirs.instrument()
        torchspans = instrument()
        yield
        torchspans.uninstrument()
        theirs.uninstrument()
    else:
        instrument()
        theirs.instrument()
        yield
        theirs.uninstrument()
    del threading.Timer.start  # theirs leaves what it found at Thread there


@pytest.mark.parametrize("started", [threaded, submitted, in_executor], ids=lambda each: each.__name__)
def test_alongside_opentelemetrys_own_nothing_doubles(started, alongside_theirs, tracer, both, arrived, receiver):
    with tracer.start_as_current_span("request") as request:
        started(lambda: both("work"))
    assert arrived().users["work"].parent_id == arrived().torchspans["work"].parent_id == span_id(request)
    assert sorted(span.name for span in receiver.spans()) == ["request", "torch_tensorrt.compile", "work"]


def test_alongside_opentelemetrys_own_a_worker_still_links_to_the_span_of_its_start(
    alongside_theirs, tracer, both, arrived
):
    go = threading.Event()
    thread = threading.Thread(target=lambda: go.wait(60) and both("work"))
    with tracer.start_as_current_span("request") as request:
        thread.start()
    go.set()
    thread.join()
    work = arrived().torchspans["work"]
    assert (work.parent_id, [link for _, link in work.links]) == ("", [span_id(request)])


def test_alongside_opentelemetrys_own_pools_still_follow_the_item(alongside_theirs, tracer, both, parents):
    with ThreadPoolExecutor(1) as pool:
        with tracer.start_as_current_span("one") as one:
            pool.submit(both, "first").result()
        with tracer.start_as_current_span("two") as two:
            pool.submit(both, "second").result()
    assert (parents("first"), parents("second")) == ((span_id(one),) * 2, (span_id(two),) * 2)


def test_twenty_cycles_of_instrumenting_leave_no_objects(instrument):
    def cycle():
        instrument().uninstrument()

    def objects():
        gc.collect()
        cycle()  # references to what is gone are taken off their lists by the next start
        gc.collect()
        return len(gc.get_objects())

    for _ in range(5):  # what is made once
        cycle()
    before = objects()
    for _ in range(20):
        cycle()
    assert objects() - before < 20
