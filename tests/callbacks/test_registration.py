# SPDX-License-Identifier: Apache-2.0
import gc
import logging
import math
import re
import threading
import weakref

import pytest

from support.engines import Callback, extend
from torchspan import callbacks, phase
from torchspan.callbacks import (
    INVALID_CALLBACK_HANDLE,
    DisableRecordFunctionGuard,
    RecordFunction,
    RecordFunctionCallback,
    RecordFunctionGuard,
    RecordScope,
    add_global_callback,
    add_thread_local_callback,
    record_function,
)
from torchspan.engine import Engine
from torchspan.engine.subscribers.callback_registry import REGISTRY


@record_function("step")
def step(value=None):
    return value


@pytest.fixture
def engine():
    engine = Engine(REGISTRY)
    yield engine
    engine.stop()


# --- pairs ----------------------------------------------------------------------------------------------------
def test_what_start_returns_reaches_its_end(seen):
    add_global_callback(
        RecordFunctionCallback(lambda _record: "observer context", lambda _record, context: seen.append(context))
    )
    step()
    assert seen == ["observer context"]


def test_start_and_end_get_the_same_record(seen):
    add_global_callback(RecordFunctionCallback(seen.append, lambda record, _context: seen.append(record)))
    step()
    assert len(seen) == 2
    assert seen[0] is seen[1]


def test_a_callback_without_an_end_is_complete(seen):
    add_global_callback(RecordFunctionCallback(lambda record: seen.append(record.name)))
    step()
    assert seen == ["step"]


@pytest.mark.parametrize("stop", [callbacks.remove_callback, callbacks.disable_callback])
@pytest.mark.parametrize("add", [add_global_callback, add_thread_local_callback])
def test_a_pair_that_has_started_ends_though_it_was_removed_or_disabled_meanwhile(stop, add, recorder, seen):
    handle = add(recorder())
    with record_function("outer"):
        stop(handle)
        step()
    assert seen == ["start outer", "end outer"]


def test_a_callback_added_inside_a_range_hears_nothing_of_that_ranges_end(recorder, seen):
    with record_function("outer"):
        add_global_callback(recorder())
    assert seen == []


# --- order ----------------------------------------------------------------------------------------------------
def test_starts_run_in_the_order_of_registration_thread_local_ones_last_and_ends_in_reverse(recorder, seen):
    add_thread_local_callback(recorder("local"))
    add_global_callback(recorder("first"))
    add_global_callback(recorder("second"))
    step()
    assert seen == [
        "first start step",
        "second start step",
        "local start step",
        "local end step",
        "second end step",
        "first end step",
    ]


def test_the_users_callbacks_run_inside_the_pipeline_whenever_they_were_registered(engine, recorder, seen):
    bridge = lambda name: Callback(
        name, lambda _e: seen.append(f"{name} start"), lambda _e, _c: seen.append(f"{name} end")
    )
    add_global_callback(recorder("mine", scopes={phase.COMPILE}))
    extend(engine, bridge("writer"), bridge("metrics"), bridge("heartbeat"))
    engine.close(engine.open(phase.COMPILE, {}))
    assert seen == [
        "writer start",
        "metrics start",
        "heartbeat start",
        "mine start torch_tensorrt.compile",
        "mine end torch_tensorrt.compile",
        "heartbeat end",
        "metrics end",
        "writer end",
    ]


# --- scopes ---------------------------------------------------------------------------------------------------
def test_scopes_are_those_of_the_header():
    assert {scope.name: scope.value for scope in RecordScope} == {
        "FUNCTION": 0,
        "BACKWARD_FUNCTION": 1,
        "TORCHSCRIPT_FUNCTION": 2,
        "KERNEL_FUNCTION_DTYPE": 3,
        "CUSTOM_CLASS": 4,
        "BUILD_FEATURE": 5,
        "LITE_INTERPRETER": 6,
        "USER_SCOPE": 7,
        "STATIC_RUNTIME_OP": 8,
        "STATIC_RUNTIME_MODEL": 9,
    }


def test_a_callback_receives_its_scopes_only(engine, recorder, seen):
    add_global_callback(recorder("phases", scopes=[phase.BUILD_ENGINE]))
    add_global_callback(recorder("backward", scopes=[RecordScope.BACKWARD_FUNCTION]))
    with record_function("MulBackward0", scope=RecordScope.BACKWARD_FUNCTION):
        step()
    engine.close(engine.open(phase.COMPILE, {}))
    engine.close(engine.open(phase.BUILD_ENGINE, {}))
    assert seen == [
        "backward start MulBackward0",
        "backward end MulBackward0",
        "phases start tensorrt.build_engine",
        "phases end tensorrt.build_engine",
    ]


def test_empty_scopes_mean_all_phases_included(engine, recorder, seen):
    add_global_callback(recorder())
    step()
    engine.close(engine.open(phase.BUILD_PHASE, {}, target="Timing tactics"))
    assert seen == [
        "start step",
        "end step",
        "start tensorrt.build_phase Timing tactics",
        "end tensorrt.build_phase Timing tactics",
    ]


def test_a_phase_comes_with_what_is_known_of_it_and_with_its_error(engine, seen):
    add_global_callback(
        RecordFunctionCallback(
            lambda record: seen.append((record.scope, dict(record.attributes), record.inputs)),
            lambda record, _context: seen.append(record.error),
            scopes={phase.COMPILE},
        )
    )
    failure = ValueError("the user's")
    engine.close(engine.open(phase.COMPILE, {"torch_tensorrt.ir": "dynamo"}), failure)
    assert seen == [(phase.COMPILE, {"torch_tensorrt.ir": "dynamo"}, ()), failure]


def test_a_scope_that_nothing_fires_is_said_at_registration(recorder, caplog):
    add_global_callback(recorder(scopes={phase.COMPILE, RecordScope.LITE_INTERPRETER, RecordScope.USER_SCOPE}))
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith(
        "A callback was registered on LITE_INTERPRETER, torch_tensorrt.compile, which nothing fires yet: "
    )


def test_a_scope_that_something_fires_needs_no_word(engine, recorder, caplog):
    add_global_callback(recorder(scopes={phase.COMPILE, RecordScope.USER_SCOPE}))
    assert caplog.records == []


def test_closing_the_engine_ends_its_source(recorder, caplog):
    Engine(REGISTRY).stop()
    add_global_callback(recorder(scopes={phase.COMPILE}))
    assert len(caplog.records) == 1


@pytest.mark.parametrize("scopes", [["USER_SCOPE"], [7], [None]])
def test_what_is_not_a_scope_is_a_type_error(scopes):
    with pytest.raises(TypeError, match="neither a RecordScope nor a phase"):
        RecordFunctionCallback(print, scopes=scopes)


@pytest.mark.parametrize("value", [-0.1, 1.0000001, math.nan, math.inf, -math.inf])
def test_a_sampling_probability_outside_0_to_1_is_a_value_error(value):
    with pytest.raises(ValueError, match="Invalid sampling probability"):
        RecordFunctionCallback(print, sampling_prob=value)


def test_a_sampling_mode_that_is_none_is_a_type_error():
    with pytest.raises(TypeError, match=r"sampling_mode must be a SamplingMode .*, not 'per root'"):
        RecordFunctionCallback(print, sampling_mode="per root")


# --- handles --------------------------------------------------------------------------------------------------
def test_handles_are_unique_never_reused_and_never_0(recorder):
    handles = []
    for _ in range(3):
        handles += [add_global_callback(recorder()), add_thread_local_callback(recorder())]
        callbacks.clear_callbacks()
    assert len(set(handles)) == 6
    assert INVALID_CALLBACK_HANDLE == 0
    assert min(handles) > 0


@pytest.mark.parametrize("add", [add_global_callback, add_thread_local_callback])
def test_a_handle_removes_its_callback_and_a_second_time_does_nothing(add, recorder, seen):
    handle = add(recorder())
    handle.remove()
    handle.remove()
    with record_function("after"):
        pass
    assert seen == []
    assert not callbacks.has_callbacks()


@pytest.mark.parametrize("add", [add_global_callback, add_thread_local_callback])
def test_the_end_of_a_with_statement_removes_a_callback_also_when_it_raises(add, recorder, seen):
    with pytest.raises(KeyError), add(recorder()):
        with record_function("inside"):
            pass
        raise KeyError
    with record_function("after"):
        pass
    assert seen == ["start inside", "end inside"]


def test_a_handle_is_the_number_that_the_functions_of_the_header_take(recorder, seen):
    handle = add_global_callback(recorder())
    assert isinstance(handle, callbacks.CallbackHandle)
    number = int(handle)
    callbacks.disable_callback(number)
    with record_function("disabled"):
        pass
    callbacks.remove_callback(number)
    assert seen == []
    assert not callbacks.has_callbacks()


def test_removing_the_invalid_handle_does_nothing(recorder):
    with add_global_callback(recorder()):
        INVALID_CALLBACK_HANDLE.remove()
        assert callbacks.has_callbacks()


@pytest.mark.parametrize(
    "operation", [callbacks.remove_callback, callbacks.disable_callback, callbacks.reenable_callback]
)
@pytest.mark.parametrize("handle", [INVALID_CALLBACK_HANDLE, -1, 2**70])
def test_an_invalid_handle_does_nothing(operation, handle, recorder, seen):
    add_global_callback(recorder())
    operation(handle)
    step()
    assert seen == ["start step", "end step"]


def test_a_removed_callback_cannot_be_enabled_again(recorder, seen):
    handle = add_global_callback(recorder())
    callbacks.remove_callback(handle)
    callbacks.reenable_callback(handle)
    callbacks.remove_callback(handle)
    step()
    assert seen == []


def test_what_the_bridge_does_cannot_be_removed_by_a_guessed_handle(engine, recorder, seen):
    before = add_global_callback(recorder("mine"))
    extend(engine, Callback("bridge", lambda _event: seen.append("bridge"), lambda *_: None))
    after = add_global_callback(recorder("mine"))
    for handle in range(before, after + 1):
        callbacks.disable_callback(handle)
        callbacks.remove_callback(handle)
    engine.close(engine.open(phase.COMPILE, {}))
    assert seen == ["bridge"]


@pytest.mark.parametrize("add", [add_global_callback, add_thread_local_callback])
def test_a_disabled_callback_runs_again_once_reenabled(add, recorder, seen):
    handle = add(recorder())
    callbacks.disable_callback(handle)
    step()
    assert seen == []
    callbacks.reenable_callback(handle)
    step()
    assert seen == ["start step", "end step"]


def test_has_and_clear_tell_the_kinds_apart(recorder):
    add_global_callback(recorder())
    assert (callbacks.has_global_callbacks(), callbacks.has_thread_local_callbacks()) == (True, False)
    add_thread_local_callback(recorder())
    callbacks.clear_global_callbacks()
    assert (callbacks.has_global_callbacks(), callbacks.has_thread_local_callbacks()) == (False, True)
    assert callbacks.has_callbacks()
    callbacks.clear_thread_local_callbacks()
    assert not callbacks.has_callbacks()


def test_clearing_leaves_what_the_bridge_registered(engine, seen):
    extend(engine, Callback("bridge", lambda _event: seen.append("bridge"), lambda *_: None))
    callbacks.clear_callbacks()
    engine.close(engine.open(phase.COMPILE, {}))
    assert seen == ["bridge"]


# --- failures and re-entrancy ---------------------------------------------------------------------------------
def test_one_callbacks_failure_is_nothing_to_the_others_and_to_the_program(recorder, seen, caplog):
    def fails(_record):
        raise RuntimeError("the callback's")

    add_global_callback(recorder("before"))
    add_global_callback(RecordFunctionCallback(fails, lambda *_: seen.append("an end without a start")))
    add_global_callback(recorder("after"))
    assert step("result") == "result"
    assert seen == ["before start step", "after start step", "after end step", "before end step"]
    (record,) = caplog.records
    line = fails.__code__.co_firstlineno + 1
    assert re.sub(r"callback \d+", "callback N", record.getMessage()) == (
        "callback N (test_one_callbacks_failure_is_nothing_to_the_others_and_to_the_program.<locals>.fails) of all scopes "
        f"failed: RuntimeError in callbacks/test_registration.py, line {line}. The program continues. "
        "2 more failures disable it. The traceback is logged at INFO."
    )
    assert record.levelname == "WARNING"


def test_the_warning_of_a_failure_names_the_scopes_of_the_callback(engine, caplog):
    def fails(_record):
        raise RuntimeError("the callback's")

    scopes = {phase.COMPILE, phase.LOWER, phase.PARTITION, phase.BUILD_ENGINE, phase.CONVERT}
    add_global_callback(RecordFunctionCallback(fails, scopes=scopes))
    engine.close(engine.open(phase.COMPILE, {}))
    (record,) = [each for each in caplog.records if " failed: " in each.getMessage()]
    names = ", ".join(sorted(scope.name for scope in scopes))
    assert f") of {names} failed: " in record.getMessage()


def test_each_failure_of_a_callback_is_logged_at_info_with_its_traceback(caplog):
    def fails(_record):
        raise RuntimeError("the callback's")

    caplog.set_level(logging.INFO, "torchspan")
    add_global_callback(RecordFunctionCallback(fails))
    for _ in range(5):
        step()
    raised = [(each.levelname, each.exc_info is not None) for each in caplog.records]
    assert raised == [("INFO", True), ("WARNING", False), ("INFO", True), ("INFO", True), ("ERROR", False)]


def test_a_callback_is_left_out_after_the_third_failure_and_its_open_pairs_still_end(seen, caplog):
    def fails(_record, _context):
        seen.append("end")
        raise RuntimeError("the callback's")

    add_global_callback(RecordFunctionCallback(lambda _record: seen.append("start"), fails))
    with record_function("open since before"):
        for _ in range(5):
            step()
    assert seen == ["start"] + ["start", "end"] * 3 + ["end"]
    assert len(caplog.records) == 2


def test_the_programs_exception_passes_unmodified_and_its_end_is_reported(seen):
    failure = KeyError("the program's")

    @record_function("fails")
    def fails():
        raise failure

    add_global_callback(
        RecordFunctionCallback(lambda _record: None, lambda record, _context: seen.append(record.error))
    )
    with pytest.raises(KeyError) as caught:
        fails()
    assert caught.value is failure
    assert failure.__context__ is None
    assert failure.__cause__ is None
    assert seen == [failure]


@pytest.mark.fault("hooks and callbacks", "the user's callback is interrupted at its start")
def test_an_interrupt_in_a_start_closes_what_has_started_and_passes(recorder, seen):
    def interrupted(_record):
        raise KeyboardInterrupt

    add_global_callback(recorder("earlier"))
    handle = add_global_callback(RecordFunctionCallback(interrupted))
    with pytest.raises(KeyboardInterrupt):
        step()
    assert seen == ["earlier start step", "earlier end step"]
    callbacks.remove_callback(handle)
    step()
    assert seen[2:] == ["earlier start step", "earlier end step"]


def test_an_interrupt_in_should_run_leaves_nothing_open(engine, recorder, seen):
    def interrupted():
        raise KeyboardInterrupt

    handle = add_global_callback(recorder(should_run=interrupted))
    with pytest.raises(KeyboardInterrupt):
        engine.open(phase.COMPILE, {})
    with pytest.raises(KeyboardInterrupt):
        step()
    callbacks.remove_callback(handle)
    assert engine.current is None
    add_global_callback(recorder())
    engine.close(engine.open(phase.PARTITION, {}))
    assert seen == ["start torch_tensorrt.partition", "end torch_tensorrt.partition"]


def test_an_interrupt_in_an_end_lets_the_other_ends_run_first(recorder, seen):
    def interrupted(_record, _context):
        raise KeyboardInterrupt

    add_global_callback(recorder("earlier"))
    add_global_callback(RecordFunctionCallback(lambda _record: None, interrupted))
    with pytest.raises(KeyboardInterrupt):
        step()
    assert seen == ["earlier start step", "earlier end step"]


def test_events_fired_inside_a_callback_reach_no_callback(engine, seen):
    def fire(record):
        seen.append(record.name)
        step()
        assert engine.open(phase.PARTITION, {}) is None
        assert not RecordFunction(RecordScope.USER_SCOPE).is_active

    add_global_callback(RecordFunctionCallback(fire, lambda record, _context: step(seen.append("end"))))
    step()
    engine.close(engine.open(phase.COMPILE, {}))
    assert seen == ["step", "end", "torch_tensorrt.compile", "end"]


def test_every_operation_may_be_called_from_inside_a_callback(recorder, seen):
    def registers(_record):
        callbacks.remove_callback(itself)
        callbacks.disable_callback(other)
        callbacks.reenable_callback(other)
        add_global_callback(recorder("added"))
        add_thread_local_callback(recorder("local"))

    itself = add_global_callback(RecordFunctionCallback(registers, lambda *_: seen.append("own end")))
    other = add_global_callback(recorder("other"))
    step()
    assert seen == ["other start step", "other end step", "own end"]
    seen.clear()
    step()
    assert [line for line in seen if "start" in line] == ["other start step", "added start step", "local start step"]


@pytest.mark.fault("threads", "callbacks are registered while events fire on others")
def test_registering_and_removing_is_safe_while_events_fire_on_other_threads():
    stop, errors, started, ended = threading.Event(), [], [], []

    def fire(index):
        try:
            while not stop.is_set():
                assert step(index) == index
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=fire, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    start, end = lambda record: started.append(id(record)), lambda record, _context: ended.append(id(record))
    turns = 0
    while turns < 300 or not started:
        turns += 1
        handle = add_global_callback(RecordFunctionCallback(start, end, sampling_prob=1 if turns % 2 else 0.5))
        if turns % 3 == 0:
            callbacks.disable_callback(handle)
            callbacks.reenable_callback(handle)
        callbacks.remove_callback(handle)
    stop.set()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(started) == len(ended)


# --- guards ---------------------------------------------------------------------------------------------------
def test_guards_restore_what_was_before(recorder, seen):
    add_global_callback(recorder())
    with DisableRecordFunctionGuard():
        assert not callbacks.is_record_function_enabled()
        step()
        with RecordFunctionGuard(True):
            step("inner")
        assert not callbacks.is_record_function_enabled()
    assert callbacks.is_record_function_enabled()
    assert seen == ["start step", "end step"]


def test_a_guard_restores_when_an_exception_passes():
    with pytest.raises(ZeroDivisionError), DisableRecordFunctionGuard():
        raise ZeroDivisionError
    assert callbacks.is_record_function_enabled()


def test_a_guard_object_may_be_entered_inside_itself():
    guard = DisableRecordFunctionGuard()
    with guard:
        with guard:
            pass
        assert not callbacks.is_record_function_enabled()
    assert callbacks.is_record_function_enabled()


def test_disabling_concerns_the_current_work_with_its_threads_and_no_other_thread(recorder, seen):
    add_global_callback(recorder())
    disabled = threading.Event()
    other = threading.Thread(target=lambda: disabled.wait(10) and step())
    other.start()
    with DisableRecordFunctionGuard():
        started_inside = threading.Thread(target=step)
        started_inside.start()
        started_inside.join()
        assert seen == []
        disabled.set()
        other.join()
    assert seen == ["start step", "end step"]


def test_disabling_does_not_disable_the_bridge(engine, seen):
    extend(engine, Callback("bridge", lambda _event: seen.append("bridge"), lambda *_: None))
    with DisableRecordFunctionGuard():
        engine.close(engine.open(phase.COMPILE, {}))
    assert seen == ["bridge"]


# --- nothing is kept ------------------------------------------------------------------------------------------
def test_a_thread_local_callback_goes_with_the_work_it_belonged_to():
    class Start:
        def __call__(self, record):
            """Only to be referred to weakly."""

    alive = []

    def work():
        start = Start()
        alive.append(weakref.ref(start))
        add_thread_local_callback(RecordFunctionCallback(start))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    del thread  # from Python 3.14 on, it has the context
    gc.collect()
    assert alive[0]() is None


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"sampling_prob": 0.999999},
        {"sampling_prob": 0.999999, "sampling_mode": callbacks.SamplingMode.PER_ROOT},
        {"should_run": lambda: True},
    ],
    ids=["plain", "sampled", "sampled per root", "should_run"],
)
def test_in_a_disabled_block_no_callback_runs_however_it_is_chosen(recorder, seen, settings):
    add_global_callback(recorder(**settings))
    with callbacks.DisableRecordFunctionGuard():
        for _ in range(20):
            with record_function("work"):
                pass
    assert seen == []
