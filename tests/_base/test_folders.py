# SPDX-License-Identifier: Apache-2.0
"""A folder of this user's: what is put in its place, and what is in it."""

import os
import re
import stat

import pytest

from support.descriptors import no_more_descriptors
from torchspan.base.files import opening
from torchspan.base.files.folders import Folder

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no links, pipes and owners")


OWN = re.compile(r"\d+\.json")


@pytest.fixture
def place(tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    return place


@pytest.fixture
def folder(place):
    return Folder(str(place))


def names(place):
    return sorted(path.name for path in place.iterdir())


def test_a_file_is_written_as_a_whole_for_its_owner_alone_read_and_removed(place):
    folder = Folder(str(place))
    folder.write("1.json", b"long before")
    folder.write("1.json", b"after")
    assert (folder.names(), folder.read("1.json", 100), folder.read("1.json", 2)) == (["1.json"], b"after", b"af")
    assert stat.S_IMODE((place / "1.json").stat().st_mode) == 0o600
    folder.unlink("1.json")
    assert folder.names() == []
    (place / "2.json").touch()
    folder.remove(OWN)
    assert not place.exists()


def test_a_folder_that_is_a_link_or_a_file_is_refused(place, tmp_path):
    (tmp_path / "link").symlink_to(place)
    (tmp_path / "file").touch()
    for name in ("link", "file", "none"):
        with pytest.raises(OSError):
            Folder(str(tmp_path / name))


def test_a_folder_of_another_user_is_refused(place):
    other = "/"
    if os.geteuid() == 0:
        os.chown(place, 65534, 65534)
        other = str(place)
    with pytest.raises(OSError) as caught:
        Folder(other)
    assert caught.value.strerror == "it belongs to another user"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a folder away")
def test_what_another_user_puts_in_its_place_is_neither_written_nor_read_nor_removed(folder, place, tmp_path):
    place.rename(tmp_path / "moved")
    place.mkdir()
    (place / "2.json").write_text("planted")
    os.chown(place, 65534, 65534)
    with pytest.raises(PermissionError, match="it belongs to another user"):
        folder.write("1.json", b"mine")
    with pytest.raises(PermissionError, match="it belongs to another user"):
        folder.read("2.json", 100)
    folder.remove(OWN)
    assert (names(tmp_path / "moved"), names(place)) == ([], ["2.json"])


def test_a_link_that_is_put_in_its_place_is_not_followed(folder, place, tmp_path):
    place.rename(tmp_path / "moved")
    place.symlink_to(tmp_path / "moved")
    with pytest.raises(NotADirectoryError):
        folder.write("1.json", b"mine")
    assert names(tmp_path / "moved") == []


def test_links_and_pipes_at_the_names_of_its_files_are_replaced_and_never_followed(folder, place, victim):
    (place / "1.json").symlink_to(victim)
    os.mkfifo(place / "2.json")
    for name in ("1.json", "2.json"):
        with pytest.raises(OSError):
            folder.read(name, 100)
        folder.write(name, b"mine")
    assert [folder.read(name, 100) for name in ("1.json", "2.json")] == [b"mine", b"mine"]


def test_a_second_name_of_another_file_is_not_opened(folder, place, victim):
    os.link(victim, place / "1.crash")
    with pytest.raises(OSError):
        folder.open("1.crash", os.O_WRONLY | os.O_APPEND)


def test_a_write_that_fails_leaves_nothing_behind(folder, place):
    (place / "1.json").mkdir()
    with pytest.raises(OSError):
        folder.write("1.json", b"mine")
    assert names(place) == ["1.json"]


def test_a_program_that_closes_every_descriptor_takes_nothing_from_it(folder, place):
    with no_more_descriptors():
        folder.write("1.json", b"mine")
        assert (folder.read("1.json", 100), names(place)) == (b"mine", ["1.json"])


def test_a_folder_that_was_moved_is_not_used_any_more(folder, place, tmp_path):
    place.rename(tmp_path / "moved")
    with pytest.raises(FileNotFoundError):
        folder.write("1.json", b"mine")
    assert names(tmp_path / "moved") == []


def test_only_files_with_torchspans_names_are_removed_and_no_folder_below(place, victim):
    (place / "1.json").touch()
    (place / "2.json").symlink_to(victim)
    (place / "3.json").mkdir()
    (place / "deep").mkdir()
    (place / "deep" / "1.json").touch()
    (place / "model.pt").touch()
    folder = Folder(str(place))
    folder.remove(OWN)
    assert (names(place), names(place / "deep")) == (["3.json", "deep", "model.pt"], ["1.json"])
    assert victim.exists()


def test_a_file_that_is_made_while_it_is_removed_does_not_keep_it(folder, place, monkeypatch):
    rmdir, late = os.rmdir, ["1.json", "2.json"]

    def made_before(*arguments, **options):
        if late:
            folder.write(late.pop(), b"late")
        return rmdir(*arguments, **options)

    monkeypatch.setattr(os, "rmdir", made_before)
    folder.remove(OWN)
    assert not place.exists()


def test_a_file_that_could_not_be_opened_leaves_no_descriptor(folder, monkeypatch):
    folder.write("file", b"")
    monkeypatch.setattr(opening, "_is_own", failing)
    with no_more_descriptors(), pytest.raises(MemoryError):
        folder.read("file", 1)


def failing(*_arguments):
    raise MemoryError
