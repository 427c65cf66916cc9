# SPDX-License-Identifier: Apache-2.0
"""What the line of a frame says besides its name."""

from types import SimpleNamespace

import pytest

from torchspan.reading.answers import _frame_answer as _frames
from torchspan.words import semconv as s


@pytest.mark.parametrize(
    ("outcome", "notes"),
    [
        ("compiled", []),
        ("failed", []),
        ("skipped", ["runs eagerly"]),
        ("limit", ["runs eagerly from now on: the recompile limit is reached"]),
        ("fallen_back", ["fell back to eager"]),
    ],
)
def test_a_frame_that_runs_eagerly_is_marked(outcome, notes):
    span = SimpleNamespace(name="torch.compile_frame", attributes={s.FRAME_OUTCOME: outcome}, events=[])
    assert _frames.notes(span) == notes


def test_each_graph_break_is_named_with_its_place_and_class():
    facts = {s.CODE_FILE: "model.py", s.CODE_LINE: 41, s.GRAPH_BREAK_CLASS: "data_dependent_branch"}
    events = [SimpleNamespace(name=s.GRAPH_BREAK_EVENT, attributes=each) for each in (facts, {})]
    span = SimpleNamespace(name="torch.compile_frame", attributes={}, events=events)
    assert _frames.notes(span) == ["graph break at model.py:41: data dependent branch", "graph break: other"]


def test_a_guard_of_which_nothing_may_leave_is_named_by_what_it_concerns():
    facts = {s.FRAME_OUTCOME: "compiled", s.RECOMPILE_REASON: "?", s.RECOMPILE_CLASS: "backend"}
    span = SimpleNamespace(name="torch.compile_frame", attributes=facts, events=[])
    assert _frames.notes(span) == ["recompiled: change of backend"]
