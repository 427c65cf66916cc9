# SPDX-License-Identifier: Apache-2.0
"""The id of an engine's bytes."""

import array

import pytest

from torchspan.hooks.probes.describe import common as identity
from torchspan.hooks.probes.describe.common import engine_id

LARGE = bytes(range(256)) * 8192
"""2 MiB: read in blocks."""


def test_the_id_is_the_same_in_every_process_and_version():
    assert engine_id(b"an engine") == "e6abba700e72d42e"
    assert engine_id(LARGE) == "9dd77c757aa29e4f"


@pytest.mark.parametrize("data", [b"x", b"an engine", LARGE], ids=["tiny", "small", "large"])
def test_every_kind_of_buffer_with_the_same_bytes_has_the_same_id(data):
    padded = memoryview(b"-" + data + b"-")[1:-1]
    assert len({engine_id(each) for each in (data, bytearray(data), memoryview(data), padded, array.array("b", data))}) == 1  # fmt: skip


def test_items_of_several_bytes_are_read_as_bytes():
    assert engine_id(array.array("f", [1.0, 2.0])) == engine_id(array.array("f", [1.0, 2.0]).tobytes())


@pytest.mark.parametrize("index", [0, 1, 1023, len(LARGE) - 1024, len(LARGE) - 1])
def test_a_change_at_the_beginning_or_the_end_changes_the_id(index):
    changed = bytearray(LARGE)
    changed[index] ^= 1
    assert engine_id(changed) != engine_id(LARGE)


def test_a_change_anywhere_in_a_small_engine_changes_the_id():
    small = bytes(identity.BLOCKS * identity.BLOCK_BYTES)
    ids = {engine_id(small[:index] + b"\1" + small[index + 1 :]) for index in range(0, len(small), 4097)}
    assert len(ids | {engine_id(small)}) == 17


def test_a_length_changes_the_id_where_no_block_does():
    assert engine_id(bytes(1_000_000)) != engine_id(bytes(1_000_001))


def test_a_change_between_the_blocks_is_not_seen_which_is_why_equal_ids_prove_no_equal_weights():
    changed = bytearray(LARGE)
    changed[2048] ^= 1
    assert engine_id(changed) == engine_id(LARGE)


def test_no_more_is_read_than_the_blocks_whatever_the_size(monkeypatch):
    read = []

    class Digest:
        def __init__(self, first, digest_size):
            read.append(len(first))

        def update(self, data):
            assert isinstance(data, memoryview), "a copy"
            read.append(len(data))

        def hexdigest(self):
            return "0" * 16

    monkeypatch.setattr(identity.hashlib, "blake2b", Digest)
    for size in (1 << 20, 1 << 28):
        read.clear()
        engine_id(bytearray(size))
        assert sum(read) == 8 + 64 * 1024


class Raises:
    def __len__(self):
        raise RuntimeError("not asked for")


def released():
    view = memoryview(b"data")
    view.release()
    return view


@pytest.mark.parametrize(
    "hostile",
    [None, "text", 7, [1, 2], object(), Raises(), b"", bytearray(), memoryview(b"abcdef")[::2], released()],
    ids=["none", "text", "number", "list", "object", "raising", "empty", "empty array", "not in one piece", "released"],
)
def test_what_has_no_bytes_in_one_piece_has_no_id_and_raises_nothing(hostile):
    assert engine_id(hostile) is None


def test_the_buffer_is_given_back():
    data = bytearray(LARGE)
    engine_id(data)
    data.append(1)  # raises while another object holds the buffer
