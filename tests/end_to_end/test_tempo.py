# SPDX-License-Identifier: Apache-2.0
"""Real compilations by OTLP through the Collector to Tempo: its API gives back what the processes emitted, and the searches
of `docs/how-to/traceql.md` find what they say.
"""

import json
import re
import time
import urllib.parse
from collections import Counter
from pathlib import Path

import pytest

from support import backends, fetched, otlp, receiver

needs_tempo = pytest.mark.needs("otelcol-torchspan", "tempo")
each_protocol = pytest.mark.parametrize("protocol", ["grpc", "http"])

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "traceql.md").read_text(encoding="utf-8")
QUERIES = dict(re.findall(r"^### (.*?)\n(?:(?!^#).)*?^```traceql\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
"""heading -> query."""


@pytest.fixture(scope="module")
def sent(send_known_set):
    with backends.tempo() as tempo, send_known_set(tempo) as sent:
        yield sent


@needs_tempo
@each_protocol
def test_tempo_gives_back_every_span_as_it_was_emitted(sent, protocol):
    emitted = sent.messages(protocol)
    found = fetched.whole(fetched.from_tempo, sent.backend, emitted)
    assert otlp.plain(fetched.as_kept_by_tempo(found)) == otlp.plain(fetched.as_kept_by_tempo(emitted))


@needs_tempo
@each_protocol
def test_tempo_has_each_span_once(sent, protocol):
    found = fetched.spans(fetched.whole(fetched.from_tempo, sent.backend, sent.messages(protocol)))
    assert len(found) == len({span.span_id for span in found})


@needs_tempo
def test_of_a_span_with_every_part_tempo_loses_what_is_known_and_nothing_else(sent):
    message = otlp.with_every_part(
        sent.begun_s, start_ns=(sent.begun_s - 3600) * 1_000_000_000
    )  # which no search below looks for
    otlp.post(sent.collector.http, message)
    found = fetched.whole(fetched.from_tempo, sent.backend, [message])
    assert otlp.plain(fetched.as_kept_by_tempo(found)) == otlp.plain(fetched.as_kept_by_tempo([message]))


# --- the page of searches -----------------------------------------------------------------------------------------

COMPILE, RUN, FRAME = "torch_tensorrt.compile", "torch_tensorrt.execute", "torch.compile_frame"
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
        breaks = [event for event in span.events if event.name == "torch.compile.graph_break"]
        self.breaks = {receiver.mapping(event.attributes)["torch.compile.graph_break.class"] for event in breaks}
        self.links = {link.trace_id.hex() for link in span.links}
        self._parent_id, self._by_id = span.parent_span_id.hex(), by_id

    def around(self):
        parent = self._by_id.get(self._parent_id)
        return [] if parent is None else [parent, *parent.around()]

    def is_compilation(self):
        return self.name == COMPILE

    def is_frame(self):
        return self.name == FRAME

    def is_phase(self):
        return self.name.startswith(("torch.", "torch_tensorrt.", "tensorrt."))


@pytest.fixture(scope="module")
def seen(sent):
    """Every span of both processes, once a search finds them all."""
    by_id = {}
    spans = [span for protocol in sent.emitted for span in sent.emitted[protocol].spans()]
    by_id.update((span.span_id.hex(), Seen(span, by_id)) for span in spans)
    otlp.wait_until(lambda: search(sent, "{ }").keys() >= by_id.keys())
    return list(by_id.values())


def search(sent, query):
    """span id -> its attributes in the answer, as Tempo shows them, over the traces since the set began."""
    asked = {"q": query, "limit": 1000, "spss": 100, **since(sent)}
    traces = fetched.get_json(f"{sent.backend.api}/api/search?{urllib.parse.urlencode(asked)}").get("traces", [])
    return {
        span["spanID"]: {each["key"]: each["value"] for each in span.get("attributes", [])}
        for trace in traces
        for spans in trace["spanSets"]
        for span in spans["spans"]
    }


def since(sent):
    """A time range, because a Tempo that was given may have more than this set."""
    return {"start": sent.begun_s, "end": int(time.time()) + 1}


def measure(sent, query):
    """What a metrics query says of the time since the set began: the value of its labels, the only one or as a tuple -> the figure."""
    asked = urllib.parse.urlencode({"q": query, **since(sent)})
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
    "Compilations while serving": lambda span: span.attributes.get("torchspan.while_serving"),
    "Compilations that failed": lambda span: span.is_compilation() and span.failed,
    "Where a compilation failed": lambda span: (
        span.failed and any(each.is_compilation() and each.failed for each in span.around())
    ),
    "Runs of engines that failed": lambda span: span.name == RUN and span.failed,
    "Frames that were compiled again": lambda span: (
        span.is_frame() and "torch.compile.recompile.class" in span.attributes
    ),
    "Frames that reached a recompile limit": lambda span: (
        span.is_frame() and "torch.compile.recompile.limit" in span.attributes
    ),
    "Graph breaks": lambda span: bool(span.breaks),
    "Graph breaks that the program did not ask for": lambda span: bool(span.breaks - {"requested", "disabled"}),
    "Frames that failed and run eagerly": lambda span: (
        span.is_frame() and span.attributes["torch.compile.outcome"] == "fallen_back"
    ),
    "Exceptions": lambda span: "exception" in span.events,
    "What the engine cache answered": lambda span: span.name == "torch_tensorrt.engine_cache.lookup",
}
SHORTER = {"duration > 1m": "duration > 100ms", "duration > 10s": "duration > 10ms"}
"""The models of the tests compile in a second."""


def adapted(query):
    for long, short in SHORTER.items():
        query = query.replace(long, short)
    return query


@needs_tempo
@pytest.mark.parametrize("heading", FOUND)
def test_a_search_of_the_page_finds_those_spans_and_no_others(sent, seen, heading):
    expected = {span.id for span in seen if FOUND[heading](span)}
    assert expected
    assert search(sent, adapted(QUERIES[heading])).keys() == expected


@needs_tempo
def test_the_search_for_requests_that_waited_finds_the_spans_of_the_requests(sent, seen):
    expected = {each.id for span in seen if span.is_compilation() for each in span.around() if each.is_server}
    assert len(expected) == 2
    assert search(sent, QUERIES["Requests that waited for a compilation"]).keys() == expected


@needs_tempo
def test_the_search_for_requests_that_waited_for_frames_finds_the_spans_of_the_requests(sent, seen):
    expected = {each.id for span in seen if span.is_frame() for each in span.around() if each.is_server}
    assert len(expected) == 2
    assert search(sent, QUERIES["Requests that waited for torch.compile"]).keys() == expected


@needs_tempo
def test_the_search_for_graph_breaks_shows_their_class_their_type_and_their_line(sent):
    found = search(sent, QUERIES["Graph breaks"]).values()
    keys = ("torch.compile.graph_break.class", "torch.compile.graph_break.type", "code.line.number")
    assert {tuple(next(iter(each[key].values())) for key in keys) for each in found} == {
        ("requested", "Call to `torch._dynamo.graph_break()`", "17"),
        ("data_dependent_branch", "Data-dependent branching", "18"),
    }


@pytest.fixture(scope="module")
def in_pieces(sent):
    """A request around work whose heartbeat came to Tempo earlier: names → span ids."""
    made = otlp.Ids(sent.begun_s + 1)
    trace_id = made.trace()
    request = otlp.make_span(made, "POST /slow", trace_id)
    request.kind = request.SPAN_KIND_SERVER
    work = otlp.make_span(made, "slow work", trace_id, parent=request)
    elapsed = {"torchspan.progress.elapsed": 2.0, "torchspan.progress.running": "tensorrt.build_engine"}
    progress = otlp.make_span(made, "torchspan.progress", trace_id, parent=work, attributes=elapsed)
    spans = [request, work, progress]
    for piece in ([progress], [work], [request]):
        for span in piece:
            span.start_time_unix_nano = span.end_time_unix_nano = time.time_ns()
        otlp.send(sent.collector.http, piece)
        otlp.wait_until(lambda p=piece: search(sent, f'{{ name = "{p[0].name}" }}').keys() >= {p[0].span_id.hex()})
    return {span.name: span.span_id.hex() for span in spans}


@needs_tempo
def test_the_search_for_what_is_compiling_now_finds_heartbeats_before_their_work(sent, in_pieces):
    found = search(sent, QUERIES["What is compiling now"])
    assert found[in_pieces["torchspan.progress"]] == {
        "torchspan.progress.elapsed": {"doubleValue": 2},
        "torchspan.progress.running": {"stringValue": "tensorrt.build_engine"},
    }


@needs_tempo
def test_a_search_that_relates_spans_does_not_see_those_that_came_in_another_piece(sent, in_pieces):
    assert search(sent, '{ name = "slow work" }').keys() == {in_pieces["slow work"]}
    assert search(sent, '{ name = "POST /slow" } >> { name = "slow work" }') == {}


@needs_tempo
def test_the_search_for_runs_of_a_compilation_finds_those_that_link_to_it(sent, seen):
    compiled = next(span.trace_id for span in seen if span.is_compilation() and not span.around())
    expected = {span.id for span in seen if span.name == RUN and compiled in span.links}
    assert expected
    assert search(sent, of_trace(compiled)).keys() == expected


def of_trace(trace_id):
    """The search for runs that link to a trace."""
    return re.sub(
        'traceID = ".*?"', f'traceID = "{trace_id.lstrip("0")}"', QUERIES["Runs of the engines of a compilation"]
    )


@needs_tempo
def test_a_search_by_a_link_wants_the_trace_id_without_zeros_at_its_beginning(sent):
    made, linked = otlp.Ids(sent.begun_s + 2), b"\0" + otlp.Ids(sent.begun_s + 3).trace()[1:]
    run = otlp.make_span(made, "another run", made.trace())  # which no other search looks for
    run.start_time_unix_nano = run.end_time_unix_nano = time.time_ns()  # Tempo's searches miss what comes minutes late
    run.links.add(trace_id=linked, span_id=made.span())
    otlp.send(sent.collector.http, [run])
    query = of_trace(linked.hex()).replace(RUN, run.name)
    otlp.wait_until(lambda: search(sent, query).keys() == {run.span_id.hex()})
    assert search(sent, f'{{ link:traceID = "{linked.hex()}" }}') == {}


@needs_tempo
def test_the_search_for_fallback_shows_the_operators_their_counts_and_reasons(sent, seen):
    shown = {json.dumps(each, sort_keys=True) for each in search(sent, QUERIES["Which operators fell back"]).values()}
    assert [json.loads(each) for each in shown] == [
        {
            "torch_tensorrt.fallback.operators.counts": {"intValue": "1"},
            "torch_tensorrt.fallback.operators.names": {"stringValue": OPERATOR},
            "torch_tensorrt.fallback.operators.reasons": {"stringValue": "no_converter"},
            "torch_tensorrt.fallback.reason_classes": {"stringValue": "no_converter"},
            "torch.model.class": {"stringValue": "Fallback"},
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
        span.trace_id.lstrip("0"): span.seconds for span in [longest([each for each in spans if each.is_compilation()])]
    },
    "Compilations by outcome": lambda spans: Counter(
        "error" if span.failed else "unset" for span in spans if span.is_compilation()
    ),
    "Recompilations by what the guard concerns": lambda spans: Counter(
        span.attributes["torch.compile.recompile.class"]
        for span in spans
        if "torch.compile.recompile.class" in span.attributes
    ),
    "The longest compilation of each model": lambda spans: {
        model: longest(each).seconds
        for model, each in by(
            [span for span in spans if span.is_compilation()],
            lambda span: span.attributes["torch.model.class"],
        ).items()
    },
    "Time in each phase": lambda spans: {
        name: sum(span.seconds for span in each)
        for name, each in by([span for span in spans if span.is_phase()], lambda span: span.name).items()
    },
    "Errors by class": lambda spans: Counter(span.attributes.get("error.type", "nil") for span in spans if span.failed),
}


@needs_tempo
@pytest.mark.parametrize("heading", MEASURED)
def test_a_figure_of_the_page_is_the_one_of_the_spans(sent, seen, heading):
    assert measure(sent, QUERIES[heading]) == pytest.approx(MEASURED[heading](seen))


def test_every_query_of_the_page_is_tested_above():
    others = {
        "Requests that waited for a compilation",
        "Requests that waited for torch.compile",
        "What is compiling now",
        "Runs of the engines of a compilation",
    }
    assert QUERIES.keys() == FOUND.keys() | MEASURED.keys() | others
    assert len(QUERIES) == PAGE.count("```traceql\n")
