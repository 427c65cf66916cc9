# SPDX-License-Identifier: Apache-2.0
"""Checks asked in this process, and an environment that holds torchspan's core install alone."""

import os
import subprocess
import sys

import pytest

from support.core_install import Environment, core
from torchspan.cli import doctor
from torchspan.cli.doctor import _printed as report
from torchspan.cli.doctor._check import Context

OFFLINE = [f"torchspan.cli.doctor.{module}" for module in ("_packages", "_switches")]
"""The modules whose checks look at this machine alone."""


@pytest.fixture
def rows(monkeypatch):
    """The rows of these checks in an environment with these variables, by name. No observed library has been imported."""
    for name in ("torch", "torch_tensorrt", "tensorrt", "tensorrt_rtx"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    checks = [check for check in doctor.checks() if check.__module__ in OFFLINE]

    def ask(**environment):
        return {row.name: row for row in report.rows(checks, Context(environment))}

    return ask


@pytest.fixture(scope="session")
def core_install(tmp_path_factory):
    return Environment(tmp_path_factory.mktemp("core"), *core())


@pytest.fixture
def distribution(tmp_path, monkeypatch):
    """Makes a distribution that is installed in front of the others: its name, version, requirements, entry points."""
    monkeypatch.syspath_prepend(tmp_path)

    def install(name, version, *requirements, module=None, **entry_points):
        metadata = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
        metadata.mkdir()
        lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {each}" for each in requirements)]
        (metadata / "METADATA").write_text("\n".join(("Metadata-Version: 2.1", *lines)) + "\n", encoding="utf-8")
        sections = [f"[{group}]\n{text}\n" for group, text in entry_points.items()]
        (metadata / "entry_points.txt").write_text("\n".join(sections), encoding="utf-8")
        if module is not None:
            (tmp_path / f"{module}.py").write_text("raise SystemExit('imported')\n", encoding="utf-8")

    return install


@pytest.fixture
def new_python(tmp_path):
    """Runs a program in a new Python whose environment has no variable of OpenTelemetry but these."""

    def run(program, **variables):
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "TORCHSPAN_"))}
        return subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            env={**clean, **variables},
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        )

    return run
