# SPDX-License-Identifier: Apache-2.0
"""Lines of a log in the event around them, without a library."""

import threading
import types

import pytest

from support.own_failures import consequences
from torchspan import phase
from torchspan.engine import Engine
from torchspan.hooks.adapters import Provenance
from torchspan.hooks.adapters.log_lines import LINES_LIMIT, tap_log
from torchspan.hooks.adapters.machinery.wrap import WrapperFactory
from torchspan.hooks.probes import Method
from torchspan.hooks.probes.describe.build import LAST_ERROR, Line

READS = "torchspan.hooks.adapters.log_lines.tensorrt_line"


@pytest.fixture(autouse=True)
def plain_lines(monkeypatch):
    """Severities are words here, not TensorRT's enumeration."""
    monkeypatch.setattr(READS, lambda args, kwargs: None if args[1] == "INFO" else Line(args[1], args[2]))


@pytest.fixture
def redaction():
    """What is recorded of a text; a test may exchange it."""
    return types.SimpleNamespace(redact=str.upper)


@pytest.fixture
def engine():
    return Engine()


@pytest.fixture
def said():
    """What reached the library's own method."""
    return []


@pytest.fixture
def log(engine, said, redaction):
    def method(self, severity, text):
        said.append((severity, text))
        if severity == "INTERNAL_ERROR":
            raise RuntimeError(text)
        return "the method's own result"

    factory = WrapperFactory(engine, Provenance())
    observed = tap_log(factory, lambda text: redaction.redact(text), Method("x:Logger.log"), method)
    return lambda severity, text: observed("the logger", severity, text)


@pytest.fixture
def build(engine):
    event = engine.open(phase.BUILD_ENGINE, {})
    yield event
    engine.close(event)


def kept(event):
    return [(each.name, dict(each.attributes)) for each in event.occurrences]


def test_a_line_is_kept_as_it_may_be_reported_and_reaches_the_method_as_it_was(log, said, build):
    assert log("WARNING", "a line") == "the method's own result"
    assert said == [("WARNING", "a line")]
    assert kept(build) == [
        (
            "tensorrt.log",
            {
                "tensorrt.log.severity": "WARNING",
                "tensorrt.log.message": "A LINE",
                "tensorrt.log.count": 1,
                "tensorrt.log.out_of_memory": False,
            },
        )
    ]


def test_its_time_is_that_of_the_first_of_its_kind(log, build):
    log("ERROR", "a line")
    (first,) = build.occurrences
    log("ERROR", "a line")
    assert build.occurrences == [first]
    assert build.start_ns <= first.time_ns <= build.anchor.now_ns()


def test_what_only_informs_is_not_kept(log, said, build):
    log("INFO", "a line")
    assert (kept(build), said) == ([], [("INFO", "a line")])


def test_lines_that_are_reported_alike_are_one_with_a_count(log, build):
    for text in ("a line", "A line", "A LINE"):
        log("WARNING", text)
    log("ERROR", "a line")
    counts = [(each["tensorrt.log.severity"], each["tensorrt.log.count"]) for _, each in kept(build)]
    assert counts == [("WARNING", 3), ("ERROR", 1)]


def test_beyond_twenty_different_lines_they_are_counted(log, build):
    for number in range(LINES_LIMIT + 5):
        log("WARNING", f"line {number}")
    log("WARNING", "line 0")
    assert len(build.occurrences) == LINES_LIMIT == 20
    assert build.occurrences[0].attributes["tensorrt.log.count"] == 2
    assert build.additions == {"tensorrt.log.omitted": 5}


def test_the_last_error_is_known_also_where_it_has_no_occurrence_left(log, build):
    for number in range(LINES_LIMIT):
        log("WARNING", f"line {number}")
    log("ERROR", "the first error")
    log("ERROR", "the last error")
    log("WARNING", "a later line")
    assert build.scratch[LAST_ERROR] == "THE LAST ERROR"


SKIPPING = "Skipping tactic {} due to insufficient memory on requested size of 600 detected for tactic 3."
REQUEST = "Tactic Device request: 600MB Available: {}MB. Device memory is insufficient to use tactic."


def test_lines_about_memory_are_marked_and_so_is_the_event(log, build):
    log("WARNING", "something else")
    log("WARNING", REQUEST.format(1))
    assert [each["tensorrt.log.out_of_memory"] for _, each in kept(build)] == [False, True]
    assert build.additions == {"tensorrt.out_of_memory": True, "tensorrt.tactics.skipped": 1}


@pytest.mark.parametrize(
    ("lines", "skipped"),
    [
        ([SKIPPING.format(number) for number in range(3)], 3),
        ([REQUEST.format(number) for number in range(4)], 4),
        ([line.format(number) for number in range(30) for line in (REQUEST, SKIPPING)], 30),
    ],
    ids=["skipping alone", "request alone", "pairs"],
)
def test_skipped_tactics_are_counted_once_each_in_whatever_wording(log, build, lines, skipped):
    for line in lines:
        log("WARNING", line)
    assert build.additions["tensorrt.tactics.skipped"] == skipped


def test_a_line_belongs_to_the_innermost_event(log, engine, build):
    inner = engine.open(phase.DESERIALIZE_ENGINE, {})
    log("ERROR", "inside")
    engine.close(inner)
    log("ERROR", "outside")
    assert [each.attributes["tensorrt.log.message"] for each in inner.occurrences] == ["INSIDE"]
    assert [each.attributes["tensorrt.log.message"] for each in build.occurrences] == ["OUTSIDE"]


def test_lines_outside_any_event_or_on_another_thread_are_nobodys(log, said, engine):
    log("ERROR", "before")
    event = engine.open(phase.BUILD_ENGINE, {})
    thread = threading.Thread(target=log, args=("ERROR", "elsewhere"))
    thread.start()
    thread.join()
    engine.close(event)
    log("ERROR", "after")
    assert (event.occurrences, event.scratch) == ([], {})
    assert [text for _, text in said] == ["before", "elsewhere", "after"]


def test_an_internal_error_is_kept_and_raises_as_before(log, build):
    with pytest.raises(RuntimeError, match=r"^fatal$"):
        log("INTERNAL_ERROR", "fatal")
    assert [each["tensorrt.log.severity"] for _, each in kept(build)] == ["INTERNAL_ERROR"]
    assert build.scratch[LAST_ERROR] == "FATAL"


def test_without_a_writer_no_text_is_recorded(said, build, redaction, log):
    redaction.redact = lambda _text: ""
    log("ERROR", "SECRET")
    assert build.occurrences[0].attributes["tensorrt.log.message"] == ""
    assert "SECRET" not in str([build.occurrences, build.additions, build.scratch])


def test_a_failure_of_torchspan_costs_lines_and_nothing_else(log, said, build, redaction, caplog):
    def broken(_text):
        raise RuntimeError("torchspans")

    redaction.redact = broken
    for _ in range(5):
        assert log("ERROR", "a line") == "the method's own result"
    assert len(said) == 5
    assert consequences(caplog) == [
        "keeping lines of x:Logger.log failed; the program continues, with less telemetry.",
        (
            "keeping lines of x:Logger.log failed 3 times in a row and is paused for 1 s. It is tried again after each pause; each failure "
            "then doubles the pause, up to 300 s."
        ),
    ]
