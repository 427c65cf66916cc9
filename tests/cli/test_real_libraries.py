# SPDX-License-Identifier: Apache-2.0
"""The two commands that import torch_tensorrt, as a first-time user would run them."""

import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow


def test_the_demo_shows_a_fallback_and_its_reason_and_leaves_nothing_behind(shell):
    result = shell("demo", timeout=300)

    assert (result.returncode, result.stdout) == (0, "")
    err = result.stderr
    assert "8 of 9 ops in TensorRT · 2 engines" in err
    fallback = "in PyTorch: aten.special_i1e \N{MULTIPLICATION SIGN}1: no converter"
    assert fallback in " ".join(err.split())
    assert re.findall(r"^\d  (\w+) +\S1 .*?s  (.*)$", err, re.MULTILINE) == [
        ("ConvNetWithBessel", "8 of 9 ops in TensorRT"),
        ("SmallTransformer", "55 of 55 ops in TensorRT"),
    ]
    assert len(re.findall(r"^Own time  ", err, re.MULTILINE)) == 1, "the transformer has no news"
    assert err.endswith("torchspan: to keep the traces: torchspan demo --output demo.jsonl\n")
    # What the library writes while it is imported may be longer, and comes before.
    assert max(len(line) for line in err[err.index("\ntrace ") :].splitlines()) <= 80
    assert list(shell.folder.iterdir()) == []


def test_every_hook_point_that_this_installation_should_have_resolves(shell):
    result = shell("probes", timeout=300)

    # Torch-TensorRT 2.13 writes a line of its own while it is imported.
    torchspans = [
        line for line in result.stderr.splitlines() if not line.startswith("CUDA 13 is not currently supported")
    ]
    assert (result.returncode, torchspans) == (0, [])
    assert re.search(r"^\d+ hook points: \d+ resolved", result.stdout, re.MULTILINE)
    assert "torch_tensorrt is inside the range that torchspan is tested with, 2.11 to 2.14" in result.stdout


ABSENT = """
import torch
def refuse(*_args, **_kwargs):
    raise SystemExit("a CUDA context was opened")
torch._C._cuda_init = torch.cuda._lazy_init = refuse
import torchspan.testing
torchspan.testing.without_gpu()
import torch_tensorrt
from torch_tensorrt.dynamo import _compiler
del _compiler.compile_module
from torchspan import cli
print("status", cli.main(["probes"]), torch.cuda.is_initialized())
"""


def test_a_hook_point_that_does_not_resolve_is_named_and_no_cuda_context_is_opened():
    result = subprocess.run([sys.executable, "-c", ABSENT], capture_output=True, text=True, timeout=300, check=True)

    assert result.stdout.splitlines()[-1] == "status 1 False"
    assert (
        "torch_tensorrt.dynamo._compiler:compile_module\n"
        "  absent: compile_module is missing; annotate torch_tensorrt.compile\n"
    ) in result.stdout
