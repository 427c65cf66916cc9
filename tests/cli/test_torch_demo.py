# SPDX-License-Identifier: Apache-2.0
"""`torchspan demo` with torch alone: a graph break, a recompilation, and what it does where something is missing."""

import os
import subprocess
import sys

import pytest

from support.without import python_without
from torchspan import traces
from torchspan.cli import _torch_demo_program


def demo(python, folder, *words, **environment):
    return subprocess.run(
        [python, "-m", "torchspan", "demo", *map(str, words)],
        cwd=folder,
        env=os.environ | {"PYTHONSAFEPATH": "1", **environment},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )


@pytest.mark.slow
def test_it_trains_and_shows_a_graph_break_and_a_recompilation(tmp_path):
    done = demo(
        sys.executable,
        tmp_path,
        "--torch-compile",
        "--output",
        tmp_path / "demo.jsonl",
        TORCHINDUCTOR_CACHE_DIR=str(tmp_path),
    )

    assert (done.returncode, done.stdout) == (0, "")
    assert "demo: training with torch.compile on the CPU, backend inductor …\n" in done.stderr
    file = traces.read(tmp_path / "demo.jsonl")
    frames = file.find("torch.compile_frame")
    assert [frame.attributes["torch.compile.id"] for frame in frames] == ["0/0", "1/0", "0/1", "1/1"]
    assert [any(event.name == "torch.compile.graph_break" for event in frame.events) for frame in frames] == [
        True,
        False,
        True,
        False,
    ]
    assert ["torch.compile.recompile.reason" in frame.attributes for frame in frames] == [False, False, True, True]
    assert len(file.find("torch.compile_backward")) == 2  # those of dynamic sizes are compiled inside their frames


@pytest.mark.slow
def test_without_torch_tensorrt_it_says_that_it_compiles_with_torch_compile_alone(tmp_path):
    python = python_without(tmp_path / "alone", "torch_tensorrt")
    done = demo(python, tmp_path, PATH=str(tmp_path), CXX="")  # without a C++ compiler, which takes most of the time

    assert done.returncode == 0
    assert done.stderr.startswith("torchspan: torch_tensorrt is not installed: a demo of torch.compile alone\n")
    assert "torch.compile_frame" in done.stderr


def test_without_torch_it_says_what_to_install(tmp_path):
    done = demo(python_without(tmp_path / "none", "torch", "torch_tensorrt"), tmp_path)

    assert (done.returncode, done.stderr) == (
        1,
        "torchspan demo: needs torch; install with: pip install torch, or with Torch-TensorRT: pip install 'torchspan[demo]'\n",
    )


@pytest.mark.slow
def test_without_a_compiler_it_says_that_it_compiles_with_aot_eager(tmp_path):
    done = demo(sys.executable, tmp_path, "--torch-compile", PATH=str(tmp_path), CXX="")

    assert done.returncode == 0
    assert "demo: no C++ compiler found, which Inductor needs: compiling with the backend aot_eager\n" in done.stderr
    assert "torch.compile_frame" in done.stderr


def test_a_compiler_that_inductor_does_not_look_for_is_named_to_it(tmp_path, monkeypatch):
    compiler = tmp_path / "clang++"
    compiler.write_text("#!/bin/sh\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)

    assert (_torch_demo_program.backend(), os.environ["CXX"]) == ("inductor", str(compiler))
