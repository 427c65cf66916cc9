# SPDX-License-Identifier: Apache-2.0
"""What is logged of failures, and what is kept of them."""

import contextlib
import itertools
import logging
import re
import sys
from pathlib import Path

import pytest

import torchspan
from torchspan.base import by_identity, errors
from torchspan.base.boundaries import ErrorBoundary, rethrow
from torchspan.base.errors import FAILED, NAME_LENGTH_LIMIT, NAMES_LIMIT, ErrorPolicy, Guard, UserCallback
from torchspan.base.logs import Log

NAMES = 100_000


@pytest.fixture
def log(caplog):
    """Level and text of each record, tracebacks included."""
    caplog.set_level(logging.DEBUG, "torchspan")
    form = logging.Formatter("%(levelname)s %(message)s")
    return lambda: [form.format(each) for each in caplog.records]


def fails(*_args):
    raise ValueError("patient jane doe")


def fails_in_torchspan():
    by_identity.ByIdentity()[1, 2, 3] = 4  # a tuple cannot be referred to weakly; this is not a failure
    by_identity.ByIdentity().setdefault((1, 2, 3), 4)


@pytest.mark.parametrize(
    "fail",
    [
        lambda: Guard().call("describing a call", fails),
        lambda: ErrorBoundary("describing a call failed; the program continues, with less telemetry.").attempt(fails),
    ],
    ids=["guard", "boundary"],
)
def test_of_a_failure_of_torchspans_own_a_warning_has_the_class_and_no_text(fail, log):
    fail()
    warning, debug = log()
    assert warning == (
        "WARNING describing a call failed; the program continues, with less telemetry. "
        "Cause: ValueError in code that torchspan calls. The traceback is logged at DEBUG."
    )
    assert debug.startswith("DEBUG describing a call failed; the program continues, with less telemetry.\nTraceback ")
    assert debug.endswith("ValueError: patient jane doe")


def test_the_warning_has_the_innermost_place_in_torchspan(log):
    Guard().call("remembering", fails_in_torchspan)
    assert re.search(
        r" Cause: TypeError in torchspan\.base\.by_identity, line \d+\. The traceback is logged at DEBUG\.$",
        log()[0],
    )


def test_a_class_that_is_called_what_no_class_is_called_is_not_named(log):
    kind = type("alice@example.com", (ValueError,), {})

    def raises():
        raise kind

    Guard().call("describing a call", raises)
    assert log()[0].endswith(" Cause: ? in code that torchspan calls. The traceback is logged at DEBUG.")


def test_no_code_of_an_exceptions_class_runs_for_the_warning(caplog):
    class Meta(type):
        def __getattribute__(cls, name):
            raise SystemExit(name)

    class Hostile(ValueError, metaclass=Meta):
        def __getattribute__(self, name):
            raise SystemExit(name)

        __str__ = __repr__ = lambda self: self.x

    hostile = Hostile()

    def raises():
        raise hostile

    caplog.set_level(logging.WARNING, "torchspan")
    Guard().call("describing a call", raises)
    # A logging handler that formats a traceback would run it; at WARNING there is none.
    (record,) = caplog.records
    assert record.exc_info is None
    assert record.getMessage().endswith(".Hostile in code that torchspan calls. The traceback is logged at DEBUG.")


def test_a_callback_of_the_user_is_logged_with_its_traceback(log):
    UserCallback("callback 1").call(fails, policy=ErrorPolicy())
    (record,) = log()
    assert record.startswith("INFO callback 1 failed; the program continues.\nTraceback ")
    assert record.endswith("ValueError: patient jane doe")


# --- pauses of torchspan's own observers --------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch):
    """The time of pauses, in seconds: a list of one number."""
    now = [100.0]
    monkeypatch.setattr(errors, "monotonic", lambda: now[0])
    return now


@pytest.mark.fault(
    "hooks and callbacks",
    "every second call of an observer fails",
    lost="20 observations",
    counted="torchspan.callback.failures",
)
def test_failures_that_are_not_in_a_row_pause_nothing(clock, unlogged):
    guard, attempts = Guard(), itertools.count(1)

    def work():
        if next(attempts) % 3:
            raise ValueError
        return "result"

    assert [guard.call("work", work) for _ in range(30)] == [None, None, "result"] * 10
    assert (guard.total, guard.failures, guard.left_out) == (20, {}, {})


@pytest.mark.fault(
    "hooks and callbacks",
    "an observer fails without end",
    lost="the calls in its pauses",
    counted="torchspan.span.dropped, reason paused",
)
def test_pauses_double_up_to_five_minutes_and_a_success_ends_them(clock, log):
    guard, called, paused_s = Guard(), [], []
    is_broken = True

    def work():
        called.append(1)
        if is_broken:
            raise ValueError
        return "result"

    for _ in range(3):
        guard.call("work", work)
    for _ in range(10):
        before, number = clock[0], len(called)
        while len(called) == number and clock[0] < before + 1000:
            clock[0] += 1
            guard.call("work", work)
        paused_s.append(clock[0] - before)
    assert paused_s == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]
    assert guard.left_out == {"work": sum(paused_s) - 10}
    is_broken = False
    clock[0] += 300
    assert guard.call("work", work) == "result"
    assert guard.failures == {}
    assert [each for each in log() if not each.startswith("DEBUG")] == [
        (
            "WARNING work failed; the program continues, with less telemetry. Cause: ValueError in code that torchspan "
            "calls. The traceback is logged at DEBUG."
        ),
        (
            "ERROR work failed 3 times in a row and is paused for 1 s. It is tried again after each pause; each failure "
            "then doubles the pause, up to 300 s."
        ),
        "WARNING work works again, after 801 calls were left out.",
    ]


def test_a_start_that_succeeds_does_not_end_the_row_of_an_end_that_fails(clock, unlogged):
    guard, started = Guard(), []

    def start():
        started.append(1)
        return True

    for _ in range(10):
        if guard.call("work", start):
            guard.end("work", fails)
    assert len(started) == 3


def test_an_end_that_fails_during_a_pause_does_not_lengthen_it(clock, unlogged):
    guard = Guard()
    for _ in range(10):
        guard.end("work", fails)
    clock[0] += 1
    assert guard.call("work", lambda: "result") == "result"


# --- logging that fails -------------------------------------------------------------------------------------------


def broken_handler(monkeypatch):
    handler = logging.Handler()
    handler.emit = breaks
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler])


def broken_filter(monkeypatch):
    monkeypatch.setattr(logging.getLogger("torchspan"), "filters", [breaks])


def broken_factory(monkeypatch):
    monkeypatch.setattr(logging, "_logRecordFactory", breaks)


def broken_clock(monkeypatch):
    for name in ("time", "time_ns"):
        monkeypatch.setattr(f"logging.time.{name}", breaks)


def breaks(*_args, **_keywords):
    raise BrokenPipeError("the log server is gone")


@pytest.mark.parametrize("broken", [broken_handler, broken_filter, broken_factory, broken_clock])
@pytest.mark.parametrize(
    "fail",
    [
        lambda: Guard().call("describing a call", fails),
        lambda: ErrorBoundary("describing a call failed.").attempt(fails),
        lambda: UserCallback("callback 1").call(fails),
        lambda: UserCallback("callback 1").call(fails, policy=ErrorPolicy(disable_after=1)),
    ],
    ids=["guard", "boundary", "callback", "policy"],
)
def test_logging_that_raises_does_not_reach_the_program(fail, broken, monkeypatch):
    logging.getLogger("torchspan").setLevel(logging.DEBUG)
    try:
        with monkeypatch.context() as patches:
            broken(patches)
            assert fail() in (None, FAILED)
    finally:
        logging.getLogger("torchspan").setLevel(logging.NOTSET)


@pytest.mark.fault("hooks and callbacks", "Ctrl-C in a log handler")
def test_an_interrupt_in_a_log_handler_belongs_to_the_program(monkeypatch):
    def interrupts(_record):
        raise KeyboardInterrupt

    monkeypatch.setattr(logging.getLogger("torchspan"), "filters", [interrupts])
    with pytest.raises(KeyboardInterrupt):
        Guard().call("describing a call", fails)


def test_every_logger_of_torchspan_that_runs_in_the_program_is_one_that_cannot_raise():
    package = Path(torchspan.__file__).parent
    made = re.compile(r"= logging\.getLogger\((?!['\"]opentelemetry\.)")  # OpenTelemetry's own are asked for by name
    direct = [
        str(path.relative_to(package))
        for path in sorted(package.rglob("*.py"))
        if "cli" not in path.relative_to(package).parts and made.search(path.read_text())
    ]
    assert direct == ["base/logs.py"]


def test_a_record_names_the_line_that_logged_it(caplog):
    Log("torchspan").warning("a warning")
    assert caplog.records[0].funcName == "test_a_record_names_the_line_that_logged_it"


# --- what grows ---------------------------------------------------------------------------------------------------


@pytest.fixture
def unlogged():
    logger = logging.getLogger("torchspan")
    logger.disabled = True
    yield
    logger.disabled = False


def test_a_guard_remembers_a_bounded_number_of_names_and_counts_all(unlogged):
    guard = Guard()
    for number in range(NAMES):
        assert guard.call(f"observer {number}", fails) is None
    assert len(guard.failures) == NAMES_LIMIT
    assert guard.total == NAMES


def test_a_name_that_continues_failing_is_paused_however_many_others_fail(unlogged):
    guard, called = Guard(), []

    def again():
        called.append(1)
        raise ValueError

    for number in range(3 * NAMES_LIMIT):
        guard.call("again", again)
        guard.call(f"observer {number}", fails)
    assert len(called) < 20


def test_failures_of_callbacks_are_one_number_for_the_process(unlogged):
    before = UserCallback.total
    for number in range(NAMES):
        UserCallback(f"callback {number}").call(fails)
    assert UserCallback.total == before + NAMES


def test_the_name_of_a_callback_has_a_bound():
    assert len(UserCallback("x" * NAMES).name) == NAME_LENGTH_LIMIT


def test_what_a_callback_had_raised_in_the_program_says_nothing_about_a_later_failure():
    for _ in range(100):
        with contextlib.suppress(ValueError):
            rethrow(ValueError("the user's"))
        assert Guard().call("a later one, at the address of the first", fails) is None


def test_a_failure_of_a_callback_that_knows_the_frame_around_it_stays_there(unlogged):
    def fails_with_its_caller():
        caller = sys._getframe(1)
        raise ValueError(caller)

    assert UserCallback("work").call(fails_with_its_caller) is FAILED
