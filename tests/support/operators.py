# SPDX-License-Identifier: Apache-2.0
"""PyTorch's operators as a captured trace has them."""

import contextlib

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from support.emitted import EMITTED
from torchspan.sdk import OperatorSpanProcessor
from torchspan.testing import capture

BLOCK = "torchspan.operators"
_OPERATOR = "torch.operator "


@contextlib.contextmanager
def recording(sampler=None, **settings):
    """Captures what the block records; everything is also held against the attribute table at the end."""
    provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(EMITTED))
    provider.add_span_processor(OperatorSpanProcessor(EMITTED))
    try:
        with capture(tracer_provider=provider, **{"heartbeat": 0, **settings}) as trace:
            yield trace
    finally:
        provider.shutdown()


def table(span):
    """The table of a root: how often each operator ran."""
    attributes = span.attributes
    return dict(
        zip(attributes.get("torch.operators.names", ()), attributes.get("torch.operators.counts", ()), strict=True)
    )


def operators(trace):
    """The spans of operators, by their starts."""
    spans = [node.span for each in trace.traces for node in each.nodes()]
    return sorted((span for span in spans if span.name.startswith(_OPERATOR)), key=lambda span: span.start_ns)


def names(spans):
    """The names of operators' spans."""
    return [span.name.removeprefix(_OPERATOR) for span in spans]


def children(trace, parent):
    """The names of the operators right below a span, by their starts."""
    return names(span for span in operators(trace) if span.parent_id == parent.span_id)
