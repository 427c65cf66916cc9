# SPDX-License-Identifier: Apache-2.0
"""The folder in which the stand-in keeps engines: what is read from it, what is not, and how much stays."""

import concurrent.futures
import logging
import os
import sys
import threading
from pathlib import Path

import pytest
import torch
import torch_tensorrt  # noqa: F401 - entries are for one version of TensorRT

from torchspan.testing import _engine_folder
from torchspan.testing._engine_folder import EngineFolder, default_folder
from torchspan.testing._reference import Binding, Reference

KEY, OTHER, THIRD = ("a" * 64, "b" * 64, "c" * 64)


class Doubles(torch.nn.Module):
    def forward(self, x):
        return x * 2


@pytest.fixture
def reference():
    bindings = {"x": Binding(True, "FLOAT", (2,)), "y": Binding(False, "FLOAT", (2,))}
    return Reference(torch.fx.symbolic_trace(Doubles()), bindings, {"x": [((2,), (2,), (2,))]})


@pytest.fixture
def folder(tmp_path):
    return EngineFolder(tmp_path / "engines", is_chosen=True)


@pytest.fixture
def entry(folder, reference):
    """The path of the entry that has been written."""
    folder.write(KEY, reference)
    return entries(folder)[KEY]


def entries(folder):
    return {path.stem: path for path in folder.path.rglob("*.pt")}


def files(folder):
    return [path for path in folder.path.rglob("*") if path.is_file()]


def test_what_was_written_is_read_by_another_process(folder, entry, reference):
    read = EngineFolder(folder.path, is_chosen=False).read(KEY)
    assert read.run([torch.tensor([1.0, 2.0])])[0].tolist() == [2.0, 4.0]
    assert (read.bindings, read.profiles, read.outputs) == (reference.bindings, reference.profiles, None)


def test_an_engine_that_is_not_there_is_none(folder, entry):
    assert folder.read(OTHER) is None
    assert EngineFolder(folder.path / "none", is_chosen=True).read(KEY) is None


@pytest.mark.parametrize("content", [b"", b"torn", None])
def test_a_torn_file_is_ignored(folder, entry, content):
    entry.write_bytes(entry.read_bytes()[:-200] if content is None else content)
    assert folder.read(KEY) is None


def test_a_file_of_something_else_is_ignored(folder, entry):
    torch.save({"weights": torch.ones(1)}, entry)
    assert folder.read(KEY) is None


@pytest.mark.skipif(os.name == "nt", reason="no owners")
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_may_write_to_is_not_read(folder, entry, mode, caplog):
    entry.parent.chmod(mode)
    assert folder.read(KEY) is None
    (message,) = caplog.messages
    assert message == (
        f"Engines are not kept in {folder.path}: {entry.parent.name} must belong to this user, and no other user may "
        "write to it. Other processes will not know the engines that are built here."
    )


@pytest.mark.skipif(os.name == "nt", reason="no owners")
def test_a_folder_of_another_user_is_neither_read_nor_written(folder, entry, reference, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert folder.read(KEY) is None
    folder.write(OTHER, reference)
    assert entries(folder).keys() == {KEY}


@pytest.mark.skipif(os.name == "nt", reason="no owners")
def test_a_file_that_others_may_write_to_is_not_read(folder, entry):
    entry.chmod(0o666)
    assert folder.read(KEY) is None


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege")
def test_a_link_is_not_followed(folder, entry, tmp_path):
    elsewhere = entry.rename(tmp_path / "elsewhere.pt")
    entry.symlink_to(elsewhere)
    assert folder.read(KEY) is None


def test_a_folder_that_cannot_be_made_is_one_warning_where_the_user_chose_it(tmp_path, reference, caplog):
    (tmp_path / "file").write_text("")
    caplog.set_level(logging.INFO)
    for is_chosen in (True, False):
        folder = EngineFolder(tmp_path / "file", is_chosen=is_chosen)
        folder.write(KEY, reference)
        folder.write(OTHER, reference)
    (message,) = caplog.messages
    assert message.startswith(f"Engines are not kept in {tmp_path / 'file'}: FileExistsError")


def test_a_graph_that_cannot_be_pickled_leaves_nothing_behind(folder, reference, caplog):
    reference.profiles["x"] = lambda: None
    folder.write(KEY, reference)
    assert files(folder) == []
    assert len(caplog.messages) == 1


def test_the_engines_used_longest_ago_are_removed_beyond_a_number(folder, reference, monkeypatch):
    monkeypatch.setattr(_engine_folder, "MOST_ENGINES", 2)
    for age, key in ((30, KEY), (20, OTHER)):
        folder.write(key, reference)
        os.utime(entries(folder)[key], (age, age))
    folder.read(KEY)  # used
    folder.write(THIRD, reference)
    assert entries(folder).keys() == {KEY, THIRD}


def test_the_engines_used_longest_ago_are_removed_beyond_a_size(folder, entry, reference, monkeypatch):
    os.utime(entry, (1, 1))
    monkeypatch.setattr(_engine_folder, "MOST_BYTES", entry.stat().st_size * 3 // 2)
    folder.write(OTHER, reference)
    assert entries(folder).keys() == {OTHER}


def test_entries_of_other_versions_count_and_files_of_the_user_do_not(folder, reference, monkeypatch):
    old, mine = folder.path / "engines-0-1.0" / f"{KEY}.pt", folder.path / "models" / f"{KEY}.pt"
    for path in (old, mine):
        path.parent.mkdir(parents=True)
        path.write_bytes(b"")
        os.utime(path, (1, 1))
    monkeypatch.setattr(_engine_folder, "MOST_ENGINES", 1)
    folder.write(OTHER, reference)
    assert (old.exists(), mine.exists()) == (False, True)


def test_what_a_killed_process_left_unfinished_is_removed_after_an_hour(folder, entry, reference):
    left, fresh = (entry.parent / f"{OTHER}.{number}.1" for number in (7, 8))
    for path in (left, fresh):
        path.write_bytes(b"half")
    os.utime(left, (1, 1))
    folder.write(THIRD, reference)
    assert (left.exists(), fresh.exists()) == (False, True)


def test_those_who_write_and_remove_the_same_engine_at_once_never_leave_a_torn_one(folder, reference, caplog):
    torn = []

    def work():
        for _ in range(5):
            folder.write(KEY, reference)
            found = EngineFolder(folder.path, is_chosen=False).read(KEY)
            torn.append(found is None and entries(folder) != {})
            for path in entries(folder).values():
                path.unlink(missing_ok=True)

    caplog.set_level(logging.DEBUG)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not any("Ignoring" in message for message in caplog.messages)
    assert files(folder) == [*entries(folder).values()]


def test_threads_that_read_at_once_leave_torch_as_it_was(folder, reference):
    # Reading a graph traces it, and torch.fx replaces this method meanwhile: in two threads at once, one stays.
    call = torch.nn.Module.__call__
    folder.write(KEY, reference)
    switch_interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _: EngineFolder(folder.path, is_chosen=False).read(KEY), range(40)))
    finally:
        sys.setswitchinterval(switch_interval)
        left, torch.nn.Module.__call__ = torch.nn.Module.__call__, call
    assert left is call and None not in found


@pytest.mark.parametrize(
    ("platform", "environment", "expected"),
    [
        ("linux", {"XDG_CACHE_HOME": "/caches"}, "/caches/torchspan"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, "/users/me/.cache/torchspan"),
        ("linux", {}, "/users/me/.cache/torchspan"),
        ("darwin", {}, "/users/me/Library/Caches/torchspan"),
        ("win32", {}, "/users/me/AppData/Local/torchspan"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/torchspan"),
    ],
)
def test_the_default_is_in_the_users_folder_for_caches(platform, environment, expected, monkeypatch):
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setattr(Path, "home", lambda: Path("/users/me"))
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert default_folder() == Path(expected)


def test_a_user_without_a_home_has_no_folder(monkeypatch):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", no_home)
    assert default_folder() is None
