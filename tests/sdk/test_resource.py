# SPDX-License-Identifier: Apache-2.0
"""The resource detector: what it says, where it has that from, and what it leaves alone."""

import importlib.metadata
import json
import os
import socket
import subprocess
import sys

import pytest
from opentelemetry.sdk.resources import Resource

from support import installed
from support.emitted import EMITTED, type_of
from torchspan.output.sdk import _resource
from torchspan.sdk import TorchspanResourceDetector
from torchspan.words import semconv

ROWS = {str(row): row for row in semconv.ATTRIBUTES if row.resource}
LAUNCHED = ("RANK", "SLURM_PROCID", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "JOB_COMPLETION_INDEX")
TORCHRUN = {
    "RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "TORCHELASTIC_RESTART_COUNT": "2",
    "TORCHELASTIC_RUN_ID": "0f2c1c8e-7c1b-4a6e-9b70-0d4c6f0f2b11",
}  # fmt: skip


@pytest.fixture
def versions(monkeypatch):
    """`versions(**of)`: what is installed, by distribution; other names are not."""

    def install(**of):
        by_name = {name.replace("_", "-"): version for name, version in of.items()}

        def version(name):
            if name not in by_name:
                raise importlib.metadata.PackageNotFoundError(name)
            if isinstance(by_name[name], Exception):
                raise by_name[name]
            return by_name[name]

        monkeypatch.setattr(_resource, "version", version)

    install()
    for name in (*LAUNCHED, "OTEL_RESOURCE_ATTRIBUTES", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    return install


def detected():
    attributes = dict(TorchspanResourceDetector().detect().attributes)
    EMITTED.add_resource(attributes)
    return attributes


def of_the_libraries():
    return {key: value for key, value in detected().items() if key.startswith(("torch", "tensorrt"))}


def test_a_process_that_no_launcher_started_has_its_host_and_its_python(versions):
    assert detected() == {
        "process.pid": os.getpid(),
        "process.runtime.name": "cpython",
        "process.runtime.version": ".".join(map(str, sys.version_info[:3])),
        "host.name": socket.gethostname(),
    }


def test_a_rank_of_torchrun_has_its_place_in_the_job(versions, monkeypatch):
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)
    assert of_the_libraries() == {
        "torch.distributed.rank": 3,
        "torch.distributed.local_rank": 1,
        "torch.distributed.world_size": 4,
        "torch.distributed.restart_count": 2,
        "torch.distributed.run.id": "0f2c1c8e-7c1b-4a6e-9b70-0d4c6f0f2b11",
    }


@pytest.mark.parametrize("name", ["my job", "job/7", "-1", "é", "a" * 65, "user@host:secret"])
def test_an_id_of_a_job_that_is_not_a_plain_name_is_left_out(versions, monkeypatch, name):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", name)
    assert of_the_libraries() == {}


VERSIONS = {"torch.version": "2.14.1+cu130"}


@pytest.mark.parametrize(
    ("libraries", "expected"),
    [
        ({"torch": "2.14.1+cu130"}, VERSIONS),
        (
            {"torch": "2.14.1+cu130", "torch_tensorrt": "2.14.0", "tensorrt": "10.16.0", "tensorrt_rtx": "1.6.1"},
            VERSIONS
            | {"torch_tensorrt.version": "2.14.0", "tensorrt.version": "10.16.0", "tensorrt.package": "tensorrt"},
        ),
        (
            {"torch": "2.14.1+cu130", "torch_tensorrt_rtx": "2.14.0", "tensorrt": "10.16.0", "tensorrt_rtx": "1.6.1"},
            VERSIONS
            | {"torch_tensorrt.version": "2.14.0", "tensorrt.version": "1.6.1", "tensorrt.package": "tensorrt_rtx"},
        ),
        ({"tensorrt_cu12": "10.9.0.34"}, {"tensorrt.version": "10.9.0.34", "tensorrt.package": "tensorrt"}),
        ({"tensorrt_rtx_cu13": "1.6.1"}, {"tensorrt.version": "1.6.1", "tensorrt.package": "tensorrt_rtx"}),
        ({"torch": "unknown; secret"}, {}),
    ],
    ids=["torch", "TensorRT", "TensorRT-RTX", "TensorRT alone", "TensorRT-RTX alone", "no version"],
)
def test_versions_are_those_of_the_metadata(versions, libraries, expected):
    versions(**libraries)
    assert of_the_libraries() == expected


def test_metadata_that_cannot_be_read_costs_one_version(versions):
    versions(torch=ValueError("broken"), tensorrt="10.9.0.34")
    assert of_the_libraries() == {"tensorrt.version": "10.9.0.34", "tensorrt.package": "tensorrt"}


def test_a_host_without_a_name_costs_the_name(versions, monkeypatch):
    def refuse():
        raise OSError("no name")

    monkeypatch.setattr(_resource.socket, "gethostname", refuse)
    versions(torch="2.14.1")
    found = detected()
    assert "host.name" not in found
    assert (found["process.pid"], found["torch.version"]) == (os.getpid(), "2.14.1")


def test_what_the_user_says_of_the_resource_wins(versions, monkeypatch):
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "host.name=chosen, process.pid=1,broken,=")
    assert detected().keys() == {"process.runtime.name", "process.runtime.version"}


def test_every_attribute_is_a_row_of_the_table_and_passes_its_kind(versions, monkeypatch):
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)
    versions(torch="2.14.1+cu130", torch_tensorrt="2.14.0", tensorrt="10.16.0")
    found = detected()
    assert found.keys() == ROWS.keys() - {"torchspan.run.id"}
    assert {key: type_of(value) for key, value in found.items()} == {key: ROWS[key].type for key in found}
    assert semconv.emitted(found) == found


@pytest.mark.parametrize("key", ["torch.distributed.run.id", "host.name", "torch.version"])
def test_a_text_is_left_out_exactly_where_its_kind_would_replace_it(versions, monkeypatch, key):
    texts = [
        "a",
        "7",
        "a-b_c.d",
        "1.0+x",
        "",
        "-a",
        ".a",
        "_a",
        "a b",
        "a\nb",
        "é",
        "1" * 64,
        "1" * 65,
        "1" * 253,
        "1" * 254,
    ]
    for text in texts:
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", text)
        monkeypatch.setattr(_resource.socket, "gethostname", lambda text=text: text)
        versions(torch=text)
        assert (key in detected()) is (bool(text) and ROWS[key].kind.accepts(text)), repr(text)


PROGRAM = """
import json, os, sys
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider

provider = TracerProvider()
before = dict(provider.resource.attributes)
read, write = os.pipe()
if os.fork() == 0:
    os.write(write, json.dumps(dict(provider.resource.attributes)).encode())
    os._exit(0)
os.wait()
observed = {"torch", "torch_tensorrt", "tensorrt", "tensorrt_rtx", "pynvml", "torchspan.words.semconv"}
print(json.dumps([os.getpid(), before, json.loads(os.read(read, 65536)), sorted(observed & set(sys.modules))]))
"""


def test_the_sdk_finds_it_by_its_name_and_asks_again_in_a_forked_child(tmp_path):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "TORCHSPAN_"))}
    environment |= {"OTEL_EXPERIMENTAL_RESOURCE_DETECTORS": "torchspan", "OTEL_RESOURCE_ATTRIBUTES": "host.name=chosen"}
    environment |= {**TORCHRUN, **installed.environment(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True, timeout=120
    )
    pid, before, child, loaded = json.loads(done.stdout)
    assert loaded == []
    assert (before["process.pid"], before["host.name"], before["torch.distributed.rank"]) == (pid, "chosen", 3)
    assert before["torch.version"] == importlib.metadata.version("torch")
    assert child["process.pid"] not in {pid, None}
    for own in ("process.pid", "service.instance.id"):
        assert before.pop(own) != child.pop(own)
    assert child == before
    assert done.stderr == ""


def test_its_resource_merges_with_any_other():
    other = Resource({"service.name": "app"}, "https://opentelemetry.io/schemas/1.44.0")
    merged = TorchspanResourceDetector().detect().merge(other)
    assert (merged.attributes["service.name"], merged.attributes["process.pid"]) == ("app", os.getpid())
