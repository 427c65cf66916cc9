# SPDX-License-Identifier: Apache-2.0
"""While the bridge is enabled: how much of observed functions and observers is kept."""

import types

import pytest
from opentelemetry import trace
from opentelemetry.instrumentation.utils import suppress_instrumentation
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from support.tree import named
from torchspan import phase
from torchspan.engine import RUNNING, rate_limits
from torchspan.hooks.adapters import observed_functions
from torchspan.observers import Observer, observable

pytestmark = pytest.mark.slow


@observable()
def leaf():
    pass


@observable()
def other():
    pass


@observable()
def calls(function, count):
    for _ in range(count):
        function()


@pytest.fixture
def spans(exporter):
    return exporter.get_finished_spans


@pytest.fixture
def clock(monkeypatch):
    """What the rate limits take for the time, in seconds."""
    clock = types.SimpleNamespace(now_s=1000.0)
    monkeypatch.setattr(rate_limits, "time", types.SimpleNamespace(perf_counter=lambda: clock.now_s))
    return clock


def observed(spans):
    return [
        each.name.removeprefix("torchspan.observed ") for each in spans if each.name.startswith("torchspan.observed")
    ]


def points(span):
    """Names and counts of the observers that fired."""
    return [
        (event.attributes["torchspan.observer.name"], event.attributes["torchspan.observer.count"])
        for event in span.events
        if event.name == "torchspan.observer"
    ]


# --- calls ----------------------------------------------------------------------------------------------------
def test_a_function_has_ten_spans_a_second_and_the_other_calls_are_counted_on_the_users_span(
    instrument, tracer, spans, clock
):
    instrument()
    with tracer.start_as_current_span("request"):
        for _ in range(25):
            leaf()
        clock.now_s += 1
        leaf()
    request = named(spans(), "request").attributes
    assert observed(spans()) == ["leaf"] * 11
    assert request["torchspan.observed.folded.count"] == 15
    assert 0 < request["torchspan.observed.folded.duration.max"] < request["torchspan.observed.folded.duration.sum"] < 5


def test_each_function_has_ten_of_its_own(instrument, tracer, spans, clock):
    instrument()
    with tracer.start_as_current_span("request"):
        for _ in range(11):
            leaf()
            other()
    assert sorted(observed(spans())) == ["leaf"] * 10 + ["other"] * 10
    assert named(spans(), "request").attributes["torchspan.observed.folded.count"] == 2


def test_a_trace_has_fifty(instrument, tracer, spans, clock):
    instrument()
    with tracer.start_as_current_span("request"):
        for _ in range(60):
            leaf()
            clock.now_s += 1
    assert observed(spans()) == ["leaf"] * 50
    assert named(spans(), "request").attributes["torchspan.observed.folded.count"] == 10


def test_calls_inside_a_call_are_limited_like_others_and_counted_there(instrument, tracer, spans, clock):
    instrument()
    with tracer.start_as_current_span("request"):
        calls(leaf, 25)
    assert sorted(observed(spans())) == ["calls"] + ["leaf"] * 10
    assert named(spans(), "torchspan.observed calls").attributes["torchspan.observed.folded.count"] == 15
    assert "torchspan.observed.folded.count" not in named(spans(), "request").attributes


def test_without_a_span_around_it_a_function_begins_ten_traces_a_second_at_most(instrument, spans, clock):
    instrument()
    for _ in range(25):
        leaf()
    assert len({each.context.trace_id for each in spans()}) == len(spans()) == 10
    clock.now_s += 1
    leaf()
    assert len(spans()) == 11


def test_inside_a_compilation_every_call_is_a_span(instrument, spans, clock):
    instrument()
    engine = RUNNING.engine
    compilation = engine.open(phase.COMPILE, {})
    calls(leaf, 25)
    engine.close(compilation)
    assert observed(spans()) == ["leaf"] * 25 + ["calls"]


def test_below_a_span_that_does_not_record_callbacks_are_called_and_nothing_is_exported(instrument, spans, seen):
    instrument()
    refused = TracerProvider(sampler=ALWAYS_OFF).get_tracer("user")
    with refused.start_as_current_span("request"), leaf.observers.pre.add(seen.append):
        for _ in range(20):
            leaf()
    assert len(seen) == 20
    assert spans() == ()


def test_after_five_hundred_names_functions_are_called_by_the_phase_alone(instrument, spans):
    instrument()
    for index in range(502):

        def made():
            pass

        made.__qualname__ = f"made_{index}"
        observable()(made)()
    leaf()
    assert [span.name for span in spans()][498:] == [
        "torchspan.observed made_498",
        "torchspan.observed made_499",
        "torchspan.observed",
        "torchspan.observed",
        "torchspan.observed",
    ]
    assert spans()[501].attributes["code.function.name"].endswith(".made_501")


# --- points in time -------------------------------------------------------------------------------------------
def test_an_observer_that_fires_is_an_event_on_the_users_span(instrument, tracer, spans):
    instrument()
    with tracer.start_as_current_span("request"):
        Observer("weights.loaded").observe("what it is called with is not recorded")
        Observer("warm").observe()
    request = named(spans(), "request")
    assert points(request) == [("weights.loaded", 1), ("warm", 1)]
    assert set(request.events[0].attributes) == {"torchspan.observer.name", "torchspan.observer.count"}


def test_it_needs_no_callback_and_the_callbacks_see_the_users_span(instrument, tracer, spans, seen):
    instrument()
    observer = Observer("point")
    with tracer.start_as_current_span("request"):
        observer.observe()
        with observer.add(lambda: seen.append(trace.get_current_span().name)):
            observer.observe()
    assert points(named(spans(), "request")) == [("point", 1)] * 2
    assert seen == ["request"]


def test_one_span_of_the_users_has_twenty(instrument, tracer, spans):
    instrument()
    observer = Observer("point")
    for _ in range(2):
        with tracer.start_as_current_span("request"):
            for _ in range(25):
                observer.observe()
    assert [len(points(each)) for each in spans()] == [20, 20]


def test_inside_a_call_each_observer_is_one_event_with_a_count(instrument, tracer, spans):
    instrument()
    one, two = Observer("one"), Observer("two")

    @observable()
    def body():
        for _ in range(3):
            one.observe()
        two.observe()

    with tracer.start_as_current_span("request"):
        body()
    inside, request = spans()
    assert points(inside) == [("one", 3), ("two", 1)]
    assert points(request) == []


def test_inside_a_call_there_are_twenty_different_ones_and_the_others_are_counted(instrument, tracer, spans):
    instrument()

    @observable()
    def body():
        for index in range(25):
            Observer(f"point_{index}").observe()

    with tracer.start_as_current_span("request"):
        body()
    assert points(spans()[0]) == [(f"point_{index}", 1) for index in range(20)]
    assert spans()[0].attributes["torchspan.observer.omitted"] == 5


def test_without_a_recording_span_nothing_is_kept_and_callbacks_are_called(instrument, spans, seen):
    instrument()
    observer = Observer("point")
    observer.add(seen.append)
    observer.observe(1)
    refused = TracerProvider(sampler=ALWAYS_OFF).get_tracer("user")
    with refused.start_as_current_span("request"):
        observer.observe(2)
    assert seen == [1, 2]
    assert spans() == ()


def test_the_two_observers_of_a_function_are_not_points_of_their_own(instrument, tracer, spans):
    instrument()
    with tracer.start_as_current_span("request"):
        leaf()
    assert [points(each) for each in spans()] == [[], []]


# --- when recording itself fails ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "name",
    [
        None,
        ["a list"],
        5,
        "",
        "jane doe",
        "alice@example.com",
        "a\x1b[31m",
        "n" * 129,
        type("Text", (), {"__str__": print})(),
    ],
    ids=lambda name: repr(name)[:20],
)
def test_a_name_that_is_not_an_identifier_is_a_question_mark(name, instrument, tracer, spans):
    instrument()
    with tracer.start_as_current_span("request"):
        observer = Observer()
        observer.name = name
        observer.observe()
    assert points(named(spans(), "request")) == [("?", 1)]


def test_a_function_whose_name_is_not_an_identifier_has_a_question_mark_for_a_target(instrument, spans):
    instrument()
    for name in ("jane doe", "n" * 3_000_000, "a\u202eb"):

        def made():
            pass

        made.__qualname__, made.__module__ = name, "alice@example.com"
        observable()(made)()
    assert [(each.name, each.attributes["code.function.name"]) for each in spans()] == [
        ("torchspan.observed ?", "?.?")
    ] * 3


def test_a_failure_of_torchspan_reaches_neither_the_program_nor_callbacks(instrument, tracer, spans, monkeypatch, seen):
    def fails(*_args, **_kwargs):
        raise RuntimeError("torchspans")

    monkeypatch.setattr(observed_functions.Observations, "mark", fails)
    monkeypatch.setattr(observed_functions.Observations, "begin", fails)
    instrument()
    observer = Observer("point")
    observer.add(seen.append)
    with tracer.start_as_current_span("request"), leaf.observers.post.add(lambda call: seen.append(call.outcome)):
        for _ in range(5):
            observer.observe("heard")
            leaf()
    assert seen == ["heard", "returned"] * 5
    assert [each.name for each in spans()] == ["request"]


def test_suppressed_calls_and_observers_leave_nothing_on_the_users_span_and_use_up_no_limit(
    instrument, tracer, spans, clock
):
    instrument()
    function, observer = observable()(lambda: None), Observer("point")
    with tracer.start_as_current_span("request"):
        with suppress_instrumentation():
            for _ in range(100):
                function()
                observer.observe()
        for _ in range(10):
            function()
    request = named(spans(), "request")
    assert (dict(request.attributes), request.events) == ({}, ())
    assert len(observed(spans())) == 10
