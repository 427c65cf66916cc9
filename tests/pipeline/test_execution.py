# SPDX-License-Identifier: Apache-2.0
"""Runs of compiled modules: which become spans, which are folded, and that nothing else changes."""

import sys
import threading
import time
import types

import pytest
import torch
import torch_tensorrt
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from pipeline.expected import since_2_13
from support import models
from support.tree import assert_times_nest, named, outline

INPUT = torch.ones(2, 16)
pytestmark = pytest.mark.usefixtures("instrument")


def compiled():
    model = models.seeded(models.Mlp)
    return torch_tensorrt.compile(model, ir="dynamo", inputs=[INPUT], min_block_size=1)


def runs(spans):
    return [span for span in spans if span.name == "torch_tensorrt.execute"]


def test_without_a_span_around_it_only_the_first_run_of_an_engine_is_a_span(instrument, exporter):
    instrument()
    module = compiled()
    for _ in range(5):
        module(INPUT)
    (run,) = runs(exporter.get_finished_spans())
    assert run.attributes["torch_tensorrt.execute.first"] is True
    assert run.parent is None


def test_the_first_run_links_to_the_compilation_that_made_the_engine(instrument, exporter, tracer):
    instrument()
    with tracer.start_as_current_span("build job"):
        module = compiled()
    with tracer.start_as_current_span("request"):
        module(INPUT)
    spans = exporter.get_finished_spans()
    (run,) = runs(spans)
    compilation = named(spans, "torch_tensorrt.compile").get_span_context()
    assert [link.context for link in run.links] == [compilation]
    assert run.parent.span_id == named(spans, "request").get_span_context().span_id


def test_a_run_with_other_shapes_than_the_last_one_is_marked(instrument, exporter, tracer):
    instrument()
    rows = torch_tensorrt.Input(min_shape=(1, 16), opt_shape=(4, 16), max_shape=(8, 16), dtype=torch.float32)
    module = torch_tensorrt.compile(models.seeded(models.Mlp), ir="dynamo", inputs=[rows], min_block_size=1)
    with tracer.start_as_current_span("request"):
        for count in (7, 7, 3, 3, 7):
            module(torch.ones(count, 16))
    found = [run.attributes.get("torch_tensorrt.execute.shapes_changed") for run in runs(exporter.get_finished_spans())]
    assert found == [None, None, True, None, True]


def test_below_a_recording_span_runs_beyond_the_rate_are_folded_into_it(instrument, exporter, tracer, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("torchspan.engine.rate_limits.time", types.SimpleNamespace(perf_counter=lambda: now[0]))
    instrument()
    module = compiled()
    exporter.clear()
    with tracer.start_as_current_span("request"):
        for _ in range(25):
            module(INPUT)
    spans = exporter.get_finished_spans()
    request = named(spans, "request").attributes
    # The first run is a span whatever the rate; ten more fit the second.
    assert len(runs(spans)) == 11
    assert request["torch_tensorrt.execute.folded.count"] == 14
    assert (
        0
        < request["torch_tensorrt.execute.folded.duration.max"]
        < request["torch_tensorrt.execute.folded.duration.sum"]
    )


def test_below_a_span_that_does_not_record_runs_pass(instrument, exporter):
    instrument()
    module = compiled()
    module(INPUT)
    exporter.clear()
    unsampled = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False).get_tracer("user")
    with unsampled.start_as_current_span("request"):
        module(INPUT)
        assert not trace.get_current_span().is_recording()
    assert runs(exporter.get_finished_spans()) == []


def test_names_that_a_program_took_before_we_were_on_are_observed_too(instrument, exporter, monkeypatch):
    program = types.ModuleType("program_of_the_user")
    program.compile = torch_tensorrt.compile
    monkeypatch.setitem(sys.modules, program.__name__, program)
    instrumentor = instrument()
    program.compile(models.seeded(models.Mlp), ir="dynamo", inputs=[INPUT], min_block_size=1)
    assert outline(exporter.get_finished_spans())[0].startswith("torch_tensorrt.compile\n")
    instrumentor.uninstrument()
    assert program.compile is torch_tensorrt.compile


def test_the_program_keeps_its_own_span_current(instrument, tracer):
    instrument()
    module = compiled()
    with tracer.start_as_current_span("request") as request:
        module(INPUT)
        assert trace.get_current_span() is request


@pytest.mark.parametrize(
    ("shape", "dtype", "events"),
    [
        pytest.param(
            (3, 5),
            torch.float32,
            ["tensorrt.log", "exception"],  # TensorRT's own line says what it refused
            marks=pytest.mark.stand_in_only("a real engine runs without an exception"),
        ),
        ((2, 16), torch.int32, ["exception"]),
    ],
    ids=["shape", "dtype"],
)
def test_an_exception_in_a_run_marks_it_and_is_the_users(instrument, exporter, tracer, shape, dtype, events):
    instrument()
    module = compiled()
    with tracer.start_as_current_span("request", record_exception=False), pytest.raises(Exception) as caught:
        module(torch.ones(shape, dtype=dtype))
    run = runs(exporter.get_finished_spans())[-1]
    assert run.attributes["error.type"] == type(caught.value).__name__
    assert [event.name for event in run.events] == events


@since_2_13
def test_a_loaded_program_is_seen_as_well(instrument, exporter, tmp_path):
    path = str(tmp_path / "model.ep")
    module = compiled()
    expected = module(INPUT)
    torch_tensorrt.save(module, path, arg_inputs=[INPUT])
    instrument()
    loaded = torch_tensorrt.load(path).module()
    exporter.clear()
    assert torch.equal(loaded(INPUT), expected)
    assert len(runs(exporter.get_finished_spans())) == 1


@since_2_13
def test_compiling_a_compiled_module_again_breaks_no_graph_and_every_run_is_seen(instrument, exporter, tracer):
    instrument()
    module = compiled()
    counter = torch._dynamo.testing.CompileCounter()
    again = torch.compile(module, backend=counter, fullgraph=True)
    exporter.clear()
    with tracer.start_as_current_span("request"):
        for _ in range(3):
            again(INPUT)
    assert counter.frame_count == 1
    assert len(runs(exporter.get_finished_spans())) == 3


@since_2_13
@pytest.mark.parametrize("strict", [False, True], ids=["non-strict", "strict"])
def test_exporting_a_compiled_module_makes_no_span_for_fake_tensors(instrument, exporter, strict):
    instrument()
    module = compiled()
    exporter.clear()
    torch.export.export(module, (INPUT,), strict=strict)
    assert runs(exporter.get_finished_spans()) == []


def test_a_run_in_a_worker_started_inside_a_span_that_has_ended_begins_a_trace_of_its_own(instrument, exporter, tracer):
    instrument()
    module = compiled()
    exporter.clear()
    request = tracer.start_span("request")
    with trace.use_span(request):
        request.end()
        again = torch_tensorrt.compile(models.seeded(models.Mlp), ir="dynamo", inputs=[INPUT], min_block_size=1)
    assert again is not module
    compilation = named(exporter.get_finished_spans(), "torch_tensorrt.compile")
    assert compilation.parent is None
    assert [link.context for link in compilation.links] == [request.get_span_context()]
    assert outline(exporter.get_finished_spans())[0] == "request"


def test_times_of_children_lie_inside_their_parents_and_siblings_do_not_overlap(instrument, exporter):
    instrument(detail="passes", build_phases="on")
    start = time.time_ns()
    compiled()(INPUT)
    spans = exporter.get_finished_spans()
    assert all(start <= span.start_time <= span.end_time <= time.time_ns() for span in spans)
    assert_times_nest(spans)


@pytest.mark.parametrize("place", ["torchspan.engine.Decisions.decide", "torchspan.engine.RunTally.add"])
def test_a_failure_of_torchspan_alongside_a_run_is_logged_and_the_run_is_the_users(
    instrument, tracer, monkeypatch, caplog, place
):
    def fails(*args):
        raise KeyError("torchspans")

    monkeypatch.setattr(place, fails)
    instrument()
    module = compiled()
    with tracer.start_as_current_span("request"):
        results = [module(INPUT) for _ in range(15)]
    assert all(torch.equal(result, results[0]) for result in results)
    assert any("the program continues, with less telemetry" in message for message in caplog.messages)


def test_runs_are_counted_and_recorded_while_another_thread_is_inside_torch_compile(
    instrument, exporter, tracer, metrics
):
    instrument()
    module = compiled()
    exporter.clear()
    metrics.read()
    inside, finish = threading.Event(), threading.Event()

    def waiting_backend(graph, _inputs):
        inside.set()
        assert finish.wait(60)
        return graph.forward

    compiling = threading.Thread(target=torch.compile(lambda x: x + 1, backend=waiting_backend), args=(INPUT,))
    compiling.start()
    try:
        assert inside.wait(60)
        with tracer.start_as_current_span("request"):
            for _ in range(200):
                module(INPUT)
    finally:
        finish.set()
        compiling.join()
    spans = exporter.get_finished_spans()
    request = named(spans, "request").attributes
    assert len(runs(spans)) + request["torch_tensorrt.execute.folded.count"] == 200
    assert sum(point.count for point in metrics.read()["torch_tensorrt.execute.duration"]) == 200
