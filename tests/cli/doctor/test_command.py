# SPDX-License-Identifier: Apache-2.0
"""The command as a program: its two outputs, what it imports and what it never prints."""

import json

import pytest

FAILING = {
    "OTEL_TRACES_SAMPLER": "acme",
    "TORCHSPAN_HEARTBEAT": "soon",
    "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20s3cret",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "http://me:s3cret@127.0.0.1:1",
}


def joined(text):
    return " ".join(text.split())


def read(text):
    """The rows of the text for people, without their line breaks: state, name, and the rest."""
    rows = []
    for line in text.partition("\n\n")[0].splitlines()[1:]:
        if line.startswith(" "):
            rows[-1][2].append(line.strip())
        else:
            rows.append((*line.split(), []))
    return [(state, name, " ".join(said)) for state, name, said in rows]


@pytest.fixture
def environment(monkeypatch):
    for name, value in FAILING.items():
        monkeypatch.setenv(name, value)


def test_the_text_and_the_json_say_the_same(torchspan, environment):
    status, text, _ = torchspan("doctor")
    json_status, document, _ = torchspan("doctor", "--json")

    said = [
        (row["state"], row["name"], joined(f"{row['summary']} {row['remedy']}"))
        for row in json.loads(document)["checks"]
    ]
    assert read(text) == said
    assert (status, json_status) == (1, 1)


def test_the_exit_status_is_0_where_nothing_fails(torchspan, monkeypatch):
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "none")
    monkeypatch.setenv("OTEL_LOGS_EXPORTER", "none")

    assert torchspan("doctor")[0] == 0


def test_no_credential_is_printed(torchspan, environment):
    assert not [part for words in ([], ["--json"]) for part in torchspan("doctor", *words)[1:] if "s3cret" in part]


def test_nothing_that_is_observed_is_imported(new_python):
    program = """
import sys
from torchspan import cli
cli.main(["doctor"])
print([name for name in ("torch", "torch_tensorrt", "tensorrt", "tensorrt_rtx") if name in sys.modules])
"""
    result = new_python(program, OTEL_TRACES_EXPORTER="none", OTEL_METRICS_EXPORTER="none")

    assert result.stderr == ""
    assert result.stdout.splitlines()[-1] == "[]"


PROBING = """
import warnings; warnings.simplefilter("ignore")
import sys
import torch
def refuse(*_args, **_kwargs):
    raise SystemExit("a CUDA context was opened")
torch._C._cuda_init = torch.cuda._lazy_init = refuse
sys.modules["pynvml"] = None
import torchspan.testing
torchspan.testing.without_gpu()
import torch_tensorrt
from torch_tensorrt.dynamo import _compiler
del _compiler.compile_module
from torchspan import cli
status = cli.main(["doctor", "--probe", "--json"])
print("\\nstatus", status, torch.cuda.is_initialized())
"""


@pytest.mark.slow
def test_probe_says_what_is_lost_by_each_hook_point_that_does_not_resolve(new_python):
    result = new_python(PROBING, OTEL_TRACES_EXPORTER="none", OTEL_METRICS_EXPORTER="none")

    document, _, end = result.stdout.rpartition("\nstatus ")
    assert end.split()[-1] == "False"
    rows = {row["name"]: row for row in json.loads(document)["checks"]}
    assert rows["hooks.resolved"]["state"] == "warning"
    assert rows["hooks.resolved"]["facts"]["absent"] == 1
    assert rows["hooks.absent.torch_tensorrt.dynamo._compiler:compile_module"] == {
        "name": "hooks.absent.torch_tensorrt.dynamo._compiler:compile_module",
        "state": "warning",
        "summary": "compile_module is missing. Lost: what this call adds to torch_tensorrt.compile spans. Why the hook is "
        "there: partition and conversion of every route; knows the engines, and returns its argument when it skips.",
        "remedy": "Use a version of Torch-TensorRT that torchspan is tested with, or report this line.",
        "facts": {
            "target": "torch_tensorrt.dynamo._compiler:compile_module",
            "lost": "Lost: what this call adds to torch_tensorrt.compile spans.",
        },
    }
