# SPDX-License-Identifier: Apache-2.0
"""A container into which the OpenTelemetry Operator has injected its own, older OpenTelemetry: what torchspan does there."""

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from support import installed, operator_injection
from support.backends import CONFIGURATIONS
from support.core_install import Environment, core, link
from support.receiver import GrpcReceiver, Receiver
from support.span_file import read

OPERATOR = operator_injection.VERSION
COMPILE = """
import warnings
warnings.simplefilter("ignore")
import torch
import torch_tensorrt

model = torch.nn.Sequential(torch.nn.Linear(16, 4), torch.nn.ReLU()).eval()
x = torch.ones(2, 16)
with torch.no_grad():
    print(tuple(torch_tensorrt.compile(model, ir="dynamo", inputs=[x], min_block_size=1)(x).shape))
"""
OBSERVED = """
import importlib.util
from opentelemetry import trace
from torchspan.observers import observable

@observable()
def work():
    return trace.get_current_span().is_recording()

print(work())
"""
WHERE = """
import importlib.metadata, sys
import opentelemetry.trace, opentelemetry.sdk, opentelemetry.exporter.otlp.proto.http, torchspan, wrapt
for module in (opentelemetry.trace, opentelemetry.sdk, opentelemetry.exporter.otlp.proto.http, wrapt):
    print(module.__name__, module.__file__ or list(module.__path__)[0])
print(importlib.metadata.version("opentelemetry-sdk"))
"""
NEWER = (*core(), "opentelemetry-sdk", "opentelemetry-exporter-otlp", "opentelemetry-distro")


@pytest.fixture(scope="module")
def injected():
    return operator_injection.folder()


@pytest.fixture(scope="module")
def app_alone(tmp_path_factory, injected):
    """An image with torchspan, and nothing of OpenTelemetry."""
    return Environment(tmp_path_factory.mktemp("alone"))


@pytest.fixture(scope="module")
def app_newer(tmp_path_factory, injected):
    """An image with torchspan and an OpenTelemetry newer than the Operator's, with both exporters."""
    return Environment(tmp_path_factory.mktemp("newer"), *NEWER)


@pytest.fixture(scope="module")
def app_older(tmp_path_factory, injected):
    """An image whose own OpenTelemetry is as old as the Operator's of today."""
    environment = Environment(tmp_path_factory.mktemp("older"))
    (environment.packages / "older.pth").write_text(f"{injected}\n", encoding="utf-8")
    return environment


@pytest.fixture(scope="module")
def injected_newer(tmp_path_factory):
    """What a later Operator will inject: the newest OpenTelemetry."""
    folder = tmp_path_factory.mktemp("operator")
    link((*core(), "opentelemetry-exporter-otlp-proto-http", "opentelemetry-distro"), folder)
    return folder


def sent_by(environment, injected, program=OBSERVED, kind=Receiver, **own):
    """(what the program did, the receiver that it sent to)."""
    with kind() as receiver:
        return environment.run(
            "python", "-c", program, **operator_injection.variables(injected, receiver.url, own=own)
        ), receiver


def observed(receiver):
    """The one span of the program, whose metrics have arrived as well."""
    (span,) = [each for each in receiver.spans() if each.scope == "torchspan"]
    assert span.name == "torchspan.observed work"
    assert receiver.metrics()
    return span


# --- the operator's order ----------------------------------------------------------------------------------------------


def test_the_operators_older_opentelemetry_comes_before_the_apps_newer_one(app_newer, injected):
    done, _ = sent_by(app_newer, injected, WHERE)
    assert (done.returncode, done.stderr) == (0, "")
    *modules, version = done.stdout.splitlines()
    assert version == OPERATOR
    assert [line.partition(" ")[2].startswith(f"{injected}/") for line in modules] == [True] * 4
    assert importlib.metadata.version("opentelemetry-sdk") != OPERATOR


@pytest.mark.slow
def test_a_compilation_is_traced_alongside_the_operators_older_opentelemetry(injected, tmp_path):
    (tmp_path / "app.py").write_text(COMPILE, encoding="utf-8")
    existing = installed.environment(tmp_path)["PYTHONPATH"]
    with Receiver() as receiver:
        variables = operator_injection.variables(
            injected, receiver.url, existing=existing, own={"OTEL_LOGS_EXPORTER": "none", "TORCHSPAN_WITHOUT_GPU": "1"}
        )
        done = subprocess.run(
            [sys.executable, "app.py"],
            cwd=tmp_path,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert (done.returncode, done.stdout) == (0, "(2, 4)\n"), done.stderr
    assert [line for line in done.stderr.splitlines() if "torchspan" in line or "opentelemetry" in line.lower()] == []
    spans = [span for span in receiver.spans() if span.scope == "torchspan"]
    (root,) = [span for span in spans if span.name == "torch_tensorrt.compile"]
    assert {"torch_tensorrt.lower", "torch_tensorrt.partition", "torch_tensorrt.convert", "tensorrt.build_engine"} <= {
        span.name for span in spans if span.trace_id == root.trace_id
    }
    assert {span.resource["telemetry.sdk.version"] for span in spans} == {OPERATOR}
    names = {
        metric.name
        for message in receiver.metrics()
        for of_resource in message.resource_metrics
        for of_scope in of_resource.scope_metrics
        for metric in of_scope.metrics
    }
    assert {"torch_tensorrt.compile.duration", "tensorrt.engine.build.size"} <= names


@pytest.mark.parametrize("image", ["app_alone", "app_newer", "app_older"])
def test_torchspan_works_in_an_image(image, injected, request):
    done, receiver = sent_by(request.getfixturevalue(image), injected)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
    resource = observed(receiver).resource
    assert (resource["telemetry.sdk.version"], resource["k8s.pod.name"]) == (OPERATOR, "app-1")


def test_torchspan_works_where_the_injected_opentelemetry_is_newer_than_the_apps(app_older, injected_newer):
    done, receiver = sent_by(app_older, injected_newer)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
    assert observed(receiver).resource["telemetry.sdk.version"] != OPERATOR


def test_torchspan_may_be_in_the_injected_folder_alone(injected, tmp_path):
    folder = tmp_path / "injected"
    folder.mkdir()
    for each in injected.iterdir():
        (folder / each.name).symlink_to(each)
    information = Path(installed.environment(tmp_path)["PYTHONPATH"].partition(":")[0])
    for each in (*information.iterdir(), installed.ROOT / "src" / "torchspan"):
        (folder / each.name).symlink_to(each)
    image = Environment(tmp_path / "image")
    (image.packages / "torchspan.pth").unlink()
    done, receiver = sent_by(image, folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
    observed(receiver)


def test_torchspan_run_in_an_injected_container_records_each_span_once(app_newer, injected, tmp_path):
    with Receiver() as receiver:
        variables = operator_injection.variables(injected, receiver.url, own={"TORCHSPAN_FILE": f"{tmp_path}/t.jsonl"})
        done = app_newer.run("torchspan", "run", app_newer.python, "-c", OBSERVED, **variables)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
    assert "Traceback" not in done.stderr
    observed(receiver)
    names = [span.name for span in read(tmp_path / "t.jsonl")]
    assert sorted(names) == ["torchspan.observed work", "torchspan.run"]


def test_opentelemetry_instrument_in_an_injected_container_records_each_span_once(app_newer, injected, tmp_path):
    (tmp_path / "app.py").write_text(OBSERVED, encoding="utf-8")
    program = f"""
import sys
from opentelemetry.instrumentation.auto_instrumentation import run
sys.argv[1:] = [sys.executable, {str(tmp_path / "app.py")!r}]
run()
"""
    done, receiver = sent_by(app_newer, injected, program, OTEL_LOGS_EXPORTER="none")
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
    observed(receiver)


def test_variables_that_kubernetes_sets_for_the_collectors_service_are_not_settings(app_alone, injected):
    own = {
        "OTEL_LOGS_EXPORTER": "none",
        "TORCHSPAN_COLLECTOR_SERVICE_HOST": "10.0.0.1",
        "TORCHSPAN_COLLECTOR_SERVICE_PORT_OTLP_HTTP": "4318",
        "TORCHSPAN_COLLECTOR_PORT": "tcp://10.0.0.1:4317",
        "TORCHSPAN_COLLECTOR_PORT_4318_TCP_PROTO": "tcp",
    }
    done, receiver = sent_by(app_alone, injected, **own)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
    observed(receiver)
    variables = operator_injection.variables(injected, receiver.url, own=own)
    asked = app_alone.run("torchspan", "doctor", "--json", **variables)
    (row,) = [each for each in json.loads(asked.stdout)["checks"] if each["name"] == "settings.unknown"]
    assert row["state"] == "note"


# --- what the operator's image lacks -----------------------------------------------------------------------------------


def test_without_the_grpc_exporter_the_program_runs_and_doctor_names_the_package(app_alone, injected):
    done, receiver = sent_by(app_alone, injected, kind=GrpcReceiver, OTEL_EXPORTER_OTLP_PROTOCOL="grpc")
    assert (done.returncode, done.stdout) == (0, "False\n")
    assert "Requested component 'otlp_proto_grpc' not found" in done.stderr
    assert receiver.spans() == []
    variables = operator_injection.variables(injected, receiver.url, own={"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"})
    asked = app_alone.run("torchspan", "doctor", "--json", **variables)
    (row,) = [each for each in json.loads(asked.stdout)["checks"] if each["name"] == "exporters.traces"]
    assert (row["state"], row["summary"], row["remedy"]) == (
        "failed",
        "OTEL_TRACES_EXPORTER names otlp_proto_grpc, which is not installed; OpenTelemetry then sets up no signal at all.",
        "Install it: pip install opentelemetry-exporter-otlp-proto-grpc.",
    )


def test_the_apps_newer_grpc_exporter_works_with_the_operators_older_sdk(app_newer, injected):
    own = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_LOGS_EXPORTER": "none"}
    done, receiver = sent_by(app_newer, injected, kind=GrpcReceiver, **own)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
    observed(receiver)


def test_traces_are_written_to_a_file_without_an_encoder_for_json(app_alone, injected, tmp_path):
    file = tmp_path / "traces.jsonl"
    program = f"{OBSERVED}print(importlib.util.find_spec('opentelemetry.exporter.otlp.json'))"
    own = {"OTEL_TRACES_EXPORTER": "torchspan_file", "TORCHSPAN_FILE": str(file)}
    done, receiver = sent_by(app_alone, injected, program, **own)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\nNone\n", "")
    assert receiver.spans() == []
    assert [span.name for span in read(file)] == ["torchspan.observed work"]


def test_torchspans_sampler_and_ids_work_with_the_operators_older_sdk(app_alone, injected):
    own = {
        "OTEL_TRACES_SAMPLER": "parentbased_torchspan",
        "OTEL_PYTHON_ID_GENERATOR": "torchspan",
        "TORCHSPAN_SAMPLE_OTHER": "1",
    }
    done, receiver = sent_by(app_alone, injected, **own)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
    observed(receiver)


# --- collector-config/kubernetes/instrumentation.yaml ------------------------------------------------------------------


@pytest.fixture(scope="module")
def of_python():
    """The variables that the Instrumentation gives to Python."""
    text = (CONFIGURATIONS / "kubernetes" / "instrumentation.yaml").read_text(encoding="utf-8")
    return {each["name"]: each["value"] for each in yaml.safe_load(text)["spec"]["python"]["env"]}


def test_each_process_has_an_id_of_its_own_in_place_of_the_containers(app_alone, injected, of_python):
    found = [observed(sent_by(app_alone, injected, **of_python)[1]).resource for _ in range(2)]
    assert len({each["service.instance.id"] for each in found}) == 2
    assert {each["k8s.pod.name"] for each in found} == {"app-1"}
    assert all(each["process.pid"] for each in found)


FORKS = """
import os
from opentelemetry import trace
from torchspan.observers import observable

@observable()
def work():
    pass

work()
child = os.fork()
if child == 0:
    work()
    trace.get_tracer_provider().force_flush()
    os._exit(0)
os.waitpid(child, 0)
"""


@pytest.mark.parametrize(("kind", "ids"), [("injected", 1), ("injected_newer", 2)])
def test_a_forked_process_has_an_id_of_its_own_where_opentelemetry_is_newer(kind, ids, app_alone, of_python, request):
    done, receiver = sent_by(app_alone, request.getfixturevalue(kind), FORKS, **of_python)
    assert (done.returncode, done.stderr) == (0, "")
    found = [span.resource["service.instance.id"] for span in receiver.spans()]
    assert (len(found), len(set(found))) == (2, ids)


def test_the_instrumentation_keeps_a_program_without_torchspan_from_nothing(injected, tmp_path, of_python):
    image = Environment(tmp_path / "image")
    (image.packages / "torchspan.pth").unlink()
    program = "from opentelemetry import trace\nwith trace.get_tracer('app').start_as_current_span('own'): print('ran')"
    done, receiver = sent_by(image, injected, program, **of_python)
    assert (done.returncode, done.stdout) == (0, "ran\n")
    assert [span.name for span in receiver.spans()] == ["own"]
