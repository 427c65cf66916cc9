# SPDX-License-Identifier: Apache-2.0
"""Alongside OpenTelemetry's own instrumentation of threads: any order of enabling and disabling, any number of times."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from opentelemetry import trace

from support import child
from torchspan import TorchspanInstrumentor

pytestmark = pytest.mark.slow

NAMES = [(threading.Thread, "start"), (ThreadPoolExecutor, "submit")]


@pytest.fixture
def contrib():
    """Contrib's instrumentor. It leaves what it found at Thread on Timer."""
    contrib = pytest.importorskip(
        "opentelemetry.instrumentation.threading", reason="opentelemetry-instrumentation-threading is not installed"
    ).ThreadingInstrumentor()
    yield contrib
    if contrib.is_instrumented_by_opentelemetry:
        contrib.uninstrument()
    for name in {"start", "run"} & set(vars(threading.Timer)) - {"run"}:
        delattr(threading.Timer, name)


def bound():
    return [vars(holder)[name] for holder, name in NAMES]


def depth(function):
    """How many wrappers lie over the original."""
    number = 0
    while hasattr(function, "__wrapped__"):
        function, number = function.__wrapped__, number + 1
    return number


def first_on_first_off(torchspan, contrib):
    torchspan.instrument()
    contrib.instrument()
    torchspan.uninstrument()
    contrib.uninstrument()


def contrib_on_first_off_first(torchspan, contrib):
    contrib.instrument()
    torchspan.instrument()
    contrib.uninstrument()
    torchspan.uninstrument()


def last_on_first_off(torchspan, contrib):
    torchspan.instrument()
    contrib.instrument()
    contrib.uninstrument()
    torchspan.uninstrument()


def contrib_on_first_off_last(torchspan, contrib):
    contrib.instrument()
    torchspan.instrument()
    torchspan.uninstrument()
    contrib.uninstrument()


ORDERS = pytest.mark.parametrize(
    "cycle",
    [first_on_first_off, contrib_on_first_off_first, last_on_first_off, contrib_on_first_off_last],
    ids=lambda each: each.__name__,
)


def thousand_cycles():
    """The most wrappers over any name after a thousand cycles in each order, and whether threads and pools work then.

    A program of its own: where torch is imported, each cycle looks through thousands of modules.
    """
    import threading
    from concurrent.futures import ThreadPoolExecutor

    from opentelemetry.instrumentation.threading import ThreadingInstrumentor

    from torchspan import TorchspanInstrumentor

    depths = {}
    for cycle in (first_on_first_off, contrib_on_first_off_first, last_on_first_off, contrib_on_first_off_last):
        for _ in range(1000):
            cycle(TorchspanInstrumentor(), ThreadingInstrumentor())
        depths[cycle.__name__] = max(map(depth, (vars(threading.Thread)["start"], vars(ThreadPoolExecutor)["submit"])))
    for thread in (threading.Thread(target=len, args=("",)), threading.Timer(0, len, [""])):
        thread.start()
        thread.join()
    with ThreadPoolExecutor(1) as pool:
        return depths, pool.submit(len, "abc").result()


def test_a_thousand_cycles_in_each_order_leave_at_most_one_wrapper(contrib, tmp_path):
    cycles = (first_on_first_off, contrib_on_first_off_first, last_on_first_off, contrib_on_first_off_last)
    depths, length = child.run(thousand_cycles, depth, *cycles, folder=tmp_path).value
    assert sorted(depths) == sorted(each.__name__ for each in cycles)
    assert max(depths.values()) <= 1
    assert length == 3


def in_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def in_item(work):
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()


def in_timer(work):
    timer = threading.Timer(0, work)
    timer.start()
    timer.join()


ROUTES = pytest.mark.parametrize("route", [in_thread, in_item], ids=lambda each: each.__name__)


@pytest.mark.parametrize("route", [in_thread, in_item, in_timer])
@ORDERS
def test_after_cycles_torchspan_propagates(route, cycle, contrib, instrument, tracer):
    for _ in range(3):
        cycle(TorchspanInstrumentor(), contrib)
    instrument()
    seen = []
    with tracer.start_as_current_span("request") as request:
        route(lambda: seen.append(trace.get_current_span()))
    assert seen == [request]


@ROUTES
def test_contrib_can_be_disabled_below_torchspan_which_continues(route, contrib, instrument, tracer):
    original = bound()
    contrib.instrument()
    instrumentor = instrument()
    contrib.uninstrument()
    seen = []
    with tracer.start_as_current_span("request") as request:
        route(lambda: seen.append((trace.get_current_span(), hasattr(threading.current_thread(), "_otel_context"))))
    assert seen == [(request, False)]
    instrumentor.uninstrument()
    assert bound() == original


@ROUTES
def test_contrib_below_torchspan_still_works(route, contrib, instrument, tracer):
    contrib.instrument()
    instrument()
    seen = []
    with tracer.start_as_current_span("request") as request:
        route(lambda: seen.append(trace.get_current_span()))
    assert seen == [request]


def test_a_wrapped_subclass_method_is_still_called_through_super(contrib, instrument):
    class Own(threading.Thread):
        def start(self):
            started.append("own")
            super().start()

    started = []
    contrib.instrument()
    instrument()
    thread = Own(target=lambda: started.append("run"))
    thread.start()
    thread.join()
    assert started == ["own", "run"]
