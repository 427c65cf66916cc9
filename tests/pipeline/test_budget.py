# SPDX-License-Identifier: Apache-2.0
"""Real compilations with more work in them than a trace has room for."""

import functools
from collections import Counter

import pytest
import torch
import torch_tensorrt

import torchspan.start.bridge
from support.tree import named

COMPILE, CONVERT, BUILD = "torch_tensorrt.compile", "torch_tensorrt.convert", "tensorrt.build_engine"


class Alternating(torch.nn.Module):
    """So many engines of one operator, with one that the user left to PyTorch after each."""

    def __init__(self, engines):
        super().__init__()
        self.engines = engines

    def forward(self, x):
        for _ in range(self.engines):
            x = torch.tanh(torch.relu(x))
        return x


def compiled(engines):
    return torch_tensorrt.compile(
        Alternating(engines).eval(),
        ir="dynamo",
        inputs=[torch.ones(2, 4)],
        min_block_size=1,
        torch_executed_ops={"torch.ops.aten.tanh.default"},
    )


def reported(spans):
    """phase -> how often it is there, as a span or as a step of one."""
    found = Counter(span.name.partition(" ")[0] for span in spans)
    for span in spans:
        steps = (span.attributes.get(f"torchspan.steps.{each}", ()) for each in ("names", "counts"))
        for name, count in zip(*steps, strict=True):
            found[name.partition(" ")[0]] += count
    return found


@pytest.mark.slow
def test_a_compilation_with_300_engines_stays_below_2000_spans_with_every_conversion_and_build(
    instrument, exporter, metrics
):
    instrument(detail="passes", build_phases="on")
    compiled(300)
    spans = exporter.get_finished_spans()
    names = Counter(span.name.partition(" ")[0] for span in spans)
    assert len(spans) < 2000
    assert len({span.context.trace_id for span in spans}) == 1
    assert (names[CONVERT], names[BUILD], names[COMPILE]) == (300, 300, 1)
    assert named(spans, COMPILE).attributes["torch_tensorrt.engines.count"] == 300
    folded = sum(span.attributes.get("torchspan.folded.count", 0) for span in spans)
    assert folded > 2000
    assert metrics.values("torchspan.span.dropped", "torchspan.dropped.reason") == {"budget": folded}
    everything = {
        **metrics.counts("torch_tensorrt.phase.duration", "torchspan.phase"),
        **metrics.counts("torch.phase.duration", "torchspan.phase"),
    }
    assert len(spans) + folded == sum(everything.values()) + 1
    found = reported(spans)
    assert {name: found[name] for name in everything} == everything
    assert everything["torch_tensorrt.construct_network"] == 300
    for span in spans:
        assert sum(span.attributes.get("torchspan.steps.durations", ())) <= (span.end_time - span.start_time) / 1e9


def test_with_little_room_the_compilation_tells_what_was_in_it(instrument, exporter, monkeypatch):
    small = functools.partial(torchspan.start.bridge.writer.SpanWriter, spans_per_trace=20)
    monkeypatch.setattr("torchspan.start.bridge.writer.SpanWriter", small)
    instrument(build_phases="on")
    module = compiled(6)
    x = torch.linspace(-1, 1, 8).reshape(2, 4)
    assert torch.allclose(module(x), Alternating(6)(x))
    compilation = named(exporter.get_finished_spans(), COMPILE)
    spans = [span for span in exporter.get_finished_spans() if span.context.trace_id == compilation.context.trace_id]
    assert len(spans) == 20
    assert reported(spans)[CONVERT] == reported(spans)[BUILD] == 6
    ids = {span.context.span_id for span in spans}
    assert all(span is compilation or span.parent.span_id in ids for span in spans)


def test_an_exception_in_a_conversion_that_was_folded_is_reported_on_the_compilation(instrument, exporter, monkeypatch):
    from torch_tensorrt.dynamo.conversion import _ConverterRegistry as registry
    from torch_tensorrt.dynamo.conversion import dynamo_tensorrt_converter

    operator, error = torch.ops.aten.special_i1e.default, ValueError("boom")

    class Late(Alternating):
        def forward(self, x):
            return torch.special.i1e(super().forward(x))

    def fails(*_args):
        raise error

    monkeypatch.setattr(
        "torchspan.start.bridge.writer.SpanWriter",
        functools.partial(torchspan.start.bridge.writer.SpanWriter, spans_per_trace=9),
    )
    instrument()
    dynamo_tensorrt_converter(operator)(fails)
    try:
        with pytest.raises(ValueError) as caught:
            torch_tensorrt.compile(
                Late(2).eval(),
                ir="dynamo",
                inputs=[torch.ones(2, 4)],
                min_block_size=1,
                torch_executed_ops={"torch.ops.aten.tanh.default"},
            )
    finally:
        registry.DYNAMO_ATEN_CONVERTERS.pop(operator, None)
    assert caught.value is error
    spans = exporter.get_finished_spans()
    assert len(spans) == 9
    (failed,) = [span for span in spans if "error.type" in span.attributes]
    assert failed.name == COMPILE
    # Warnings of TensorRT-RTX 1.4, which torch_tensorrt 2.11 and 2.12 have, are events as well.
    (event,) = [event for event in failed.events if event.name != "tensorrt.log"]
    assert event.name == "exception"
    assert event.attributes["exception.type"] == "ValueError"
    assert event.attributes["code.function.name"].endswith("fails")
