# SPDX-License-Identifier: Apache-2.0
"""What is opened for writing, what is refused, and a name that is swapped while it is opened."""

import os
import socket
import stat
import subprocess
import sys

import pytest

from support.child import unmeasured
from torchspan.base.files.opening import open_for_appending, system

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no links, pipes and owners")


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "trace.jsonl")


def foreign(path):
    """The name of a file of another user's: only root can give one away, and to other users a file of root is foreign."""
    if os.geteuid() != 0:
        return "/etc/passwd"
    with open(path, "w"):
        os.chown(path, 65534, 65534)
    return path


def bind(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path)


def why(path):
    """The clause with which the file is refused."""
    with pytest.raises(OSError) as caught:
        os.close(open_for_appending(path))
    return caught.value.strerror


def test_a_file_that_is_made_is_for_its_owner_alone_whatever_the_umask(path):
    before = os.umask(0)
    try:
        os.close(open_for_appending(path))
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o640, 0o660, 0o666])
def test_a_mode_that_is_asked_for_is_the_mode_whatever_the_umask(path, mode):
    before = os.umask(0o077)
    try:
        os.close(open_for_appending(path, mode=mode))
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(path).st_mode) == mode


def test_a_file_that_is_there_keeps_its_mode_and_its_content(path):
    with open(path, "w") as file:
        file.write("before\n")
    os.chmod(path, 0o644)
    opened = open_for_appending(path)
    os.write(opened, b"after\n")
    os.close(opened)
    with open(path) as file:
        assert (file.read(), stat.S_IMODE(os.stat(path).st_mode)) == ("before\nafter\n", 0o644)


def test_a_descriptor_is_not_inherited(path):
    opened = open_for_appending(path)
    assert not os.get_inheritable(opened)
    os.close(opened)


def test_a_link_is_refused_and_what_it_leads_to_is_neither_written_nor_made(path, tmp_path, victim):
    for target in (victim, tmp_path / "dangling"):
        os.symlink(target, path)
        assert why(path) == "it is a link, which torchspan does not follow"
        os.unlink(path)
    assert not (tmp_path / "dangling").exists()


def test_a_folder_that_is_a_link_is_followed(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    os.close(open_for_appending(str(tmp_path / "link" / "trace.jsonl")))
    assert (tmp_path / "real" / "trace.jsonl").exists()


def test_a_file_with_a_second_name_is_refused(path, victim):
    os.link(victim, path)
    assert why(path) == "it has a second name (a hard link)"


def test_a_file_of_another_user_is_refused(path):
    name = foreign(path)
    assert why(name) == "it belongs to another user"


def test_where_a_file_system_gives_every_file_one_owner_it_counts_as_this_users(path, monkeypatch):
    os.close(open_for_appending(path))
    monkeypatch.setattr(system, "geteuid", lambda: os.getuid() + 1)  # so no file has this process's user as its owner
    os.close(open_for_appending(path))


@pytest.mark.parametrize(
    ("make", "clause"),
    [
        (os.mkfifo, "it is a named pipe, and not a regular file"),
        (os.mkdir, "Is a directory"),
        (bind, "No such device or address"),
    ],
)
def test_what_is_not_a_regular_file_is_refused_and_not_waited_for(tmp_path, monkeypatch, make, clause):
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    make("x")
    assert why("x") == clause


def test_a_device_is_refused():
    assert why("/dev/null") == "it is a device, and not a regular file"


def test_the_names_of_this_processs_descriptors_are_links_and_refused(tmp_path):
    with open(tmp_path / "out", "w") as file:
        assert why(f"/dev/fd/{file.fileno()}") == "it is a link, which torchspan does not follow"


# --- a name that is swapped while it is opened --------------------------------------------------------------------


@pytest.fixture
def swapped(monkeypatch):
    """`swapped(path, make)`: once the path turned out to be taken, what is there is removed and `make()` called."""

    def swap(path, make):
        real = os.open

        def opened(name, flags, *arguments):
            if name == path and not flags & os.O_EXCL:
                monkeypatch.setattr(system, "open", real)
                os.unlink(path)
                make()
            return real(name, flags, *arguments)

        with open(path, "w"):
            monkeypatch.setattr(system, "open", opened)

    return swap


@pytest.mark.fault(
    "files",
    "swapped for a link while it is opened",
    lost="what was to be written",
    counted="the last line of torchspan run",
)
def test_a_file_that_is_swapped_for_a_link_is_refused(path, swapped, victim):
    swapped(path, lambda: os.symlink(victim, path))
    assert why(path) == "it is a link, which torchspan does not follow"


def test_a_file_that_is_swapped_for_a_second_name_of_another_is_refused(path, swapped, victim):
    swapped(path, lambda: os.link(victim, path))
    assert why(path) == "it has a second name (a hard link)"


def test_a_file_that_is_swapped_for_a_pipe_is_refused_and_not_waited_for(path, swapped):
    swapped(path, lambda: os.mkfifo(path))
    assert why(path) == "it is a named pipe, and not a regular file"


def test_a_file_that_is_deleted_while_it_is_opened_is_an_error_and_made_by_the_next_attempt(path, swapped):
    swapped(path, lambda: None)
    assert why(path) == "No such file or directory"
    os.close(open_for_appending(path))
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_a_size_beyond_the_limit_of_the_process_is_refused_and_the_limit_itself_is_not():
    program = """
import resource, sys
from torchspan.base.files.opening import check_size
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
check_size(100)
try:
    check_size(101)
except OSError as error:
    print(error.strerror)
"""
    done = subprocess.run([sys.executable, "-c", program], env=unmeasured(), capture_output=True, text=True, check=True)
    assert done.stdout == (
        "File too large: this process may write files of at most 100 bytes (RLIMIT_FSIZE, ulimit -f)\n"
    )
