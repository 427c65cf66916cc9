# SPDX-License-Identifier: Apache-2.0
"""`docs/how-to/traceql.md` without a Tempo: its searches name spans and attributes that there are. tests/end_to_end runs them."""

import re
from pathlib import Path

from torchspan.words import phase, semconv

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "traceql.md").read_text(encoding="utf-8")
QUERIES = re.findall(r"^```traceql\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
OF_OTHERS = {"service.name", "exception.type"}


def test_every_attribute_of_a_search_is_in_the_table():
    named = set(
        re.findall(r"\b(?:span|resource|event)\.([a-z][\w.]*)", "".join([*QUERIES, *re.findall("`[^`]*`", PAGE)]))
    )
    assert len(named) > 5
    assert named - OF_OTHERS <= {str(row) for row in semconv.ATTRIBUTES}


def test_every_span_of_a_search_is_one_that_torchspan_emits():
    named = set(re.findall(r'(?<!event:)\bname = "(.*?)"', "".join(QUERIES)))
    assert len(named) > 3
    assert named <= {each.name for each in phase.SPANS}
