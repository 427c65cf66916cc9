# SPDX-License-Identifier: Apache-2.0
"""The folder in which the stand-in keeps engines: what is read from it, what is not, and how much stays."""

import concurrent.futures
import logging
import os
import pickle
import stat
import sys
import threading
from pathlib import Path

import pytest
import torch
import torch_tensorrt  # noqa: F401 - entries are for one version of TensorRT

from torchspan.testing import _engine_folder
from torchspan.testing._engine_folder import EngineFolder, default_folder, user_key
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
    return limited(tmp_path)


def limited(tmp_path, **limits):
    return EngineFolder(tmp_path / "engines", is_chosen=True, **limits)


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


def test_an_engine_that_is_missing_is_none(folder, entry):
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
        "write to it. Other processes cannot run the engines that are built here."
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


@pytest.mark.skipif(os.name == "nt", reason="no owners")
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777])
def test_a_chosen_folder_that_others_may_write_to_is_neither_read_nor_written(folder, entry, reference, mode, caplog):
    folder.path.chmod(mode)
    assert folder.read(KEY) is None
    folder.write(OTHER, reference)
    assert entries(folder).keys() == {KEY}
    (message,) = caplog.messages
    assert message == (
        f"Engines are not kept in {folder.path}: engines must belong to this user, and no other user may write to it. "
        "Other processes cannot run the engines that are built here."
    )


@pytest.mark.skipif(os.name == "nt", reason="no owners")
def test_a_chosen_folder_that_others_may_write_to_stays_empty(tmp_path, reference):
    tmp_path.chmod(0o777)
    EngineFolder(tmp_path, is_chosen=True).write(KEY, reference)
    assert list(tmp_path.iterdir()) == []


class RunsCode:
    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return Path.touch, (self.file,)


@pytest.fixture
def planted(entry, tmp_path):
    """A file that a pickle makes when it is read. It must not be."""
    yield tmp_path / "code ran"
    assert not (tmp_path / "code ran").exists()


def test_an_entry_that_torchspan_did_not_write_is_not_read_even_if_this_user_owns_it(folder, entry, planted):
    entry.unlink()
    torch.save(RunsCode(planted), entry)
    assert folder.read(KEY) is None
    entry.write_bytes(bytes(32) + pickle.dumps(RunsCode(planted)))
    assert folder.read(KEY) is None


def test_an_entry_that_was_changed_is_not_read(folder, entry, planted, monkeypatch):
    content = bytearray(entry.read_bytes())
    content[-1] ^= 1
    entry.write_bytes(content)
    monkeypatch.setattr(torch, "load", lambda *_args, **_options: planted.touch())
    assert folder.read(KEY) is None


def test_an_entry_under_the_name_of_another_one_is_not_read(folder, entry):
    entry.rename(entry.with_name(f"{OTHER}.pt"))
    assert folder.read(OTHER) is None


def test_an_entry_that_another_user_wrote_is_not_read(folder, entry, key_file):
    key_file.unlink()
    assert EngineFolder(folder.path, is_chosen=True).read(KEY) is None


def test_an_entry_that_is_not_torchspans_is_replaced_by_one_that_is(folder, entry, reference, planted):
    torch.save(RunsCode(planted), entry)
    folder.write(KEY, reference)
    assert folder.read(KEY) is not None


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege")
def test_an_entry_with_a_second_name_is_not_read(folder, entry, tmp_path):
    os.link(entry, tmp_path / "second")
    assert folder.read(KEY) is None


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege")
def test_a_chosen_folder_that_is_a_link_is_followed(folder, entry, tmp_path):
    (tmp_path / "link").symlink_to(folder.path)
    assert EngineFolder(tmp_path / "link", is_chosen=True).read(KEY) is not None


# --- the key ------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def key_file(tmp_path, monkeypatch):
    """Where the key of this user is, outside of the folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    return tmp_path / "caches" / "torchspan" / "engines.key"


@pytest.mark.skipif(os.name == "nt", reason="no modes")
def test_the_key_is_for_its_owner_alone_and_not_in_the_chosen_folder(entry, folder, key_file):
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (key_file, key_file.parent)]
    assert (modes, key_file.stat().st_size, files(folder)) == ([0o600, 0o700], 32, [entry])


def damaged(key_file, how):
    {
        "readable": lambda: key_file.chmod(0o644),
        "short": lambda: key_file.write_bytes(b"short"),
        "link": lambda: key_file.symlink_to(key_file.rename(key_file.with_name("elsewhere"))),
        "pipe": lambda: (key_file.unlink(), os.mkfifo(key_file)),
        "folder": lambda: (key_file.unlink(), key_file.mkdir()),
    }[how]()


@pytest.mark.skipif(os.name == "nt", reason="no modes")
@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("readable", "may be read by other users; remove it"),
        ("short", "contains no key; remove it"),
        ("link", "Too many levels of symbolic links"),
        ("pipe", "is not a regular file of this user, or has a second name (a hard link)"),
        ("folder", "is not a regular file of this user, or has a second name (a hard link)"),
    ],
)
def test_a_key_that_others_may_know_is_not_used_and_the_user_is_warned(folder, entry, key_file, how, why, caplog):
    damaged(key_file, how)
    assert EngineFolder(folder.path, is_chosen=True).read(KEY) is None
    (message,) = caplog.messages
    assert message == (
        f"Engines are not kept in {folder.path}: the key by which they are recognized, in {key_file.parent}, cannot be "
        f"used: {why}. Other processes cannot run the engines that are built here."
    )


def test_a_user_without_a_folder_for_the_key_is_warned(folder, entry, monkeypatch, caplog):
    monkeypatch.setattr(_engine_folder, "default_folder", lambda: None)
    assert EngineFolder(folder.path, is_chosen=True).read(KEY) is None
    assert "the key by which they are recognized needs a folder: set XDG_CACHE_HOME" in caplog.messages[0]


def test_all_who_make_the_key_at_once_have_the_same_one(tmp_path):
    for turn in range(20):
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            keys = list(pool.map(lambda _, turn=turn: user_key(tmp_path / str(turn)), range(8)))
        assert len(set(keys)) == 1


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


def test_the_engines_used_longest_ago_are_removed_beyond_a_number(tmp_path, reference):
    folder = limited(tmp_path, most_engines=2)
    for age, key in ((30, KEY), (20, OTHER)):
        folder.write(key, reference)
        os.utime(entries(folder)[key], (age, age))
    folder.read(KEY)  # used
    folder.write(THIRD, reference)
    assert entries(folder).keys() == {KEY, THIRD}


def test_the_engines_used_longest_ago_are_removed_beyond_a_size(tmp_path, folder, entry, reference):
    os.utime(entry, (1, 1))
    limited(tmp_path, most_bytes=entry.stat().st_size * 3 // 2).write(OTHER, reference)
    assert entries(folder).keys() == {OTHER}


def test_entries_of_other_versions_count_and_files_of_the_user_do_not(tmp_path, reference):
    folder = limited(tmp_path, most_engines=1)
    old, mine = folder.path / "engines-0-1.0" / f"{KEY}.pt", folder.path / "models" / f"{KEY}.pt"
    for path in (old, mine):
        path.parent.mkdir(parents=True)
        path.write_bytes(b"")
        os.utime(path, (1, 1))
    folder.write(OTHER, reference)
    assert (old.exists(), mine.exists()) == (False, True)


def test_nothing_behind_a_link_to_a_folder_is_removed(reference, tmp_path):
    folder = limited(tmp_path, most_engines=0)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / f"{KEY}.pt").write_bytes(b"")
    folder.path.mkdir()
    (folder.path / "engines-0-1.0").symlink_to(tmp_path / "mine")
    folder.write(OTHER, reference)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == [f"{KEY}.pt"]


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
