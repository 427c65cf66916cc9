# SPDX-License-Identifier: Apache-2.0
"""What a sampler gets to see of a real compilation."""

import pytest
import torch
import torch_tensorrt
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult

from support import models
from support.emitted import EMITTED
from testing.models import assert_close
from torchspan import TorchspanInstrumentor
from torchspan.sdk import ParentBasedTorchspanSampler
from torchspan.words import semconv


class Asked(Sampler):
    """Drops everything and remembers what it was asked."""

    def __init__(self):
        self.seen = {}

    def should_sample(self, parent_context, trace_id, name, kind=None, attributes=None, links=None, trace_state=None):
        self.seen.setdefault(name, dict(attributes or {}))
        return SamplingResult(Decision.DROP)

    def get_description(self):
        return "asked"


@pytest.fixture(scope="module")
def dropped():
    """A compilation and a run that the sampler drops: the sampler, and what the run returned."""
    sampler = Asked()
    instrumentor = TorchspanInstrumentor()
    instrumentor.instrument(tracer_provider=TracerProvider(sampler=sampler, shutdown_on_exit=False), detail="passes")
    try:
        x = torch.ones(2, 16)
        module = torch_tensorrt.compile(models.seeded(models.Mlp), ir="dynamo", inputs=[x], min_block_size=1)
        return sampler, module(x)
    finally:
        instrumentor.uninstrument()


def test_what_a_sampler_sees_is_marked_so_in_the_table(dropped):
    sampler, _ = dropped
    rows = {str(attribute): attribute for attribute in semconv.ATTRIBUTES}
    seen = {key for attributes in sampler.seen.values() for key in attributes}
    assert {key for key in seen if not rows[key].at_start} == set()


def test_a_sampler_can_decide_by_keep_entry_point_model_versions_and_settings(dropped):
    sampler, _ = dropped
    wanted = {
        "torchspan.keep": True,
        "torch_tensorrt.entry_point": "torch_tensorrt.compile",
        "torch_tensorrt.ir": "dynamo",
        "torch.model.class": "Mlp",
        "torch_tensorrt.version": torch_tensorrt.__version__,
        "torch_tensorrt.settings.min_block_size": 1,
    }
    seen = sampler.seen["torch_tensorrt.compile"]
    assert {key: seen.get(key) for key in wanted} == wanted


def test_a_compilation_that_the_sampler_drops_runs_as_usual(dropped):
    _, result = dropped
    assert_close(result, models.seeded(models.Mlp)(torch.ones(2, 16)), rtol=1e-5, atol=1e-8)


# --- torchspan's sampler ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def below_an_unsampled_request():
    """A compilation and five runs below a request that torchspan's sampler refuses: the spans, and the request's context."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(sampler=ParentBasedTorchspanSampler("other=0"), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    provider.add_span_processor(SimpleSpanProcessor(EMITTED))
    instrumentor = TorchspanInstrumentor()
    instrumentor.instrument(tracer_provider=provider, heartbeat=0)
    try:
        x = torch.ones(2, 16)
        with provider.get_tracer("app").start_as_current_span("request") as request:
            module = torch_tensorrt.compile(models.seeded(models.Mlp), ir="dynamo", inputs=[x], min_block_size=1)
            for _ in range(5):
                module(x)
        return exporter.get_finished_spans(), request.get_span_context()
    finally:
        instrumentor.uninstrument()


def test_a_compilation_below_an_unsampled_request_is_kept_with_all_that_is_inside(below_an_unsampled_request):
    spans, request = below_an_unsampled_request
    known = {span.context.span_id for span in spans}
    assert {span.context.trace_id for span in spans} == {request.trace_id}
    assert {span.name for span in spans if span.parent is None} >= {"torch_tensorrt.compile", "torch_tensorrt.execute"}
    assert all(span.parent.span_id in known for span in spans if span.parent is not None)
    assert {span.name for span in spans} >= {"torch_tensorrt.convert", "tensorrt.build_engine"}


def test_its_roots_say_that_the_request_was_not_sampled(below_an_unsampled_request):
    spans, _ = below_an_unsampled_request
    marked = [span for span in spans if span.attributes.get("torchspan.parent_sampled") is False]
    assert marked == [span for span in spans if span.parent is None]


def test_of_the_runs_the_first_one_alone_is_kept(below_an_unsampled_request):
    spans, _ = below_an_unsampled_request
    assert [span.name for span in spans].count("torch_tensorrt.execute") == 1
