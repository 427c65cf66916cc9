# SPDX-License-Identifier: Apache-2.0
"""Log records of torchspan's events in files of traces: `read` gives each to its span."""

import io
import json

import pytest

from support.steps import lines_run
from torchspan import traces
from torchspan.traces import SpanEvent

TRACE, SPAN = "ab" * 16, "01" * 8


def span(**more):
    return {
        "traceId": TRACE,
        "spanId": SPAN,
        "name": "tensorrt.build_engine",
        "startTimeUnixNano": "1000",
        "endTimeUnixNano": "3000",
        **more,
    }


def spans(*members):
    return {"resourceSpans": [{"scopeSpans": [{"scope": {"name": "torchspan"}, "spans": list(members)}]}]}


def record(name="tensorrt.log", time_ns=2000, **more):
    return {
        "timeUnixNano": str(time_ns),
        "observedTimeUnixNano": "5000",
        "severityNumber": 13,
        "severityText": "WARN",
        "eventName": name,
        "attributes": [{"key": "tensorrt.log.count", "value": {"intValue": "3"}}],
        "traceId": TRACE,
        "spanId": SPAN,
        **more,
    }


def records(*members, scope="torchspan"):
    return {"resourceLogs": [{"scopeLogs": [{"scope": {"name": scope}, "logRecords": list(members)}]}]}


def read(*documents):
    return traces.read(io.BytesIO("".join(f"{json.dumps(each)}\n" for each in documents).encode()))


def events(file):
    """The name and time of each event of the only span."""
    (only,) = file.spans
    return [(event.name, event.time_ns) for event in only.events]


EVENT = SpanEvent("tensorrt.log", {"tensorrt.log.count": 3}, 2000)


@pytest.mark.parametrize("has_spans_first", [True, False])
def test_a_record_is_an_event_of_its_span_whichever_line_comes_first(has_spans_first):
    documents = [spans(span()), records(record())]
    (only,) = read(*(documents if has_spans_first else documents[::-1])).spans
    assert only.events == (EVENT,)


def test_a_record_is_an_event_of_its_span_in_another_file(tmp_path):
    for name, document in (("spans.jsonl", spans(span())), ("logs.jsonl", records(record()))):
        (tmp_path / name).write_text(json.dumps(document) + "\n")
    (only,) = traces.read(tmp_path / "logs.jsonl", tmp_path / "spans.jsonl").spans
    assert only.events == (EVENT,)


def test_spans_and_records_may_be_requests_of_one_list():
    assert events(read([spans(span()), records(record())])) == [("tensorrt.log", 2000)]


def test_the_record_of_an_exception_is_the_event_exception():
    assert events(read(spans(span()), records(record("tensorrt.build_engine.exception")))) == [("exception", 2000)]


def test_records_are_in_the_order_of_time_among_the_events_of_the_span():
    with_event = span(events=[{"timeUnixNano": "1500", "name": "exception"}])
    file = read(spans(with_event), records(record(time_ns=1700), record(time_ns=1200)))
    assert events(file) == [("tensorrt.log", 1200), ("exception", 1500), ("tensorrt.log", 1700)]


def test_a_record_of_an_event_that_the_span_has_is_not_read_twice():
    attributes = record()["attributes"]
    with_event = span(events=[{"timeUnixNano": "2000", "name": "tensorrt.log", "attributes": attributes}])
    assert events(read(spans(with_event), records(record()))) == [("tensorrt.log", 2000)]


def test_a_record_that_was_written_twice_is_read_once():
    assert events(read(spans(span()), records(record()), records(record()))) == [("tensorrt.log", 2000)]


def test_two_records_of_one_time_are_two_events_if_they_differ():
    assert events(read(spans(span()), records(record(), record(attributes=[])))) == 2 * [("tensorrt.log", 2000)]


def test_events_of_a_span_with_whole_texts_keep_their_indexes():
    local = [{"key": "torchspan.local.events.0.tensorrt.log.message", "value": {"stringValue": "whole"}}]
    with_text = span(events=[{"timeUnixNano": "1500", "name": "tensorrt.log"}], attributes=local)
    file = read(spans(with_text), records(record(time_ns=1200)))
    assert events(file) == [("tensorrt.log", 1500), ("tensorrt.log", 1200)]
    assert file.spans[0].texts == {"events.0.tensorrt.log.message": "whole"}


def test_of_spans_with_the_same_ids_a_record_is_of_the_last_that_had_started():
    later = span(name="later", startTimeUnixNano="5000", endTimeUnixNano="6000")
    file = read(spans(later, span()), records(record(time_ns=5500), record(time_ns=2000), record(time_ns=500)))
    assert {each.name: [event.time_ns for event in each.events] for each in file.spans} == {
        "tensorrt.build_engine": [500, 2000],
        "later": [5500],
    }


def test_a_record_whose_span_is_missing_is_counted_and_no_problem():
    file = read(spans(span()), records(record(spanId="02" * 8), record()))
    assert (events(file), file.spanless, file.problems) == ([("tensorrt.log", 2000)], 1, [])


def test_log_records_of_other_scopes_are_left_out():
    file = read(spans(span()), records(record(), {"body": {"stringValue": "hello"}}, scope="app"))
    assert (events(file), file.spanless, file.problems) == ([], 0, [])


@pytest.mark.parametrize(
    ("broken", "what"),
    [
        ({"eventName": None}, "no eventName"),
        ({"eventName": 7}, "no eventName"),
        ({"traceId": ""}, "no traceId"),
        ({"traceId": 3}, "no traceId"),
        ({"spanId": "xyz"}, "spanId is not hexadecimal"),
        ({"spanId": "0" * 33}, "spanId is longer than 32 digits"),
    ],
)
def test_a_record_that_is_not_one_is_a_problem_and_the_others_are_read(broken, what):
    file = read(spans(span()), records(record(**broken), record()))
    assert events(file) == [("tensorrt.log", 2000)]
    assert [(problem.place, problem.what) for problem in file.problems] == [("line 2, log record 1", what)]


@pytest.mark.parametrize("broken", ["text", None, 3, []])
def test_what_is_not_a_mapping_is_a_problem(broken):
    (problem,) = read(spans(span()), records(broken)).problems
    assert (problem.place, problem.what) == ("line 2, log record 1", "no eventName")


@pytest.mark.parametrize("time_ns", [None, "soon", -1, 2**64, 1e400, [3]])
def test_a_record_without_a_time_comes_first(time_ns):
    file = read(spans(span()), records(record(time_ns=1500), record(timeUnixNano=time_ns)))
    assert events(file) == [("tensorrt.log", 0), ("tensorrt.log", 1500)]


def test_a_record_that_is_nested_too_deeply_is_a_problem():
    depth = 100_000
    nested = '{"arrayValue":{"values":[' * depth + "]}}" * depth
    text = json.dumps(records(record())).replace('{"intValue": "3"}', nested)
    file = traces.read(io.BytesIO(f"{json.dumps(spans(span()))}\n{text}\n".encode()))
    assert (events(file), [problem.what for problem in file.problems]) == ([], ["nested too deeply"])


@pytest.mark.parametrize(
    "groups", [[3], [{"scopeLogs": 3}], [{"scopeLogs": [{"scope": 3, "logRecords": 3}]}], [{"scopeLogs": [None]}]]
)
def test_logs_without_what_makes_them_logs_have_no_effect(groups):
    file = read(spans(span()), {"resourceLogs": groups})
    assert (events(file), file.problems) == ([], [])


def test_logs_that_are_not_a_list_are_a_problem():
    (problem,) = read({"resourceLogs": 3}).problems
    assert problem.what == "JSON, but not OTLP (no resourceSpans)"


def test_the_work_grows_in_proportion_to_records_and_to_spans_with_the_same_ids():
    def document(number):
        same_ids = [span(name=str(each), startTimeUnixNano=str(each)) for each in range(number)]
        return [spans(*same_ids), records(*(record(time_ns=each // 2) for each in range(number)))]

    small, large = (lines_run(read, *document(number)) for number in (200, 1600))
    assert large < 8 * 2 * small
