# SPDX-License-Identifier: Apache-2.0
"""The short form of `make hostile`, and what it notices."""

import random

import pytest

import hostile_scheduler
from hostile_scheduler import PROGRAM, result_of

WITHOUT_TORCH = ("gc", "signal", "signal-span", "fork", "should_run", "uninstrument", "flaky")

SPOILED = """
import runpy, sys

{spoil}

sys.argv[0] = {program!r}
runpy.run_path({program!r}, run_name="__main__")
"""

WRONG_PARENT = """
from opentelemetry import context
from opentelemetry.sdk.trace import Tracer

start_span = Tracer.start_span

def start(self, name, context=None, **arguments):
    return start_span(self, name, {} if name.startswith("torchspan.observed step1") else context, **arguments)

Tracer.start_span = start
"""

LOST_COUNT = """
from opentelemetry.sdk.trace import Span

set_attributes = Span.set_attributes
Span.set_attributes = lambda self, attributes: set_attributes(
    self, {key: value for key, value in attributes.items() if not key.startswith("torchspan.observed.folded")}
)
"""

LEFT_CURRENT = """
from opentelemetry import context

detach = context.detach
calls = iter(range(10**9))
context.detach = lambda token: None if next(calls) % 7 == 6 else detach(token)
"""

EXCEPTION = """
from torchspan import callbacks

add, calls = callbacks.add_thread_local_callback, iter(range(10**9))

def fails_once(callback):
    if next(calls) == 100:
        raise LookupError("planted")
    return add(callback)

callbacks.add_thread_local_callback = fails_once
"""


def spoiled(tmp_path, spoil, entries=("should_run",)):
    """The problems of a round whose program is spoiled by this code."""
    program = tmp_path / "program.py"
    program.write_text(SPOILED.format(spoil=spoil, program=str(PROGRAM)), encoding="utf-8")
    return "\n".join(result_of(entries, 1, seconds=2, program=program)["problems"])


def test_for_twenty_seconds_nothing_hangs_is_misplaced_or_lost_silently():
    results = hostile_scheduler.storm(20, random.SystemRandom().randrange(10**6))
    assert [result for result in results if result["problems"]] == []


def test_the_same_program_without_torchspan_passes():
    result = result_of(WITHOUT_TORCH, 1, seconds=2, options=["--without-torchspan"])
    assert result["problems"] == []
    assert result["requests"] > 0


def test_a_program_that_hangs_is_killed_and_its_stacks_are_printed(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import faulthandler, signal, threading\n"
        "faulthandler.register(signal.SIGUSR1)\n"
        "def waits_forever(): threading.Event().wait()\n"
        "waits_forever()\n"
    )
    (problem,) = result_of(("gc",), 1, seconds=1, limit_s=5, program=program)["problems"]
    assert problem.startswith("it did not end within 6 s")
    assert "in waits_forever" in problem


def test_a_program_that_dies_has_failed(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("raise SystemExit(7)")
    assert result_of(("gc",), 1, program=program)["problems"] == ["it ended with status 7\n"]


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        pytest.param(WRONG_PARENT, "spans in nothing, where 0 were begun", id="wrong parent"),
        pytest.param(LEFT_CURRENT, "the current span is", id="a span is left current"),
        pytest.param(LOST_COUNT, "something was lost or is there twice", id="lost count"),
        pytest.param(EXCEPTION, "LookupError: planted", id="exception"),
    ],
)
def test_what_goes_wrong_in_a_program_is_a_problem(tmp_path, spoil, problem):
    assert problem in spoiled(tmp_path, spoil)


def test_an_entry_alone_or_all_and_three_of_them_in_turn():
    alone = hostile_scheduler.rounds(random.Random(1), ("gc",))
    assert [next(alone)[0] for _ in range(3)] == [("gc",)] * 3
    mixed = hostile_scheduler.rounds(random.Random(1), ())
    assert [len(next(mixed)[0]) for _ in range(5)] == [
        len(hostile_scheduler.ENTRIES),
        3,
        3,
        3,
        len(hostile_scheduler.ENTRIES),
    ]
