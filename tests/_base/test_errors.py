# SPDX-License-Identifier: Apache-2.0
"""What is logged of failures, and what is kept of them."""

import logging
import re

import pytest

from torchspan._base import by_identity
from torchspan._base.boundaries import ErrorBoundary
from torchspan._base.errors import (
    FAILED,
    NAME_LENGTH_LIMIT,
    NAMES_LIMIT,
    CallbackGuard,
    ErrorPolicy,
    Guard,
    Guarded,
)

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
    by_identity._forget(None, 0, None)


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
        r" Cause: AttributeError in torchspan\._base\.by_identity, line \d+\. The traceback is logged at DEBUG\.$",
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
    CallbackGuard().call_under(ErrorPolicy(), Guarded("callback 1"), fails)
    (record,) = log()
    assert record.startswith("INFO callback 1 failed; the program continues.\nTraceback ")
    assert record.endswith("ValueError: patient jane doe")


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
        assert guard.begin(f"observer {number}", fails) is FAILED
    assert len(guard.failures) == NAMES_LIMIT
    assert guard.total == NAMES


def test_a_name_that_continues_failing_is_disabled_however_many_others_fail(unlogged):
    guard, called = Guard(), []

    def again():
        called.append(1)
        raise ValueError

    for number in range(3 * NAMES_LIMIT):
        guard.call("again", again)
        guard.call(f"observer {number}", fails)
    assert len(called) < 20


def test_a_guard_of_callbacks_keeps_a_number_and_no_names(unlogged):
    guard = CallbackGuard()
    for number in range(NAMES):
        guard.begin(Guarded(f"callback {number}"), fails)
    assert guard.total == NAMES
    assert [each for each in vars(guard).values() if isinstance(each, (dict, list, set, tuple, str))] == []


def test_the_name_of_a_callback_has_a_bound():
    assert len(Guarded("x" * NAMES).name) == NAME_LENGTH_LIMIT
