# SPDX-License-Identifier: Apache-2.0
"""Styled lines as an SVG picture that is readable on a light and on a dark page.

The picture has its own background, names fonts of the reader's system alone, and refers to nothing outside of it. Bars and the
lines of the tree are shapes, and each text is stretched to its columns, so that they meet whatever the font.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html import escape

from torchspan.reading.answers.lines import Line, cells

_COLUMN, _ROW, _MARGIN, _FONT = 8, 18, 14, 13
_BARS = "█░▏"
_BRANCHES = {"│": "V{bottom}", "├": "V{bottom}M{x},{middle}H{right}", "└": "V{middle}H{right}"}
_TITLE = "Waterfall of a trace, drawn by torchspan"
PICTURE_MARK = re.compile(rf"<svg [^\n]*\n<title>{_TITLE}</title>".encode())
"""What a picture begins with."""
_PIECES = re.compile("(█+|░+|▏|[├└│]─*| {2,})")

LIGHT = {
    "background": "#ffffff", "border": "#d0d7de", "plain": "#1f2328", "dim": "#59636e", "bar": "#0a7d91",
    "stand_in": "#9cc5cd", "fallback": "#8a5a00", "error": "#c5221f",
}  # fmt: skip
DARK = {
    "background": "#0d1117", "border": "#3d444d", "plain": "#e6edf3", "dim": "#9198a1", "bar": "#39c5cf",
    "stand_in": "#2f6f78", "fallback": "#d29922", "error": "#ff7b72",
}  # fmt: skip
"""Colors by role, which is the name of a style in small letters; `strong` has that of `plain`."""


class Picture:
    """Collects lines and draws them.

    Args:
        width: In columns, the widest line that is drawn whole.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self._lines: list[Line] = []

    def write(self, lines: Iterable[Line]) -> None:
        """Add lines below those that were written before."""
        self._lines.extend(lines)

    def svg(self) -> str:
        """The picture."""
        width, height = self.width * _COLUMN + 2 * _MARGIN, len(self._lines) * _ROW + 2 * _MARGIN
        shapes = [shape for row, line in enumerate(self._lines) for shape in _drawn(line, _MARGIN + row * _ROW)]
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">',
            f"<title>{_TITLE}</title>",
            f"<style>{_css()}</style>",
            f'<rect class="background" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="6"/>',
            *shapes,
            "</svg>\n",
        ])  # fmt: skip


def _css() -> str:
    return (
        f"text{{font:{_FONT}px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre}}"
        f".strong{{font-weight:bold}}{_colors(LIGHT)}@media(prefers-color-scheme:dark){{{_colors(DARK)}}}"
    )


def _colors(palette: dict[str, str]) -> str:
    texts = "".join(f".{role}{{fill:{palette[role]}}}" for role in ("plain", "dim", "bar", "fallback", "error"))
    return (
        f"{texts}.strong{{fill:{palette['plain']}}}.stand_in{{fill:{palette['stand_in']}}}"
        f".background{{fill:{palette['background']};stroke:{palette['border']}}}.tree{{fill:none;stroke:{palette['dim']}}}"
    )


def _drawn(line: Line, top: int) -> Iterator[str]:
    column = 0
    for text, style in line:
        for piece in filter(None, _PIECES.split(text)):
            x, columns = _MARGIN + column * _COLUMN, cells(piece)
            column += columns
            if piece[0] in _BARS:
                yield _bar(piece, x, top, style.value)
            elif piece[0] in _BRANCHES:
                yield _branch(piece, x, top)
            elif piece.strip():
                yield _text(piece, x, top, style.value)


def _bar(piece: str, x: int, top: int, role: str) -> str:
    width = 2 if piece == "▏" else len(piece) * _COLUMN
    return f'<rect class="{role}" x="{x}" y="{top + 3}" width="{width}" height="{_ROW - 6}"/>'


def _branch(piece: str, x: int, top: int) -> str:
    middle_of_column = x + _COLUMN // 2
    path = _BRANCHES[piece[0]].format(
        x=middle_of_column, middle=top + _ROW // 2, bottom=top + _ROW, right=x + len(piece) * _COLUMN
    )
    return f'<path class="tree" d="M{middle_of_column},{top}{path}"/>'


def _text(piece: str, x: int, top: int, role: str) -> str:
    start = cells(piece) - cells(piece.lstrip())
    words = piece.strip()
    place = f'x="{x + start * _COLUMN}" y="{top + _ROW - 5}" textLength="{cells(words) * _COLUMN}"'
    return f'<text class="{role}" {place} lengthAdjust="spacingAndGlyphs">{escape(words)}</text>'
