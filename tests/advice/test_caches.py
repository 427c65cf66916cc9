# SPDX-License-Identifier: Apache-2.0
"""Remedies for caches of torch.compile, and for programs without a GPU, are shown where following them as printed helps, and nowhere else."""

import os
import shlex
import subprocess
import sys

import pytest
import torch

from support.advice import alike, helped, run, shown
from support.advice.caches import PROGRAMS
from support.gpu import has_driver
from torchspan import answers


@pytest.fixture(autouse=True)
def empty_caches(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    with torch._functorch.config.patch(autograd_cache_allow_custom_autograd_functions=False):
        yield


def of(kind):
    return [program for program in PROGRAMS if program.kind == kind]


def bypasses(ran):
    return sum(result.count for result in ran.said.cache if result.outcome == "bypass")


def switched(source, remedy):
    return source.replace("import torch\n", f"import torch\n{remedy}\n", 1)


@helped(of("custom_functions"))
def test_graphs_with_custom_functions_are_accepted_with_the_setting(program):
    before = run(program.source)
    after = run(switched(program.source, before.shown["custom_functions"][0]))
    torch.testing.assert_close(after.results, before.results)
    assert bypasses(before) > 0 == bypasses(after)


@alike(of("custom_functions"))
def test_custom_functions_are_not_named_where_the_graph_has_none(program):
    before = run(program.source)
    assert "custom_functions" not in before.shown
    assert bypasses(run(switched(program.source, program.would))) == bypasses(before)


RUN = shlex.join(
    [sys.executable, "-m", "torchspan", "run", "--output", "trace.jsonl", "--", sys.executable, "program.py"]
)


def shell(command, folder, **variables):
    """A command in a folder, without what the suite's own process has set for torchspan."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("TORCHSPAN_", "OTEL_"))}
    environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), environ["PATH"]])
    return subprocess.run(
        command,
        check=False,
        shell=True,
        cwd=folder,
        env={**environ, **variables},
        capture_output=True,
        text=True,
        timeout=300,
    )


def disabled(program, folder, command=RUN):
    """Whether Inductor's cache is disabled in a process with the program's variables, and the remedies."""
    (folder / "program.py").write_text(program.source)
    variables = {name: value.format(folder=folder / "own") for name, value in program.variables.items()}
    done = shell(command, folder, **variables)
    assert done.returncode == 0, done.stderr
    said = answers.read(folder / "trace.jsonl").answers
    return any(result.outcome == "disabled" for result in said.cache), shown(said)


@helped(of("caches_of_graphs"))
def test_the_cache_is_not_disabled_any_more_without_the_variables(program, tmp_path):
    is_disabled, remedies = disabled(program, tmp_path)
    (remedy,) = remedies["caches_of_graphs"]
    assert is_disabled
    assert disabled(program, tmp_path, f"{remedy}; {RUN}") == (False, {})


@alike(of("caches_of_graphs"))
def test_no_variable_is_named_that_does_not_disable_the_cache(program, tmp_path):
    assert disabled(program, tmp_path) == (False, {})


no_driver = pytest.mark.skipif(has_driver(), reason="a machine without NVIDIA's driver is the subject")
ADVICE = "torchspan: no NVIDIA driver on this machine; try: "


def last_line(program, folder, options=""):
    (folder / "program.py").write_text(program.source)
    done = shell(RUN.replace("--output", f"{options} --output"), folder)
    return done.returncode, done.stderr.splitlines()[-1]


@no_driver
@helped(of("without_gpu"))
def test_a_program_that_failed_for_want_of_a_gpu_runs_by_the_command(program, tmp_path):
    status, line = last_line(program, tmp_path)
    assert status == 1
    done = shell(line.removeprefix(ADVICE), tmp_path)
    assert (line.startswith(ADVICE), done.returncode) == (True, 0), done.stderr


@no_driver
@alike(of("without_gpu"))
def test_no_command_is_named_to_a_program_that_failed_for_another_reason(program, tmp_path):
    status, line = last_line(program, tmp_path)
    assert not line.startswith(ADVICE)
    assert last_line(program, tmp_path, "--without-gpu")[0] == status != 0
