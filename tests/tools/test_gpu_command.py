# SPDX-License-Identifier: Apache-2.0
"""`make gpu`: without a GPU, what is missing and how it is named, and the page of a run."""

import copy
import subprocess
import sys
from pathlib import Path

import pytest

import generate_gpu_page
import gpu

REPORT = {
    "date": "2026-11-26",
    "rehearsal": False,
    "asked": "",
    "facts": {"python": "3.12.1", "torch": "2.11.0+cu130", "device": "NVIDIA H100", "driver": "580.65.06"},
    "groups": [
        {
            "name": "oracles",
            "seconds": 61,
            "ended": "",
            "tests": [
                {"name": "tests/gpu/test_run_times.py::test_one", "outcome": "passed", "message": ""},
                {"name": "tests/gpu/test_run_times.py::test_two", "outcome": "failed", "message": "2 | 3"},
                {"name": "tests/gpu/test_capture.py::test_three", "outcome": "skipped", "message": "no compiler"},
                {"name": "tests/gpu/test_capture.py::test_four", "outcome": "skipped", "message": "no compiler"},
            ],
        }
    ],
    "figures": [
        {
            "name": "engine: torch.profiler",
            "measured": 4.123456789,
            "oracle": 4.1,
            "unit": "ms",
            "bound": "3.977 to 4.223",
            "met": True,
        }
    ],
    "benchmarks": {"status": 0, "output": "  decided run  1.2 µs"},
}
JUNIT = """\
<testsuites><testsuite tests="4" time="1.5">
<testcase classname="tests.gpu.test_capture" name="test_a[x]"/>
<testcase classname="tests.gpu.test_capture" name="test_b"><failure message="E  two&#10;lines">text</failure></testcase>
<testcase classname="tests.gpu.test_capture" name="test_c"><skipped message="needs a GPU">text</skipped></testcase>
<testcase classname="tests.gpu.test_capture" name="test_d"><error>
worker gw0 crashed</error></testcase>
</testsuite></testsuites>
"""


def without(failures):
    """The report without its failed test, changed by a function."""
    report = copy.deepcopy(REPORT)
    del report["groups"][0]["tests"][1]
    failures(report)
    return report


# --- the machine ------------------------------------------------------------------------------------------------
def test_without_a_gpu_it_prints_one_line_and_its_status_is_0(monkeypatch, capsys):
    monkeypatch.setattr(gpu, "has_gpu", lambda: False)
    assert gpu.main([]) == 0
    assert capsys.readouterr() == ("gpu: the driver finds no NVIDIA GPU here, so nothing was run\n", "")


def test_the_command_starts_without_any_package(tmp_path):
    # -S: without the packages that are installed.
    command = [sys.executable, "-S", Path(gpu.__file__), "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("torch", "requirements"),
    [
        ("2.11.0+cu130", ("torch-tensorrt-rtx==2.11.0", "tensorrt_rtx==1.4.0.76")),
        ("2.12.1", ("torch-tensorrt-rtx==2.12.1",)),
        ("2.13.0", ("torch-tensorrt-rtx==2.13.0",)),
        ("2.14.1+cu130", ("torch-tensorrt-rtx==2.14.*",)),
    ],
)
def test_the_pytorch_that_is_there_decides_on_torch_tensorrt(torch, requirements):
    assert gpu.tensorrt_for(torch) == requirements


def test_requirements_have_the_bounds_of_pyproject():
    assert gpu.requirement("opentelemetry-sdk") == "opentelemetry-sdk>=1.44,<2"
    assert gpu.requirement("not-in-pyproject") == "not-in-pyproject"


# --- what is missing --------------------------------------------------------------------------------------------
def message(capsys, *arguments):
    assert gpu.main(["--rehearse", *map(str, arguments)]) == 2
    return capsys.readouterr().err


def test_a_folder_without_wheels_is_named_with_the_command_that_fills_it(tmp_path, capsys):
    assert message(capsys, "--wheels", tmp_path / "absent") == (
        f"gpu: {tmp_path}/absent has no wheels; fill it on a machine with network: "
        f"python tools/gpu.py fetch {tmp_path}/absent\n"
    )


def test_a_python_without_pytorch_is_named_with_the_way_out(monkeypatch, capsys):
    monkeypatch.setattr(gpu, "FACTS", "raise ModuleNotFoundError(\"No module named 'torch'\")")
    assert message(capsys) == (
        f"gpu: {sys.executable} cannot import PyTorch (ModuleNotFoundError: No module named 'torch'). "
        "Name a Python that can: make gpu PYTHON=/path/to/python3\n"
    )


def test_a_pytorch_that_no_torch_tensorrt_fits_is_named_with_those_that_have_one(monkeypatch, capsys):
    monkeypatch.setattr(gpu, "facts_of", lambda _python: {"torch": "2.9.1"})
    assert message(capsys) == (
        "gpu: PyTorch 2.9.1 has no Torch-TensorRT that torchspan is tested with; there is one for 2.11, 2.12, 2.13, 2.14. "
        "Name a Python with one of these: make gpu PYTHON=/path/to/python3\n"
    )


def test_a_wheel_that_is_missing_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(gpu, "facts_of", lambda _python: {"torch": "2.11.0"})
    monkeypatch.setattr(gpu, "VENV", tmp_path / "venv")
    monkeypatch.setattr(gpu, "DECLARED", ("not-in-pyproject",))
    (tmp_path / "unrelated-1.0-py3-none-any.whl").touch()
    assert message(capsys, "--wheels", tmp_path) == (
        f"gpu: there is no wheel of not-in-pyproject in {tmp_path}; fill it again: "
        f"python tools/gpu.py fetch {tmp_path}\n"
    )


# --- the report -------------------------------------------------------------------------------------------------
def test_outcomes_of_tests_are_read_with_the_first_line_of_their_messages(tmp_path):
    file = tmp_path / "junit.xml"
    file.write_text(JUNIT)
    tests, seconds = gpu.read_junit(file)
    assert seconds == 1.5
    assert tests == [
        {"name": "tests/gpu/test_capture.py::test_a[x]", "outcome": "passed", "message": ""},
        {"name": "tests/gpu/test_capture.py::test_b", "outcome": "failed", "message": "E  two"},
        {"name": "tests/gpu/test_capture.py::test_c", "outcome": "skipped", "message": "needs a GPU"},
        {"name": "tests/gpu/test_capture.py::test_d", "outcome": "failed", "message": "worker gw0 crashed"},
    ]


def test_oracles_run_by_themselves_before_all_other_tests():
    (first, second) = gpu.groups([])
    assert first == ("oracles", ["tests/gpu"], [])
    assert "tests/pipeline" in second[1]
    assert "tests/gpu" not in second[1]


@pytest.mark.parametrize(
    ("change", "has_failures"),
    [
        (lambda _report: None, False),
        (lambda report: report["groups"][0]["tests"][0].update(outcome="failed"), True),
        (lambda report: report["groups"][0].update(ended="pytest ended with status -11"), True),
        (lambda report: report["figures"][0].update(met=False), True),
        (lambda report: report["benchmarks"].update(status=1), True),
    ],
    ids=["none", "a test", "a crash", "a figure", "a benchmark"],
)
def test_whatever_fails_fails_the_run(change, has_failures):
    assert generate_gpu_page.has_failures(without(change)) is has_failures


# --- the page ---------------------------------------------------------------------------------------------------
def test_without_a_run_the_first_line_of_the_page_is_that_nothing_ran():
    page = generate_gpu_page.document(None).splitlines()
    assert page[3].startswith("Nothing of torchspan ran on a GPU yet:")
    assert "- A forked child records no time on the device" in page


def test_the_page_of_a_run_names_failures_and_has_each_figure_with_its_oracle():
    assert generate_gpu_page.document(REPORT).partition("no network.\n")[2] == (
        "\n"
        "## Where\n"
        "\n"
        "| What | Version |\n"
        "|---|---|\n"
        "| python | 3.12.1 |\n"
        "| torch | 2.11.0+cu130 |\n"
        "| device | NVIDIA H100 |\n"
        "| driver | 580.65.06 |\n"
        "\n"
        "## What ran\n"
        "\n"
        "| Tests | Passed | Failed | Skipped | Seconds | End |\n"
        "|---|---|---|---|---|---|\n"
        "| oracles | 1 | 1 | 2 | 61 |  |\n"
        "\n"
        "## What failed\n"
        "\n"
        "| What | Message |\n"
        "|---|---|\n"
        "| tests/gpu/test_run_times.py::test_two | 2 \\| 3 |\n"
        "\n"
        "## Figures\n"
        "\n"
        "| Figure | torchspan | Oracle | Unit | Bound | Verdict |\n"
        "|---|---|---|---|---|---|\n"
        "| engine: torch.profiler | 4.12346 | 4.1 | ms | 3.977 to 4.223 | met |\n"
        "\n"
        "## What was skipped\n"
        "\n"
        "| Reason | Tests |\n"
        "|---|---|\n"
        "| no compiler | 2 |\n"
        "\n"
        "## Benchmarks\n"
        "\n"
        "```text\n"
        "  decided run  1.2 µs\n"
        "```\n"
    )


@pytest.mark.parametrize(
    ("change", "first"),
    [
        (lambda _report: None, "Last run on 2026-11-26, on NVIDIA H100, without a failure."),
        (
            lambda report: report["benchmarks"].update(status=1),
            "Last run on 2026-11-26, on NVIDIA H100, with failures.",
        ),
        (
            lambda report: report.update(asked="tests/gpu"),
            "Last run on 2026-11-26, on NVIDIA H100, without a failure. Only tests/gpu ran.",
        ),
        (
            lambda report: report.update(rehearsal=True),
            "A rehearsal on a machine without a GPU: the stand-in took its place, and nothing ran on one.",
        ),
    ],
    ids=["all", "a failure", "a part", "a rehearsal"],
)
def test_the_first_line_of_the_page_says_what_the_run_was(change, first):
    assert generate_gpu_page.document(without(change)).splitlines()[3] == first
