# SPDX-License-Identifier: Apache-2.0
"""Lines as a piece of HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from torchspan.answers.lines import Line, Style

_CSS = {
    Style.DIM: "opacity:.65",
    Style.STRONG: "font-weight:bold",
    Style.BAR: "color:#0a7d91",
    Style.STAND_IN: "color:#0a7d91;opacity:.5",
    Style.FALLBACK: "color:#8a5a00",
    Style.ERROR: "color:#c5221f;font-weight:bold",
}


def html(lines: Iterable[Line]) -> str:
    """The lines in a `<pre>`, which refers to nothing outside of it."""
    text = "\n".join("".join(_piece(piece, style) for piece, style in line) for line in lines)
    return f'<pre style="line-height:1.2;white-space:pre">{text}\n</pre>'


def _piece(text: str, style: Style) -> str:
    css = _CSS.get(style)
    return f'<span style="{css}">{escape(text)}</span>' if css and text.strip() else escape(text)
