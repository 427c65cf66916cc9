# SPDX-License-Identifier: Apache-2.0
"""A program with torch.compile and torch.export, and without Torch-TensorRT: every name that leaves it is PyTorch's."""

import pytest

from support.receiver import Receiver, mapping, spans_in

pytestmark = pytest.mark.slow

PROGRAM = """
import sys
import warnings
warnings.simplefilter("ignore")
import torch


@torch.compile(backend="aot_eager")
def step(x):
    y = x.sin()
    torch._dynamo.graph_break()
    return (y * 2).sum()


for size in (3, 4):
    step(torch.ones(size, 3, requires_grad=True)).backward()

for strict in (False, True):
    program = torch.export.export(torch.nn.Linear(4, 2), (torch.ones(1, 4),), strict=strict)
program.run_decompositions()
print("torch_tensorrt" in sys.modules)
"""


@pytest.fixture(scope="module")
def sent(instrumented):
    with Receiver() as receiver:
        variables = {**receiver.environment(), "OTEL_METRICS_EXPORTER": "otlp"}
        done = instrumented(PROGRAM, **variables)
        assert (done.status, done.out) == (0, "False\n"), done.err
        yield receiver


@pytest.fixture(scope="module")
def spans(sent):
    return [span for span in sent.spans() if span.scope == "torchspan"]


@pytest.fixture(scope="module")
def metrics(sent):
    """name -> the keys of the attributes of its points."""
    keys = {}
    for request in sent.metrics():
        for of_scope in (each for of_resource in request.resource_metrics for each in of_resource.scope_metrics):
            for metric in of_scope.metrics if of_scope.scope.name == "torchspan" else ():
                points = getattr(metric, metric.WhichOneof("data")).data_points
                keys.setdefault(metric.name, set()).update(key for point in points for key in mapping(point.attributes))
    return keys


def not_pytorchs(names):
    return {name for name in names if not name.startswith(("torch.", "torchspan."))}


def test_the_names_of_its_spans_are_pytorchs(spans):
    names = {span.name.partition(" ")[0] for span in spans}
    assert not_pytorchs(names) == set()
    assert {
        "torch.compile_frame",
        "torch.compile_backward",
        "torch.compile_phase",
        "torch.export",
        "torch.export.capture",
        "torch.export.trace",
        "torch.export.decompose",
    } <= names


def test_its_attributes_are_pytorchs_torchspans_and_opentelemetrys(spans):
    assert not_pytorchs(key for span in spans for key in span.attributes) == {
        "code.file.path",
        "code.function.name",
        "code.line.number",
    }
    (export, strict) = (span for span in spans if span.name == "torch.export")
    assert export.attributes["torch.model.class"] == "Linear"
    assert export.attributes["torch.inputs.shapes"] == ["[1, 4]"]
    assert export.attributes["torch.inputs.dtypes"] == ["float32"]
    assert strict.attributes["torch.graph.nodes.count"] == 5


def test_the_events_of_its_spans_and_their_attributes_are_pytorchs_and_opentelemetrys(sent):
    events = [event for span in spans_in(sent.messages()) for event in span.events]
    assert {event.name for event in events} == {"torch.compile.graph_break", "torch.compile.recompile"}
    assert not_pytorchs(key for event in events for key in mapping(event.attributes)) <= {
        "code.file.path",
        "code.function.name",
        "code.line.number",
    }


def test_its_metrics_and_their_attributes_are_pytorchs_and_torchspans(metrics):
    assert not_pytorchs(metrics) == set()
    assert {key for keys in metrics.values() for key in keys if not key.startswith(("torch.", "torchspan."))} == set()
    assert {
        "torch.compile.frame.duration",
        "torch.compile.backward.duration",
        "torch.compile.active",
        "torch.compile.longest",
        "torch.phase.duration",
        "torchspan.span.emitted",
    } <= metrics.keys()
