# SPDX-License-Identifier: Apache-2.0
"""Weaver judges the registry, and what a program emits."""

import subprocess

import pytest
import torch
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import weaver
from support.needs import named, program
from torchspan.start.instrumentor import TorchspanInstrumentor

pytestmark = pytest.mark.needs("weaver")


@pytest.fixture
def registry(tmp_path):
    return weaver.registry_in(tmp_path, named("conventions"))


def check(registry):
    """Weaver's exit status and what it printed."""
    done = subprocess.run(
        [program("weaver"), "registry", "check", "--v2", "-r", registry],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_weaver_has_no_finding_in_the_registry(registry):
    """It warns of each file that version 2 of its format is not stable yet, also of OpenTelemetry's."""
    status, printed = check(registry)
    warnings = [" ".join(text.split()) for text in printed.split("\u26a0")[1:]]
    assert status == 0
    assert [text for text in warnings if not text.startswith("File format `definition/2` is not yet stable")] == []


def test_weaver_refuses_a_registry_that_refers_to_nothing(registry):
    spans = registry / "spans.yaml"
    spans.write_text(spans.read_text(encoding="utf-8").replace("ref: torchspan.keep", "ref: torchspan.kept", 1))
    status, printed = check(registry)
    assert status == 1
    assert "torchspan.kept" in printed


def compiled(endpoint):
    """Compile and run a function, with its spans sent to the endpoint by OTLP."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint, insecure=True)))
    instrumentor = TorchspanInstrumentor()
    instrumentor.instrument(tracer_provider=provider)
    try:
        torch._dynamo.reset()
        torch.compile(lambda x: torch.relu(x) + 1, backend="eager")(torch.ones(2))
    finally:
        instrumentor.uninstrument()
    return provider


def test_weaver_finds_no_violation_in_what_a_program_emits(registry):
    with weaver.live_check(registry, program("weaver")) as live_check:
        compiled(live_check.otlp_endpoint).shutdown()
        report = live_check.end()
    assert report.violations == []
    assert report["statistics"]["total_entities_by_type"]["span"] >= 1


def test_weaver_finds_an_attribute_that_the_registry_does_not_have(registry):
    with weaver.live_check(registry, program("weaver")) as live_check:
        provider = compiled(live_check.otlp_endpoint)
        provider.get_tracer("torchspan").start_span("torchspan.run", attributes={"torchspan.none": 1}).end()
        provider.shutdown()
        report = live_check.end()
    assert [(violation["id"], violation["context"]) for violation in report.violations] == [
        ("missing_attribute", {"attribute_key": "torchspan.none"})
    ]
