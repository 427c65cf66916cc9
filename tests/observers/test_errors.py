# SPDX-License-Identifier: Apache-2.0
"""What happens to an exception that a callback raises."""

import functools
import json
import logging
import re
import subprocess
import sys

import pytest

from torchspan import observers
from torchspan.observers import ErrorPolicy, Observer


@pytest.fixture
def log(caplog):
    """(level, message) of what was logged since the start."""
    caplog.set_level(logging.DEBUG, "torchspan")
    return lambda: [(each.levelname, each.getMessage()) for each in caplog.records]


def fails(*_args):
    raise KeyError("the callback's")


def disabled(messages):
    return [message for level, message in messages if level == "ERROR"]


# --- what happens without a policy ----------------------------------------------------------------------------
def test_it_reaches_neither_another_callback_nor_the_caller(note, seen):
    observer = Observer("point")
    observer.add(note("before"))
    observer.add(fails)
    observer.add(note("after"))
    assert observer.observe(1) is None
    assert seen == [("before", 1), ("after", 1)]


def test_each_failure_is_logged_with_its_traceback_and_the_third_is_the_last(log, caplog):
    observer = Observer("point")
    observer.add(fails)
    for _ in range(5):
        observer.observe()
    levels, messages = zip(*log(), strict=True)
    assert levels == ("INFO", "WARNING", "INFO", "INFO", "ERROR")
    assert messages[0].endswith("(fails) of Observer('point') failed; the program continues.")
    assert messages[4].endswith("(fails) of Observer('point') failed 3 times and has been disabled.")
    raised = [each.exc_info[0] if each.exc_info else None for each in caplog.records]
    assert raised == [KeyError, None, KeyError, KeyError, None]


def test_the_first_failure_is_a_warning_with_callback_source_class_and_place(log):
    observer = Observer("point")
    observer.add(fails)
    observer.observe()
    (warning,) = [message for level, message in log() if level == "WARNING"]
    line = fails.__code__.co_firstlineno + 1
    assert re.sub(r"callback \d+", "callback N", warning) == (
        "callback N (fails) of Observer('point') failed: KeyError in observers/test_errors.py, line "
        f"{line}. The program continues. 2 more failures disable it. The traceback is logged at INFO."
    )


def test_each_callback_that_fails_has_a_warning_of_its_own(log):
    observer = Observer("point")
    observer.add(fails)
    observer.add(fails)
    observer.observe()
    observer.observe()
    assert [level for level, _ in log()].count("WARNING") == 2


def test_with_pythons_default_logging_a_callback_that_fails_once_is_seen():
    program = (
        "from torchspan.observers import Observer\n"
        "observer = Observer('point')\n"
        "observer.add(lambda: undefined)\n"
        "observer.observe()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == (
        "callback 1 (<lambda>) of Observer('point') failed: NameError in <string>, line 3. The program continues. "
        "2 more failures disable it. The traceback is logged at INFO.\n"
    )


def test_a_callback_that_takes_other_arguments_is_placed_where_it_is_defined(log):
    def takes_none():
        raise AssertionError("it is not called")

    observer = Observer("point")
    observer.add(takes_none)
    observer.observe("an argument")
    (warning,) = [message for level, message in log() if level == "WARNING"]
    line = takes_none.__code__.co_firstlineno
    assert f"failed: TypeError in observers/test_errors.py, line {line}. The" in warning


def test_the_warning_has_the_line_of_the_callback_and_not_of_a_library_it_calls(log):
    def parses(text):
        return json.loads(text)

    observer = Observer("point")
    observer.add(parses)
    observer.observe("no json")
    (warning,) = [message for level, message in log() if level == "WARNING"]
    line = parses.__code__.co_firstlineno + 1
    assert f"failed: JSONDecodeError in observers/test_errors.py, line {line}. The" in warning


def test_of_a_callable_without_code_of_its_own_the_warning_has_no_place(log):
    observer = Observer("point")
    observer.add(int)
    observer.observe("seven")
    (warning,) = [message for level, message in log() if level == "WARNING"]
    assert " (int) of Observer('point') failed: ValueError. The program continues." in warning


def test_one_that_was_left_out_is_so_alone_and_where_it_was_added(note, seen):
    one, other = Observer("one"), Observer("other")
    calls = []

    def callback():
        calls.append(1)
        raise KeyError

    one.add(callback)
    one.add(note("steady"))
    other.add(callback)
    for _ in range(5):
        one.observe()
    assert (len(calls), len(seen)) == (3, 5)
    other.observe()
    assert len(calls) == 4


def test_one_that_is_added_again_is_called_again():
    observer, calls = Observer(), []

    def callback():
        calls.append(1)
        raise KeyError

    with observer.add(callback):
        for _ in range(5):
            observer.observe()
    observer.add(callback)
    observer.observe()
    assert len(calls) == 4


@pytest.mark.fault("hooks and callbacks", "the user's observer raises what is not an Exception")
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_belongs_to_the_program_passes_when_the_others_have_run(error, note, seen):
    observer = Observer()

    def interrupts():
        raise error

    with observer.add(interrupts), observer.add(note("after")), pytest.raises(error):
        observer.observe()
    assert seen == [("after",)]
    with observer.add(note("later")):
        observer.observe()
    assert seen == [("after",), ("later",)]


# --- a policy -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("limit", [1, 2])
def test_disable_after_says_how_often_one_may_fail(limit, log):
    observer = Observer("point", policy=ErrorPolicy(disable_after=limit))
    observer.add(fails)
    for _ in range(limit + 3):
        observer.observe()
    assert [level for level, _ in log()] == ["INFO"] * limit + ["ERROR"]
    assert disabled(log())[0].endswith(f"failed {limit} times and has been disabled.")


def test_none_never_leaves_one_out(log):
    observer = Observer("point", policy=ErrorPolicy(disable_after=None))
    observer.add(fails)
    for _ in range(10):
        observer.observe()
    assert [level for level, _ in log()] == ["INFO"] * 10


@pytest.mark.parametrize("limit", [0, -1])
def test_a_callback_may_fail_once_at_least(limit):
    with pytest.raises(ValueError, match=f"disable_after must be 1 or more, or None, not {limit}"):
        ErrorPolicy(disable_after=limit)


def test_level_says_how_loud_each_failure_is(log):
    observer = Observer("point", policy=ErrorPolicy(level=logging.WARNING))
    observer.add(fails)
    observer.observe()
    assert [level for level, _ in log()] == ["WARNING"]


def test_a_callback_may_have_a_policy_of_its_own(log):
    observer = Observer("point", policy=ErrorPolicy(level=logging.CRITICAL))
    observer.add(fails, policy=ErrorPolicy(level=logging.DEBUG))
    observer.add(fails)
    observer.observe()
    assert [level for level, _ in log()] == ["DEBUG", "CRITICAL"]


# --- rethrow --------------------------------------------------------------------------------------------------
def test_rethrow_has_it_come_out_when_all_have_run_and_never_leaves_one_out(note, seen, log):
    observer = Observer("point", policy=ErrorPolicy(rethrow=True, disable_after=1))
    observer.add(note("before"))
    observer.add(fails)
    observer.add(note("after"))
    for _ in range(5):
        with pytest.raises(KeyError, match="the callback's"):
            observer.observe()
    assert seen == [("before",), ("after",)] * 5
    assert disabled(log()) == []


def test_of_several_the_first_comes_out():
    observer = Observer("point", policy=ErrorPolicy(rethrow=True))

    def first():
        raise KeyError("first")

    def second():
        raise KeyError("second")

    observer.add(first)
    observer.add(second)
    with pytest.raises(KeyError, match="first"):
        observer.observe()


def test_what_one_rethrows_does_not_have_others_rethrow():
    observer = Observer("point")
    observer.add(fails)
    observer.observe()
    with observer.add(fails, policy=ErrorPolicy(rethrow=True)), pytest.raises(KeyError):
        observer.observe()
    observer.observe()


def test_an_observer_that_rethrew_is_not_busy_afterwards(note, seen):
    observer = Observer("point")
    with observer.add(fails, policy=ErrorPolicy(rethrow=True)), pytest.raises(KeyError):
        observer.observe()
    observer.add(note("later"))
    observer.observe()
    assert seen == [("later",)]


# --- the module's flag, as upstream has one -------------------------------------------------------------------
def test_the_modules_flag_has_everything_come_out_while_it_is_set(log):
    observer = Observer("point", policy=ErrorPolicy(disable_after=None))
    observer.add(fails)
    observer.observe()
    observers.RETHROW_CALLBACK_EXCEPTION = True
    with pytest.raises(KeyError, match="the callback's"):
        observer.observe()
    observers.RETHROW_CALLBACK_EXCEPTION = False
    observer.observe()
    assert disabled(log()) == []


def test_what_came_out_while_the_flag_was_set_does_not_count_towards_being_left_out(log):
    observer = Observer("point")
    observer.add(fails)
    observers.RETHROW_CALLBACK_EXCEPTION = True
    for _ in range(5):
        with pytest.raises(KeyError):
            observer.observe()
    observers.RETHROW_CALLBACK_EXCEPTION = False
    for _ in range(5):
        observer.observe()
    assert [level for level, _ in log()] == ["INFO"] * 6 + ["WARNING", "INFO", "INFO", "ERROR"]
    assert disabled(log())[0].endswith("failed 3 times and has been disabled.")


def test_a_hostile_exception_is_logged_like_any_other(log):
    class Hostile(Exception):
        def __str__(self):
            raise RuntimeError("not even its text")

        def __len__(self):
            return 0

    def callback():
        raise Hostile

    observer = Observer("point")
    observer.add(callback)
    observer.observe()
    assert [level for level, _ in log()] == ["INFO", "WARNING"]
    with observer.add(callback, policy=ErrorPolicy(rethrow=True)), pytest.raises(Hostile):
        observer.observe()


def test_the_log_knows_a_callback_without_a_name_by_its_class(log):
    observer = Observer("point")
    observer.add(functools.partial(fails, 1))
    observer.observe()
    assert log()[0][1].endswith("(partial) of Observer('point') failed; the program continues.")
