# SPDX-License-Identifier: Apache-2.0
"""Runs of compiled graphs as spans: with a setting."""

import pytest
import torch
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from dynamo.test_frames import counted
from support import compiled
from support.emitted import EMITTED
from torchspan import observers
from torchspan.sdk import TorchspanSampler

pytestmark = pytest.mark.slow

ONES = torch.ones(3, 3)
GRAPH = "torch.run_graph"


@pytest.fixture
def recording(instrument, dynamo):
    """The bridge is enabled, with the setting."""
    return instrument(graph_runs=True)


@pytest.fixture
def request_span(tracer):
    with tracer.start_as_current_span("request") as span:
        yield span


# --- runs of graphs ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_each_run_of_a_graph_is_a_span_linked_to_its_frame(recording, request_span, spans, backend):
    function = torch.compile(compiled.plain, backend=backend)
    function(ONES)
    function(ONES)
    (made,), runs = spans("torch.compile_frame"), spans(GRAPH)
    assert [(span.parent.span_id, [link.context for link in span.links]) for span in runs] == [
        (request_span.context.span_id, [made.context])
    ] * 2
    assert dict(runs[0].attributes) == {
        "torch.compile.id": "0/0",
        "code.function.name": "plain",
        "code.file.path": "support/compiled.py",
        "code.line.number": 7,
    }


def test_runs_beyond_ten_a_second_are_counted_on_the_span_around_them(recording, tracer, spans, monkeypatch):
    function = torch.compile(compiled.plain, backend="eager")
    with tracer.start_as_current_span("request") as request:
        for _ in range(60):
            function(ONES)
    recorded = len(spans(GRAPH))
    assert 10 <= recorded <= 50
    assert request.attributes["torch.run_graph.folded.count"] == 60 - recorded
    assert request.attributes["torch.run_graph.folded.duration.sum"] > 0
    assert request.attributes["torch.run_graph.folded.duration.max"] > 0


def test_what_a_graph_raises_is_on_the_span_of_its_run(recording, request_span, spans):
    def backend(_module, _inputs):
        def failing(*_args):
            raise ValueError("ulterior secret of the program")

        return failing

    with pytest.raises(ValueError, match="ulterior"):
        torch.compile(compiled.plain, backend=backend)(ONES)
    (run,) = spans(GRAPH)
    assert run.attributes["error.type"] == "ValueError"


def test_runs_outside_every_span_are_picked_by_the_share_of_engine_runs(instrument, exporter, dynamo):
    for share, expected in ((0.0, 0), (1.0, 3)):
        exporter.clear()
        dynamo.reset()
        provider = TracerProvider(sampler=TorchspanSampler(f"execute={share}"), shutdown_on_exit=False)
        for each in (exporter, EMITTED):
            provider.add_span_processor(SimpleSpanProcessor(each))
        instrument(tracer_provider=provider, graph_runs=True)
        function = torch.compile(compiled.plain, backend="eager")
        for _ in range(3):
            function(ONES)
        names = [span.name for span in exporter.get_finished_spans()]
        assert names.count(GRAPH) == expected


def test_observers_have_every_run_also_those_without_a_span(recording, spans):
    seen = []
    added = observers.torch.run_graph.pre.add(lambda _context: seen.append(1))
    try:
        function = torch.compile(compiled.plain, backend="eager")
        function(ONES)
        function(ONES)
    finally:
        added.remove()
    assert len(seen) == 2
    assert spans(GRAPH) == []


@pytest.mark.parametrize("function", [compiled.plain, compiled.breaks_twice, compiled.calls_a_disabled_function])
def test_graphs_breaks_guards_and_results_are_the_same_as_without_the_setting(instrument, function):
    inputs = (ONES, ONES, torch.ones(4, 3))
    instrument(graph_runs=True)
    observed = counted(function, *inputs, backend="eager")
    instrument().uninstrument()
    assert counted(function, *inputs, backend="eager") == observed


# --- off -----------------------------------------------------------------------------------------------------------------
def test_without_the_setting_a_run_has_no_span(request_span, exporter):
    function = torch.compile(compiled.plain, backend="eager")
    function(ONES)
    function(ONES)
    assert GRAPH not in {span.name for span in exporter.get_finished_spans()}


def test_after_uninstrumenting_what_was_compiled_before_runs_without_spans(recording, request_span, exporter):
    function = torch.compile(compiled.plain, backend="eager")
    function(ONES)
    recording.uninstrument()
    exporter.clear()
    assert function(ONES).shape == (3, 3)
    assert exporter.get_finished_spans() == ()
