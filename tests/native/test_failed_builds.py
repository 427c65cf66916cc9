# SPDX-License-Identifier: Apache-2.0
"""Of a build that fails, one line says what failed, whichever program or folder it was."""

import errno
import fcntl
import os
import stat

import pytest

from torchspan.hooks.native import UnavailableError, _build, _load, _manifest

INSTALL = (
    "install g++ 11 or clang++ 14, or a later version, and Python's headers, and run python -m torchspan.native build"
)
WRITABLE = "make the folder writable, or set XDG_CACHE_HOME to another one, and run python -m torchspan.native build"


@pytest.fixture(scope="module")
def target():
    return _manifest.TorchBuild.imported()


@pytest.fixture
def libraries(tmp_path, monkeypatch):
    """The folder of libraries, in which nothing is built."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "torchspan" / "native"


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    """Writes the compiler that CXX names. Returns its path."""

    def write(text):
        path = tmp_path / "compiler"
        path.write_text(text, encoding="utf-8")
        path.chmod(stat.S_IRWXU)
        monkeypatch.setenv("CXX", str(path))
        return path

    return write


def refusal(call, *arguments):
    with pytest.raises(UnavailableError) as raised:
        call(*arguments)
    return str(raised.value)


def test_a_cxx_with_an_open_quote_is_refused(libraries, target, monkeypatch):
    monkeypatch.setenv("CXX", 'g++ "')
    assert refusal(_build.build, target) == f"CXX is not a command (No closing quotation); {INSTALL}"


def test_a_compiler_that_cannot_be_started_is_named_and_not_the_folder(libraries, target, compiler):
    path = compiler("text\n")
    assert refusal(_build.build, target) == f"{path} cannot be started (Exec format error); {INSTALL}"


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (
            ["/usr/bin/ld: cannot find -lc10: No such file or directory", "collect2: error: ld returned 1 exit status"],
            "/usr/bin/ld: cannot find -lc10: No such file or directory",
        ),
        (
            ["In file included from /opt/errors/a.h:3:", "/opt/b.h:9:1: fatal error: Python.h: No such file"],
            "/opt/b.h:9:1: fatal error: Python.h: No such file",
        ),
    ],
)
def test_the_line_with_the_cause_is_shown(lines, reason, libraries, target, compiler):
    path = compiler("#!/bin/sh\n" + "".join(f"echo '{line}' >&2\n" for line in lines) + "exit 1\n")
    assert refusal(_build.build, target) == f"{path} cannot compile the library: {reason}; {INSTALL}"


def test_where_no_file_can_be_locked_the_folder_is_named(libraries, target, monkeypatch):
    def refuse(*_arguments):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    assert refusal(_build.build, target) == (
        f"the library cannot be written: No locks available: {libraries}; {WRITABLE}"
    )


def test_what_a_killed_builder_left_is_removed_by_the_next_one(libraries, target, compiler):
    left = libraries / "new-1" / "key"
    left.mkdir(parents=True)
    (left / "_torchspan_native.abi3.so").write_bytes(b"half")
    for folder in (libraries.parent, libraries):
        folder.chmod(0o700)
    compiler("#!/bin/sh\nexit 1\n")
    refusal(_build.build, target)
    assert [path.name for path in libraries.iterdir()] == ["lock"]


def test_a_header_that_is_missing_has_one_remedy(monkeypatch, tmp_path):
    monkeypatch.setattr("torch.__file__", str(tmp_path / "__init__.py"))
    assert refusal(_manifest.TorchBuild.imported) == (
        f"{tmp_path}/include/ATen/record_function.h cannot be read (No such file or directory); install its package again"
    )


def test_a_manifest_with_line_breaks_or_long_text_is_one_short_line(target):
    assert target.difference({"torch": "1.0\n2.0"}) == (
        f"PyTorch's version was 1.0 2.0 when it was built, and is {target.torch}"
    )
    assert target.difference({"torch": "x" * 5000}) == (
        f"PyTorch's version was {'x' * 80} when it was built, and is {target.torch}"
    )


def test_a_program_that_builds_is_not_asked_to_run_the_command(libraries, target, compiler, monkeypatch, caplog):
    compiler("#!/bin/sh\nexit 1\n")
    monkeypatch.setenv("TORCHSPAN_NATIVE_BUILD", "on")
    refusal(_load.load)
    (message,) = caplog.messages
    assert message == (
        "torchspan builds its library for operators (TORCHSPAN_NATIVE_BUILD=on): "
        f"no library is built for PyTorch {target.torch}"
    )
