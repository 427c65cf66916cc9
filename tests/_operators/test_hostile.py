# SPDX-License-Identifier: Apache-2.0
"""Programs that fork, end threads, name ranges badly, change the clock, or stop in the middle of a block."""

import contextvars
import gc
import threading
import time

import pytest
import torch

import torchspan
from support.forked import in_forked_child
from support.operators import BLOCK, children, names, operators, recording, table

pytestmark = pytest.mark.usefixtures("native_library")

ONES = torch.ones(4, 4)


# --- forks --------------------------------------------------------------------------------------------------------------
def test_a_forked_child_records_nothing_of_its_parents_block_and_continues():
    def child():
        return torch.equal(ONES.cos(), ONES.cos())

    with recording() as trace, torchspan.operators(depth=1, min_duration=0):
        ONES.sin()
        answer = in_forked_child(child)
        ONES.tan()
    assert answer == "True"
    assert table(trace.one(BLOCK)) == {"aten.sin": 1, "aten.tan": 1}
    assert names(operators(trace)) == ["aten.sin", "aten.tan"]


def test_a_forked_child_can_record_blocks_of_its_own():
    with recording() as trace:

        def child():
            with torchspan.operators(depth=1, min_duration=0):
                ONES.cos()
            return [table(span) for span in trace.find(BLOCK)]

        with torchspan.operators(depth=1, min_duration=0):
            ONES.sin()
            answer = in_forked_child(child)
    assert answer == "[{'aten.cos': 1}]"
    assert [table(span) for span in trace.find(BLOCK)] == [{"aten.sin": 1}]


def test_a_forked_child_that_leaves_its_parents_block_raises_nothing():
    with recording() as trace:
        block = torchspan.operators(depth=1, min_duration=0)

        def child():
            block.__exit__(None, None, None)
            with torchspan.operators(depth=1, min_duration=0):
                ONES.cos()
            return table(trace.find(BLOCK)[-1])

        with block:
            ONES.sin()
            answer = in_forked_child(child)
    assert answer == "{'aten.cos': 1}"
    assert table(trace.one(BLOCK)) == {"aten.sin": 1}


@pytest.mark.fault("processes", "a fork inside an operator")
def test_a_fork_inside_an_operator_leaves_the_parents_operator_whole():
    answers = []

    @torch.library.custom_op("torchspan_tests::forking", mutates_args=())
    def _forking(x: torch.Tensor) -> torch.Tensor:
        answers.append(in_forked_child(lambda: torch.equal(ONES.cos(), ONES.cos())))
        return x.clone()

    with recording() as trace, torchspan.operators(min_duration=0):
        torch.ops.torchspan_tests.forking(ONES)
    assert answers == ["True"]
    assert table(trace.one(BLOCK)) == {"torchspan_tests.forking": 1, "aten.clone": 1}


def test_forks_while_other_threads_record_do_not_hang():
    is_over = threading.Event()

    def record():
        while not is_over.is_set():
            with torchspan.operators(min_duration=0):
                for _ in range(50):
                    ONES.relu()

    with recording():
        threads = [threading.Thread(target=record) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            answers = [in_forked_child(lambda: torch.equal(ONES.cos(), ONES.cos())) for _ in range(10)]
        finally:
            is_over.set()
            for thread in threads:
                thread.join()
    assert answers == ["True"] * 10


# --- threads ------------------------------------------------------------------------------------------------------------
def test_a_thread_may_end_with_an_open_block():
    def work():
        torchspan.operators(depth=1).__enter__()
        ONES.sin()

    with recording() as trace:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        gc.collect()
        with torchspan.operators(depth=1):
            ONES.cos()
    assert {"aten.cos": 1} in [table(span) for span in trace.find(BLOCK)]
    assert all(table(span) in ({"aten.cos": 1}, {"aten.sin": 1}, {}) for span in trace.find(BLOCK))


def test_a_block_may_end_on_another_thread():
    block = torchspan.operators(depth=1, min_duration=0)

    def overlapping():
        block.__enter__()
        ONES.sin()
        thread = threading.Thread(target=block.__exit__, args=(None, None, None))
        thread.start()
        thread.join()
        ONES.cos()
        with torchspan.operators(depth=1, min_duration=0):
            ONES.tan()

    with recording() as trace:
        contextvars.copy_context().run(overlapping)
    tables = [table(span) for span in sorted(trace.find(BLOCK), key=lambda span: span.start_ns)]
    assert tables == [{"aten.sin": 1}, {"aten.tan": 1}]


def test_blocks_may_end_in_the_order_in_which_they_began():
    outer, inner = torchspan.operators(depth=1, min_duration=0), torchspan.operators(depth=1, min_duration=0)

    def overlapping():
        outer.__enter__()
        inner.__enter__()
        ONES.sin()
        outer.__exit__(None, None, None)
        ONES.cos()
        inner.__exit__(None, None, None)
        with torchspan.operators(depth=1, min_duration=0):
            ONES.tan()
        ONES.exp()

    with recording() as trace:
        contextvars.copy_context().run(overlapping)
    tables = [table(span) for span in sorted(trace.find(BLOCK), key=lambda span: span.start_ns)]
    assert tables == [{}, {"aten.sin": 1, "aten.cos": 1}, {"aten.tan": 1}]


def test_a_range_that_ends_after_its_block_is_not_recorded_and_counted_as_late(native_library):
    late = native_library.counts()["late"]
    around = torch.profiler.record_function("of the program")
    with recording() as trace:
        with torchspan.operators(depth=2, min_duration=0):
            around.__enter__()
            ONES.sin()
        around.__exit__(None, None, None)
        with torchspan.operators(depth=1, min_duration=0):
            ONES.cos()
    first, second = sorted(trace.find(BLOCK), key=lambda span: span.start_ns)
    assert (table(first), table(second)) == ({"aten.sin": 1}, {"aten.cos": 1})
    assert children(trace, first) == ["aten.sin"]
    assert native_library.counts()["late"] == late + 1


@pytest.mark.filterwarnings("ignore:`torch.jit.")
def test_a_function_of_torchscript_that_continues_after_the_block_raises_nothing():
    @torch.jit.script
    def slow(x: torch.Tensor) -> torch.Tensor:
        for _ in range(2000):
            x = x.sin()
        return x

    @torch.jit.script
    def start(x: torch.Tensor) -> torch.jit.Future[torch.Tensor]:
        return torch.jit.fork(slow, x)

    expected = slow(ONES)
    with recording() as trace:
        with torchspan.operators(depth=20, min_duration=0):
            future = start(ONES)
        # `torch.jit.wait` would keep the interpreter, for which the other thread may wait (torch 2.14, also without torchspan).
        assert torch.equal(future.wait(), expected)
        with torchspan.operators(depth=1, min_duration=0):
            ONES.cos()
    assert table(sorted(trace.find(BLOCK), key=lambda span: span.start_ns)[-1]) == {"aten.cos": 1}


# --- names --------------------------------------------------------------------------------------------------------------
def test_a_range_with_a_name_of_a_megabyte_is_a_span_with_an_unknown_name():
    with recording(capture="text") as trace, torchspan.operators(min_duration=0):
        with torch.profiler.record_function("a" * 2**20):
            ONES.sin()
    (around,) = [span for span in operators(trace) if span.parent_id == trace.one(BLOCK).span_id]
    assert around.attributes["torch.operator.scope"] == "user_scope"
    assert len(around.attributes["torch.operator.name"]) <= 256
    assert children(trace, around) == ["aten.sin"]


@pytest.mark.parametrize("name", ["", "\x00", "a\x00b", "\x01\x02\x07", "🦜" * 200, '"\\', "../../etc", "aten::add"])
def test_a_range_may_have_any_name(name):
    with recording() as trace, torchspan.operators(min_duration=0):
        with torch.profiler.record_function(name):
            ONES.sin()
    (around,) = [span for span in operators(trace) if span.attributes.get("torch.operator.scope") == "user_scope"]
    assert around.attributes["torch.operator.name"] in {"?", "aten.add"}
    assert children(trace, around) == ["aten.sin"]


def test_beyond_4096_names_the_rest_is_unknown_and_everything_else_is_recorded(native_library):
    def child():
        with recording() as trace, torchspan.operators(depth=1, min_duration=0):
            for number in range(100_000):
                with torch.profiler.record_function(f"range {number}"):
                    pass
            result = ONES.sin()
        dropped, known = native_library.counts()["ring"], native_library.names(0)
        count = trace.one(BLOCK).attributes["torch.operators.count"]
        unknown = {span.attributes["torch.operator.name"] for span in operators(trace)} - {"aten.sin", "?"}
        return len(known), count + dropped, unknown, torch.equal(result, ONES.sin())

    assert in_forked_child(child) == "(4096, 100001, set(), True)"


# --- clocks -------------------------------------------------------------------------------------------------------------
@pytest.mark.fault("clock", "set back inside a block of operators")
def test_a_wall_clock_that_is_set_back_does_not_change_the_durations_of_operators(monkeypatch):
    real = time.time_ns
    with recording() as trace, torchspan.operators(min_duration=0):
        ONES.sin()
        monkeypatch.setattr("torchspan.engine.event.time_ns", lambda: real() - 3600 * 10**9)
        ONES.cos()
    monkeypatch.undo()
    block, (sin, cos) = trace.one(BLOCK), operators(trace)
    assert block.start_ns - 2_000 <= sin.start_ns <= sin.end_ns <= cos.start_ns <= cos.end_ns <= block.end_ns + 2_000


# --- what ends a block --------------------------------------------------------------------------------------------------
def test_an_interrupt_inside_a_block_is_the_programs():
    error = KeyboardInterrupt()
    with recording() as trace:
        with pytest.raises(KeyboardInterrupt) as caught, torchspan.operators(depth=1):
            ONES.sin()
            raise error
        ONES.cos()
    assert caught.value is error
    assert table(trace.one(BLOCK)) == {"aten.sin": 1}
    assert trace.one(BLOCK).attributes["error.type"] == "KeyboardInterrupt"


def test_a_library_that_raises_costs_the_recording_and_not_the_program(monkeypatch, native_library):
    class Failing:
        def __getattr__(self, name):
            raise RuntimeError("broken")

    monkeypatch.setattr("torchspan.hooks.native.library", Failing)
    with recording() as trace:
        with torchspan.operators():
            assert torch.equal(ONES.relu(), ONES)
    assert table(trace.one(BLOCK)) == {}
