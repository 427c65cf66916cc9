# SPDX-License-Identifier: Apache-2.0
"""A comparison as Markdown, for a comment or the summary of a job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchspan.reading.answers.lines import printable
from torchspan.reading.comparison import Comparison
from torchspan.reading.comparison._sentences import sentences
from torchspan.reading.views._markdown import cut_off, escaped


def comparison_markdown(comparison: Comparison, crossed: Sequence[str] = ()) -> str:
    """The comparison, in at most 60 lines.

    Args:
        comparison: The two sides.
        crossed: The gates that are crossed, in words: the first lines.
    """
    return cut_off(list(_lines(comparison, crossed)), "torchspan compare BASE NEW")


def _lines(comparison: Comparison, crossed: Sequence[str]) -> Iterator[str]:
    yield from (f"- **crossed {_shown(text)}**" for text in crossed)
    yield from [""] if crossed else []
    first, *rest = (text for text, _ in sentences(comparison))
    yield f"**{_shown(first)}**"
    yield ""
    for text in rest:
        yield f"{'  ' if text.startswith(' ') else ''}- {_shown(text.strip())}"


def _shown(text: str) -> str:
    return escaped(printable(text))
