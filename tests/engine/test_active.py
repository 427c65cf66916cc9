# SPDX-License-Identifier: Apache-2.0
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
    extend(engine, active.callback)
    return active


def test_a_compilation_is_active_from_its_start_to_its_end(engine, active):
    compilation = engine.start(phase.COMPILE, {})
    assert active.events() == [compilation]
    engine.finish(compilation)
    assert active.events() == []


@pytest.mark.parametrize("error", [ValueError(), KeyboardInterrupt()])
def test_work_that_fails_is_not_active_any_more(engine, active, error):
    engine.finish(engine.start(phase.COMPILE, {}), error)
    assert len(active) == 0


def test_long_work_inside_long_work_is_one_piece_of_work(engine, active):
    compilation = engine.start(phase.COMPILE, {})
    conversion = engine.start(phase.CONVERT, {})
    build = engine.start(phase.BUILD_ENGINE, {})
    assert active.events() == [compilation]
    for each in (build, conversion, compilation):
        engine.finish(each)
    assert len(active) == 0


def test_short_work_is_not_active(engine, active):
    event = engine.start(phase.EXECUTE, {})
    assert len(active) == 0
    engine.finish(event)


def test_another_thread_learns_which_part_is_running(engine, active):
    compilation = engine.start(phase.COMPILE, {})
    build = engine.start(phase.BUILD_ENGINE, {})
    seen = []

    def ask():
        seen.append([event.running.name for event in active.events()])

    for _ in range(2):
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
        if build.end_ns is None:
            engine.finish(build)
    engine.finish(compilation)
    assert seen == [["tensorrt.build_engine"], ["torch_tensorrt.compile"]]
