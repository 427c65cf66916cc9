# SPDX-License-Identifier: Apache-2.0
"""A process that never imports torch, under `opentelemetry-instrument`: what it has of torchspan."""

import json

import pytest

from support.child import UNMEASURED
from support.receiver import Receiver

NO_EXPORT = {f"OTEL_{signal}_EXPORTER": "none" for signal in ("TRACES", "METRICS", "LOGS")}
EVERY_PART = {
    "OTEL_TRACES_SAMPLER": "parentbased_torchspan",
    "OTEL_PYTHON_ID_GENERATOR": "torchspan",
    "OTEL_EXPERIMENTAL_RESOURCE_DETECTORS": "torchspan",
}
OFF = {"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "torchspan"}
LIBRARIES = ("torch", "torch_tensorrt", "torch_tensorrt_rtx", "tensorrt", "tensorrt_rtx")

WORK = """
import json
import os
import sys
import threading
from opentelemetry import trace
from torchspan import TorchspanInstrumentor

with trace.get_tracer("app").start_as_current_span("work"):
    pass
descriptors = []
for each in os.listdir("/proc/self/fd"):
    try:
        descriptors.append(os.readlink("/proc/self/fd/" + each).partition(":")[0])
    except OSError:  # the one that lists them
        pass
print(json.dumps({
    "is_on": TorchspanInstrumentor().is_instrumented_by_opentelemetry,
    "threads": sorted(each.name for each in threading.enumerate()),
    "native threads": len(os.listdir("/proc/self/task")),
    "descriptors": sorted(descriptors),
    "modules": sorted(each for each in sys.modules if each.partition(".")[0] == "torchspan"),
}))
"""


@pytest.fixture(scope="module")
def found(instrumented):
    """What the program above has, by whether torchspan is enabled there."""
    result = {}
    with Receiver() as receiver:
        endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}
        for is_on, variables in ((True, {}), (False, OFF)):
            # Coverage would import `subprocess`, which torchspan waits for.
            done = instrumented(WORK, **endpoint, **variables, **UNMEASURED)
            assert (done.status, done.err) == (0, "")
            result[is_on] = json.loads(done.out)
            assert result[is_on]["is_on"] is is_on
        assert [span.name for span in receiver.spans()] == ["work", "work"]
    return result


def test_it_has_no_thread_of_torchspans(found):
    assert found[True]["threads"] == found[False]["threads"]
    assert found[True]["native threads"] == found[False]["native threads"]


def test_it_has_no_file_and_no_socket_of_torchspans(found):
    assert found[True]["descriptors"] == found[False]["descriptors"]


def test_it_loads_no_more_of_torchspan_than_what_waits(found):
    """Each module takes a part of the ten milliseconds that a start may cost: `benchmarks/start_up.py`."""
    assert found[True]["modules"] == [
        "torchspan",
        "torchspan.base",
        "torchspan.base.boundaries",
        "torchspan.base.by_identity",
        "torchspan.base.context",
        "torchspan.base.context.threads",
        "torchspan.base.forks",
        "torchspan.base.import_hooks",
        "torchspan.base.imports",
        "torchspan.base.logs",
        "torchspan.base.patching",
        "torchspan.base.readiness",
        "torchspan.base.reading",
        "torchspan.base.version",
        "torchspan.exceptions",
        "torchspan.hooks",
        "torchspan.hooks.propagation",
        "torchspan.hooks.propagation._context",
        "torchspan.output",
        "torchspan.output.server_span",
        "torchspan.start",
        "torchspan.start.instrumentor",
        "torchspan.start.launched",
        "torchspan.start.launched.start",
        "torchspan.words",
        "torchspan.words.environment_variables",
        "torchspan.words.sampling",
        "torchspan.words.sampling.rules",
        "torchspan.words.settings",
        "torchspan.words.settings.kinds",
    ]


@pytest.mark.parametrize("variables", [{}, EVERY_PART], ids=["alone", "with sampler, ids and resource"])
def test_neither_torch_nor_tensorrt_is_imported_though_both_are_installed(instrumented, tmp_path, variables):
    for library in LIBRARIES:
        (tmp_path / library).mkdir()
        (tmp_path / library / "__init__.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'a').write({library!r})")
        information = tmp_path / f"{library}-99.0.0.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {library}\nVersion: 99.0.0\n")
    program = "from opentelemetry import trace; trace.get_tracer('app').start_span('work').end(); print('done')"
    done = instrumented(program, path=[tmp_path], **NO_EXPORT, **variables)
    assert (done.status, done.out, done.err) == (0, "done\n", "")
    assert not (tmp_path / "imported").exists()


def test_a_child_that_it_starts_finds_no_more_either(instrumented, tmp_path):
    (tmp_path / "torch.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'a').write('torch')")
    program = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(1)'], check=True)"
    done = instrumented(program, path=[tmp_path], **NO_EXPORT)
    assert (done.status, done.out, done.err) == (0, "1\n", "")
    assert not (tmp_path / "imported").exists()


@pytest.mark.fault("libraries", "the import of torch fails")
def test_a_failed_import_of_torch_is_a_span(instrumented, tmp_path):
    (tmp_path / "torch.py").write_text("raise OSError('no libtorch_cpu.so')")
    program = "try: import torch\nexcept OSError as error: print(error)"
    with Receiver() as receiver:
        done = instrumented(program, path=[tmp_path], **receiver.environment())
        assert (done.status, done.out, done.err) == (0, "no libtorch_cpu.so\n", "")
        (span,) = receiver.spans()
    assert (span.name, span.attributes["torchspan.import.module"]) == ("torchspan.import", "torch")
    assert span.attributes["error.type"] == "OSError"


def test_an_import_of_torch_alone_is_not_a_span(instrumented, tmp_path):
    (tmp_path / "torch.py").write_text("print('imported')")
    with Receiver() as receiver:
        done = instrumented("import torch", path=[tmp_path], **receiver.environment())
        assert (done.status, done.out, done.err) == (0, "imported\n", "")
        assert receiver.spans() == []
