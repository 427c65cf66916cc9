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

from torchspan.hooks.without_gpu._engine_folder import EngineFolder, default_folder
from torchspan.hooks.without_gpu._reference import Binding, Reference

pytestmark = pytest.mark.stand_in_only("real engines are not kept in it")

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
    return EngineFolder(tmp_path / "engines", **limits)


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
    read = EngineFolder(folder.path).read(KEY)
    assert read.run([torch.tensor([1.0, 2.0])])[0].tolist() == [2.0, 4.0]
    assert (read.bindings, read.profiles, read.outputs) == (reference.bindings, reference.profiles, None)


def test_an_engine_that_is_missing_is_none(folder, entry):
    assert folder.read(OTHER) is None
    assert EngineFolder(folder.path / "none").read(KEY) is None


@pytest.mark.parametrize("content", [b"", b"torn", None])
def test_a_torn_file_is_ignored(folder, entry, content):
    entry.write_bytes(entry.read_bytes()[:-200] if content is None else content)
    assert folder.read(KEY) is None


def test_a_file_of_something_else_is_ignored(folder, entry):
    torch.save({"weights": torch.ones(1)}, entry)
    assert folder.read(KEY) is None


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
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o1777])
def test_a_folder_that_others_may_write_to_is_neither_read_nor_written(folder, entry, reference, mode, caplog):
    caplog.set_level(logging.DEBUG)
    folder.path.chmod(mode)
    assert folder.read(KEY) is None
    folder.write(OTHER, reference)
    assert entries(folder).keys() == {KEY}
    why = "it must belong to this user, and no other user may write to it"
    assert caplog.messages == [
        f"Ignoring the engine {KEY} in {folder.path}: {why}",
        f"Engines are not kept in {folder.path}: UnusableError: {why}",
    ]


@pytest.mark.skipif(os.name == "nt", reason="no owners")
def test_a_folder_that_others_may_write_to_stays_empty(tmp_path, reference):
    tmp_path.chmod(0o777)
    EngineFolder(tmp_path).write(KEY, reference)
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
    assert EngineFolder(folder.path).read(KEY) is None


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
    assert EngineFolder(tmp_path / "link").read(KEY) is not None


# --- the key ------------------------------------------------------------------------------------------------------


@pytest.fixture
def key_file(folder):
    """Where the key of this user is."""
    return folder.path / "engines.key"


@pytest.mark.skipif(os.name == "nt", reason="no modes")
def test_the_key_is_for_its_owner_alone(entry, folder, key_file):
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (key_file, key_file.parent)]
    assert (modes, key_file.stat().st_size, sorted(files(folder))) == ([0o600, 0o700], 32, sorted([entry, key_file]))


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
        ("readable", "engines.key may be read by other users, or contains no key; remove it"),
        ("short", "engines.key may be read by other users, or contains no key; remove it"),
        ("link", "Too many levels of symbolic links"),
        ("pipe", "it is a named pipe, and not a regular file"),
        ("folder", "Is a directory"),
    ],
)
def test_a_key_that_others_may_know_is_not_used(folder, entry, reference, key_file, how, why, caplog):
    caplog.set_level(logging.DEBUG)
    damaged(key_file, how)
    assert folder.read(KEY) is None
    folder.write(OTHER, reference)
    assert entries(folder).keys() == {KEY}
    assert len(caplog.messages) == 2 and all(why in message for message in caplog.messages)


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege")
def test_a_link_is_not_followed(folder, entry, tmp_path):
    elsewhere = entry.rename(tmp_path / "elsewhere.pt")
    entry.symlink_to(elsewhere)
    assert folder.read(KEY) is None


def test_a_folder_that_cannot_be_made_is_not_an_error(tmp_path, reference, caplog):
    (tmp_path / "file").write_text("")
    caplog.set_level(logging.DEBUG)
    EngineFolder(tmp_path / "file").write(KEY, reference)
    (message,) = caplog.messages
    assert message.startswith(f"Engines are not kept in {tmp_path / 'file'}: FileExistsError")


def test_a_graph_that_cannot_be_pickled_leaves_nothing_behind(folder, reference, caplog):
    caplog.set_level(logging.DEBUG)
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


def test_files_of_the_user_do_not_count(tmp_path, reference):
    folder = limited(tmp_path, most_engines=1)
    folder.write(KEY, reference)
    mine = [folder.path / "notes", folder.path / "models" / f"{KEY}.pt"]
    for path in mine:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
        os.utime(path, (1, 1))
    folder.write(OTHER, reference)
    assert [path.exists() for path in mine] == [True, True]


def test_what_a_killed_process_left_unfinished_is_removed_like_an_entry(tmp_path, folder, entry, reference):
    left = folder.path / f"{OTHER}.pt.7.1.new"
    left.write_bytes(b"half")
    os.utime(left, (1, 1))
    limited(tmp_path, most_engines=2).write(THIRD, reference)
    assert not left.exists() and entries(folder).keys() == {KEY, THIRD}


def test_those_who_write_and_remove_the_same_engine_at_once_never_leave_a_torn_one(folder, reference, caplog):
    torn = []

    def work():
        for _ in range(5):
            folder.write(KEY, reference)
            found = EngineFolder(folder.path).read(KEY)
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
    assert sorted(files(folder)) == sorted([*entries(folder).values(), folder.path / "engines.key"])


def test_threads_that_read_at_once_leave_torch_as_it_was(folder, reference):
    # Reading a graph traces it, and torch.fx replaces this method meanwhile: in two threads at once, one stays.
    call = torch.nn.Module.__call__
    folder.write(KEY, reference)
    switch_interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _: EngineFolder(folder.path).read(KEY), range(40)))
    finally:
        sys.setswitchinterval(switch_interval)
        left, torch.nn.Module.__call__ = torch.nn.Module.__call__, call
    assert left is call and None not in found


@pytest.mark.parametrize(
    ("caches", "expected"),
    [
        ("/caches", "/caches/torchspan/engines-4"),
        ("relative", "/users/me/.cache/torchspan/engines-4"),
        ("", "/users/me/.cache/torchspan/engines-4"),
    ],
)
def test_the_default_is_in_the_users_folder_for_caches(caches, expected, monkeypatch):
    monkeypatch.setattr(Path, "home", lambda: Path("/users/me"))
    monkeypatch.setenv("XDG_CACHE_HOME", caches)
    assert default_folder() == Path(expected)


def test_a_user_without_a_home_has_no_folder(monkeypatch):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", no_home)
    assert default_folder() is None
