# SPDX-License-Identifier: Apache-2.0
import pytest

from torchspan import callbacks
from torchspan.callbacks import RecordFunctionCallback


@pytest.fixture(autouse=True)
def _nothing_is_registered(monkeypatch):
    """The registry is the process's: every test begins and ends with none of its callbacks in it."""
    assert not callbacks.has_callbacks()
    monkeypatch.setattr("torchspan.engine.subscribers.callbacks._default_node_id", None)
    yield
    callbacks.clear_callbacks()
    callbacks.enable_record_function(True)
    assert callbacks.is_record_function_enabled()


@pytest.fixture
def seen():
    return []


@pytest.fixture
def recorder(seen):
    """Makes callbacks that note their starts and ends, under a name if one is given."""

    def make(name="", **settings):
        prefix = f"{name} " if name else ""
        return RecordFunctionCallback(
            lambda record: seen.append(f"{prefix}start {record.name}"),
            lambda record, _context: seen.append(f"{prefix}end {record.name}"),
            **settings,
        )

    return make
