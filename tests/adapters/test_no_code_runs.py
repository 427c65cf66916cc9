# SPDX-License-Identifier: Apache-2.0
"""What replaces a name of a library hands the program's objects on, and asks nothing of them: every row, with hostile ones."""

import dataclasses
from functools import partial

import pytest

from support.engines import Callback, extend
from support.hostile import RAN, exits, hostile_class, hostiles, made
from support.ports import make_ports
from torchspan import phase
from torchspan.base.patching import Patches
from torchspan.engine import Engine, Observed
from torchspan.engine.subscribers.callback_registry import Registry
from torchspan.hooks.adapters import Provenance, dynamo
from torchspan.hooks.adapters.dynamo.frames import Frames
from torchspan.hooks.adapters.dynamo.workers import Workers
from torchspan.hooks.adapters.engine_runs import wrap_run
from torchspan.hooks.adapters.log_lines import LoggerFollower, tap_log
from torchspan.hooks.adapters.machinery.apply import Wrappers
from torchspan.hooks.adapters.machinery.wrap import WrapperFactory
from torchspan.hooks.adapters.observed_functions import Observations
from torchspan.hooks.adapters.tensorrt import ContextCreation
from torchspan.hooks.adapters.tensorrt.build import Builds, Parses, tap_parser
from torchspan.hooks.adapters.torch_tensorrt.passes import wrap_pass_manager
from torchspan.hooks.adapters.torch_tensorrt.recompiling import tap_engine, wrap_recompilation
from torchspan.hooks.probes import PROBES, Lock, Record, Runs, Tap

ROWS = [each for each in PROBES if not isinstance(each.target, Lock)]
"""What is called; a lock is handed nothing."""
ELSEWHERE = {"observers:observe"}
"""A handler that reads the frame of the library's own function: tests/observers run it."""


@pytest.fixture(autouse=True)
def _nothing_has_run():
    RAN.clear()
    yield
    assert RAN == []


@pytest.fixture
def engine():
    engine = Engine(Registry())
    extend(engine, Callback("events", lambda event: event, lambda event, _: None))
    yield engine
    engine.stop()


@pytest.fixture
def wrappers(engine):
    ports, provenance = make_ports(), Provenance()
    factory = WrapperFactory(engine, provenance)
    follower = LoggerFollower(factory, str, Patches("tensorrt"))
    frames = Frames(engine, None)
    workers = Workers(engine, frames)
    return Wrappers(
        factory=factory,
        around={
            "build": partial(Builds.wrap, factory, follower.follow, phases=True),
            "parser": partial(Parses.wrap, factory),
            "contexts": partial(ContextCreation.wrap, factory, lambda: None),
            "passes": partial(wrap_pass_manager, factory, recorded=True),
            "recompiling": partial(wrap_recompilation, factory),
            "dynamo:thread": workers.thread,
            "dynamo:process": workers.process,
        },
        taps={
            "parser:made": partial(tap_parser, factory),
            "engines:made": partial(tap_engine, factory),
            "log:line": partial(tap_log, factory, ports.redact),
            "dynamo:reported": lambda target, original: dynamo._reporting(engine, frames, target, original),
            "dynamo:measured": partial(dynamo.tap, engine, frames.measured),
            "dynamo:broke": partial(dynamo.tap, engine, frames.broke),
            "dynamo:generator": partial(dynamo.tap, engine, frames.refused),
            "dynamo:hit": partial(dynamo.tap, engine, frames.hit),
            "dynamo:captured": partial(dynamo.tap, engine, frames.captured),
            "dynamo:wrapped": partial(dynamo.tap, engine, frames.wrapped),
        },
        run=partial(wrap_run, factory, ports),
    )


def test_every_wrapper_and_handler_that_rows_name_is_here(wrappers):
    named = {each.action.around for each in ROWS if isinstance(each.action, Record)} - {None}
    assert named == set(wrappers.around)
    assert {each.action.handler for each in ROWS if isinstance(each.action, Tap)} == {*wrappers.taps, *ELSEWHERE}


@pytest.mark.fault("hooks and callbacks", "arguments are hostile objects")
@pytest.mark.parametrize("row", range(len(ROWS)), ids=[str(each.target) for each in ROWS])
def test_a_row_hands_hostile_objects_on_and_asks_nothing(row, wrappers, engine):
    probe = ROWS[row]
    if isinstance(probe.action, Tap) and probe.action.handler in ELSEWHERE:
        return
    for given in hostiles():
        received = []

        def original(first, second, received=received, given=given):
            received.append((first, second))
            return given

        # A pass manager is asked for its passes, and a context for its class: those are the library's own.
        observed = wrappers(probe, original)
        results = [observed(given, given)]
        for outer in (phase.COMPILE, phase.PARTITION, phase.CONVERT, phase.CACHE_LOOKUP, phase.CACHE_INSERT):
            event = engine.open(outer, {})
            results.append(observed(given, given))
            engine.close(event)
        assert len(received) == len(results) == 6
        assert all(first is given and second is given for first, second in received)
        assert all(each is given or probe.target.path[-1] == "__init__" for each in results)
        assert RAN == []
    assert engine.guard.failures == {}


def test_an_exception_of_the_programs_passes_unasked(wrappers, engine):
    hostile = made(hostile_class(exits, ValueError), ValueError)

    def original(_first, _second):
        raise hostile

    for probe in ROWS:
        if isinstance(probe.action, Tap) and probe.action.handler in ELSEWHERE:
            continue
        event, caught = engine.open(phase.COMPILE, {}), None
        try:
            wrappers(probe, original)(None, None)
        except ValueError as error:
            caught = error
        engine.close(event)
        assert caught is hostile
    assert RAN == []


def test_observed_calls_and_points_ask_nothing(engine):
    observations = Observations(engine, make_ports())
    for given in hostiles():
        begun = observations.begin_named("name", "module", Observed(given, (given,), {"key": given}))
        observations.mark(given, engine.innermost_open())
        if begun is not None:
            begun.end(engine, None, given)
        assert RAN == []


def test_rows_of_runs_are_among_them():
    assert any(isinstance(each.action, Runs) for each in ROWS)
    assert all(dataclasses.is_dataclass(each.action) for each in ROWS)
