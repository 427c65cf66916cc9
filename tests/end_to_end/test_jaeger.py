# SPDX-License-Identifier: Apache-2.0
"""Real compilations by OTLP through the Collector to Jaeger: what comes back from its API is what the processes emitted."""

import time
import urllib.parse

import pytest

from support import backends, fetched, otlp

pytestmark = pytest.mark.needs("otelcol-torchspan", "jaeger")
each_protocol = pytest.mark.parametrize("protocol", ["grpc", "http"])


@pytest.fixture(scope="module")
def sent(send_known_set):
    with backends.jaeger() as jaeger, send_known_set(jaeger) as sent:
        yield sent


def from_jaeger(sent, protocol):
    return fetched.whole(fetched.from_jaeger, sent.backend, sent.messages(protocol))


def test_the_set_has_each_part_of_a_span_that_is_compared(sent):
    spans = sent.emitted["grpc"].spans()
    assert [span.status.code for span in spans if span.name == "torch_tensorrt.compile"] == [0, 0, 0, otlp.ERROR.code]
    assert {span.name for span in spans if not span.parent_span_id} >= {"torch_tensorrt.compile", "POST /predict"}
    # TensorRT-RTX 1.4 logs errors where there is no GPU.
    assert {event.name for span in spans for event in span.events} - {"tensorrt.log"} == {
        "exception",
        "torchspan.observer",
        "torch.compile.graph_break",
        "torch.compile.recompile",
        "torch.compile.recompile_limit",
    }
    assert any(span.links for span in spans)
    assert {each.value.WhichOneof("value") for span in spans for each in span.attributes} == {
        *("string_value", "int_value", "double_value", "bool_value", "array_value")
    }


@each_protocol
def test_what_leaves_the_collector_is_what_was_emitted(sent, protocol):
    emitted = otlp.plain(sent.messages(protocol))
    assert otlp.plain(sent.in_file(protocol)) == emitted
    assert sum(len(fetched.spans([message])) for message in sent.in_file(protocol)) == len(emitted)


@each_protocol
def test_jaeger_gives_back_every_span_with_all_that_it_keeps(sent, protocol):
    found = fetched.in_any_order(from_jaeger(sent, protocol))
    assert otlp.plain(found) == otlp.plain(fetched.as_kept_by_jaeger(sent.backend, sent.messages(protocol)))


@each_protocol
def test_jaeger_has_each_span_once(sent, protocol):
    ids = [span.span_id for span in fetched.spans(from_jaeger(sent, protocol))]
    assert len(ids) == len(set(ids))


@each_protocol
def test_jaegers_search_by_service_finds_those_traces_and_no_others(sent, protocol):
    asked = urllib.parse.urlencode(
        {"service": f"known-{protocol}", "limit": 100, "start": sent.begun_s * 1_000_000, "end": time.time_ns() // 1000}
    )
    found = fetched.get_json(f"{sent.backend.api}/api/traces?{asked}")["data"]
    assert {trace["traceID"] for trace in found} == {span.trace_id.hex() for span in sent.emitted[protocol].spans()}


def test_of_a_span_with_every_part_jaeger_loses_what_is_known_and_nothing_else(sent):
    message = otlp.with_every_part(sent.begun_s)
    otlp.post(sent.collector.http, message)
    found = fetched.in_any_order(fetched.whole(fetched.from_jaeger, sent.backend, [message]))
    assert otlp.plain(found) == otlp.plain(fetched.as_kept_by_jaeger(sent.backend, [message]))
