# SPDX-License-Identifier: Apache-2.0
"""Callbacks just before a span ends, whichever class it is of."""

import gc
import os
import sys
import threading
import weakref

import pytest
from opentelemetry.sdk.trace import Span, TracerProvider
from opentelemetry.trace import INVALID_SPAN

from support.no_ends import close_what_is_left
from support.own_failures import consequences
from torchspan.base.context import span_ends
from torchspan.base.context.span_ends import SpanEnds

PROVIDER = TracerProvider(shutdown_on_exit=False)


@pytest.fixture(scope="module", autouse=True)
def nothing_is_watched():
    close_what_is_left()


@pytest.fixture
def ends():
    before = vars(Span)["end"]
    ends = SpanEnds()
    yield ends
    ends.close()
    assert vars(Span)["end"] is before
    assert len(span_ends._WATCHED) == 0


@pytest.fixture
def span():
    return PROVIDER.get_tracer("user").start_span("request")


class OwnSpan:
    """A span class of another SDK: no subclass of OpenTelemetry's, and compared by value."""

    __hash__ = None

    def __init__(self):
        self.calls = []

    def __eq__(self, other):
        return isinstance(other, OwnSpan)

    def is_recording(self):
        return "end" not in self.calls

    def end(self, end_time=None):
        self.calls.append("end")
        return end_time


class OwnSubclass(OwnSpan):
    def end(self, end_time=None):
        self.calls.append("end of the subclass")
        return super().end(end_time)


def test_attributes_can_still_be_written_and_the_callback_runs_once(ends, span):
    assert ends.watch(span, lambda each: each.set_attribute("count", 3))
    assert ends.watch(span, lambda each: each.set_attribute("seen", (*each.attributes.get("seen", ()), "once")))
    span.end()
    assert dict(span.attributes) == {"count": 3, "seen": ("once",)}


def test_leaving_the_block_of_a_span_is_an_end(ends):
    seen = []
    with PROVIDER.get_tracer("user").start_as_current_span("request") as span:
        ends.watch(span, lambda each: seen.append(each.is_recording()))
    assert seen == [True]


def test_callbacks_of_one_span_run_in_order_and_no_other_span_has_them(ends, span):
    seen = []
    for number in range(3):
        ends.watch(span, lambda _span, number=number: seen.append(number))
    PROVIDER.get_tracer("user").start_span("other").end()
    assert seen == []
    span.end()
    assert seen == [0, 1, 2]


def test_a_span_of_any_class_can_be_watched_and_two_equal_ones_are_two(ends):
    one, other, seen = OwnSpan(), OwnSpan(), []
    for each in (one, other):
        assert ends.watch(each, lambda span: seen.append((span is one, list(span.calls))))
    assert one.end(end_time=7) == 7
    assert seen == [(True, [])]
    other.end()
    assert seen == [(True, []), (False, [])]


def test_an_end_that_calls_the_end_of_its_base_class_is_one_end(ends):
    base, sub, seen = OwnSpan(), OwnSubclass(), []
    for each in (base, sub):
        ends.watch(each, lambda span: seen.append(list(span.calls)))
    sub.end()
    assert (seen, sub.calls) == ([[]], ["end of the subclass", "end"])


def test_a_span_that_does_not_record_is_not_watched(ends, span):
    span.end()
    assert not ends.watch(span, lambda _span: None)
    assert not ends.watch(INVALID_SPAN, lambda _span: None)
    assert len(span_ends._WATCHED) == 0


class Slotted:
    __slots__ = ()

    def is_recording(self):
        return True

    def end(self):
        return "ended"


def test_a_span_that_cannot_be_referenced_weakly_is_not_watched(ends):
    span = Slotted()
    assert not ends.watch(span, lambda _span: None)
    assert span.end() == "ended"


def test_no_span_is_kept_alive(ends):
    span = PROVIDER.get_tracer("user").start_span("released")
    ends.watch(span, lambda _span: None)
    alive = weakref.ref(span)
    del span
    gc.collect()
    assert alive() is None
    assert len(span_ends._WATCHED) == 0


def test_what_a_callback_raises_is_logged_once_and_the_others_run(ends, caplog):
    seen = []
    for _ in range(2):
        span = PROVIDER.get_tracer("user").start_span("request")
        ends.watch(span, lambda _span: 1 / 0)
        ends.watch(span, lambda each: seen.append(each.is_recording()))
        span.end()
        assert not span.is_recording()
    assert seen == [True, True]
    assert consequences(caplog) == ["A callback before the end of a span failed; the span ends as usual."]


def test_what_the_original_raises_and_what_it_returns_are_the_programs(ends):
    class Fails(OwnSpan):
        def end(self, end_time=None):
            raise failure

    failure, span = KeyError("the program's"), Fails()
    ends.watch(span, lambda _span: None)
    with pytest.raises(KeyError) as raised:
        span.end()
    assert raised.value is failure


def test_two_users_share_one_replacement_and_the_last_puts_it_back(ends, span):
    original, other, seen = vars(Span)["end"], SpanEnds(), []
    ends.watch(span, lambda _span: seen.append("one"))
    replaced = vars(Span)["end"]
    other.watch(span, lambda _span: seen.append("other"))
    assert vars(Span)["end"] is replaced is not original
    other.close()
    assert vars(Span)["end"] is replaced
    span.end()
    assert seen == ["one"]
    ends.close()
    assert vars(Span)["end"] is original


def test_a_closed_one_watches_nothing(ends, span):
    original = vars(Span)["end"]
    ends.close()
    assert not ends.watch(span, lambda _span: None)
    assert vars(Span)["end"] is original


def test_the_class_is_replaced_only_when_a_span_of_it_is_watched(ends):
    original = vars(Span)["end"]
    SpanEnds().close()
    assert vars(Span)["end"] is original


def test_a_callback_that_ends_the_span_itself_leaves_one_end(ends):
    span = OwnSpan()
    ends.watch(span, lambda each: each.end())
    span.end()
    assert span.calls == ["end", "end"]


def test_each_of_many_threads_has_its_callback_once(ends):
    counts, failures = {}, []
    tracer = PROVIDER.get_tracer("user")  # the SDK ignores a warning meanwhile, which is not safe in threads

    def work(name):
        try:
            for number in range(200):
                span = tracer.start_span("request")
                key = (name, number)
                ends.watch(span, lambda _span, key=key: counts.update({key: counts.get(key, 0) + 1}))
                span.end()
        except BaseException as error:
            failures.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert failures == []
    assert (len(counts), set(counts.values())) == (800, {1})


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_in_a_fork_a_copy_of_the_span_ends_with_its_callback(ends, span):
    read, write = os.pipe()
    ends.watch(span, lambda _span: os.write(write, b"called"))
    child = os.fork()
    if not child:
        span.end()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert os.read(read, 100) == b"called"
    span.end()
    assert os.read(read, 100) == b"called"
    os.close(read)
    os.close(write)
