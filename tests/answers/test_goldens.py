# SPDX-License-Identifier: Apache-2.0
"""Traces that an earlier torchspan recorded are read to the same facts.

The files of goldens/ were written by `torchspan run --without-gpu` at commit 0acb6ca1, from programs that break a graph and recompile, fall
back with an engine cache, fail, train, and are killed while they compile. The facts beside them are what `torchspan show --json` said of them
at that commit, without what is worded. Since then, the functions that resume after a graph break are not counted as more of the function: for
that, the count and the outcome of one row were changed in goldens/recompiles.json.
"""

import json
from pathlib import Path

import pytest

from torchspan import answers

GOLDENS = Path(__file__).parent / "goldens"
WORDED = {"sentence", "remedy", "explanation", "hint", "type", "processes"}
"""Keys of what is a sentence, or a list that came later."""


def facts(document):
    """A document without what is worded."""
    if isinstance(document, dict):
        return {key: facts(value) for key, value in document.items() if key not in WORDED}
    return [facts(value) for value in document] if isinstance(document, list) else document


@pytest.mark.parametrize("name", ["recompiles", "fallback", "fails", "inductor", "killed"])
def test_a_trace_recorded_at_an_earlier_commit_is_read_to_the_same_facts(name):
    document = answers.read(str(GOLDENS / f"{name}.jsonl")).answers.document()
    assert facts(json.loads(json.dumps(document))) == json.loads((GOLDENS / f"{name}.json").read_text(encoding="utf-8"))
