# SPDX-License-Identifier: Apache-2.0
"""The user's callbacks on real compilations: phases of the bridge and ranges of the program, one registry."""

import pytest
import torch
import torch_tensorrt
from opentelemetry import trace

from pipeline.expected import VERSION, since_2_13
from support import models
from support.tree import without_clocks
from torchspan import callbacks, observers, phase
from torchspan.callbacks import RecordFunctionCallback, add_global_callback, record_function
from torchspan.engine.subscribers.callback_registry import REGISTRY
from torchspan.engine.subscribers.recording import RECORDING

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _nothing_is_registered():
    assert not callbacks.has_callbacks()
    yield
    callbacks.clear_callbacks()


def compiled():
    model, x = models.seeded(models.Mlp), torch.ones(2, 16)
    return torch_tensorrt.compile(model, ir="dynamo", inputs=[x], min_block_size=1)


def test_a_callback_runs_around_the_phases_it_selects_inside_their_spans(instrument, exporter):
    instrument()
    seen = []

    def start(record):
        seen.append((record.name, trace.get_current_span().name))
        return record.name

    def end(record, name):
        seen.append((f"end of {name}", record.error))

    add_global_callback(RecordFunctionCallback(start, end, scopes={phase.COMPILE, phase.BUILD_ENGINE}))
    compiled()
    assert seen == [
        ("torch_tensorrt.compile", "torch_tensorrt.compile"),
        ("tensorrt.build_engine", "tensorrt.build_engine"),
        ("end of tensorrt.build_engine", None),
        ("end of torch_tensorrt.compile", None),
    ]
    assert {span.name for span in exporter.get_finished_spans()} >= {"torch_tensorrt.compile", "tensorrt.build_engine"}


def test_ranges_of_the_program_and_phases_are_one_tree_for_sampling(instrument):
    instrument()
    seen = []
    settings = {"sampling_prob": 0.5, "sampling_mode": callbacks.SamplingMode.PER_ROOT}
    scopes = {callbacks.RecordScope.USER_SCOPE, phase.COMPILE, phase.PARTITION}
    add_global_callback(RecordFunctionCallback(lambda record: seen.append(record.name), scopes=scopes, **settings))
    found = set()
    callbacks.set_record_function_seed_for_testing(1)
    for _ in range(6):
        seen.clear()
        with record_function("prepare"):
            compiled()
        found.add(tuple(seen))
    assert found == {(), ("prepare", "torch_tensorrt.compile", "torch_tensorrt.partition")}


def test_a_callback_that_fails_changes_neither_the_compilation_nor_its_spans(instrument, exporter, caplog):
    instrument()

    def fails(_record):
        raise RuntimeError("the callback's")

    add_global_callback(RecordFunctionCallback(fails))
    result = compiled()(torch.ones(2, 16))
    torch.testing.assert_close(result, models.seeded(models.Mlp)(torch.ones(2, 16)), rtol=1e-3, atol=1e-3)
    (span,) = [span for span in exporter.get_finished_spans() if span.name == "torch_tensorrt.compile"]
    assert span.status.is_unset
    assert sum("has been disabled" in record.getMessage() for record in caplog.records) == 1


def test_callbacks_outlive_the_bridge_and_the_bridge_leaves_nothing_behind(instrument):
    seen = []
    add_global_callback(RecordFunctionCallback(lambda record: seen.append(record.name)))
    instrumentor = instrument()
    compiled()
    assert "torch_tensorrt.compile" in seen
    instrumentor.uninstrument()
    assert REGISTRY.silent(phase.PHASES) == list(phase.PHASES)
    assert RECORDING.recorder is None
    assert [each for each in phase.PHASES if REGISTRY.interest(each)._watchers] == []
    seen.clear()
    compiled()
    with record_function("still heard"):
        pass
    assert seen == ["still heard"]


# --- runs of engines ------------------------------------------------------------------------------------------
def heard_runs(**settings):
    """Names of the runs that a callback receives."""
    seen = []
    add_global_callback(
        RecordFunctionCallback(lambda record: seen.append(record.name), scopes={phase.EXECUTE}, **settings)
    )
    return seen


def runs(module, count, x=None):
    x = torch.ones(2, 16) if x is None else x
    for _ in range(count):
        module(x)


def test_a_callback_receives_every_run_of_an_engine_whatever_becomes_a_span(instrument, exporter, tracer):
    instrument()
    module = compiled()
    seen = heard_runs()
    runs(module, 15)
    with tracer.start_as_current_span("request"):
        runs(module, 15)
    assert seen == ["torch_tensorrt.execute"] * 30
    names = [span.name for span in exporter.get_finished_spans()]
    assert names.count("torch_tensorrt.execute") == 11  # the first run, and ten in a second
    (request,) = [span for span in exporter.get_finished_spans() if span.name == "request"]
    assert request.attributes["torch_tensorrt.execute.folded.count"] == 5


def test_a_sampled_callback_receives_its_share_of_runs(instrument):
    instrument()
    module = compiled()
    seen = heard_runs(sampling_prob=0.1)
    callbacks.set_record_function_seed_for_testing(1)
    runs(module, 400)
    assert 20 <= len(seen) <= 70


def test_runs_that_a_callback_receives_are_in_the_metric_once(instrument, metrics):
    instrument()
    module = compiled()
    heard_runs()
    runs(module, 7)
    (point,) = metrics.read()["torch_tensorrt.execute.duration"]
    assert point.count == 7


def test_an_official_observer_receives_every_run_with_its_tensors(instrument):
    from torchspan import observers

    instrument()
    module, seen = compiled(), []

    def shape(context):
        """Up to 2.12 a run is a call of the Python runtime's module, and since then of an operator that is given a list."""
        return tuple((context.args[1] if VERSION < (2, 13) else context.args[0][0]).shape)

    with observers.torch_tensorrt.execute.post.add(lambda context: seen.append((shape(context), context.outcome))):
        runs(module, 15)
    runs(module, 1)
    assert seen == [((2, 16), "returned")] * 15


@since_2_13
def test_shapes_that_an_export_asks_for_are_not_run(instrument):
    instrument()
    module = compiled()
    seen = heard_runs()
    torch.export.export(module, (torch.ones(2, 16),))
    assert seen == []


# --- what is recorded only where it is asked for ----------------------------------------------------------------
def test_a_callback_receives_lowering_passes_also_where_they_are_not_spans(instrument, exporter):
    seen = []
    instrument(detail="stages")
    add_global_callback(RecordFunctionCallback(lambda record: seen.append(record.name), scopes={phase.PASS}))
    compiled()
    assert "torch_tensorrt.pass constant_fold" in seen
    spans = exporter.get_finished_spans()
    assert [span.name for span in spans if span.name.startswith("torch_tensorrt.pass")] == []
    callbacks.clear_callbacks()
    exporter.clear()
    compiled()
    without = [(span.name, sorted(without_clocks(span.attributes))) for span in exporter.get_finished_spans()]
    assert [(span.name, sorted(without_clocks(span.attributes))) for span in spans] == without


def test_what_a_lowering_pass_raises_is_in_the_callback_and_on_the_span_around_it(instrument, exporter, monkeypatch):
    from torch_tensorrt.dynamo.lowering.passes import _aten_lowering_pass as passes

    error, seen = LookupError("the pass's own"), []

    def fails(_gm, _settings):
        raise error

    manager = passes.ATEN_POST_LOWERING_PASSES
    monkeypatch.setattr(manager, "passes", [*manager.passes, fails])
    instrument(detail="stages")
    ends = RecordFunctionCallback(
        lambda _record: None, lambda record, _context: seen.append(record.error), scopes={phase.PASS}
    )
    add_global_callback(ends)
    with pytest.raises(LookupError):
        compiled()
    assert seen[-1] is error
    events = {span.name: [event.name for event in span.events] for span in exporter.get_finished_spans()}
    assert (events["torch_tensorrt.lower"], events["torch_tensorrt.compile"]) == (["exception"], [])


def test_listening_to_tensorrts_phases_where_nothing_reports_them_is_said(instrument, caplog):
    instrument(build_phases="off")
    for _ in range(3):
        add_global_callback(RecordFunctionCallback(print, scopes={phase.BUILD_PHASE}))
    (warning,) = [record.getMessage() for record in caplog.records if record.name == "torchspan"]
    assert warning == (
        f"A callback was registered on {phase.BUILD_PHASE.name}, which nothing fires yet: "
        "TORCHSPAN_BUILD_PHASES is `off`; set it to `on`."
    )
    callbacks.clear_callbacks()
    caplog.clear()
    instrument(build_phases="on")
    add_global_callback(RecordFunctionCallback(print, scopes={phase.BUILD_PHASE}))
    assert [record.getMessage() for record in caplog.records if record.name == "torchspan"] == []


def test_adding_to_an_observer_of_build_phases_that_are_off_says_why_they_are(instrument, caplog):
    instrument()
    for _ in range(3):
        observers.tensorrt.build_phase.pre.add(print).remove()
    (warning,) = [record.getMessage() for record in caplog.records if record.name == "torchspan"]
    assert warning == (
        "A callback was added to torchspan.observers.tensorrt.build_phase, and nothing fires it yet: "
        "TORCHSPAN_BUILD_PHASES is `auto`, which enables them only under `torchspan run` with TensorRT-RTX; set it to `on`."
    )
