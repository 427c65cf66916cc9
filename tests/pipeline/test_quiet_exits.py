# SPDX-License-Identifier: Apache-2.0
"""The ways in which work leaves TensorRT silently, each with its reason.

A subgraph that `torch.compile` takes back after a failure, a graph that `min_block_size` skips, supported operators left
behind; for both partitioners and both ways to compile. And that an interrupt in the middle leaves nothing open.
"""

import asyncio
import gc

import pytest
import torch
import torch_tensorrt
from opentelemetry import context as context_api
from opentelemetry.trace import StatusCode
from torch.fx.passes.splitter_base import FxNetSplitterInternalError
from torch_tensorrt.dynamo import partitioning
from torch_tensorrt.dynamo.conversion import _ConverterRegistry as registry
from torch_tensorrt.dynamo.conversion import dynamo_tensorrt_converter

from support.models import raises
from support.tree import named, outline
from torchspan.engine import Engine

pytestmark = pytest.mark.slow

OPERATOR = torch.ops.aten.special_i1e.default
SPECIAL = "torch.ops.aten.special_i1e.default"
partitioners = pytest.mark.parametrize("fast", [True, False], ids=["fast", "global"])
routes = pytest.mark.parametrize("route", ["compile", "torch.compile"])


class Mixed(torch.nn.Module):
    """Three supported operators, an unsupported one, one supported, an unsupported one, three supported."""

    def forward(self, x):
        x = torch.special.i1e(torch.sigmoid(torch.relu(x) + 1))
        x = torch.special.erfcx(torch.tanh(x))
        return torch.sigmoid(torch.relu(x) * 2)


X = torch.ones(2, 8)


def run(route, model, x=X, **settings):
    """Compiles and runs; what the compiled model returns."""
    if route == "torch.compile":
        return torch.compile(model, backend="tensorrt", options=settings)(x)
    program = torch_tensorrt.dynamo.trace(model, arg_inputs=[x])
    return torch_tensorrt.dynamo.compile(program, arg_inputs=[x], **settings)(x)


def left(attributes):
    """operator -> (count, reason)."""
    names = attributes["torch_tensorrt.fallback.operators.names"]
    rows = zip(
        names,
        attributes["torch_tensorrt.fallback.operators.counts"],
        attributes["torch_tensorrt.fallback.operators.reasons"],
        strict=True,
    )
    found = {name: (count, reason) for name, count, reason in rows}
    assert len(found) == len(names)
    return found


@routes
@partitioners
def test_supported_operators_in_a_group_too_small_inside_a_graph_that_is_converted(
    instrument, exporter, trackers, route, fast
):
    instrument()
    run(route, Mixed().eval(), min_block_size=2, use_fast_partitioner=fast)
    (tracker,) = trackers
    attributes = named(exporter.get_finished_spans(), "torch_tensorrt.compile").attributes
    operators = left(attributes)
    assert operators == {
        SPECIAL: (1, "no_converter"),
        "torch.ops.aten.special_erfcx.default": (1, "no_converter"),
        "torch.ops.aten.tanh.default": (1, "min_block_size"),
    }
    assert attributes["torch_tensorrt.fallback.reason_classes"] == ("no_converter", "min_block_size")
    # What the library counts as unsupported is what has no converter; of the rest it says only where it runs.
    assert {n: c for n, (c, reason) in operators.items() if reason == "no_converter"} == tracker.unsupported_ops
    assert sum(count for count, _ in operators.values()) == len(tracker.to_run_in_torch)
    assert attributes["torch_tensorrt.operators.total"] == tracker.total_ops_in_graph == 9
    assert attributes["torch_tensorrt.operators.supported"] == tracker.supported_ops_in_graph == 7
    in_engines = sum(each.subgraph_op_count for each in tracker.per_subgraph_data)
    assert attributes["torch_tensorrt.operators.tensorrt"] == in_engines == 6
    assert attributes["torch_tensorrt.engines.count"] == tracker.tensorrt_graph_count == 2
    assert named(exporter.get_finished_spans(), "torch_tensorrt.compile").status.is_unset


@routes
@partitioners
def test_a_graph_below_min_block_size_is_skipped_whole_by_policy(instrument, exporter, trackers, route, fast):
    instrument()
    model = Mixed().eval()
    assert torch.equal(run(route, model, min_block_size=50, use_fast_partitioner=fast), model(X))
    compilation = named(exporter.get_finished_spans(), "torch_tensorrt.compile")
    assert trackers == [], "the library reports nothing then"
    assert compilation.status.is_unset
    assert compilation.attributes["torch_tensorrt.fallback.reason_classes"] == ("min_block_size", "no_converter")
    assert sum(count for count, _ in left(compilation.attributes).values()) == 9
    assert compilation.attributes["torch_tensorrt.operators.tensorrt"] == 0
    assert compilation.attributes["torch_tensorrt.engines.count"] == 0


@partitioners
@pytest.mark.parametrize("kind", [AssertionError, RuntimeError, TypeError])
def test_a_subgraph_that_torch_compile_takes_back_is_an_error_of_the_compilation(
    instrument, exporter, converter, fast, kind
):
    instrument()
    converter(raises(kind("boom")))
    model = Mixed().eval()
    assert torch.equal(run("torch.compile", model, min_block_size=1, use_fast_partitioner=fast), model(X))
    spans = exporter.get_finished_spans()
    compilation = named(spans, "torch_tensorrt.compile")
    assert compilation.status.status_code is StatusCode.ERROR
    assert compilation.attributes["error.type"] == kind.__name__
    assert compilation.attributes["torch_tensorrt.fallback.reason_classes"][0] == "compile_failed"
    assert compilation.attributes["torch_tensorrt.operators.tensorrt"] == 0
    assert compilation.attributes["torch_tensorrt.coverage"] == 0.0
    failed = {span.name for span in spans if "error.type" in span.attributes}
    assert failed == {"torch_tensorrt.construct_network", "torch_tensorrt.convert", "torch_tensorrt.compile"}


def test_a_validator_that_raises_is_swallowed_by_torch_compile_and_passes_from_compile(instrument, exporter):
    def refuse(node, settings=None):
        raise RuntimeError("validator")

    dynamo_tensorrt_converter(OPERATOR, capability_validator=refuse)(lambda *args: None)
    try:
        instrument()
        run("torch.compile", Mixed().eval(), min_block_size=1)
        compilation = named(exporter.get_finished_spans(), "torch_tensorrt.compile")
        assert compilation.attributes["torch_tensorrt.fallback.reason_classes"][0] == "compile_failed"
        assert compilation.status.status_code is StatusCode.ERROR
        exporter.clear()
        with pytest.raises(RuntimeError, match="validator"):
            run("compile", Mixed().eval(), min_block_size=1)
        compilation = named(exporter.get_finished_spans(), "torch_tensorrt.compile")
        assert compilation.attributes["error.type"] == "RuntimeError"
        assert "torch_tensorrt.fallback.reason_classes" not in compilation.attributes
    finally:
        registry.DYNAMO_ATEN_CONVERTERS.pop(OPERATOR, None)


@pytest.fixture
def failing_fast_partitioner(monkeypatch):
    """Lets the fast partitioner fail after it has asked about every node, as it does on a graph it cannot split."""
    module = partitioning._adjacency_partitioner

    def fail(self, *args, **kwargs):
        raise FxNetSplitterInternalError("cannot split")

    monkeypatch.setattr(module.TRTPartitioner, "partition_graph", fail)


@routes
def test_a_fast_partition_that_fails_is_a_second_partition_and_nothing_is_counted_twice(
    instrument, exporter, trackers, failing_fast_partitioner, route
):
    instrument()
    run(route, Mixed().eval(), min_block_size=2)
    spans = exporter.get_finished_spans()
    first, second = [span for span in spans if span.name == "torch_tensorrt.partition"]
    assert first.attributes["torch_tensorrt.partitioner"] == "fast"
    assert first.attributes["error.type"] == "torch.fx.passes.splitter_base.FxNetSplitterInternalError"
    assert [event.name for event in first.events] == ["exception"]
    assert second.attributes["torch_tensorrt.partitioner"] == "global"
    assert second.status.is_unset
    (tracker,) = trackers
    compilation = named(spans, "torch_tensorrt.compile")
    assert compilation.status.is_unset, "the library fixed it"
    attributes = compilation.attributes
    assert sum(count for count, _ in left(attributes).values()) == 3
    assert attributes["torch_tensorrt.operators.total"] == tracker.total_ops_in_graph == 9
    assert attributes["torch_tensorrt.operators.supported"] == tracker.supported_ops_in_graph == 7
    assert attributes["torch_tensorrt.operators.tensorrt"] == 6
    assert attributes["torch_tensorrt.engines.count"] == tracker.tensorrt_graph_count == 2


# --- interrupts ----------------------------------------------------------------------------------------------------


def open_events():
    """The event that is open in this context, in each engine that is at work."""
    engines = [each for each in gc.get_objects() if type(each) is Engine and each.active]
    assert engines
    return [each.current for each in engines if each.current is not None]


def interrupt_converter(monkeypatch, converter, error):
    converter(raises(error))
    return ["torch_tensorrt.construct_network", "torch_tensorrt.convert", "torch_tensorrt.compile"]


def interrupt_partition(monkeypatch, converter, error):
    module = partitioning._adjacency_partitioner
    monkeypatch.setattr(module.TRTPartitioner, "partition_graph", lambda *args, **kwargs: raises(error)())
    return ["torch_tensorrt.partition", "torch_tensorrt.compile"]


def interrupt_validator(monkeypatch, converter, error):
    refuse = lambda node, settings=None: raises(error)()
    dynamo_tensorrt_converter(OPERATOR, capability_validator=refuse)(lambda *args: None)
    return ["torch_tensorrt.compile"]


@pytest.mark.fault("libraries", "an interrupt in a converter, the partitioner or a validator")
@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, asyncio.CancelledError])
@pytest.mark.parametrize("place", [interrupt_converter, interrupt_partition, interrupt_validator])
@routes
def test_an_interrupt_closes_what_it_passes_and_leaves_nothing_open(
    instrument, exporter, monkeypatch, converter, route, place, interrupt
):
    instrument()
    error = interrupt()
    names = place(monkeypatch, converter, error)
    if route == "torch.compile":
        names += ["torch.compile_phase backend_compile", "torch.compile_frame"]
    before = context_api.get_current()
    with pytest.raises(interrupt) as caught:
        run(route, Mixed().eval(), min_block_size=1)
    assert caught.value is error
    assert not hasattr(error, "__notes__")
    assert open_events() == []
    assert context_api.get_current() == before
    spans = exporter.get_finished_spans()
    kind = {KeyboardInterrupt: "KeyboardInterrupt"}.get(interrupt, "asyncio.exceptions.CancelledError")
    assert [span.name for span in spans if "error.type" in span.attributes] == names
    assert {span.attributes["error.type"] for span in spans if "error.type" in span.attributes} == {kind}
    reasons = named(spans, "torch_tensorrt.compile").attributes.get("torch_tensorrt.fallback.reason_classes", ())
    assert "compile_failed" not in reasons, "nothing was taken back: the program gets its interrupt"


@pytest.mark.fault("interpreter", "a task is cancelled while it compiles")
def test_a_task_cancelled_while_it_compiles_leaves_the_loop_and_the_next_compilation_alone(
    instrument, exporter, converter, tracer
):
    instrument()
    converter(lambda: raises(asyncio.CancelledError())())

    async def compiling():
        with tracer.start_as_current_span("request", record_exception=False, set_status_on_exception=False):
            run("compile", Mixed().eval(), min_block_size=1)

    async def serve():
        task = asyncio.create_task(compiling())
        with pytest.raises(asyncio.CancelledError):
            await task
        registry.DYNAMO_ATEN_CONVERTERS.pop(OPERATOR)
        assert open_events() == []
        exporter.clear()
        run("compile", Mixed().eval(), min_block_size=1)

    asyncio.run(serve())
    assert outline(exporter.get_finished_spans())[1].startswith("torch_tensorrt.compile\n")
