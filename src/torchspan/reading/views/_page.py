# SPDX-License-Identifier: Apache-2.0
"""One file for the browser: the first screen without JavaScript, and a timeline, a tree and a search with it.

The page refers to nothing outside of it, and its rules (Content-Security-Policy) forbid that it ever does. Its one
script and its one style are files of this package.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from collections.abc import Iterator
from html import escape
from importlib import resources

from torchspan.reading.answers._built_engines import engines
from torchspan.reading.answers._compiled import Compiled
from torchspan.reading.answers._frame_answer import frames
from torchspan.reading.answers._render import service
from torchspan.reading.answers.drawing import Drawing
from torchspan.reading.answers.html import ON_PAGE, first_screen
from torchspan.reading.traces import Node, Span
from torchspan.reading.views._page_data import packed
from torchspan.reading.views._tables import Table, engine_table, frame_table, settings_table
from torchspan.reading.views._timeline import whole_traces

_BEGIN = '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="generator" content="torchspan show --html">\n'
PAGE_MARK = re.compile(re.escape(_BEGIN).encode())
"""What a page begins with."""
_LICENSE = "<!-- Script and style: Apache-2.0, https://www.apache.org/licenses/LICENSE-2.0 -->"

_EXPLORE = """\
<section id="explore" aria-labelledby="explore-title" hidden>
<h2 id="explore-title">Timeline and tree</h2>
<div class="controls">
<span id="choice"><label for="traces">Trace</label> <select id="traces"></select></span>
<label for="search">Search</label> <input id="search" type="search" placeholder="name, attribute or event" aria-keyshortcuts="/">
<span id="count" role="status"></span>
</div>
<div class="panes">
<div>
<div class="controls" role="group" aria-label="tree">
<button type="button" id="open-all">Open all</button>
<button type="button" id="close-all">Close all</button>
</div>
<div class="tree" id="tree"><svg id="above" width="1" height="0" aria-hidden="true"></svg>
<table role="treegrid" id="tree-table" aria-label="spans of the trace"><thead><tr role="row"><th role="columnheader" scope="col">span</th>
<th role="columnheader" scope="col">time</th><th role="columnheader" scope="col">own</th>
<th role="columnheader" scope="col">when</th></tr></thead><tbody id="tree-rows" role="rowgroup"></tbody></table>
<svg id="below" width="1" height="0" aria-hidden="true"></svg></div>
</div>
<div>
<div class="controls" role="group" aria-label="timeline">
<button type="button" id="zoom-in" aria-keyshortcuts="+">Zoom in</button>
<button type="button" id="zoom-out" aria-keyshortcuts="-">Zoom out</button>
<button type="button" id="zoom-all" aria-keyshortcuts="0">Whole trace</button>
<button type="button" id="pan-left">Earlier</button>
<button type="button" id="pan-right">Later</button>
</div>
<svg id="axis" height="20" aria-hidden="true"></svg>
<div class="timeline" id="timeline" tabindex="0" role="group" aria-label="timeline by process and thread; the tree has the same spans">
<svg id="chart" aria-hidden="true"><g id="bars"></g><g id="labels"></g></svg></div>
<p id="pointed" class="dim">A line below a bar marks the critical path.</p>
</div>
</div>
<aside class="details" id="details" aria-label="details of the selected span" hidden>
<button type="button" id="close">Close</button>
<div id="details-body"></div>
</aside>
<h2 id="path-title">Critical path</h2>
<p class="dim">The spans that decided when the trace ended, in their order, with the time that each of them alone took.</p>
<div class="scroll" tabindex="0" role="region" aria-labelledby="path-title"><table><thead><tr><th scope="col">span</th>
<th scope="col">time</th><th scope="col">share</th></tr></thead><tbody id="path"></tbody></table></div>
<p class="dim">Keys: arrows walk the tree, Enter opens a span, / searches, + - 0 zoom, Esc closes.</p>
</section>"""


def page(drawing: Drawing) -> Iterator[bytes]:
    """The page of a drawing, in pieces.

    Args:
        drawing: What is shown. Its spans have the whole texts of messages if the page is to have them.

    Yields:
        HTML in UTF-8.
    """
    return (piece.encode("utf-8", "backslashreplace") for piece in _pieces(drawing))


def _pieces(drawing: Drawing) -> Iterator[str]:
    script, style = _file("page.js"), _file("page.css")
    title = _title(drawing)
    rules = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; base-uri 'none'; form-action 'none'"
    )
    yield f'{_BEGIN}<meta http-equiv="Content-Security-Policy" content="{rules}">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield f"<title>{escape(title)}</title>\n{_LICENSE}\n<style>{style}</style>\n</head>\n<body>\n<main>\n"
    yield f"<h1>{escape(title)}</h1>\n{first_screen(drawing, ON_PAGE, _address_of_row)}\n{_EXPLORE}\n"
    traces = whole_traces(drawing)
    nodes = [node for trace in traces for node in trace.nodes]
    for table in (engine_table(list(engines(nodes))), frame_table(list(frames(nodes))), settings_table(nodes)):
        yield from _section(table)
    yield '</main>\n<script type="application/json" id="data">{"gzip":"'
    yield packed(traces)
    yield f'"}}</script>\n<script>{script}</script>\n</body>\n</html>\n'


@functools.cache
def _file(name: str) -> str:
    return resources.files("torchspan.reading.views").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _title(drawing: Drawing) -> str:
    """The services of the spans."""
    resources_ = [trace.roots[0].span.resource for section in drawing.sections for trace in section.traces]
    names = [name for name in dict.fromkeys(map(service, resources_)) if name]
    more = ", …" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more} · torchspan" if names else "torchspan"


def _address(span: Span) -> str:
    """The part of an address that opens the span."""
    return f"#span={span.trace_id}.{span.span_id}"


def _address_of_row(row: Compiled) -> str:
    """That of the row's longest span in the trace that says most about it."""
    inside = {id(node) for node in row.worst().nodes()}
    nodes: list[Node] = [node for node in row.nodes if id(node) in inside] or row.nodes
    return _address(max(nodes, key=lambda node: node.span.duration_ns).span)


def _section(table: Table) -> Iterator[str]:
    if not table.rows:
        return
    name = table.title.replace(" ", "-").replace("'", "").lower()
    yield f'<section>\n<h2 id="{name}">{escape(table.title)}</h2>\n'
    yield f'<div class="scroll" tabindex="0" role="region" aria-labelledby="{name}">\n<table><thead><tr>'
    yield "".join(f'<th scope="col">{escape(column)}</th>' for column in table.columns)
    yield "</tr></thead><tbody>\n"
    for span, (first, *rest) in table.rows:
        cells = "".join(f"<td>{escape(text)}</td>" for text in rest)
        yield f'<tr><th scope="row"><a href="{_address(span)}">{escape(first) or "?"}</a></th>{cells}</tr>\n'
    yield "</tbody></table></div>\n"
    yield f"<p>{table.omitted} more</p>\n" if table.omitted else ""
    yield "</section>\n"
