# SPDX-License-Identifier: Apache-2.0
"""The command line where TensorRT is installed, or imported, without Torch-TensorRT."""

import ctypes.util
import os
import re
import subprocess
import sys

import pytest

from support.child import run


def probes():
    import contextlib
    import io
    import pathlib
    import sys

    from torchspan import cli

    for name in pathlib.Path("missing").read_text().split():
        sys.modules[name] = None  # as if it were not installed
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = cli.main(["probes"])
    return {
        "status": status,
        "out": out.getvalue(),
        "err": err.getvalue(),
        "torch": sys.modules.get("torch") is not None,
    }


def test_probes_shows_what_of_tensorrt_resolves_without_torch_tensorrt(tmp_path):
    (tmp_path / "missing").write_text("torch_tensorrt torch")
    result = run(probes, folder=tmp_path).value
    assert (result["status"], result["err"], result["torch"]) == (0, "", False)
    rows = dict(re.findall(r"^(\S+:\S+)\n  ([\w ]+)[;:]", result["out"], re.MULTILINE))
    assert rows["tensorrt:OnnxParser.parse"] == "resolved"
    assert rows["tensorrt:Builder.build_engine_with_config"] == "out of range"
    assert rows["torch_tensorrt._compile:compile"] == "library not installed"
    assert "tensorrt_rtx 1." in result["out"]
    assert "the range that torchspan is tested with" not in result["out"]  # that is said of Torch-TensorRT


def test_probes_without_any_of_the_libraries_says_what_to_install(tmp_path):
    (tmp_path / "missing").write_text("torch_tensorrt tensorrt tensorrt_rtx torch")
    result = run(probes, folder=tmp_path).value
    assert (result["status"], result["out"]) == (1, "")
    assert "none of torch_tensorrt, tensorrt and tensorrt_rtx is installed in this Python" in result["err"]


@pytest.mark.parametrize(
    ("program", "drawn", "reason"),
    [
        (
            "import tensorrt_rtx",
            ": imports ",
            "nothing of torch.compile, Torch-TensorRT or TensorRT was recorded: tensorrt_rtx was imported, but nothing was parsed, built or run with it",
        ),
        (
            "import json",
            "",
            "nothing was compiled: neither torch.compile nor Torch-TensorRT ran; none of torch, torch_tensorrt, tensorrt and tensorrt_rtx was imported",
        ),
    ],
)
def test_a_run_that_recorded_nothing_says_why(tmp_path, program, drawn, reason):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "TORCHSPAN_"))}
    command = [sys.executable, "-c", "import sys; from torchspan.cli import main; sys.exit(main())"]
    done = subprocess.run(
        [*command, "run", "--", sys.executable, "-c", program],
        cwd=tmp_path,
        env=clean,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0
    assert f"torchspan: {reason}\n" in done.stderr
    assert (drawn in done.stderr) if drawn else done.stderr == f"torchspan: {reason}\n"


@pytest.mark.skipif(
    ctypes.util.find_library("cuda") is not None, reason="a machine without NVIDIA's driver is the subject"
)
def test_without_gpu_has_no_effect_without_torch_and_run_reports_it(tmp_path):
    program = """
import sys
sys.modules["torch"] = sys.modules["torch_tensorrt"] = None  # as if they were not installed
import tensorrt_rtx
assert tensorrt_rtx.Runtime(tensorrt_rtx.Logger()).deserialize_cuda_engine(b"an engine")
"""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "TORCHSPAN_"))}
    command = [sys.executable, "-c", "import sys; from torchspan.cli import main; sys.exit(main())"]
    done = subprocess.run(
        [*command, "run", "--without-gpu", "--quiet", "--", sys.executable, "-c", program],
        cwd=tmp_path,
        env=clean,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "torchspan: --without-gpu has no effect without PyTorch, which this program does not import: "
        "TensorRT needs a GPU to load an engine"
    )
