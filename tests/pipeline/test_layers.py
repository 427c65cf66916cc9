# SPDX-License-Identifier: Apache-2.0
"""Layer times of engines that Torch-TensorRT has built and runs, with TensorRT's own profiler interface."""

import sys

import pytest
import torch
import torch_tensorrt

import torchspan
from support import models
from support.layered_context import layer

pytestmark = pytest.mark.stand_in_only("layers are reported by the test; tests/gpu has those of TensorRT")

EXECUTE = "torch_tensorrt.execute"


@pytest.fixture
def compiled(instrument):
    """A compiled net with one engine."""
    instrument()
    x = models.image()
    return torch_tensorrt.compile(models.seeded(models.ConvNet), ir="dynamo", inputs=[x], min_block_size=1), x


def context_of(module):
    """The execution context of the only engine, after its first run."""
    (child,) = (child for _, child in module.named_children() if hasattr(child, "serialized_engine"))
    fields = vars(child.engine) if "_context" in vars(child.engine) else vars(child)
    return fields.get("_context") or fields["context"]


def profiler_interface():
    return (sys.modules.get("tensorrt") or sys.modules["tensorrt_rtx"]).IProfiler


def runs(exporter):
    return [span for span in exporter.get_finished_spans() if span.name == EXECUTE]


def test_the_last_run_asked_for_has_the_table_and_results_are_the_same(compiled, exporter, tracer):
    module, x = compiled
    expected = module(x)
    context = context_of(module)
    layer(
        context,
        ("[CONVOLUTION]-[aten_ops.convolution.default]-[stem]", 3.0),
        ("__myl_Pool", 1.0),
        ("naïve", 4.0),
        interface=profiler_interface(),
    )
    torchspan.layers(runs=2)
    with tracer.start_as_current_span("request"):
        results = [module(x) for _ in range(3)]
    assert all(torch.equal(result, expected) for result in results)
    tables = [{key: value for key, value in span.attributes.items() if ".layers." in key} for span in runs(exporter)]
    assert tables == [
        {},
        {},
        {
            "tensorrt.layers.names": ("?", "[CONVOLUTION]-[aten_ops.convolution.default]-[?]", "__myl_Pool"),
            "tensorrt.layers.durations": (0.004, 0.003, 0.001),
            "tensorrt.layers.shares": (0.5, 0.375, 0.125),
            "tensorrt.layers.runs": 2,
        },
        {},
    ]
    assert (context.enqueue_emits_profile, context.profiler.ms) == (False, {})


def test_the_layers_beyond_forty_are_counted_and_summed(compiled, exporter, tracer):
    module, x = compiled
    module(x)
    layer(context_of(module), *((f"layer {number}", 1.0) for number in range(42)), interface=profiler_interface())
    torchspan.layers(runs=1)
    with tracer.start_as_current_span("request"):
        module(x)
    attributes = runs(exporter)[-1].attributes
    assert len(attributes["tensorrt.layers.names"]) == 40
    assert attributes["tensorrt.layers.omitted.count"] == 2
    assert attributes["tensorrt.layers.omitted.duration"] == 0.002


def test_a_name_that_is_not_utf_8_costs_that_layer_alone(compiled, exporter, tracer, capfd):
    module, x = compiled
    module(x)
    layer(context_of(module), (b"\xff", 1.0), ("__myl_Conv", 1.0), interface=profiler_interface())
    torchspan.layers(runs=1)
    with tracer.start_as_current_span("request"):
        module(x)
    assert runs(exporter)[-1].attributes["tensorrt.layers.names"] == ("__myl_Conv",)
    assert "UnicodeDecodeError" in capfd.readouterr().err


def test_a_profiler_of_the_program_is_restored_as_the_same_object(compiled, tracer, capfd):
    module, x = compiled
    module(x)
    interface = profiler_interface()
    context = context_of(module)
    layer(context, ("conv", 0.5), interface=interface)
    printing = context.profiler = sys.modules[interface.__module__].Profiler()
    torchspan.layers(runs=1)
    with tracer.start_as_current_span("request"):
        module(x)
    assert context.profiler is printing
    assert "conv: 0.5ms" in capfd.readouterr().out


def test_the_stand_in_of_a_context_refuses_with_one_line_and_the_program_continues(compiled, tracer, caplog):
    module, x = compiled
    expected = module(x)
    torchspan.layers(runs=1)
    with tracer.start_as_current_span("request"):
        assert torch.equal(module(x), expected)
        module(x)
    assert [record.getMessage() for record in caplog.records if record.name == "torchspan"] == [
        "torchspan records no layer times of engine _run_on_acc_0: its execution context takes no profiler (NeedsGpuError)."
    ]
