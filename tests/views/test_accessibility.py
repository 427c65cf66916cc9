# SPDX-License-Identifier: Apache-2.0
"""The page against the rules of axe-core for WCAG 2.2 AA, and its colors against the contrast that WCAG asks for."""

import itertools
import re
from importlib import resources
from pathlib import Path

import pytest

from support.needs import program
from support.pages_of_traces import OpenPage, write
from support.recording import Recording
from torchspan.words import semconv

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
RUN = f"axe.run({{runOnly: {RULES}}}).then((r) => [r.violations.map((v) => `${{v.id}}: ${{v.nodes[0].html}}`), r.passes.length])"
STYLE = resources.files("torchspan.reading.views").joinpath("page.css").read_text(encoding="utf-8")
PALETTES = [
    dict(re.findall(r"--([\w-]+): (#\w{6})", part)) for part in STYLE.split("@media (prefers-color-scheme: dark)")
]


def luminance(color):
    """Relative luminance, as https://www.w3.org/TR/WCAG22/#dfn-relative-luminance defines it."""
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("palette", PALETTES, ids=["light", "dark"])
def test_texts_have_a_contrast_of_4_5_on_every_background(palette):
    texts = ("text", "dim", "fallback", "error", "link")
    pairs = [*itertools.product(texts, ("background", "panel")), ("text", "mark"), ("dim", "mark"), ("error", "mark")]
    pairs += [("on-bar", bar) for bar in ("torch", "torch_tensorrt", "tensorrt", "other", "error")]
    low = {pair: round(contrast(*(palette[name] for name in pair)), 2) for pair in pairs}
    assert {pair: ratio for pair, ratio in low.items() if ratio < 4.5} == {}


@pytest.mark.parametrize("palette", PALETTES, ids=["light", "dark"])
def test_bars_and_marks_have_a_contrast_of_3_on_the_background(palette):
    shapes = ("torch", "torch_tensorrt", "tensorrt", "other", "error", "link", "path", "bar")
    assert [name for name in shapes if contrast(palette[name], palette["background"]) < 3] == []


@pytest.mark.slow
@pytest.mark.once("a browser shows the page")
@pytest.mark.needs("chromium", "axe-core")
@pytest.mark.parametrize("width", [320, 1300])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_a_page_with_an_open_span(browser, tmp_path, scheme, width):
    recording = Recording(tmp_path / "trace.jsonl")
    facts = {semconv.MODEL_CLASS: "Net", semconv.SETTINGS["min_block_size"]: 1}
    for number in range(30):
        root = recording.span("torch_tensorrt.compile", number, number + 50, facts, error=("ValueError", "no room"))
        facts_of_engine = {semconv.ENGINE_NAME: "_run_on_acc_0", semconv.CACHE_RESULT: "miss"}
        recording.span("torch_tensorrt.convert", number, number + 40, facts_of_engine, parent=root)
        frame = {semconv.CODE_FUNCTION: "forward", semconv.FRAME_OUTCOME: "compiled"}
        recording.span("torch.compile_frame", number, number + 3, frame, parent=root)
    browser.resize(width, 900)
    browser.prefer(prefers_color_scheme=scheme)
    page = OpenPage(browser, write(tmp_path / "a.html", recording.path))
    browser.evaluate(Path(program("axe-core")).read_text(encoding="utf-8"))
    page.browser.press("/")
    page.browser.type("convert")
    page.browser.press("Enter")
    violations, passes = browser.evaluate(RUN)
    browser.resize(1300, 1000)
    browser.prefer()
    assert violations == []
    assert passes > 30
