# SPDX-License-Identifier: Apache-2.0
"""PyTorch's operators of a program below `torchspan run`, by OTLP through the Collector to Jaeger: what Jaeger gives back is what
was recorded, and what the file of the run has.
"""

import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from support import backends, fetched, otlp, span_file

pytestmark = pytest.mark.needs("otelcol-torchspan", "jaeger")

PROGRAM = """
import contextlib
import torch
import torchspan
from torchspan.observers import observable

model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
x = torch.ones(4, 16)

@observable()
def predict(x):
    return model(x)

with torchspan.operators(depth=3, min_duration=0):
    model(x).sum().backward()
with torchspan.operators(depth=1, min_duration=0, shapes=True), contextlib.suppress(RuntimeError):
    torch.ones(2, 3) @ torch.ones(2, 3)
with torchspan.operators(depth=1, min_duration=0):
    for _ in range(600):
        x.sin()
predict(x)
"""
ROOTS = ["torchspan.observed predict", *["torchspan.operators"] * 3]
_OPERATOR = "torch.operator "


@dataclass(frozen=True)
class Sent:
    """roots: what the file of the run has of them. file: the operators in it. jaeger: all that Jaeger gives back of the trace."""

    roots: list[span_file.WrittenSpan]
    file: list[Span]
    jaeger: list[Span]

    def operators(self):
        """Those that Jaeger gives back."""
        return [span for span in self.jaeger if span.name.startswith(_OPERATOR)]

    def root_of(self, span):
        """The id of the root that an operator is below."""
        around = {other.span_id: other for other in self.jaeger}
        while span.name.startswith(_OPERATOR):
            span = around[span.parent_span_id]
        return span.span_id.hex()


@pytest.fixture(scope="module")
def sent(tmp_path_factory, native_library):
    folder = tmp_path_factory.mktemp("run")
    with (
        backends.jaeger() as jaeger,
        backends.collector("base.yaml", environment={"TORCHSPAN_OTLP_ENDPOINT": jaeger.otlp}) as collector,
    ):
        environment = {
            "OTEL_TRACES_EXPORTER": "otlp",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.http,
            "OTEL_SERVICE_NAME": "app",
        }
        options = ["--quiet", "--operators", "--output", "run.jsonl"]
        done = subprocess.run(
            [sys.executable, "-m", "torchspan", "run", *options, "--", sys.executable, "-W", "ignore", "-c", PROGRAM],
            cwd=folder,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        path = folder / "run.jsonl"
        roots = [span for span in span_file.read(path) if span.name in ROOTS]
        exported = only(fetched.from_file(path), lambda name: name in ROOTS or name.startswith(_OPERATOR))
        (trace,) = fetched.whole(fetched.from_jaeger, jaeger, exported)
        written = only(fetched.from_file(path), lambda name: name.startswith(_OPERATOR))
        file = fetched.as_kept_by_jaeger(jaeger, written)
        yield Sent(roots, fetched.spans(file), fetched.spans(fetched.in_any_order([trace])))


def test_jaeger_has_as_many_operators_below_each_root_as_were_recorded(sent):
    recorded = {
        root.span_id: root.attributes["torch.operators.count"] - root.attributes["torch.operators.folded"]
        for root in sent.roots
    }
    assert sorted(root.name for root in sent.roots) == ROOTS
    assert max(recorded.values()) == 500
    assert Counter(map(sent.root_of, sent.operators())) == recorded


def test_each_operator_is_in_the_trace_of_its_root_and_its_parent_is_there(sent):
    ids = {span.span_id for span in sent.jaeger}
    assert {span.trace_id.hex() for span in sent.operators()} == {root.trace_id for root in sent.roots}
    assert {span.parent_span_id for span in sent.operators()} <= ids
    assert len(ids) == len(sent.jaeger)


def test_backward_functions_are_linked_to_operators_that_are_there(sent):
    names = {span.span_id: span.name for span in sent.operators()}
    linked = {
        (span.name.removeprefix(_OPERATOR), names[link.span_id].removeprefix(_OPERATOR))
        for span in sent.operators()
        for link in span.links
    }
    assert linked == {
        ("AddmmBackward0", "aten.addmm"),
        ("ReluBackward0", "aten.relu"),
        ("SumBackward0", "aten.sum"),
        ("TBackward0", "aten.t"),
    }


def test_an_operator_that_raised_has_the_status_and_its_shapes(sent):
    (failed,) = [span for span in sent.operators() if span.status == otlp.ERROR]
    assert failed.name == "torch.operator aten.matmul"
    assert {"torch.inputs.shapes", "torch.inputs.dtypes"} < {attribute.key for attribute in failed.attributes}


def test_the_file_of_the_run_has_the_same_operators_with_all_that_jaeger_keeps(sent):
    assert by_id(sent.file) == by_id(sent.operators())


def only(messages, is_wanted):
    """The messages, with the spans of these names alone."""
    for message in messages:
        for of_resource in message.resource_spans:
            for of_scope in of_resource.scope_spans:
                wanted = [span for span in of_scope.spans if is_wanted(span.name)]
                del of_scope.spans[:]
                of_scope.spans.extend(wanted)
    return messages


def by_id(spans):
    """As text. A status that is not set and one that is UNSET are the same."""
    for span in spans:
        span.status.SetInParent()
    return {span.span_id.hex(): str(span) for span in spans}
