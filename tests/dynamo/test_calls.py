# SPDX-License-Identifier: Apache-2.0
"""Calls of compiled frames in metrics: hits and misses of guards, and calls that run eagerly."""

import logging
import sys
import threading
from pathlib import Path

import pytest
import torch
from torch._C._dynamo.eval_frame import set_guard_complete_hook as the_setter

import torchspan
from support import compiled

ONES = torch.ones(3, 3)
CHECKS, EAGER = "torch.compile.guard_checks", "torch.compile.eager_calls"


@pytest.fixture
def adds(dynamo):
    """`compiled.adds`, compiled once for each number."""
    return torch.compile(compiled.adds, backend="eager", dynamic=False)


@pytest.fixture
def limit_of_two(dynamo):
    """Code is compiled twice at most; PyTorch's warning about the limit is not shown."""
    logging.disable(logging.WARNING)
    with dynamo.config.patch(recompile_limit=2):
        yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def checks(metrics):
    """Hits and misses so far."""
    return lambda: metrics.values(CHECKS, "torch.compile.guard_check.result")


@pytest.fixture
def eager(metrics):
    """Calls that ran eagerly so far."""
    return lambda: sum(point.value for point in metrics.read().get(EAGER, []))


def hook_in_use():
    """What PyTorch calls after each check of guards."""
    found = the_setter(None)
    the_setter(found)
    return found


# --- counts -----------------------------------------------------------------------------------------------------------
def test_each_call_of_a_compiled_frame_is_a_hit_or_a_miss(adds, checks):
    for number in (1, 1, 1, 2, 1):
        adds(ONES, number)
    assert checks() == {"hit": 3, "miss": 1}


def test_each_frame_of_a_call_with_graph_breaks_is_counted(checks):
    function = torch.compile(compiled.breaks_twice, backend="eager")
    for _ in range(3):
        function(ONES)
    assert checks() == {"hit": 6}


def test_calls_after_the_recompile_limit_that_nothing_fits_are_eager(adds, limit_of_two, checks, eager, spans):
    for number in (0, 1, 2, 3, 4, 0, 3):
        adds(ONES, number)
    assert spans("torch.compile_frame")[-1].attributes["torch.compile.outcome"] == "limit"
    assert checks() == {"hit": 1, "miss": 5}
    assert eager() == 3
    adds(ONES, 5)
    assert eager() == 4


def test_a_call_that_compiles_its_frame_again_is_not_eager(adds, eager):
    for number in range(4):
        adds(ONES, number)
    assert eager() == 0


def test_calls_that_a_stance_leaves_to_python_are_eager(adds, eager):
    adds(ONES, 1)
    with torch.compiler.set_stance("eager_on_recompile"):
        for number in (1, 2, 3):
            adds(ONES, number)
    assert eager() == 2


def test_a_call_that_is_still_compiling_is_not_eager(dynamo, eager):
    seen = []

    def backend(module, _inputs):
        seen.append(eager())
        return module.forward

    function = torch.compile(compiled.adds, backend=backend, dynamic=False)
    function(ONES, 1)
    function(ONES, 2)
    assert seen == [0, 0]


def test_a_thread_that_waits_to_compile_is_not_eager(adds, checks, eager, monkeypatch):
    adds(ONES, 1)
    lock, waits = torch._dynamo.convert_frame.compile_lock, threading.Event()

    class Watched:
        def __enter__(self):
            waits.set()
            return lock.__enter__()

        def __exit__(self, *error):
            return lock.__exit__(*error)

    # The lock is restored before torchspan takes its own off it.
    with monkeypatch.context() as patched:
        with lock:
            patched.setattr(torch._dynamo.convert_frame, "compile_lock", Watched())
            thread = threading.Thread(target=adds, args=(ONES, 2))
            thread.start()
            assert waits.wait(60)
            assert checks() == {"miss": 1}
            assert eager() == 0
        thread.join()
    assert eager() == 0


def test_calls_of_many_threads_are_all_counted(adds, checks):
    adds(ONES, 1)

    def work():
        for _ in range(200):
            adds(ONES, 1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert checks() == {"hit": 800}


def test_calls_are_counted_on_after_a_reset_of_dynamo(adds, dynamo, checks):
    adds(ONES, 1)
    adds(ONES, 1)
    dynamo.reset()
    adds(ONES, 1)
    adds(ONES, 1)
    assert checks() == {"hit": 2}


# --- the program's own hook -------------------------------------------------------------------------------------------
def test_a_hook_of_the_program_that_was_there_before_is_called_and_given_back(instrument, adds, checks):
    instrument().uninstrument()
    seen = []

    def own(fits):
        seen.append(fits)
        return fits

    the_setter(own)
    try:
        bridge = instrument()
        adds(ONES, 1)
        adds(ONES, 1)
        assert seen == [True]
        assert checks() == {"hit": 1}
        bridge.uninstrument()
        assert hook_in_use() is own
    finally:
        the_setter(None)


def test_a_hook_of_the_program_decides_whether_a_call_fits(adds, checks, spans):
    adds(ONES, 1)
    setter = torch._C._dynamo.eval_frame.set_guard_complete_hook
    assert setter(lambda _fits: False) is None
    try:
        adds(ONES, 1)
    finally:
        setter(None)
    assert checks() == {"miss": 1}
    assert len(spans("torch.compile_frame")) == 2


def test_guard_collectives_are_enabled_and_disabled_as_without_torchspan(adds, checks):
    adds(ONES, 1)
    assert torch.compiler.set_enable_guard_collectives(True) is False
    assert torch.compiler.set_enable_guard_collectives(True) is True
    adds(ONES, 1)
    assert torch.compiler.set_enable_guard_collectives(False) is True
    assert torch.compiler.set_enable_guard_collectives(False) is False
    adds(ONES, 1)
    assert checks() == {"hit": 2}


def test_guard_collectives_that_the_program_enabled_meanwhile_stay_on(instrument, adds):
    adds(ONES, 1)
    torch.compiler.set_enable_guard_collectives(True)
    instrument().uninstrument()
    assert torch.compiler.set_enable_guard_collectives(False) is True


def test_a_hook_that_was_set_past_torchspan_stays(instrument, adds):
    adds(ONES, 1)

    def own(fits):
        return fits

    the_setter(own)
    try:
        instrument().uninstrument()
        assert hook_in_use() is own
    finally:
        the_setter(None)


def test_no_python_of_torchspans_runs_in_the_hook_because_ctrl_c_there_would_end_the_process(adds):
    adds(ONES, 1)
    ran = []
    sys.setprofile(lambda frame, event, _arg: ran.append(frame.f_code.co_filename) if event == "call" else None)
    try:
        adds(ONES, 1)
    finally:
        sys.setprofile(None)
    assert ran
    assert [name for name in ran if name.startswith(str(Path(torchspan.__file__).parent))] == []


# --- off --------------------------------------------------------------------------------------------------------------
def test_without_a_reader_of_metrics_there_is_no_hook(instrument, adds):
    from opentelemetry.metrics import NoOpMeterProvider

    instrument(meter_provider=NoOpMeterProvider())
    adds(ONES, 1)
    assert hook_in_use() is None
    assert torch._C._dynamo.eval_frame.set_guard_complete_hook is the_setter


def test_after_uninstrumenting_there_is_no_hook(instrument, adds):
    adds(ONES, 1)
    assert hook_in_use() is not None
    assert torch._C._dynamo.eval_frame.set_guard_complete_hook is not the_setter
    instrument().uninstrument()
    assert hook_in_use() is None
    assert torch._C._dynamo.eval_frame.set_guard_complete_hook is the_setter
