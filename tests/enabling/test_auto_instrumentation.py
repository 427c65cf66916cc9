# SPDX-License-Identifier: Apache-2.0
"""`opentelemetry-instrument python app.py` and nothing else: what arrives at an OTLP receiver."""

import random

import pytest

from support.receiver import GrpcReceiver, Receiver
from torchspan import __version__

COMPILE = """
import random
import warnings
warnings.simplefilter("ignore")
import torch
import torch_tensorrt

model = torch.nn.Sequential(torch.nn.Linear(16, 4), torch.nn.ReLU()).eval()
x = torch.ones(2, 16)
random.seed(0)
with torch.no_grad():
    module = torch_tensorrt.compile(model, ir="dynamo", inputs=[x], min_block_size=1)
    print(tuple(module(x).shape))
"""
"""Where a user would have a GPU, the tests have TORCHSPAN_WITHOUT_GPU."""

OVER = {
    "gRPC, the default": (GrpcReceiver, {}),
    "HTTP": pytest.param((Receiver, {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}), marks=pytest.mark.slow),
}


@pytest.fixture(scope="module", params=OVER.values(), ids=OVER)
def sent(request, instrumented):
    """The receiver of the program above, after the program's end."""
    kind, variables = request.param
    with kind() as receiver:
        endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "TORCHSPAN_WITHOUT_GPU": "1"}
        done = instrumented(COMPILE, **endpoint, **variables)
        assert (done.status, done.out) == (0, "(2, 4)\n"), done.err
        receiver.printed = done.err
        yield receiver


def test_the_trace_of_a_compilation_arrives(sent):
    spans = sent.spans()
    (compilation,) = [span for span in spans if span.name == "torch_tensorrt.compile"]
    assert (compilation.parent_id, compilation.scope) == ("", "torchspan")
    below = {
        span.name for span in spans if (span.trace_id, span.parent_id) == (compilation.trace_id, compilation.span_id)
    }
    assert {
        "torch_tensorrt.trace",
        "torch_tensorrt.lower",
        "torch_tensorrt.partition",
        "torch_tensorrt.convert",
    } <= below
    (built,) = [span for span in spans if span.name == "tensorrt.build_engine"]
    assert built.trace_id == compilation.trace_id


def test_the_first_run_of_the_engine_arrives(sent):
    (run,) = [span for span in sent.spans() if span.name == "torch_tensorrt.execute"]
    assert run.parent_id == ""


def test_metrics_arrive(sent):
    names = {
        metric.name
        for request in sent.metrics()
        for of_resource in request.resource_metrics
        for of_scope in of_resource.scope_metrics
        if of_scope.scope.name == "torchspan"
        for metric in of_scope.metrics
    }
    assert {
        "torch_tensorrt.compile.duration",
        "torch_tensorrt.phase.duration",
        "tensorrt.engine.build.size",
        "torch_tensorrt.execute.duration",
    } <= names


def test_the_ids_are_not_from_the_generator_that_the_program_has_seeded(sent):
    seeded = random.Random(0)  # what the SDK's own generator would have drawn: 64 bits for the span, 128 for the trace
    drawn = {format(seeded.getrandbits(bits), "x").zfill(bits // 4) for _ in range(50) for bits in (64, 128)}
    seeded = random.Random(0)
    drawn |= {format(seeded.getrandbits(bits), "x").zfill(bits // 4) for _ in range(50) for bits in (128, 64)}
    found = {each for span in sent.spans() if span.scope == "torchspan" for each in (span.span_id, span.trace_id)}
    assert found
    assert not found & drawn


def test_neither_torchspan_nor_opentelemetry_prints_anything(sent):
    assert [line for line in sent.printed.splitlines() if "torchspan" in line or "opentelemetry" in line.lower()] == []
    assert "Traceback" not in sent.printed


def test_the_version_of_torchspan_is_that_of_the_scope(sent):
    scopes = {
        (of_scope.scope.name, of_scope.scope.version)
        for message in sent.messages()
        if hasattr(message, "resource_spans")
        for of_resource in message.resource_spans
        for of_scope in of_resource.scope_spans
    }
    assert ("torchspan", __version__) in scopes


# --- without a distro ---------------------------------------------------------------------------------------------

OBSERVED = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from torchspan import TorchspanInstrumentor
from torchspan.observers import observable

@observable()
def work():
    return trace.get_current_span().is_recording()

print(TorchspanInstrumentor().is_instrumented_by_opentelemetry, type(trace.get_tracer_provider()).__name__, work())
trace.set_tracer_provider(TracerProvider())
print(work())
"""


@pytest.fixture
def no_distro(tmp_path):
    """A folder before which the distro, and with it the configurator, has no entry points: as if it were not installed."""
    information = tmp_path / "opentelemetry_distro-99.0.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: opentelemetry-distro\nVersion: 99.0.0\n")
    return tmp_path


def test_without_a_distro_torchspan_is_on_and_waits_for_a_provider_of_the_programs(instrumented, no_distro):
    done = instrumented(OBSERVED, path=[no_distro])
    assert (done.status, done.err) == (0, "")
    assert done.out == "True ProxyTracerProvider False\nTrue\n"


@pytest.mark.fault("the SDK", "its configurator fails")
def test_a_configurator_that_fails_keeps_the_program_from_nothing(instrumented):
    done = instrumented("print('ran')", OTEL_TRACES_EXPORTER="no_such_exporter")
    assert (done.status, done.out) == (0, "ran\n")
