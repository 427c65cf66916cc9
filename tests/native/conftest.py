# SPDX-License-Identifier: Apache-2.0
"""Copies of the built library that a test may change, and compilers that are scripts."""

import shutil
import stat
from pathlib import Path

import pytest

from torchspan.hooks.native import _manifest


@pytest.fixture
def target(native_library):
    """What the library of the suite was built for."""
    return _manifest.TorchBuild.imported()


@pytest.fixture
def built(native_library):
    """The folder of the suite's library. Nothing is changed in it."""
    return Path(native_library.__file__).parent


@pytest.fixture
def caches(tmp_path, monkeypatch):
    """A folder for caches of this test alone, in which nothing is built."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    return tmp_path / "caches"


@pytest.fixture
def copy(built, caches, target):
    """The folder of a library that fits, in the folder for caches."""
    folder = caches / "torchspan" / "native" / built.name
    for parent in (folder.parents[1], folder.parent):
        parent.mkdir(mode=0o700, parents=True)
    shutil.copytree(built, folder)
    return folder


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    """Makes a compiler of lines of a shell, in which $output is the file that it writes."""

    def make(*lines):
        script = tmp_path / "compiler"
        find = 'while [ "$1" != -o ]; do shift; done; output="$2"'
        script.write_text("\n".join(("#!/bin/sh", find, *lines)) + "\n", encoding="utf-8")
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("CXX", str(script))

    return make
