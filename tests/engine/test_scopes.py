# SPDX-License-Identifier: Apache-2.0
"""What can be selected by callbacks, and how much one event may carry."""

from types import SimpleNamespace

import torch

from torchspan import phase
from torchspan.callbacks import RecordScope
from torchspan.engine import Engine
from torchspan.hooks.adapters.machinery.ports import Notes


def test_scopes_have_the_names_and_the_values_of_pytorchs():
    of_pytorch = {name: scope.value for name, scope in torch._C._profiler.RecordScope.__members__.items()}
    assert {scope.name: scope.value for scope in RecordScope} == of_pytorch


def test_an_event_has_at_most_20_notes_of_one_name():
    engine = Engine()
    event = engine.open(phase.COMPILE, {})
    notes = Notes(engine, SimpleNamespace(annotate_current=None))
    for _ in range(25):
        notes.add("frequent", {})
    notes.add("seldom", {})
    engine.close(event)
    assert [each.name for each in event.occurrences] == [*20 * ["frequent"], "seldom"]
