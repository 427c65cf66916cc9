# SPDX-License-Identifier: Apache-2.0
import gc

import pytest

from torchspan import callbacks, observers
from torchspan.engine.subscribers.callback_registry import REGISTRY
from torchspan.engine.subscribers.recording import RECORDING
from torchspan.hooks.observers._observable import ObservableSite
from torchspan.hooks.observers._official import OFFICIAL
from torchspan.observers import Observer


def registered():
    """The callbacks of the user, and the observers that have any."""
    parts = [each for pair in official() for each in (pair.pre, pair.post)]
    parts += [
        each for site in RECORDING._recordable if isinstance(site, ObservableSite) for each in (site.pre, site.post)
    ]
    points = [each for each in RECORDING._recordable if isinstance(each, Observer)]
    heard = [each for each in (*points, *parts) if each._callbacks().exist()]
    return [*REGISTRY.users(), *REGISTRY._local.values(), *heard]


def official():
    """The official pairs."""
    return [pair for _, pair in OFFICIAL.values()]


def left():
    """The names of those that still are when all that is garbage is gone."""
    if registered():
        gc.collect()
        REGISTRY.update()
    return [each.name for each in registered()]


@pytest.fixture(autouse=True)
def _nothing_is_registered(request, monkeypatch, caplog):
    """The registry is the process's: a test begins with an empty one, and leaves no callback that would not be freed by itself."""
    assert left() == []
    monkeypatch.setattr(observers, "RETHROW_CALLBACK_EXCEPTION", False)
    yield
    callbacks.clear_callbacks()
    callbacks.enable_record_function(True)
    (request.node.funcargs or {}).clear()  # pytest keeps what fixtures made, and tracebacks, observers among them
    caplog.get_records("call").clear()
    remaining = left()
    for each in registered():
        if isinstance(each, Observer):
            for added in [*each._callbacks()._of_process, *each._callbacks()._of_contexts.values()]:
                each._remove(added)
        else:
            REGISTRY.remove(each)
    assert remaining == []


@pytest.fixture
def seen():
    return []


@pytest.fixture
def note(seen):
    """Makes callbacks that note their name and what they are called with."""

    def make(name):
        return lambda *args, **kwargs: seen.append((name, *args, *kwargs.items()))

    return make
