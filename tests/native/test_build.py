# SPDX-License-Identifier: Apache-2.0
"""Building the library: once, whole or not at all, with one line that says why not."""

import base64
import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest

import torchspan
from support.child import UNMEASURED
from torchspan.hooks import native
from torchspan.hooks.native import __main__ as command
from torchspan.hooks.native import _build, _load, _manifest

REMEDY = (
    "install g++ 11 or clang++ 14, or a later version, and Python's headers, and run python -m torchspan.native build"
)


def refusal(target):
    """The message of the error that a build raises."""
    with pytest.raises(native.UnavailableError) as raised:
        _build.build(target)
    return str(raised.value)


def test_a_library_fits_every_python_whichever_it_was_compiled_with():
    source = (_manifest.SOURCE_FOLDER / "operators.cpp").read_text(encoding="utf-8")
    formats = re.findall(r'Py(?:Arg_ParseTuple|_BuildValue)\([^"]*"([^"]*)"', source)
    assert [text for text in ("kOK", "(NN)") if text not in formats] == []
    assert [text for text in formats if "#" in text] == []


def files(caches):
    """What lies in the folder of the libraries."""
    return sorted(str(path.relative_to(caches / "torchspan" / "native")) for path in caches.glob("torchspan/native/*"))


# --- what is written ----------------------------------------------------------------------------------------------------
def test_the_suites_library_was_built_by_a_compiler_and_is_small(built):
    assert 20_000 < (built / "_torchspan_native.abi3.so").stat().st_size < 150_000


def test_the_folder_and_its_files_are_this_users_alone_whatever_the_umask(caches, target, built, compiler):
    compiler(f'cp {built}/*.so "$output"')
    umask = os.umask(0)
    try:
        library = _build.build(target)
    finally:
        os.umask(umask)

    assert library == caches / "torchspan" / "native" / built.name / "_torchspan_native.abi3.so"
    modes = {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in (library.parent, *library.parent.iterdir())}
    assert modes == {built.name: "0o700", "_torchspan_native.abi3.so": "0o600", "manifest.json": "0o600"}
    assert (library.parent / "manifest.json").read_bytes() == (built / "manifest.json").read_bytes()


def test_progress_is_a_line_before_and_a_line_after(caches, target, built, compiler, tmp_path):
    compiler(f'cp {built}/*.so "$output"')
    lines = []

    library = _build.build(target, lines.append)
    _build.build(target, lines.append)

    size = round(library.stat().st_size / 1000)
    assert [re.sub(r"in \d+ s", "in 0 s", line) for line in lines] == [
        f"Building the library for PyTorch {target.torch} with {tmp_path}/compiler (10 to 30 seconds) ...",
        f"Built in 0 s, {size} kB.",
        f"The library for PyTorch {target.torch} is built: {library}",
    ]


def test_of_builders_at_once_one_builds_and_the_others_use_its_library(caches, target, built, compiler, tmp_path):
    compiler(f"echo built >> {tmp_path}/log", "sleep 0.2", f'cp {built}/*.so "$output"')
    libraries = []
    threads = [threading.Thread(target=lambda: libraries.append(_build.build(target))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (tmp_path / "log").read_text(encoding="utf-8") == "built\n"
    assert libraries == [caches / "torchspan" / "native" / built.name / "_torchspan_native.abi3.so"] * 4
    assert files(caches) == [built.name, "lock"]


def test_a_library_that_was_changed_is_replaced(copy, target, built, compiler, caches):
    compiler(f'cp {built}/*.so "$output"')
    (copy / "_torchspan_native.abi3.so").write_bytes(b"changed")

    library = _build.build(target)

    assert library.read_bytes() == (built / "_torchspan_native.abi3.so").read_bytes()
    assert files(caches) == [built.name, "lock"]


# --- what fails ---------------------------------------------------------------------------------------------------------
def test_without_a_compiler_that_is_said(caches, target, monkeypatch, tmp_path):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert refusal(target) == f"a C++ compiler is not installed; {REMEDY}"
    assert files(caches) == ["lock"]


def test_a_compiler_that_cxx_names_and_that_is_missing_is_named(caches, target, monkeypatch):
    monkeypatch.setenv("CXX", "missing-ccache g++")

    assert refusal(target) == f"missing-ccache is not installed; {REMEDY}"


def test_of_a_compiler_that_fails_the_first_error_is_said_and_nothing_is_left(caches, target, compiler, tmp_path):
    compiler(
        "echo half > $output; echo 'a.h: note: x' >&2; echo 'a.h:1:2: error: no such type' >&2; echo done >&2; exit 1"
    )

    message = f"{tmp_path}/compiler cannot compile the library: a.h:1:2: error: no such type; {REMEDY}"
    assert refusal(target) == message
    assert files(caches) == ["lock"]


def test_a_compiler_that_is_killed_or_writes_nothing_is_an_error_too(caches, target, compiler, tmp_path):
    compiler("kill -9 $$")
    assert refusal(target) == f"{tmp_path}/compiler cannot compile the library: exit status -9; {REMEDY}"

    compiler("exit 0")
    assert refusal(target).startswith("the library cannot be written: No such file or directory: ")
    assert files(caches) == ["lock"]


def test_a_folder_that_cannot_be_written_to_is_named(target, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))

    assert refusal(target) == (
        f"the library cannot be written: Not a directory: {tmp_path}/file/torchspan; make the folder writable, or set "
        "XDG_CACHE_HOME to another one, and run python -m torchspan.native build"
    )


def test_nothing_is_built_where_others_may_write(caches, target, compiler):
    compiler("exit 1")
    folder = caches / "torchspan"
    folder.mkdir(parents=True)
    folder.chmod(0o777)

    assert refusal(target) == f"other users may write to {folder}; remove it and run python -m torchspan.native build"


@pytest.mark.slow
def test_broken_source_is_an_error_with_its_line(caches, tmp_path, native_library):
    shutil.copytree(Path(torchspan.__file__).parent, tmp_path / "torchspan")
    source = tmp_path / "torchspan" / "hooks" / "native" / "operators.cpp"
    source.write_text(f"#error broken\n{source.read_text(encoding='utf-8')}", encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-m", "torchspan.native", "build"],
        env={**os.environ, **UNMEASURED, "PYTHONPATH": str(tmp_path), "CXX": ""},  # a copy of the source
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.returncode == 1
    assert result.stderr.splitlines()[-1] == (
        f"python -m torchspan.native: c++ cannot compile the library: {source}:1:2: error: #error broken; {REMEDY}"
    )


# --- by itself ----------------------------------------------------------------------------------------------------------
def test_with_the_variable_a_program_builds_what_it_lacks_and_logs_one_line(
    caches, target, built, compiler, monkeypatch, caplog
):
    compiler(f'cp {built}/*.so "$output"')
    monkeypatch.setenv("TORCHSPAN_NATIVE_BUILD", "on")

    assert Path(_load.load().__file__).is_relative_to(caches)
    (message,) = caplog.messages
    assert message == (
        "torchspan builds its library for operators (TORCHSPAN_NATIVE_BUILD=on): no library is built for PyTorch "
        f"{target.torch}"
    )


# --- the command and its wheel ------------------------------------------------------------------------------------------
def test_the_command_says_where_the_library_is(copy, capsys, target):
    assert command.main(["build"]) == 0
    assert capsys.readouterr().out == (
        f"The library for PyTorch {target.torch} is built: {copy}/_torchspan_native.abi3.so\n"
    )


def test_the_command_fails_with_one_line(caches, capsys, monkeypatch, target):
    monkeypatch.setenv("CXX", "none-of-these")

    assert command.main(["build"]) == 1
    assert capsys.readouterr().err == f"python -m torchspan.native: none-of-these is not installed; {REMEDY}\n"


def test_the_wheel_has_the_library_its_manifest_and_a_record_of_them(copy, target, tmp_path, capsys):
    assert command.main(["build", "--wheel", str(tmp_path / "wheels")]) == 0

    (wheel,) = (tmp_path / "wheels").iterdir()
    local = re.sub("[^a-z0-9]+", ".", target.torch)
    assert wheel.name == (
        f"torchspan_native-{torchspan.__version__}+torch{local}-cp310-abi3-linux_{target.machine.split()[1]}.whl"
    )
    assert capsys.readouterr().out.splitlines()[-1] == f"Wheel: {wheel}"
    metadata = f"torchspan_native-{torchspan.__version__}+torch{local}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    rows = [row.split(",") for row in content.pop(f"{metadata}/RECORD").decode().splitlines()]
    assert rows.pop() == [f"{metadata}/RECORD", "", ""]
    assert {name: (digest, size) for name, digest, size in rows} == {
        name: (
            f"sha256={base64.urlsafe_b64encode(hashlib.sha256(part).digest()).decode().rstrip('=')}",
            str(len(part)),
        )
        for name, part in content.items()
    }
    assert list(content) == [
        "torchspan_native/__init__.py",
        "torchspan_native/_torchspan_native.abi3.so",
        "torchspan_native/manifest.json",
        f"{metadata}/METADATA",
        f"{metadata}/WHEEL",
    ]
    assert content["torchspan_native/manifest.json"] == (copy / "manifest.json").read_bytes()
