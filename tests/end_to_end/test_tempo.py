# SPDX-License-Identifier: Apache-2.0
"""Real compilations by OTLP through the Collector to Tempo: its API gives back what the processes emitted, and the searches
of `docs/traceql.md` find what they say.
"""

import json
import re
import time
import urllib.parse
from collections import Counter
from pathlib import Path

import pytest

from support import backends, fetched, otlp, receiver

pytestmark = pytest.mark.needs("otelcol-torchspan", "tempo")
each_protocol = pytest.mark.parametrize("protocol", ["grpc", "http"])

PAGE = (Path(__file__).parents[2] / "docs" / "traceql.md").read_text(encoding="utf-8")
QUERIES = dict(re.findall(r"^### (.*?)\n(?:(?!^#).)*?^```traceql\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
"""heading -> query."""


@pytest.fixture(scope="module")
def sent(send_known_set):
    with backends.tempo() as tempo, send_known_set(tempo) as sent:
        yield sent


@each_protocol
def test_tempo_gives_back_every_span_as_it_was_emitted(sent, protocol):
    emitted = sent.messages(protocol)
    found = fetched.whole(fetched.from_tempo, sent.backend, emitted)
    assert otlp.plain(fetched.as_kept_by_tempo(found)) == otlp.plain(fetched.as_kept_by_tempo(emitted))


@each_protocol
def test_tempo_has_each_span_once(sent, protocol):
    found = fetched.spans(fetched.whole(fetched.from_tempo, sent.backend, sent.messages(protocol)))
    assert len(found) == len({span.span_id for span in found})


# --- the page of searches -----------------------------------------------------------------------------------------

COMPILE, RUN = "torch_tensorrt.compile", "torch_tensorrt.execute"
OPERATOR = "torch.ops.aten.special_i1e.default"


class Seen:
    """A span that was emitted, with those around it, innermost first."""

    def __init__(self, span, by_id):
        self.id, self.trace_id, self.name = span.span_id.hex(), span.trace_id.hex(), span.name
        self.attributes = receiver.mapping(span.attributes)
        self.seconds = (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9
        self.failed = span.status.code == otlp.ERROR.code
        self.is_server = span.kind == span.SPAN_KIND_SERVER
        self.events = {event.name for event in span.events}
        self.links = {link.trace_id.hex() for link in span.links}
        self._parent_id, self._by_id = span.parent_span_id.hex(), by_id

    def around(self):
        parent = self._by_id.get(self._parent_id)
        return [] if parent is None else [parent, *parent.around()]

    def is_compilation(self):
        return self.name == COMPILE

    def below_compilation(self):
        return any(each.is_compilation() for each in self.around())


@pytest.fixture(scope="module")
def killed(sent):
    """What has arrived of a process that was killed while it compiled: the id of its one span."""
    made = otlp.Ids(31)
    progress = otlp.make_span(made, "torchspan.progress", made.trace())
    progress.parent_span_id = made.span()
    progress.start_time_unix_nano = progress.end_time_unix_nano = time.time_ns()
    otlp.send(sent.collector.http, [progress], resource={"service.name": "killed"})
    return progress.span_id.hex()


@pytest.fixture(scope="module")
def seen(sent, killed):
    """Every span of both processes, once a search finds them all."""
    by_id = {}
    spans = [span for protocol in sent.emitted for span in sent.emitted[protocol].spans()]
    by_id.update((span.span_id.hex(), Seen(span, by_id)) for span in spans)
    otlp.wait_until(lambda: search(sent, "{ }").keys() >= {*by_id, killed})
    return list(by_id.values())


def search(sent, query):
    """span id -> its attributes in the answer, as Tempo shows them, over the traces of a day."""
    asked = {"q": query, "limit": 1000, "spss": 100, "since": "24h"}
    traces = fetched.get_json(f"{sent.backend.api}/api/search?{urllib.parse.urlencode(asked)}").get("traces", [])
    return {
        span["spanID"]: {each["key"]: each["value"] for each in span.get("attributes", [])}
        for trace in traces
        for spans in trace["spanSets"]
        for span in spans["spans"]
    }


def measure(sent, query):
    """What a metrics query says of a day: the value of its labels, the only one or as a tuple -> the figure."""
    asked = urllib.parse.urlencode({"q": query, "since": "24h"})
    series = fetched.get_json(f"{sent.backend.api}/api/metrics/query?{asked}")["series"]
    labels = [tuple(next(iter(each["value"].values())) for each in row["labels"]) for row in series]
    return {key[0] if len(key) == 1 else key: row["value"] for key, row in zip(labels, series, strict=True)}


FOUND = {
    # heading: which spans it finds
    "Every compilation": lambda span: span.is_compilation(),
    "Compilations that took longer than a minute": lambda span: span.is_compilation() and span.seconds > 0.1,
    "What long compilations spent their time on": lambda span: (
        any(each.is_compilation() and each.seconds > 0.1 for each in span.around()) and span.seconds > 0.01
    ),
    "Which operators fell back": lambda span: (
        span.is_compilation() and "torch_tensorrt.fallback.reason_classes" in span.attributes
    ),
    "Where an operator fell back": lambda span: (
        span.is_compilation() and OPERATOR in span.attributes.get("torch_tensorrt.fallback.operators.names", [])
    ),
    "Fallback for one reason": lambda span: (
        span.is_compilation() and "no_converter" in span.attributes.get("torch_tensorrt.fallback.reason_classes", [])
    ),
    "Compilations inside a request": lambda span: (
        span.is_compilation() and any(each.is_server for each in span.around())
    ),
    "Compilations while serving": lambda span: span.is_compilation() and span.attributes.get("torchspan.while_serving"),
    "Compilations that failed": lambda span: span.is_compilation() and span.failed,
    "Where a compilation failed": lambda span: (
        span.failed and any(each.is_compilation() and each.failed for each in span.around())
    ),
    "Runs of engines that failed": lambda span: span.name == RUN and span.failed,
    "Exceptions": lambda span: "exception" in span.events,
    "What the engine cache answered": lambda span: span.name == "torch_tensorrt.engine_cache.lookup",
}
SHORTER = {"duration > 1m": "duration > 100ms", "duration > 10s": "duration > 10ms"}
"""The models of the tests compile in a second."""


def adapted(query):
    for long, short in SHORTER.items():
        query = query.replace(long, short)
    return query


@pytest.mark.parametrize("heading", FOUND)
def test_a_search_of_the_page_finds_those_spans_and_no_others(sent, seen, heading):
    expected = {span.id for span in seen if FOUND[heading](span)}
    assert expected
    assert search(sent, adapted(QUERIES[heading])).keys() == expected


def test_the_search_for_requests_that_waited_finds_the_spans_of_the_requests(sent, seen):
    expected = {each.id for span in seen if span.is_compilation() for each in span.around() if each.is_server}
    assert len(expected) == 2
    assert search(sent, QUERIES["Requests that waited for a compilation"]).keys() == expected


def test_the_search_for_compilations_that_have_not_ended_finds_what_is_left_of_a_killed_one(sent, seen, killed):
    assert any(span.name == "torchspan.progress" for span in seen)
    assert search(sent, QUERIES["Compilations that have not ended"]).keys() == {killed}


def test_the_search_for_runs_of_a_compilation_finds_those_that_link_to_it(sent, seen):
    compiled = next(span.trace_id for span in seen if span.is_compilation() and not span.around())
    expected = {span.id for span in seen if span.name == RUN and compiled in span.links}
    assert expected
    assert search(sent, QUERIES["Runs of the engines of a compilation"].replace("0" * 32, compiled)).keys() == expected


def test_the_search_for_fallback_shows_the_operators_their_counts_and_reasons(sent, seen):
    shown = {json.dumps(each, sort_keys=True) for each in search(sent, QUERIES["Which operators fell back"]).values()}
    assert [json.loads(each) for each in shown] == [
        {
            "torch_tensorrt.fallback.operators.counts": {"intValue": "1"},
            "torch_tensorrt.fallback.operators.names": {"stringValue": OPERATOR},
            "torch_tensorrt.fallback.operators.reasons": {"stringValue": "no_converter"},
            "torch_tensorrt.fallback.reason_classes": {"stringValue": "no_converter"},
            "torch_tensorrt.model.class": {"stringValue": "Fallback"},
        }
    ]


def longest(spans):
    return max(spans, key=lambda span: span.seconds)


def by(spans, key):
    groups = {}
    for span in spans:
        groups.setdefault(key(span), []).append(span)
    return groups


MEASURED = {
    # heading: labels -> figure
    "The compilation that took longest": lambda spans: {
        span.trace_id: span.seconds for span in [longest([each for each in spans if each.is_compilation()])]
    },
    "Compilations by outcome": lambda spans: Counter(
        "error" if span.failed else "unset" for span in spans if span.is_compilation()
    ),
    "The longest compilation of each model": lambda spans: {
        model: longest(each).seconds
        for model, each in by(
            [span for span in spans if span.is_compilation()],
            lambda span: span.attributes["torch_tensorrt.model.class"],
        ).items()
    },
    "Time in each phase": lambda spans: {
        name: sum(span.seconds for span in each)
        for name, each in by([span for span in spans if span.below_compilation()], lambda span: span.name).items()
    },
    "Errors by class": lambda spans: Counter(span.attributes.get("error.type", "nil") for span in spans if span.failed),
}


@pytest.mark.parametrize("heading", MEASURED)
def test_a_figure_of_the_page_is_the_one_of_the_spans(sent, seen, heading):
    assert measure(sent, QUERIES[heading]) == pytest.approx(MEASURED[heading](seen))


def test_every_query_of_the_page_is_tested_above():
    others = {
        "Requests that waited for a compilation",
        "Compilations that have not ended",
        "Runs of the engines of a compilation",
    }
    assert QUERIES.keys() == FOUND.keys() | MEASURED.keys() | others
    assert len(QUERIES) == PAGE.count("```traceql\n")
