# SPDX-License-Identifier: Apache-2.0
import asyncio
import contextvars
import itertools
import math
import os
import subprocess
import sys
import threading

import pytest

from torchspan import callbacks, phase
from torchspan.callbacks import (
    RecordFunction,
    RecordFunctionCallback,
    RecordScope,
    SamplingMode,
    add_global_callback,
    record_function,
)
from torchspan.engine import Engine, Placement
from torchspan.engine.subscribers.callback_registry import REGISTRY


@record_function("step")
def step(value=None):
    return value


def indexes(count, **settings):
    """Which of `count` events a sampled callback runs for."""
    found, now = [], [0]
    handle = add_global_callback(RecordFunctionCallback(lambda _record: found.append(now[0]), **settings))
    for index in range(count):
        now[0] = index
        step()
    callbacks.remove_callback(handle)
    return found


def test_start_and_end_are_sampled_together(seen):
    callbacks.set_record_function_seed_for_testing(1)
    add_global_callback(
        RecordFunctionCallback(lambda _r: seen.append("start"), lambda _r, _c: seen.append("end"), sampling_prob=0.3)
    )
    for _ in range(500):
        step()
    assert seen == ["start", "end"] * (len(seen) // 2)
    assert 200 < len(seen) < 400


@pytest.mark.parametrize("probability", [0.5, 0.1, 0.01])
def test_the_share_of_events_is_the_probability(probability):
    count = 40_000
    callbacks.set_record_function_seed_for_testing(2)
    hits = len(indexes(count, sampling_prob=probability))
    assert abs(hits - count * probability) < 5 * math.sqrt(count * probability * (1 - probability))


def test_gaps_between_hits_are_geometric():
    """Against the distribution itself: after a hit each event is one with the same probability, however long ago it was."""
    callbacks.set_record_function_seed_for_testing(3)
    found = indexes(40_000, sampling_prob=0.2)
    gaps = [after - before for before, after in itertools.pairwise(found)]
    for gap in range(1, 8):
        expected = len(gaps) * 0.2 * 0.8 ** (gap - 1)
        assert abs(gaps.count(gap) - expected) < 5 * math.sqrt(expected)


@pytest.mark.parametrize(("probability", "expected"), [(0.0, 0), (1.0, 50), (5e-324, 0)])
def test_never_always_and_as_good_as_never(probability, expected):
    assert len(indexes(50, sampling_prob=probability)) == expected


def test_the_same_seed_picks_the_same_events_and_another_seed_others():
    def picked(seed):
        handle = add_global_callback(RecordFunctionCallback(print, sampling_prob=0.1))
        callbacks.remove_callback(handle)
        found, now = [], [0]
        handle = add_global_callback(RecordFunctionCallback(lambda _record: found.append(now[0]), sampling_prob=0.1))
        callbacks.set_record_function_seed_for_testing(seed)
        for now[0] in range(300):
            step()
        callbacks.remove_callback(handle)
        return found

    assert picked(7) == picked(7)
    assert picked(7) != picked(8)


def test_threads_pick_different_events():
    found = {}
    add_global_callback(
        RecordFunctionCallback(
            lambda record: found.setdefault(threading.get_ident(), []).append(record), sampling_prob=0.1
        )
    )
    counts = []

    def run():
        mine = found.setdefault(threading.get_ident(), [])
        picked = []
        for index in range(300):
            before = len(mine)
            step()
            if len(mine) > before:
                picked.append(index)
        counts.append(picked)

    for _ in range(3):
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    assert counts[0] != counts[1] != counts[2] != counts[0]


PROGRAM = """
from torchspan.callbacks import *
step = record_function("step")(lambda: None)
found, now = [], 0
add_global_callback(RecordFunctionCallback(lambda record: found.append(now), sampling_prob=0.1))
for now in range(300):
    step()
print(found)
"""


def test_processes_pick_different_events():
    outputs = {
        subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    }
    assert len(outputs) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_picks_other_events_than_its_parent_though_it_was_seeded():
    program = PROGRAM.replace(
        "for now in",
        "import os, sys\nset_record_function_seed_for_testing(1)\nfor _ in range(50): step()\nfound.clear()\nchild = os.fork()\nfor now in",
    ).replace("print(found)", "print(found, flush=True)\nif child: os.waitpid(child, 0)\nelse: os._exit(0)")
    lines = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert len(lines) == 2
    assert lines[0] != lines[1]


def test_every_event_is_a_try_whichever_way_it_is_fired():
    """A decorated function counts its tries itself; a range in the header's form asks at each event: same indexes."""

    def picked(fire):
        found, now = [], [0]
        handle = add_global_callback(RecordFunctionCallback(lambda _record: found.append(now[0]), sampling_prob=0.2))
        callbacks.set_record_function_seed_for_testing(4)
        for now[0] in range(200):
            fire(now[0])
        callbacks.remove_callback(handle)
        return found

    def explicit(_index):
        record = RecordFunction(RecordScope.USER_SCOPE)
        record.before("step")
        record.end()

    mixed = lambda index: step() if index % 3 else explicit(index)
    assert picked(step) == picked(explicit) == picked(mixed)


def test_a_callback_that_is_sampled_says_nothing_about_another(seen):
    callbacks.set_record_function_seed_for_testing(5)
    add_global_callback(RecordFunctionCallback(lambda _record: seen.append("sampled"), sampling_prob=0.1))
    add_global_callback(RecordFunctionCallback(lambda _record: seen.append("always")))
    for _ in range(200):
        step()
    assert seen.count("always") == 200
    assert 5 < seen.count("sampled") < 40


def test_should_run_overrides_the_probability(seen):
    answers = iter([True, False, True])
    add_global_callback(
        RecordFunctionCallback(
            lambda record: seen.append(record.inputs),
            sampling_prob=0.0,
            should_run=lambda: next(answers),
            needs_inputs=True,
        )
    )
    for index in range(3):
        step(index)
    assert seen == [(0,), (2,)]


def test_a_should_run_that_raises_is_a_no_and_is_left_out_in_the_end(seen, caplog):
    def fails():
        raise RuntimeError("the user's")

    add_global_callback(RecordFunctionCallback(lambda _record: seen.append(1), should_run=fails))
    for _ in range(5):
        step()
    assert seen == []
    assert len(caplog.records) == 2


def test_events_fired_by_should_run_reach_no_callback(seen):
    add_global_callback(
        RecordFunctionCallback(lambda record: seen.append(record.name), should_run=lambda: step() or True)
    )
    with record_function("range"):
        pass
    assert seen == ["range"]


# --- per root -------------------------------------------------------------------------------------------------
def tree():
    """A root and four events inside it."""
    with record_function("root"):
        for _ in range(2):
            with record_function("child"):
                step()


def per_root(seen, probability=0.5, **settings):
    return add_global_callback(
        RecordFunctionCallback(
            lambda record: seen.append(record.name),
            sampling_prob=probability,
            sampling_mode=SamplingMode.PER_ROOT,
            **settings,
        )
    )


WHOLE = ["root", "child", "step", "child", "step"]


def trees(seen, count, fire=tree):
    """Each tree's names."""
    found = []
    for _ in range(count):
        seen.clear()
        fire()
        found.append(list(seen))
    return found


def test_per_root_a_tree_is_seen_whole_or_not_at_all(seen):
    per_root(seen)
    found = trees(seen, 200)
    assert {tuple(each) for each in found} == {tuple(WHOLE), ()}
    assert 50 < found.count(WHOLE) < 150


def test_per_event_trees_have_holes(seen):
    add_global_callback(RecordFunctionCallback(lambda record: seen.append(record.name), sampling_prob=0.5))
    assert len({tuple(each) for each in trees(seen, 200)}) > 2


def test_per_root_the_share_of_trees_is_the_probability(seen):
    callbacks.set_record_function_seed_for_testing(6)
    per_root(seen, 0.1)
    hits = trees(seen, 4000).count(WHOLE)
    assert abs(hits - 400) < 5 * math.sqrt(4000 * 0.1 * 0.9)


def test_per_root_a_tree_is_one_try_however_many_events_are_in_it(seen):
    def hit(fire):
        callbacks.set_record_function_seed_for_testing(6)
        handle = per_root(seen, 0.2)
        found = [bool(names) for names in trees(seen, 60, fire)]
        callbacks.remove_callback(handle)
        return found

    assert hit(tree) == hit(step)


def test_per_root_callbacks_decide_each_for_itself(seen):
    first, second = [], []
    per_root(first)
    per_root(second)
    combinations = set()
    for _ in range(200):
        first.clear()
        second.clear()
        tree()
        combinations.add((bool(first), bool(second)))
    assert len(combinations) == 4


def test_per_root_decisions_hold_across_sources(seen):
    """The root is a range of the program's, what is inside is the bridge's."""
    engine = Engine(REGISTRY)
    per_root(seen)

    def fire():
        with record_function("root"):
            event = engine.open(phase.COMPILE, {})
            step()
            engine.close(engine.open(phase.BUILD_PHASE, {}, placement=Placement(event)))
            engine.close(event)

    whole = ("root", "torch_tensorrt.compile", "step", "tensorrt.build_phase")
    assert {tuple(each) for each in trees(seen, 100, fire)} == {whole, ()}

    def reverse():
        event = engine.open(phase.COMPILE, {})
        step()
        engine.close(event)
        step()

    found = {tuple(each) for each in trees(seen, 200, reverse)}
    assert found == {(), ("torch_tensorrt.compile", "step"), ("torch_tensorrt.compile", "step", "step"), ("step",)}
    engine.stop()


def test_per_root_a_context_that_outlives_its_tree_begins_new_ones(seen):
    per_root(seen)
    with record_function("root"):
        copied = contextvars.copy_context()
    seen.clear()
    counts = [copied.run(lambda: (seen.clear(), step(), len(seen))[-1]) for _ in range(100)]
    assert set(counts) == {0, 1}


def test_per_root_what_happens_between_a_generators_steps_is_not_inside(seen):
    @record_function("generator")
    def generator():
        step()
        yield
        step()

    def fire():
        steps = generator()
        next(steps)
        with record_function("between"):
            pass
        list(steps)

    per_root(seen)
    found = {tuple(each) for each in trees(seen, 200, fire)}
    assert found == {(), ("between",), ("generator", "step", "step"), ("generator", "step", "between", "step")}


@pytest.mark.parametrize("add", [add_global_callback, callbacks.add_thread_local_callback])
def test_per_root_who_comes_into_a_tree_without_callbacks_receives_the_rest(seen, add):
    per_root(seen, 5e-324)
    with record_function("root"):
        step()
        step()
        handle = add(RecordFunctionCallback(lambda record: seen.append(f"late {record.name}")))
        step()
        callbacks.remove_callback(handle)
        step()
    assert seen == ["late step"]


@record_function("walk")
async def walk():
    step()
    yield
    step()


async def consume():
    async for _ in walk():
        step()


def test_per_root_the_body_of_an_async_generator_is_inside_and_its_consumer_is_not(seen):
    per_root(seen)
    found = {tuple(each) for each in trees(seen, 200, lambda: asyncio.run(consume()))}
    assert found == {("walk", "step", "step", "step"), ("walk", "step", "step"), ("step",), ()}


def test_per_root_a_generator_stays_in_its_tree_wherever_it_is_resumed(seen):
    @record_function("generator")
    def generator():
        step()
        yield
        step()

    def fire():
        with record_function("root"):
            steps = generator()
            next(steps)
            outside.run(lambda: list(steps))

    outside = contextvars.copy_context()
    per_root(seen)
    found = {tuple(each) for each in trees(seen, 200, fire)}
    assert found == {(), ("root", "generator", "step", "step")}


def test_per_root_should_run_overrides(seen):
    per_root(seen, 0.0, should_run=lambda: True)
    assert trees(seen, 3) == [WHOLE] * 3


def test_per_root_a_removed_callback_leaves_no_trace(seen):
    handle = per_root(seen)
    callbacks.remove_callback(handle)
    assert REGISTRY.tree() == (None, False)
    assert trees(seen, 3) == [[]] * 3


class WithoutTruth:
    """As a tensor of two elements."""

    def __bool__(self):
        raise RuntimeError("ambiguous")


def test_a_should_run_without_a_truth_value_is_a_no_for_its_own_callback_alone(seen):
    add_global_callback(RecordFunctionCallback(lambda _record: seen.append("bad"), should_run=WithoutTruth))
    add_global_callback(RecordFunctionCallback(lambda _record: seen.append("good")))
    for _ in range(6):
        step()
    RecordFunction()
    assert seen == ["good"] * 6
