# SPDX-License-Identifier: Apache-2.0
"""Ids of engines that run, through refits in place."""

import gc

import pytest

from torchspan.hooks.adapters.machinery.provenance import EngineIds
from torchspan.hooks.probes.describe.common import engine_id


class Running:
    """An engine that runs: its bytes, and TensorRT's object below it."""

    def __init__(self, serialized, handle_name="cuda_engine"):
        self.serialized_engine, self.handle = serialized, object()
        setattr(self, handle_name, self.handle)


@pytest.fixture
def ids():
    return EngineIds()


def remembered(ids, **options):
    engine = Running(b"one", **options)
    ids.set_up(engine, engine.serialized_engine)
    return engine


def test_an_engine_has_the_id_of_the_bytes_it_was_made_from(ids):
    assert ids.get(remembered(ids)) == engine_id(b"one")


def test_one_that_was_not_seen_has_none(ids):
    assert ids.get(Running(b"one")) is None


@pytest.mark.parametrize("handle_name", ["cuda_engine", "engine"])
def test_while_a_refit_is_running_there_is_no_id_and_afterwards_that_of_the_new_bytes(ids, handle_name):
    engine, other = remembered(ids, handle_name=handle_name), remembered(ids)
    ids.changing(engine.handle)
    assert ids.get(engine) is None
    assert ids.get(engine) is None, "asking twice makes no old id true"
    assert ids.get(other) == engine_id(b"one")
    engine.serialized_engine = b"two"
    assert ids.get(engine) == engine_id(b"two")
    ids.changing(engine.handle)
    assert ids.get(engine) is None


def test_a_refit_after_which_the_bytes_look_the_same_leaves_it_unknown(ids):
    engine = remembered(ids)
    ids.changing(engine.handle)
    engine.serialized_engine = bytes(bytearray(b"one"))
    assert ids.get(engine) is None


def test_set_up_again_it_has_an_id_again(ids):
    engine = remembered(ids)
    ids.changing(engine.handle)
    ids.set_up(engine, b"three")
    assert ids.get(engine) == engine_id(b"three")


def test_a_refit_of_nothing_changes_nothing(ids):
    engine = remembered(ids)
    engine.cuda_engine = None
    ids.changing(None)
    assert ids.get(engine) == engine_id(b"one")


def test_bytes_that_cannot_be_read_make_no_id_and_forget_an_old_one(ids):
    engine = remembered(ids)
    ids.set_up(engine, None)
    assert ids.get(engine) is None


class NoHash(Running):
    __hash__ = None


class NoWeakReference:
    __slots__ = ()


def test_an_object_that_cannot_be_hashed_is_remembered_by_which_it_is(ids):
    engine = NoHash(b"one")
    ids.set_up(engine, b"one")
    assert ids.get(engine) == engine_id(b"one")
    assert ids.get(NoHash(b"one")) is None


def test_an_object_that_cannot_be_remembered_has_no_id_and_raises_nothing(ids):
    engine = NoWeakReference()
    ids.set_up(engine, b"one")
    ids.changing(object())
    assert ids.get(engine) is None


def test_nothing_is_kept_alive(ids):
    engine = remembered(ids)
    ids.changing(engine.handle)
    remembered(ids)
    del engine
    gc.collect()
    assert (len(ids._ids), len(ids._stale)) == (0, 0)
