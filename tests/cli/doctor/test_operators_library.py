# SPDX-License-Identifier: Apache-2.0
"""Whether the library that records operators fits the installed PyTorch: by files, nothing is imported."""

import shutil
from pathlib import Path

import pytest

from torchspan.cli.doctor._check import State

NAME = "operators.library"
REMEDY = "Run python -m torchspan.native build."


@pytest.fixture(autouse=True)
def caches(tmp_path, monkeypatch):
    """The folder for caches."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "torchspan").mkdir(mode=0o700)
    (tmp_path / "torchspan" / "native").mkdir(mode=0o700)
    return tmp_path


@pytest.fixture
def torch(tmp_path, monkeypatch):
    """Installs a PyTorch that ends the program when it is imported."""

    def install(version):
        header = tmp_path / "torch" / "include" / "ATen" / "record_function.h"
        header.parent.mkdir(parents=True)
        header.write_text("// a layout\n", encoding="utf-8")
        folder = tmp_path / "torch"
        (folder / "__init__.py").write_text("raise SystemExit('imported')\n", encoding="utf-8")
        lines = (f"__version__ = '{version}'", "cuda: Optional[str] = '13.0'", "git_version = '0123456789'")
        (folder / "version.py").write_text("\n".join(lines) + "\n", encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path)

    return install


@pytest.mark.parametrize(
    ("variables", "state"),
    [
        ({}, State.NOTE),
        ({"TORCHSPAN_OPERATORS": "off"}, State.NOTE),
        ({"TORCHSPAN_OPERATORS": "sampled"}, State.WARNING),
        ({"TORCHSPAN_OPERATORS": "on"}, State.WARNING),
        ({"TORCHSPAN_OPERATORS": "on", "TORCHSPAN_NATIVE_BUILD": "on"}, State.NOTE),
    ],
)
def test_a_missing_library_is_a_warning_where_operators_are_recorded(rows, torch, variables, state):
    torch("2.13.0")

    summary = "PyTorch's operators are not recorded: no library is built for PyTorch 2.13.0."
    assert rows(**variables)[NAME][1:4] == (state, summary, REMEDY)


def test_a_library_for_the_installed_pytorch_is_ok(rows, native_library, caches):
    folder = Path(native_library.__file__).parent
    shutil.copytree(folder, caches / "torchspan" / "native" / folder.name)

    row = rows(TORCHSPAN_OPERATORS="on")[NAME]

    assert row.state is State.OK
    assert row.summary.startswith("The library that records operators is built for PyTorch 2.")


def test_a_changed_library_is_a_warning(rows, native_library, caches):
    folder = caches / "torchspan" / "native" / Path(native_library.__file__).parent.name
    shutil.copytree(Path(native_library.__file__).parent, folder)
    (folder / "_torchspan_native.abi3.so").write_bytes(b"changed")

    assert rows(TORCHSPAN_OPERATORS="on")[NAME][1:4] == (
        State.WARNING,
        (
            f"PyTorch's operators are not recorded: the library in {folder} does not fit: its bytes are not those that were "
            "built."
        ),
        REMEDY,
    )


def test_a_pytorch_whose_files_are_missing_is_said(rows, torch, tmp_path):
    torch("2.13.0")
    (tmp_path / "torch" / "version.py").unlink()

    assert rows()[NAME][1:4] == (
        State.NOTE,
        "PyTorch's operators are not recorded: PyTorch's version.py cannot be read (No such file or directory).",
        "Install PyTorch again.",
    )
