# SPDX-License-Identifier: Apache-2.0
"""The page docs/how-to/jaeger.md: each of its searches is asked in a real Jaeger, and finds what it says."""

import json
import re
import time
import urllib.parse
import urllib.request
from collections import defaultdict

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from support import backends, otlp
from torchspan.words import phase, semconv

PAGE = (backends.CONFIGURATIONS.parent / "docs" / "how-to" / "jaeger.md").read_text(encoding="utf-8")
SEARCHES = dict(re.findall(r"^\| ([^|]+) \| `(/search\?[^`]+)` \|$", PAGE, re.MULTILINE))
ERROR = {"status": otlp.ERROR}
COMPILE, BUILD, RUN = "torch_tensorrt.compile", "tensorrt.build_engine", "torch_tensorrt.execute"
FRAME = "torch.compile_frame"
KEEP = {"torchspan.keep": True}


def graph_break(kind):
    return Span.Event(
        name="torch.compile.graph_break", attributes=otlp.pairs({"torch.compile.graph_break.class": kind})
    )


SPANS = {
    # which: name, duration in ms, attributes, other fields
    "short": (COMPILE, 59_000, {**KEEP, "torch.model.class": "Net"}, {}),
    "long": (COMPILE, 61_000, {**KEEP, "torch.model.class": "ResNet"}, {}),
    "failed": (COMPILE, 1_000, KEEP, ERROR),
    "while serving": (
        COMPILE,
        1_000,
        {**KEEP, "torchspan.while_serving": True, "torchspan.serving.kind": "compilation"},
        {},
    ),
    "recompilation": (
        COMPILE,
        1_000,
        {**KEEP, "torchspan.while_serving": True, "torchspan.serving.kind": "recompilation"},
        {},
    ),
    "fell back": (COMPILE, 1_000, {**KEEP, "torch_tensorrt.fallback.reason_classes": ["compile_failed"]}, {}),
    "partly": (
        COMPILE,
        1_000,
        {**KEEP, "torch_tensorrt.fallback.reason_classes": ["no_converter", "min_block_size"]},
        {},
    ),
    "long build": (BUILD, 601_000, KEEP, {}),
    "build": (BUILD, 599_000, {**KEEP, "tensorrt.out_of_memory": True}, {}),
    "hit": ("torch_tensorrt.convert", 10, {**KEEP, "torch_tensorrt.engine_cache.result": "hit"}, {}),
    "rejected": ("torch_tensorrt.convert", 10, {**KEEP, "torch_tensorrt.engine_cache.result": "rejected"}, {}),
    "progress": ("torchspan.progress", 0, KEEP, {}),
    "run": (RUN, 249, {}, {}),
    "slow run": (RUN, 251, {}, {}),
    "failed run": (RUN, 1, {}, ERROR),
    "for a size": (
        FRAME,
        100,
        {
            **KEEP,
            "torch.compile.id": "0/1",
            "torch.compile.outcome": "compiled",
            "torch.compile.recompile.class": "size",
            "torchspan.while_serving": True,
            "torchspan.serving.kind": "recompilation",
        },
        {"events": [graph_break("requested")]},
    ),
    "for a value": (
        FRAME,
        100,
        {
            **KEEP,
            "torch.compile.id": "0/2",
            "torch.compile.outcome": "limit",
            "torch.compile.recompile.class": "value",
        },
        {},
    ),
    "fallen back": (
        FRAME,
        100,
        {**KEEP, "torch.compile.outcome": "fallen_back"},
        {"events": [graph_break("requested"), graph_break("data_dependent_branch")]},
    ),
    "slow request": ("POST /predict", 700_000, {}, {}),
    "failed request": ("POST /predict", 1, {}, ERROR),
}
COMPILATIONS = {which for which, (name, *_) in SPANS.items() if name == COMPILE}
FOUND = {
    "The compilations of a service": COMPILATIONS,
    "Those that took longer than a minute": {"long"},
    "Those that failed": {"failed"},
    "Those for which a request waited": {"while serving", "recompilation"},
    "Recompilations among them": {"recompilation"},
    "Frames of `torch.compile` for which a request waited": {"for a size"},
    "Those of one model": {"long"},
    "Those that failed and continued in PyTorch": {"fell back"},
    "Engine builds longer than 10 minutes": {"long build"},
    "Progress of builds, also of those that have not ended": {"progress"},
    "Engines that came from the cache": {"hit"},
    "Engines that the cache had, and that were built again": {"rejected"},
    "Frames of `torch.compile` that were compiled again for another size": {"for a size"},
    "Frames that reached a recompile limit": {"for a value"},
    "Frames that failed and run eagerly": {"fallen back"},
    "Frames whose graph broke at a branch about a tensor's values": {"fallen back"},
    "One frame, by the compile id that a log or tlparse names": {"for a size"},
    "Slow runs of engines": {"slow run"},
    "Runs that failed": {"failed run"},
    "Work for which TensorRT had too little memory": {"build"},
    "Everything that is worth keeping": {
        which for which, (_, _, attributes, _) in SPANS.items() if KEEP.items() <= attributes.items()
    },
    "What one instance did": set(SPANS),
}


@pytest.fixture(scope="module")
def sent():
    """trace id → which of `SPANS` it is."""
    return {}


@pytest.fixture(scope="module")
def jaeger(sent):
    """A Jaeger that has each of `SPANS` as a trace of its own, and the same ones of another service and instance."""
    made = otlp.Ids(1)
    with backends.jaeger() as running:
        for service, instance in (("app", "i1"), ("other", "i2")):
            spans = []
            for which, (name, duration_ms, attributes, fields) in SPANS.items():
                span = otlp.make_span(made, name, made.trace(), attributes=attributes, **fields)
                span.end_time_unix_nano = time.time_ns()
                span.start_time_unix_nano = span.end_time_unix_nano - round(duration_ms * otlp.MS)
                spans.append(span)
                if service == "app":
                    sent[span.trace_id.hex()] = which
            otlp.send(running.otlp, spans, resource={"service.name": service, "service.instance.id": instance})
        otlp.wait_until(lambda: len(found(running, "service=other&limit=100", {})) == len(SPANS))
        yield running


pytestmark = pytest.mark.needs("jaeger")


def found(jaeger, query, names):
    """Which traces the API finds for the query of a page's address."""
    asked = dict(urllib.parse.parse_qsl(query))
    now_us = time.time_ns() // 1000
    days = int(asked.pop("lookback", "2d").removesuffix("d"))
    asked |= {"start": now_us - days * 86_400_000_000, "end": now_us}
    with urllib.request.urlopen(f"{jaeger.api}/api/traces?{urllib.parse.urlencode(asked)}", timeout=30) as answer:
        traces = json.load(answer)["data"]
    return {names.get(trace["traceID"].zfill(32), trace["traceID"]) for trace in traces}


def of(search):
    """The query of a search on the page, of the service and the instance that were sent."""
    return SEARCHES[search].removeprefix("/search?").replace("SERVICE", "app").replace("INSTANCE", "i1")


def test_every_search_of_the_page_is_tested():
    assert set(SEARCHES) == set(FOUND)


@pytest.mark.parametrize("search", SEARCHES)
def test_a_search_of_the_page_finds_the_spans_it_names_and_no_others(jaeger, sent, search):
    assert found(jaeger, of(search), sent) == FOUND[search]


def test_the_page_searches_for_names_and_attributes_that_exist():
    asked = defaultdict(set)
    for search in SEARCHES:
        for key, value in urllib.parse.parse_qsl(of(search)):
            asked[key] |= set(json.loads(value)) if key == "tags" else {value}
    assert asked["operation"] <= {each.name for each in phase.SPANS}
    assert asked["tags"] <= set(semconv.ATTRIBUTES) | {"error", "service.instance.id"}
    assert set(asked) == {"service", "operation", "tags", "minDuration", "limit", "lookback"}


def test_a_list_is_matched_as_a_whole_and_in_its_order(jaeger, sent):
    def of_list(value):
        tags = json.dumps({"torch_tensorrt.fallback.reason_classes": value})
        return found(jaeger, urllib.parse.urlencode({"service": "app", "tags": tags, "limit": 20}), sent)

    assert of_list('["no_converter","min_block_size"]') == {"partly"}
    assert of_list('["min_block_size","no_converter"]') == set()
    assert of_list("no_converter") == set()


def test_the_command_of_the_page_finds_what_it_names(jaeger, sent):
    (tags,) = re.findall(r"--data-urlencode 'tags=(.*)'$", PAGE, re.MULTILINE)
    query = urllib.parse.urlencode({"service": "app", "tags": tags})
    assert found(jaeger, query, sent) == {"while serving", "recompilation", "for a size"}
