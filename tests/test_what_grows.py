# SPDX-License-Identifier: Apache-2.0
"""Tables that grow with names and objects of the program's have bounds: each gets 100,000 of them."""

import gc
import logging
from types import SimpleNamespace

import pytest

from support.ports import make_ports
from torchspan import phase
from torchspan.base import reading
from torchspan.base.by_identity import ByIdentity
from torchspan.base.context import span_ends
from torchspan.base.context.span_ends import SpanEnds
from torchspan.base.patching import Patches
from torchspan.base.scratch import Scratch
from torchspan.engine import Engine, Observed, RateLimits
from torchspan.engine.rate_limits import REMEMBERED
from torchspan.engine.subscribers.callback_registry import WARNINGS_LIMIT, Registry, Sources
from torchspan.hooks.adapters import Provenance
from torchspan.hooks.adapters.log_lines import CLASSES_LIMIT, LoggerFollower
from torchspan.hooks.adapters.machinery.wrap import WrapperFactory
from torchspan.hooks.adapters.observed_functions import NAMES_LIMIT, POINTS_LIMIT, Observations
from torchspan.hooks.probes import Call
from torchspan.hooks.probes.describe import conversion, refusal

NUMBER = 100_000
CLASSES = 2_000
"""Making a class takes as long as fifty names do."""


class Model:
    """An object with weak references."""


class Slotted:
    """An object without weak references."""

    __slots__ = ()


@pytest.fixture
def engine():
    engine = Engine(Registry())
    yield engine
    engine.stop()


def test_names_of_observed_functions(engine):
    observations = Observations(engine, make_ports())
    for number in range(NUMBER):
        observations._known(f"function_{number}", "module", print)
    assert len(observations._names) == NAMES_LIMIT


def test_a_name_that_is_too_long_is_not_kept(engine):
    observations = Observations(engine, make_ports())
    assert observations._known("x" * NUMBER, "module", print).target == "?"
    assert observations._names == {"?"}


def test_names_of_observers_in_an_event(engine):
    observations, event = Observations(engine, make_ports()), engine.open(phase.COMPILE, {})
    for number in range(NUMBER):
        observations.mark(f"observer_{number}", event)
    engine.close(event)
    assert len(event.occurrences) == POINTS_LIMIT
    assert event.additions["torchspan.observer.omitted"] == NUMBER - POINTS_LIMIT


def test_code_of_observed_functions_that_are_gone(engine):
    observations = Observations(engine, make_ports())
    for number in range(CLASSES):
        scope = {}
        exec(f"def function_{number}(): return {number}", scope)
        begun = observations.begin_named("name", "module", Observed(scope[f"function_{number}"], (), {}))
        begun.end(engine, None)
        del scope, begun
    gc.collect()
    assert len(engine._codes) < 10


def test_rate_limits_of_objects_without_weak_references():
    limits, things = RateLimits(), [Slotted() for _ in range(NUMBER)]
    refused = [limits.refused_until(each, None) is not None for each in things]
    assert len(limits._windows) == 0
    assert refused.count(False) < NUMBER


def test_rate_limits_of_objects_that_are_gone_and_of_traces():
    limits = RateLimits()
    for number in range(NUMBER):
        limits.refused_until(Model(), number)
    gc.collect()
    assert (len(limits._windows), len(limits._traces)) == (0, REMEMBERED)


def test_fresh_objects_without_weak_references():
    fresh, things = ByIdentity(), [Slotted() for _ in range(NUMBER)]
    for each in things:
        fresh[each] = True
    assert len(fresh) == 0


def test_objects_that_have_an_origin_and_are_gone():
    provenance = Provenance()  # its tables are `ByIdentity`, which has a test with as many as the others here
    for number in range(NUMBER // 10):
        model = Model()
        provenance.made_runner(model, number)
        provenance.fills(model, model)
        provenance.ids.set_up(model, b"engine")
        provenance.ids.changing(model)
    del model
    gc.collect()
    held = (
        provenance._origins,
        provenance._networks,
        provenance.ids._ids,
        provenance.ids._stale,
        provenance.fresh,
    )
    assert [len(each) for each in held] == [0] * 5


def test_warnings_between_two_changes_of_the_sources():
    sources, logger = Sources(), logging.getLogger("torchspan")
    logger.disabled = True
    try:
        for number in range(NUMBER):
            sources.warn(f"warning {number}")
    finally:
        logger.disabled = False
    assert len(sources._warned) == WARNINGS_LIMIT


def test_converters_and_refusals_of_operators_in_an_event():
    scratch = Scratch()
    for number in range(NUMBER):
        target = SimpleNamespace(__module__="app", __name__=f"operator_{number}")
        node = SimpleNamespace(op="call_function", name="node", target=target, args=(), kwargs={}, all_input_nodes=[])
        conversion.count_converter(scratch, Call(None, (), {"n": node}), None, 0.1)
        refusal.note(scratch, node, (), assume_dynamic=False)
    assert len(scratch[conversion.CONVERTERS]) == conversion.CONVERTERS_LIMIT
    assert len(scratch[refusal.REFUSALS]) == 20


def test_classes_of_loggers(engine):
    follower = LoggerFollower(WrapperFactory(engine, Provenance()), str, Patches("tensorrt"))
    for number in range(CLASSES):
        follower.follow(
            SimpleNamespace(logger=type(f"Logger{number}", (), {"log": lambda self, severity, msg: None})())
        )
    assert len(follower._followed) == CLASSES_LIMIT


def test_classes_of_spans():
    ends = SpanEnds()
    recording = {"is_recording": lambda self: True}
    try:
        for number in range(CLASSES):
            ends.watch(type(f"Span{number}", (), {**recording, "end": lambda self: None})(), print)
        assert len(span_ends._EndsState.classes) <= span_ends.CLASSES_LIMIT
    finally:
        ends.close()


def test_classes_that_have_been_looked_at_and_are_gone():
    before = len(reading._KINDS)
    for number in range(CLASSES):
        reading.attribute(type(f"Class{number}", (), {})(), "name")
    gc.collect()
    assert len(reading._KINDS) <= before + 10
