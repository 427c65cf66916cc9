# SPDX-License-Identifier: Apache-2.0
"""The README does what it says: its programs run as they stand there, in order, in one folder.

A block's info string says what is done with it: `file=` is written to that file, `run` is run by a shell (`tensorrt`: of TensorRT alone), `make` and
`install` are only checked (they would install), `demo` and `bench` are output that somebody pasted.
`ranks` is run by test_examples.py.
"""

import os
import re
import subprocess
import sys
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from support.child import unmeasured
from torchspan import environment_variables, probes

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(\S+)?[ \t]*(.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """line: of the fence. language: the first word of the info string. marks: the others."""

    line: int
    language: str
    marks: tuple[str, ...]
    text: str

    @property
    def file(self):
        """The file that the block is, for `file=app.py`."""
        return next((mark.removeprefix("file=") for mark in self.marks if mark.startswith("file=")), None)


def blocks(text):
    """Every fenced block, in order."""
    return [
        Block(text.count("\n", 0, found.start()) + 1, found[1] or "", tuple(found[2].split()), found[3])
        for found in FENCE.finditer(text)
    ]


README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = blocks(README)
SPAN = re.compile(r"(?:torch_tensorrt|tensorrt|torch)\.[a-z_.]+")


def marked(mark):
    return [block for block in BLOCKS if mark in block.marks]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the README's reader is: every file of the README is there."""
    path = tmp_path_factory.mktemp("readme")
    for block in BLOCKS:
        if block.file:
            (path / block.file).write_text(block.text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def environment():
    """The reader's: `.venv` on the path, nothing of OpenTelemetry's set; a GPU only where there is one."""
    base = {name: value for name, value in unmeasured().items() if not name.startswith(("OTEL_", "TORCHSPAN_"))}
    programs = f"{Path(sys.executable).parent}{os.pathsep}{base['PATH']}"
    return {**base, "PATH": programs, "TORCHSPAN_WITHOUT_GPU": "1", "PYTHONDONTWRITEBYTECODE": "1"}


class Receiver(ThreadingHTTPServer):
    """An OTLP receiver on this machine; `names` are those of the spans that arrived."""

    def __init__(self):
        self.names = []
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        request = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"])))
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                self.server.names += [span.name for span in scope.spans]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_words):
        pass


@pytest.fixture
def receiver():
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def run(text, folder, environment):
    script = f"set -eu\n{text}"
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_every_block_says_what_a_test_does_with_it():
    kinds = {"run", "make", "install", "demo", "bench", "ranks"}
    assert [block.line for block in BLOCKS if not block.file and not kinds & set(block.marks)] == []


def test_the_make_targets_exist():
    for block in marked("make"):
        for line in block.text.splitlines():
            command, target = line.split()
            assert command == "make"
            assert f"\n{target}:" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_what_is_to_be_installed_is_an_extra_of_this_package():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for block in marked("install"):
        for line in block.text.splitlines():
            (extra,) = re.fullmatch(r"pip install '\.\[(\w+)\]'", line).groups()
            assert re.search(rf"^{extra} = \[", project, re.MULTILINE)


@pytest.mark.parametrize(
    "block", [b for b in marked("run") if "receiver" not in b.marks], ids=lambda b: f"line {b.line}"
)
def test_the_programs_run(block, folder, environment):
    out, _ = run(block.text, folder, environment)

    if "tensorrt" in block.marks:
        assert "tensorrt.build_engine" in out
        assert "onnx_invalid_value" in out
    elif "pytest" in block.text:
        assert "1 passed" in out
    elif "torchspan" in block.text:
        assert "torch_tensorrt.compile" in out
        assert "tensorrt.build_engine" in out


def test_traces_arrive_at_a_receiver(folder, environment, receiver):
    (block,) = marked("receiver")
    port = str(receiver.server_address[1])

    run(block.text.replace("4318", port), folder, environment)

    assert {"torch_tensorrt.compile", "tensorrt.build_engine", "torch_tensorrt.execute"} <= set(receiver.names)


def test_the_waterfall_is_the_demos(folder, environment):
    (block,) = marked("demo")

    _, err = run("torchspan demo", folder, environment)

    conv_net = err[err.rindex("\nconv net") :]
    assert SPAN.findall(block.text) == SPAN.findall(conv_net)


def test_the_table_of_settings_is_complete():
    variables = {name for name in vars(environment_variables) if name.startswith("TORCHSPAN_")}
    assert set(re.findall(r"^\| `(TORCHSPAN_\w+)` \|", README, re.MULTILINE)) == variables


def test_the_supported_versions_are_those_of_the_code():
    (oldest, newest) = (".".join(map(str, version)) for version in probes.SUPPORTED)
    rows = re.findall(r"^\| Torch-TensorRT (\d+\.\d+)", README, re.MULTILINE)
    assert {oldest, newest} <= set(rows)


def test_every_link_leads_somewhere():
    for document in [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("collector-config/**/README.md"),
        ROOT / "examples/README.md",
    ]:
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text(encoding="utf-8")):
            assert "://" in target or (document.parent / target).exists(), f"{document.name}: {target}"
