# SPDX-License-Identifier: Apache-2.0
"""The propagation matrix, threads: whose child is what a thread or a work item does, as a receiver on a socket saw it."""

import _thread
import asyncio
import contextvars
import functools
import gc
import queue
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool

import anyio.to_thread
import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from support.work import span_id, trace_id

pytestmark = pytest.mark.slow

NONE = ("", "")


def run(thread):
    thread.start()
    thread.join()


# --- each row of the matrix --------------------------------------------------------------------------------------


def thread(work):
    run(threading.Thread(target=work))


def thread_subclass_with_run(work):
    class Own(threading.Thread):
        def run(self):
            work()

    run(Own())


def thread_in_a_thread(work):
    run(threading.Thread(target=thread, args=(work,)))


def timer(work):
    run(threading.Timer(0, work))


def submit(work):
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()


def executor_map(work):
    with ThreadPoolExecutor(1) as pool:
        assert list(pool.map(lambda _: work(), [0]))


def run_in_executor(work):
    async def main():
        await asyncio.get_running_loop().run_in_executor(None, work)

    asyncio.run(main())


def to_thread(work):
    asyncio.run(asyncio.to_thread(work))


def task(work):
    async def main():
        async def coroutine():
            work()

        await asyncio.create_task(coroutine())

    asyncio.run(main())


def thread_pool_apply(work):
    with ThreadPool(1) as pool:
        pool.apply(work)


def thread_pool_map(work):
    with ThreadPool(1) as pool:
        pool.map(lambda _: work(), [0])


def thread_pool_imap(work):
    with ThreadPool(1) as pool:
        assert list(pool.imap_unordered(lambda _: work(), [0]))


CARRIED = [
    thread,
    thread_subclass_with_run,
    thread_in_a_thread,
    timer,
    submit,
    executor_map,
    run_in_executor,
    to_thread,
    task,
    thread_pool_apply,
    thread_pool_map,
    thread_pool_imap,
]


@pytest.mark.parametrize("started", CARRIED, ids=lambda each: each.__name__)
def test_the_current_span_is_the_parent_of_what_is_started_in_it(started, instrument, tracer, both, parents):
    instrument()
    with tracer.start_as_current_span("request") as request:
        started(functools.partial(both, "work"))
    assert parents("work") == (span_id(request), span_id(request))


@pytest.mark.parametrize("started", CARRIED, ids=lambda each: each.__name__)
def test_outside_of_spans_no_span_has_a_parent(started, instrument, both, parents, links):
    instrument()
    started(functools.partial(both, "work"))
    assert (parents("work"), links("work")) == (NONE, ([], []))


BY_PYTHON_ITSELF = (to_thread, task)


@pytest.mark.parametrize("started", CARRIED, ids=lambda each: each.__name__)
def test_disabled_nothing_is_carried_but_by_python_itself(started, instrument, tracer, both, parents):
    instrument(propagation="off")
    with tracer.start_as_current_span("request") as request:
        started(functools.partial(both, "work"))
    assert parents("work") == ((span_id(request),) * 2 if started in BY_PYTHON_ITSELF else NONE)


def start_new_thread(work):
    done = threading.Event()
    _thread.start_new_thread(lambda: (work(), done.set()), ())
    assert done.wait(60)


def done_callback(work):
    go = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(go.wait, 60)
        future.add_done_callback(lambda _: work())
        go.set()


@pytest.mark.parametrize("started", [start_new_thread, done_callback], ids=lambda each: each.__name__)
def test_what_is_not_covered_begins_a_trace_of_its_own(started, instrument, tracer, both, parents, links):
    instrument()
    with tracer.start_as_current_span("request"):
        started(functools.partial(both, "work"))
    assert (parents("work"), links("work")) == (NONE, ([], []))


# --- the context follows the work item ---------------------------------------------------------------------------


def test_two_requests_that_share_a_worker_are_two_traces(instrument, tracer, both, parents, links):
    instrument()
    with ThreadPoolExecutor(1) as pool:
        with tracer.start_as_current_span("one") as one:
            pool.submit(both, "first").result()
        with tracer.start_as_current_span("two") as two:
            pool.submit(both, "second").result()
        pool.submit(both, "third").result()
    assert parents("first") == (span_id(one),) * 2
    assert parents("second") == (span_id(two),) * 2
    assert (parents("third"), links("third")) == (NONE, ([], []))


def test_an_item_that_runs_when_its_request_is_over_links_to_it(instrument, tracer, both, arrived):
    instrument()
    go = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(go.wait, 60)
        with tracer.start_as_current_span("request") as request:
            pool.submit(both, "late")
        go.set()
    spans = arrived()
    assert spans.torchspans["late"].parent_id == ""
    assert spans.torchspans["late"].links == [(trace_id(request), span_id(request))]
    assert spans.users["late"].parent_id == span_id(request)  # the user's own tracer goes by OpenTelemetry's rules


def test_a_pool_as_fastapi_has_it_gives_each_request_its_own_children(instrument, tracer, both, parents):
    instrument()

    async def request(label):
        with tracer.start_as_current_span(label) as span:
            await anyio.to_thread.run_sync(both, f"{label} work")
            return span_id(span)

    async def main():
        # One after the other: the worker that the first starts is the one that the others find.
        alone = [await request(f"request {number}") for number in range(3)]
        return alone + await asyncio.gather(*(request(f"request {number}") for number in range(3, 9)))

    ids = asyncio.run(main())
    assert [parents(f"request {number} work") for number in range(9)] == [(each, each) for each in ids]


class Worker(threading.Thread):
    """Works off a queue, as a thread that lives as long as its program."""

    def __init__(self):
        super().__init__()
        self.queue = queue.Queue()

    def run(self):
        while (item := self.queue.get()) is not None:
            work, done = item
            work()
            done.set()

    def do(self, work):
        done = threading.Event()
        self.queue.put((work, done))
        assert done.wait(60)


@pytest.fixture
def worker():
    worker = Worker()
    yield worker
    worker.queue.put(None)
    worker.join()


def test_a_worker_started_in_a_span_that_has_ended_links_to_it(instrument, tracer, both, worker, parents, links):
    instrument()
    with tracer.start_as_current_span("first request") as first:
        worker.start()
        worker.do(functools.partial(both, "during"))
    with tracer.start_as_current_span("second request"):
        worker.do(functools.partial(both, "after"))
    assert parents("during") == (span_id(first),) * 2
    assert parents("after") == NONE
    assert links("after") == ([], [span_id(first)])


def test_a_worker_started_in_a_request_that_was_not_sampled_records_later_work(
    instrument, both, worker, arrived, monkeypatch
):
    instrument()
    unsampled = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False).get_tracer("user")
    with unsampled.start_as_current_span("request"):
        worker.start()
        worker.do(functools.partial(both, "during"))
    worker.do(functools.partial(both, "after"))
    spans = arrived()
    assert set(spans.users) == set(spans.torchspans) == {"after"}
    assert spans.torchspans["after"].parent_id == ""


def test_a_worker_keeps_no_span_of_the_users_alive(instrument, tracer, worker):
    instrument()
    with ThreadPoolExecutor(1) as pool:
        with tracer.start_as_current_span("request") as span:
            worker.start()
            worker.do(lambda: None)
            pool.submit(lambda: None).result()
            failed = pool.submit(lambda: 1 / 0).exception()
        alive = weakref.ref(span)
        del span
        # The pool's thread releases its last item when it has the next.
        pool.submit(lambda: None).result()
        gc.collect()
        assert alive() is None
    assert isinstance(failed, ZeroDivisionError)


REMOTE = SpanContext(0xABC, 0xDEF, is_remote=True, trace_flags=TraceFlags(1))


@pytest.mark.parametrize("started", [thread, timer, submit, thread_pool_apply], ids=lambda each: each.__name__)
def test_a_remote_parent_is_carried(started, instrument, both, parents):
    instrument()
    with trace.use_span(NonRecordingSpan(REMOTE)):
        started(functools.partial(both, "work"))
    assert parents("work") == ("0000000000000def",) * 2


def test_a_thread_started_below_a_remote_parent_has_it_as_long_as_it_lives(instrument, both, worker, parents):
    instrument()
    with trace.use_span(NonRecordingSpan(REMOTE)):
        worker.start()
    worker.do(functools.partial(both, "work"))
    assert parents("work") == ("0000000000000def",) * 2


# --- what else is in a context -----------------------------------------------------------------------------------


@pytest.mark.parametrize("started", [thread, submit], ids=lambda each: each.__name__)
def test_baggage_travels_too(started, instrument):
    instrument()
    seen = []
    token = context.attach(baggage.set_baggage("tenant", "a"))
    started(lambda: seen.append(baggage.get_baggage("tenant")))
    context.detach(token)
    assert seen == ["a"]


def test_a_context_derived_in_the_thread_releases_the_span_too(instrument, tracer, both, worker, parents, links):
    instrument()
    with tracer.start_as_current_span("request") as request:
        worker.start()
        worker.do(lambda: context.attach(baggage.set_baggage("tenant", "a")))
        worker.do(functools.partial(both, "during"))
    worker.do(lambda: context.attach(baggage.set_baggage("tenant", "b")))
    worker.do(functools.partial(both, "after"))
    assert parents("during") == (span_id(request),) * 2
    assert links("after")[1] == [span_id(request)]


VARIABLE = contextvars.ContextVar("of_the_user", default="default")


@pytest.mark.parametrize("started", [thread, timer, submit, thread_pool_apply], ids=lambda each: each.__name__)
def test_context_variables_of_the_program_are_what_they_are_without_us(started, instrument, tracer):
    seen = {}
    token = VARIABLE.set("of the request")
    for switched in ("off", "on"):
        instrument(propagation=switched)
        with tracer.start_as_current_span("request"):
            started(lambda: seen.update({switched: VARIABLE.get()}))  # noqa: B023 - it has run before the next turn
    VARIABLE.reset(token)
    assert seen["on"] == seen["off"]


def test_a_span_opened_by_the_item_is_not_left_current_in_the_worker(instrument, tracer, both, parents):
    instrument()
    with ThreadPoolExecutor(1) as pool:
        with tracer.start_as_current_span("request"):
            pool.submit(lambda: context.attach(trace.set_span_in_context(tracer.start_span("left open")))).result()
        pool.submit(both, "next").result()
    assert parents("next") == NONE
