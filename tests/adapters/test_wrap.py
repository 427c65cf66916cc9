# SPDX-License-Identifier: Apache-2.0
"""Wrappers around functions of our own, without a library."""

import pickle
import sys

import pytest

from support.engines import Callback, extend
from support.own_failures import consequences
from torchspan import phase
from torchspan.engine import Engine
from torchspan.hooks.adapters.machinery.provenance import Provenance
from torchspan.hooks.adapters.machinery.wrap import WrapperFactory
from torchspan.hooks.probes import RAISED, Annotate, Call, Function, Method, Record, Shares, Step, Tally
from torchspan.words import semconv

F = Function("x:f")
COMPILATION = Record(phase.COMPILE)


@pytest.fixture
def engine():
    return Engine()


@pytest.fixture
def ended(engine):
    """Events as they end."""
    found = []
    extend(engine, Callback("ended", lambda event: event, lambda event, _: found.append(event)))
    return found


@pytest.fixture
def wrapping(engine):
    return WrapperFactory(engine, Provenance(), {phase.COMPILE: {semconv.TORCH_VERSION: "2.14"}})


def test_arguments_and_result_pass_unchanged(wrapping):
    marker = object()
    observed = wrapping.record(F, COMPILATION, lambda *args, **kwargs: (args, kwargs))
    assert observed(1, marker, key=marker) == ((1, marker), {"key": marker})


def test_constants_and_the_description_are_there_at_the_start(wrapping, ended):
    observed = wrapping.record(
        F, Record(phase.COMPILE, start=lambda call: {semconv.IR: call.get("ir")}), lambda module, ir="dynamo": None
    )
    line = sys._getframe().f_lineno + 1
    observed("model")
    called_at = {
        semconv.CODE_FILE: __file__,
        semconv.CODE_LINE: line,
        semconv.CODE_FUNCTION: sys._getframe().f_code.co_name,
    }
    assert ended[0].attributes == {"torch.version": "2.14", "torch_tensorrt.ir": "dynamo", **called_at}


def test_a_nested_call_of_a_collapsing_phase_adds_its_facts_to_the_outer_event(wrapping, ended):
    inner = wrapping.record(
        Function("x:inner"),
        Record(phase.COMPILE, start=lambda _call: {semconv.IR: "inner", semconv.MODEL_CLASS: "Net"}),
        lambda: None,
    )
    outer = wrapping.record(F, Record(phase.COMPILE, start=lambda _call: {semconv.IR: "outer"}), inner)
    outer()
    (event,) = ended
    assert event.attributes[semconv.IR] == "outer"
    assert event.additions == {semconv.MODEL_CLASS: "Net"}


def test_a_description_that_raises_costs_its_attributes_alone(wrapping, ended, caplog):
    def describe(_call):
        raise RuntimeError("torchspans")

    observed = wrapping.record(F, Record(phase.COMPILE, start=describe), lambda: "result")
    assert [observed() for _ in range(4)] == ["result"] * 4
    assert len(ended) == 4
    assert consequences(caplog) == [
        "describing x:f failed; the program continues, with less telemetry.",
        (
            "describing x:f failed 3 times in a row and is paused for 1 s. It is tried again after each pause; each failure "
            "then doubles the pause, up to 300 s."
        ),
    ]


def test_a_call_that_does_not_fit_gets_the_functions_own_error(wrapping, ended):
    observed = wrapping.record(
        F, Record(phase.COMPILE, start=lambda call: {semconv.IR: call.get("ir")}), lambda module: None
    )
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        observed()


def test_facts_and_steps_outside_any_event_call_straight_through(wrapping):
    describe = lambda call: pytest.fail("described")
    assert wrapping.annotate(F, Annotate((phase.COMPILE,), start=describe), lambda: 1)() == 1
    assert wrapping.step(F, Step(), lambda: 2)() == 2
    count = lambda *args: pytest.fail("counted")
    assert wrapping.tally(F, Tally((phase.COMPILE,), count), lambda: 3)() == 3


def test_steps_are_counted_with_their_time_also_when_they_raise(wrapping, engine):
    def raises():
        raise ValueError

    step = wrapping.step(Method("x:Class.work"), Step(), raises)
    event = engine.open(phase.COMPILE, {})
    for _ in range(2):
        with pytest.raises(ValueError):
            step()
    engine.close(event)
    ((name, count, seconds),) = event.steps.longest(20)
    assert (name, count) == ("Class.work", 2)
    assert seconds > 0


def test_a_step_with_a_count_is_counted_in_both_ways_and_a_raising_one_only_on_request(wrapping, engine):
    def halve(number):
        return number // 2 if number else 1 // 0

    def count(tally, call, result, duration_s):
        what = "raised" if result is RAISED else result
        tally.setdefault("seen", []).append((call.before, what, duration_s > 0))

    before = lambda call: f"of {call.get('number')}"
    event = engine.open(phase.COMPILE, {})
    for counts_failures in (True, False):
        tally = Tally((phase.COMPILE,), count, before=before, counts_failures=counts_failures)
        step = wrapping.step(Function("x:halve"), Step(tally=tally), halve)
        assert step(8) == 4
        with pytest.raises(ZeroDivisionError):
            step(0)
    engine.close(event)
    assert event.scratch["seen"] == [("of 8", 4, True), ("of 0", "raised", True), ("of 8", 4, True)]
    assert [(name, count) for name, count, _ in event.steps.longest(20)] == [("halve", 4)]


def test_a_failure_is_described_and_shared_and_passes_as_it_is(wrapping, ended):
    error = ValueError("the program's")

    def fails():
        raise error

    describe = lambda _call, raised, _tally: {semconv.CACHE_REASON: type(raised).__name__, semconv.CACHE_RESULT: "x"}
    shares = Shares(keys=(semconv.CACHE_REASON,), phases=(phase.CONVERT,))
    lookup = Record(phase.CACHE_LOOKUP, failed=describe, shares=shares)
    conversion = wrapping.record(F, Record(phase.CONVERT), wrapping.record(F, lookup, fails))
    with pytest.raises(ValueError) as caught:
        conversion()
    assert caught.value is error
    inner, outer = ended
    assert inner.additions == {semconv.CACHE_REASON: "ValueError", semconv.CACHE_RESULT: "x"}
    assert outer.additions == {semconv.CACHE_REASON: "ValueError"}


def test_a_description_of_a_failure_that_fails_itself_leaves_the_programs_exception(wrapping, ended):
    def describe(_call, _error, _tally):
        raise RuntimeError("torchspans")

    with pytest.raises(ZeroDivisionError):
        wrapping.record(F, Record(phase.COMPILE, failed=describe), lambda: 1 // 0)()
    assert len(ended) == 1


def test_a_row_that_holds_only_within_another_phase_is_silent_elsewhere(wrapping, ended, engine):
    observed = wrapping.record(F, Record(phase.DECOMPOSE, within=(phase.COMPILE,)), lambda: None)
    observed()
    assert ended == []
    event = engine.open(phase.COMPILE, {})
    observed()
    engine.close(event)
    assert [each.phase for each in ended] == [phase.DECOMPOSE, phase.COMPILE]


def test_after_uninstrument_a_wrapper_that_stayed_bound_passes_calls_through(wrapping, engine, ended):
    observed = wrapping.record(F, COMPILATION, lambda: "result")
    engine.active = False
    assert observed() == "result"
    assert ended == []


def pickled_by_name():
    return "result"


def test_a_wrapper_pickles_by_name_like_the_function_it_stands_for(wrapping, monkeypatch):
    import sys

    module = sys.modules[pickled_by_name.__module__]
    observed = wrapping.record(F, COMPILATION, pickled_by_name)
    monkeypatch.setattr(module, "pickled_by_name", observed)
    assert pickle.loads(pickle.dumps(observed)) is observed


def test_arguments_of_an_extension_type_are_found_by_position():
    call = Call(None, ("self", "network", "config"), {})
    assert call.get("config", position=2) == "config"
    assert call.get("config", position=3) is None
    assert Call(None, ("self",), {"config": "named"}).get("config", position=2) == "named"


def test_where_opening_an_event_fails_the_call_is_not_observed(wrapping, engine, ended, caplog, monkeypatch):
    def fails(*_args):
        raise RuntimeError("torchspan's")

    monkeypatch.setattr(engine.registry, "interest", fails)
    observed = wrapping.record(F, COMPILATION, lambda: "result")
    assert [observed() for _ in range(5)] == ["result"] * 5
    assert ended == []
    assert consequences(caplog)[0] == "opening x:f failed; the program continues, with less telemetry."


def test_where_the_links_or_fixed_facts_fail_the_call_is_not_observed(wrapping, ended, monkeypatch):
    monkeypatch.setattr(wrapping, "fixed_facts", lambda _phase: 1 // 0)
    assert wrapping.record(F, COMPILATION, lambda: "result")() == "result"
    assert ended == []


@pytest.mark.fault(
    "hooks and callbacks",
    "closing an event raises",
    lost="what the result would have added",
    counted="torchspan.callback.failures",
)
def test_where_closing_an_event_fails_it_ends_all_the_same_and_the_failure_is_counted(
    wrapping, engine, ended, monkeypatch
):
    monkeypatch.setattr(wrapping.provenance, "remember", lambda *_args: 1 // 0)
    observed = wrapping.record(F, Record(phase.EXPORT, remembers_result=True), lambda: "result")
    assert [observed() for _ in range(2)] == ["result"] * 2
    assert len(ended) == 2
    assert engine.guard.failures == {"closing x:f": 2}
    assert engine.current is None


def test_an_error_that_cannot_be_attributed_is_the_programs_and_the_event_ends(wrapping, engine, ended, monkeypatch):
    monkeypatch.setattr(engine, "_note_error", lambda *_args: {}["torchspan's"])
    with pytest.raises(ZeroDivisionError):
        wrapping.record(F, COMPILATION, lambda: 1 // 0)()
    assert len(ended) == 1


def test_an_interrupt_while_the_result_is_described_ends_the_event_and_passes(wrapping, ended):
    def describe(_call, _result, _scratch):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        wrapping.record(F, Record(phase.COMPILE, end=describe), lambda: "result")()
    assert len(ended) == 1
