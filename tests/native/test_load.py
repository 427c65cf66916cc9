# SPDX-License-Identifier: Apache-2.0
"""A library is loaded only if it fits PyTorch and torchspan, and no other user can have written it."""

import hashlib
import json
import os
import sys
import zipfile
from pathlib import Path

import pytest

from support.child import run
from torchspan.hooks import native
from torchspan.hooks.native import _load, _manifest, _wheel

COMMAND = "python -m torchspan.native build"


def refusal():
    """The message of the error that loading raises."""
    with pytest.raises(native.UnavailableError) as raised:
        _load.load()
    return str(raised.value)


def rewrite(folder, **fields):
    """Changes fields of a manifest."""
    path = folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **fields}), encoding="utf-8")


# --- a library that fits ------------------------------------------------------------------------------------------------
def test_the_library_says_what_it_was_built_for(native_library, target):
    built = native_library.build()

    assert (built["torch"], built["cxx11_abi"], built["torchspan"]) == (
        target.torch.partition("+")[0],
        1,
        target.source,
    )


def test_importing_the_package_imports_neither_torch_nor_what_starts_a_compiler(tmp_path):
    def program():
        import sys

        before = set(sys.modules)
        import torchspan.hooks.native  # noqa: F401

        return sorted({"torch", "subprocess", "torchspan.hooks.native._build"} & (set(sys.modules) - before))

    assert run(program, folder=tmp_path).value == []


def program():
    import os
    import pathlib
    import shutil

    from support.forked import in_forked_child
    from torchspan.hooks import native

    library = native.library()
    folder = pathlib.Path(library.__file__).parent
    shutil.rmtree(folder)
    import torch

    tensor = torch.ones(2)

    def recorded():
        root = library.begin(2, 0, False)
        tensor.neg().neg().neg()
        library.end(root)
        return library.finish(root, bytes(range(16)), 7)[4]

    return {
        "once": native.library() is library,
        "count": recorded(),
        "in a child": in_forked_child(lambda: (native.library() is library, recorded(), os.path.exists(folder))),
    }


def test_a_process_loads_it_once_and_it_works_after_a_fork_and_once_its_file_is_removed(copy, tmp_path):
    assert run(program, folder=tmp_path).value == {"once": True, "count": 3, "in a child": "(True, 3, False)"}


# --- the folder for caches ----------------------------------------------------------------------------------------------
def test_without_a_library_the_command_that_builds_it_is_named(caches, target):
    assert refusal() == f"no library is built for PyTorch {target.torch}; run {COMMAND}"
    assert not caches.exists()


def test_a_variable_that_is_neither_on_nor_off_is_one_line_and_builds_nothing(caches, target, monkeypatch, caplog):
    monkeypatch.setenv("TORCHSPAN_NATIVE_BUILD", "yes")
    assert refusal() == f"no library is built for PyTorch {target.torch}; run {COMMAND}"
    assert caplog.messages == ["Invalid TORCHSPAN_NATIVE_BUILD='yes', using default off (expected on or off)"]


@pytest.mark.parametrize("part", ["another version", "another commit", "another ABI", "a changed header"])
def test_a_library_for_another_pytorch_is_not_even_opened(part, copy, monkeypatch, tmp_path, target):
    pretend(part, monkeypatch, tmp_path)

    version = "2.13.0" if part == "another version" else target.torch
    assert refusal() == f"no library is built for PyTorch {version}; run {COMMAND}"


def test_a_changed_byte_is_noticed(copy):
    path = copy / "_torchspan_native.abi3.so"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)

    assert refusal() == f"the library in {copy} does not fit: its bytes are not those that were built; run {COMMAND}"


@pytest.mark.parametrize("name", ["_torchspan_native.abi3.so", "manifest.json", "", ".."])
@pytest.mark.parametrize("mode", [0o020, 0o002])
def test_what_others_may_write_to_is_refused(name, mode, copy):
    path = (copy / name).resolve()
    path.chmod(path.stat().st_mode | mode)

    assert refusal() == f"other users may write to {path}; remove it and run {COMMAND}"


def test_what_belongs_to_another_user_is_refused(copy, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: copy.stat().st_uid + 1)

    assert refusal() == f"{copy.parents[1]} belongs to another user; remove it and run {COMMAND}"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "is not complete"),
        ('"', "is not complete"),
        ("\xff", "is not complete"),
        ("[" * 100_000, "is not complete"),
        ("[]", "does not fit: its manifest is not one"),
        ("null", "does not fit: its manifest is not one"),
        ("{}", "does not fit: PyTorch's version was None when it was built, and is {target.torch}"),
        ('{"torch": []}', "does not fit: PyTorch's version was [] when it was built, and is {target.torch}"),
    ],
)
def test_a_manifest_that_is_none_is_refused(content, reason, copy, target):
    (copy / "manifest.json").write_text(content, encoding="latin-1")

    assert refusal() == f"the library in {copy} {reason.format(target=target)}; run {COMMAND}"


@pytest.mark.parametrize("name", ["_torchspan_native.abi3.so", "manifest.json"])
def test_a_missing_file_and_a_link_in_its_place_are_refused(name, copy, tmp_path):
    path = copy / name
    path.rename(tmp_path / name)
    assert refusal() == f"the library in {copy} is not complete; run {COMMAND}"

    path.symlink_to(tmp_path / name)
    assert refusal() == f"the library in {copy} is not complete; run {COMMAND}"


def test_a_file_that_is_not_a_library_is_an_error_with_its_reason(copy):
    (copy / "_torchspan_native.abi3.so").write_bytes(b"text")
    rewrite(copy, library=hashlib.sha256(b"text").hexdigest())

    assert refusal().startswith("the library cannot be loaded (")
    assert refusal().endswith(f"); run {COMMAND}")


def test_a_manifest_that_does_not_tell_the_truth_is_noticed_by_the_library(copy, monkeypatch):
    monkeypatch.setattr("torch.__version__", "2.10.0")
    folder = _manifest.in_caches(_manifest.TorchBuild.imported()).folders[0]
    copy.rename(folder)
    rewrite(folder, torch="2.10.0")

    assert refusal() == f"the library was built for another PyTorch or torchspan than its manifest says; run {COMMAND}"


# --- an installed package -----------------------------------------------------------------------------------------------
def pretend(part, monkeypatch, tmp_path):
    """PyTorch differs in this part."""
    import torch

    if part == "another version":
        monkeypatch.setattr(torch, "__version__", "2.13.0")
    elif part == "another commit":
        monkeypatch.setattr(torch.version, "git_version", "0" * 40)
    elif part == "another ABI":
        monkeypatch.setattr(torch, "compiled_with_cxx11_abi", lambda: False)
    else:
        header = tmp_path / "torch" / "include" / "ATen" / "record_function.h"
        header.parent.mkdir(parents=True)
        header.write_text("// another layout\n", encoding="utf-8")
        monkeypatch.setattr(torch, "__file__", str(tmp_path / "torch" / "__init__.py"))


@pytest.fixture
def package(built, target, caches, tmp_path, monkeypatch):
    """The folder of a package that a wheel has installed."""
    wheel = _wheel.write_wheel(built / "_torchspan_native.abi3.so", target, tmp_path)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    monkeypatch.syspath_prepend(tmp_path / "site")
    folder = tmp_path / "site" / "torchspan_native"
    for path in (folder, *folder.iterdir()):
        path.chmod(path.stat().st_mode & ~0o022)
    return folder


def test_an_installed_package_is_loaded_without_a_folder_for_caches_and_is_not_imported(package, caches):
    assert Path(_load.load().__file__).parent == package
    assert "torchspan_native" not in sys.modules
    assert not caches.exists()


@pytest.mark.parametrize(
    ("part", "difference"),
    [
        ("another version", "PyTorch's version was {target.torch} when it was built, and is 2.13.0"),
        ("another commit", "PyTorch's commit was {target.git_version:.12} when it was built, and is 000000000000"),
        ("another ABI", "PyTorch's C++ ABI was True when it was built, and is False"),
        (
            "a changed header",
            (
                "PyTorch's header ATen/record_function.h was {target.header:.12} when it was built, and is "
                + hashlib.sha256(b"// another layout\n").hexdigest()[:12]
            ),
        ),
    ],
)
def test_of_a_package_for_another_pytorch_what_differs_is_said(
    part, difference, package, target, monkeypatch, tmp_path
):
    pretend(part, monkeypatch, tmp_path)

    assert refusal() == (f"the library in {package} does not fit: {difference.format(target=target)}; run {COMMAND}")


def test_of_a_package_for_another_torchspan_or_machine_that_is_said(package, target):
    rewrite(package, source="1" * 64)
    assert refusal() == (
        f"the library in {package} does not fit: the source in torchspan was 111111111111 when it was built, and is "
        f"{target.source[:12]}; run {COMMAND}"
    )

    rewrite(package, source=target.source, machine="Linux riscv64")
    assert refusal() == (
        f"the library in {package} does not fit: the machine was Linux riscv64 when it was built, and is "
        f"{target.machine}; run {COMMAND}"
    )


def test_where_the_package_does_not_fit_the_library_in_the_folder_for_caches_is_loaded(package, copy):
    rewrite(package, torch="2.13.0")

    assert Path(_load.load().__file__).parent == copy


def test_a_package_of_root_is_loaded_and_one_of_another_user_is_not(package, monkeypatch):
    owner = package.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)

    if owner == 0:
        assert Path(_load.load().__file__).parent == package
    else:
        assert refusal() == f"{package} belongs to another user; remove it and run {COMMAND}"
