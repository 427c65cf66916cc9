# SPDX-License-Identifier: Apache-2.0
"""What the views of a file of spans cost: the page of `torchspan show --html` and the file of `torchspan show --perfetto`.

The spans are those of a job (`job.py`), all in one trace, because a page shows one at a time. Bytes: of the view over those
of the file. Writing: processor time of `show` with the option over that of `show` alone, in this process, in turns; the
fastest round counts. The page in Chromium: from navigation until it is ready, the median of several loads in turns; and the
time that a key which zooms keeps the script busy, layout included, the median of several steps. Without Chromium the table
names what was not measured.
"""

import contextlib
import gc
import io
import statistics
import sys
import tempfile
import time
from pathlib import Path

import job
from noise import noise_of
from table import NOT_MEASURED, Row, write
from torchspan import cli

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests")]

import backends  # noqa: E402
from support.browser import Browser  # noqa: E402
from support.pages_of_traces import OpenPage  # noqa: E402

FEW, SOME, MANY = 200, 2_000, 20_000
MOST_PAGE, MOST_PERFETTO = {SOME: 0.2, MANY: 0.12}, 0.4
WRITINGS, MOST_TIME = 7, 1.5
LOADS, MOST_LOADING = 5, 10
STEPS, STEPS_AT_ONCE = 50, 10
MOST_STEP_MS, MOST_STEP = 16, 4
NOTE_READY = """
new MutationObserver(() => { if ("ready" in document.documentElement.dataset) globalThis.readyMs ??= performance.now(); })
  .observe(document, { subtree: true, attributes: true, attributeFilter: ["data-ready"] });
"""
ZOOM = f"""
const box = document.querySelector("#timeline"), took = [];
box.focus();
for (let sample = 0; sample < {STEPS}; sample++) {{
  const begin = performance.now();
  for (let step = 0; step < {STEPS_AT_ONCE}; step++)
    box.dispatchEvent(new KeyboardEvent("keydown", {{ key: step % 2 ? "-" : "+", bubbles: true, cancelable: true }}));
  took.push((performance.now() - begin) / {STEPS_AT_ONCE});
}}
took
"""
"""A browser's clock has steps of 0.1 ms, so several steps are timed at once."""


def size_rows(folder, files):
    """Bytes of the page and of the file for Perfetto over those of the file of spans."""
    for count in (SOME, MANY):
        spans_bytes = files[count].stat().st_size
        views = {"page": (_page(folder, count), MOST_PAGE[count]), "file for Perfetto": (folder / "perfetto", None)}
        show("--perfetto", folder / "perfetto", files[count])
        for name, (path, most) in views.items():
            ratio, target = path.stat().st_size / spans_bytes, most or MOST_PERFETTO
            yield Row(
                f"{name} of {count:,} spans ({path.stat().st_size / count:.0f} of {spans_bytes / count:.0f} bytes a span)",
                f"{ratio:.3f} of JSONL",
                f"≤ {target}",
                ratio <= target,
            )


def writing_rows(folder, file):
    """Processor time of `show` with an option over that of `show`."""
    ways = {"": (), "--html": ("--html", folder / "page"), "--perfetto": ("--perfetto", folder / "perfetto")}
    rounds = [[processor_s(*words, file) for words in ways.values()] for _ in range(WRITINGS)]
    shown, *others = zip(*rounds, strict=True)
    for option, times in zip(list(ways)[1:], others, strict=True):
        ratio, noise = min(times) / min(shown), max(noise_of(each, lambda a, b: a / b - 1) for each in (shown, times))
        is_noise = ratio > MOST_TIME >= ratio * (1 - noise)
        yield Row(
            f"show {option}, {MANY:,} spans ({min(times):.2f} s; show {min(shown):.2f} s; noise {noise:.0%})",
            f"{ratio:.2f} of show",
            f"≤ {MOST_TIME}",
            None if is_noise else ratio <= MOST_TIME,
        )


def processor_s(*words):
    gc.collect()
    start = time.process_time()
    show(*words)
    return time.process_time() - start


def show(*words):
    """`torchspan show`, with its output in memory."""
    with contextlib.redirect_stdout(io.StringIO()):
        if cli.main(["show", *map(str, words)]):
            raise SystemExit(f"torchspan show {' '.join(map(str, words))} has failed")


def browser_rows(folder):
    """How long the pages load, and how long a step takes."""
    loading, step = f"page ready, {MANY:,} spans over {SOME:,}", f"a step of zooming, {SOME:,} spans"
    ratio = f"a step of zooming, {SOME:,} spans over {FEW}"
    chromium = backends.BY_NAME["chromium"].found()
    if not chromium:
        targets = {loading: MOST_LOADING, step: f"{MOST_STEP_MS} ms", ratio: MOST_STEP}
        return [Row(what, "no Chromium", f"≤ {most}", NOT_MEASURED) for what, most in targets.items()]
    with Browser(chromium) as browser:
        browser.resize(1300, 1000)
        browser.run_first(NOTE_READY)
        rounds = [[load_ms(browser, _page(folder, count)) for count in (SOME, MANY)] for _ in range(LOADS)]
        some, many = map(statistics.median, zip(*rounds, strict=True))
        few_ms, some_ms = (step_ms(browser, _page(folder, count)) for count in (FEW, SOME))
    return [
        Row(
            f"{loading} ({many:.0f} ms; {some:.0f} ms)",
            f"{many / some:.1f}",
            f"≤ {MOST_LOADING}",
            many / some <= MOST_LOADING,
        ),
        Row(step, f"{some_ms:.2f} ms", f"≤ {MOST_STEP_MS} ms", some_ms <= MOST_STEP_MS),
        Row(f"{ratio} ({few_ms:.2f} ms)", f"{some_ms / few_ms:.2f}", f"≤ {MOST_STEP}", some_ms / few_ms <= MOST_STEP),
    ]


def load_ms(browser, path):
    """From navigation until the page is ready."""
    OpenPage(browser, path)
    return browser.evaluate("readyMs")


def step_ms(browser, path):
    """The median of steps in and out."""
    OpenPage(browser, path)
    return statistics.median(browser.evaluate(ZOOM))


def _page(folder, count):
    return folder / f"{count}.html"


def main():
    with tempfile.TemporaryDirectory(prefix="torchspan-bench-") as name:
        folder = Path(name)
        files = {count: job.written(folder / f"{count}.jsonl", count) for count in (FEW, SOME, MANY)}
        for count, file in files.items():
            show("--html", _page(folder, count), file)
        rows = [*size_rows(folder, files), *writing_rows(folder, files[MANY]), *browser_rows(folder)]
    return write("Views of a file of spans: bytes, processor time, and the page in a browser", rows)


if __name__ == "__main__":
    raise SystemExit(main())
