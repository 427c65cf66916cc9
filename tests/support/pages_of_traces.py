# SPDX-License-Identifier: Apache-2.0
"""Pages that `torchspan show --html` writes, opened in a browser."""

import base64
import gzip
import html.parser
import json
import re

from torchspan import cli

READY = "'ready' in document.documentElement.dataset"


def write(page, *words):
    """Write a page with `torchspan show --html`; its status is 0."""
    assert cli.main(["show", "--html", str(page), *map(str, words)]) == 0
    return page


def spans_of(page):
    """The document with the spans, of the text of a page."""
    (block,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page)
    return json.loads(gzip.decompress(base64.b64decode(json.loads(block)["gzip"])))


class OpenPage:
    """A page in a browser. Nothing here knows its script: it is used as a person uses it."""

    def __init__(self, browser, path, fragment=""):
        self.browser, self.path = browser, path
        self._open(fragment)

    def _open(self, fragment):
        self.browser.open("about:blank")
        self.browser.open(f"{self.path.as_uri()}{fragment}")
        self.browser.wait_for(READY)

    def reopen(self, fragment=""):
        """Load it again."""
        self._open(fragment)

    def text(self, selector):
        """The visible text of the first element."""
        return self.browser.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")

    def texts(self, selector):
        """The visible text of each element."""
        return self.browser.evaluate(
            f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => e.innerText ?? e.textContent)"
        )

    def is_shown(self, selector):
        """Whether the first element takes space."""
        return self.browser.evaluate(f"document.querySelector({json.dumps(selector)}).checkVisibility()")

    def focus(self, selector):
        """Give an element the focus."""
        self.browser.evaluate(f"document.querySelector({json.dumps(selector)}).focus()")

    def push(self, selector):
        """Click on the middle of an element."""
        self.browser.click(*self.middle(selector))

    def middle(self, selector):
        """The place of the middle of an element, which is scrolled to first."""
        return self.browser.evaluate(
            f"const box = document.querySelector({json.dumps(selector)});"
            "box.scrollIntoView({block: 'nearest'}); const at = box.getBoundingClientRect();"
            "[at.x + Math.min(at.width / 2, 60), at.y + Math.min(at.height / 2, 60)]"
        )

    def rows(self):
        """The cells of each row of the tree, all of which are scrolled to."""
        height = self.browser.evaluate("document.querySelector('#tree').scrollHeight")
        cells = {}
        for top in range(0, height, 300):
            shown = self.browser.evaluate(
                f"document.querySelector('#tree').scrollTop = {top};"
                "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done("
                "[...document.querySelectorAll('#tree-rows tr')].map((row) => [row.ariaRowIndex, row.ariaLevel,"
                " [...row.cells].map((cell) => cell.innerText.replace(/^[▾▸\\s]+/, ''))])))))"
            )
            cells |= {int(number): (int(level), *texts[:3]) for number, level, texts in shown}
        self.browser.evaluate("document.querySelector('#tree').scrollTop = 0")
        return [cells[number] for number in sorted(cells)]

    def selected(self):
        """The name in the row that is selected; None without one."""
        return self.browser.evaluate(
            "document.querySelector('tr[aria-selected=true] td')?.innerText.replace(/^[▾▸\\s]+/, '')"
        )

    def ticks(self):
        """The moments that the axis of the timeline names."""
        return self.browser.evaluate("[...document.querySelectorAll('#axis text')].map((text) => text.textContent)")

    def bar_names(self):
        """The names in the bars of the timeline."""
        labels = self.browser.evaluate(
            "[...document.querySelectorAll('#labels text.name')].map((text) => text.textContent)"
        )
        return [label for label in labels if label]


class Tables(html.parser.HTMLParser):
    """The tables of a page without JavaScript.

    rows: the texts of the cells of each row. findings: the paragraphs of the lists inside them.
    """

    def __init__(self, text):
        super().__init__()
        self.rows, self.findings, self._cell, self._is_finding = [], [], None, False
        self.feed(text.partition('<section id="explore"')[0])

    def handle_starttag(self, tag, attrs):
        if tag == "tr":
            self.rows.append([])
        elif tag in {"td", "th"}:
            self.rows[-1].append("")
            self._cell = tag
        elif tag in {"li", "br"}:
            self.findings.append("")
            self._is_finding = True

    def handle_endtag(self, tag):
        if tag in {"td", "th"}:
            self._cell = None
        elif tag == "li":
            self._is_finding = False

    def handle_data(self, data):
        if self._cell:
            self.rows[-1][-1] += data
            if self._is_finding:
                self.findings[-1] += data
