# SPDX-License-Identifier: Apache-2.0
import gc
import threading

import pytest

from support.engines import extend
from torchspan import phase
from torchspan.engine import ActiveWork, Engine


@pytest.fixture
def engine():
    return Engine()


@pytest.fixture
def active(engine):
    active = ActiveWork()
    extend(engine, active)
    return active


def test_a_compilation_is_active_from_its_start_to_its_end(engine, active):
    compilation = engine.open(phase.COMPILE, {})
    assert active.events() == [compilation]
    engine.close(compilation)
    assert active.events() == []


@pytest.mark.parametrize("error", [ValueError(), KeyboardInterrupt()])
def test_work_that_fails_is_not_active_any_more(engine, active, error):
    engine.close(engine.open(phase.COMPILE, {}), error)
    assert len(active) == 0


def test_work_that_has_ended_is_not_kept(engine, active):
    event = engine.open(phase.COMPILE, {})
    engine.close(event)
    assert [holder for holder in gc.get_referrers(event) if type(holder) is dict and id(event) in holder] == []


def test_the_callback_is_called_by_what_it_keeps_track_of():
    assert ActiveWork().name == "keeping track of long work"
    assert ActiveWork(name="runs").name == "keeping track of runs"


def test_long_work_inside_long_work_is_one_piece_of_work(engine, active):
    compilation = engine.open(phase.COMPILE, {})
    conversion = engine.open(phase.CONVERT, {})
    build = engine.open(phase.BUILD_ENGINE, {})
    assert active.events() == [compilation]
    for each in (build, conversion, compilation):
        engine.close(each)
    assert len(active) == 0


def test_short_work_is_not_active(engine, active):
    event = engine.open(phase.EXECUTE, {})
    assert len(active) == 0
    engine.close(event)


def test_another_thread_learns_which_part_is_running(engine, active):
    compilation = engine.open(phase.COMPILE, {})
    build = engine.open(phase.BUILD_ENGINE, {})
    seen = []

    def ask():
        seen.append([event.running.name for event in active.events()])

    for _ in range(2):
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
        if build.end_ns is None:
            engine.close(build)
    engine.close(compilation)
    assert seen == [["tensorrt.build_engine"], ["torch_tensorrt.compile"]]
