# SPDX-License-Identifier: Apache-2.0
"""Every file of traces that a run of the suite has written, hostile ones included: its summary against the schema, and its figures.

The terminal, the document, the page and Markdown have to say the same about a file.
"""

import hashlib
import itertools
import json
import re
import stat
from pathlib import Path

import jsonschema

from support.pages_of_traces import Tables
from torchspan import answers
from torchspan.reading.answers.drawing import DrawingOptions, rows_of
from torchspan.reading.answers.first_screen import table
from torchspan.reading.answers.units import duration
from torchspan.reading.views import markdown, page, perfetto

SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "reference" / "summary.schema.json"


def invalid(folder, largest=None):
    """Sentences: the files below a folder whose summary the schema refuses, and those with other figures in another view.

    Equal files are looked at once. largest: bytes of the largest file whose views are compared; None: all are.
    """
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))
    seen = set()
    for file in sorted(folder.rglob("*.jsonl")):
        try:
            if not stat.S_ISREG(file.lstat().st_mode):
                continue  # a pipe has no end, and what a link leads to has its own name
            digest = hashlib.sha256(file.read_bytes()).digest()
        except OSError:
            continue  # a test took away its rights
        if digest not in seen:
            seen.add(digest)
            report = answers.read(file)
            document = json.loads(json.dumps(report.answers.document(), allow_nan=False))
            errors = (f"{error.json_path}: {error.message[:200]}" for error in validator.iter_errors(document))
            is_compared = largest is None or file.stat().st_size <= largest
            what_differs = differences(report._drawing(), document) if is_compared else ()
            yield from (f"{file.relative_to(folder)}: {sentence}" for sentence in itertools.chain(errors, what_differs))


def differences(drawing, document):
    """Sentences: what the page, Markdown or the document say otherwise than the terminal."""
    rows_of_terminal = (line for part in drawing.sections for line in table(rows_of(part, DrawingOptions()), _WIDTH))
    printed = {_letters("".join(text for text, _ in line)) for line in rows_of_terminal}
    html = b"".join(page(drawing)).decode("utf-8")
    tables = Tables(html)
    rows = [cells for cells in tables.rows if len(cells) == 5 and cells[0].isdigit()]
    for cells in rows:
        if not _is_printed(" ".join(cells), printed):
            yield f"the page has a row that the terminal lacks: {cells}"
    for sentence in tables.findings:
        if not _is_printed(sentence, printed):
            yield f"the page has a finding that the terminal lacks: {sentence}"
    for line in markdown(drawing).splitlines():
        said = re.sub(r"(?<!\\)(\||\*\*)|<!-- -->", " ", line)
        said = re.sub(r"\\([\\`*_\[\]<>|~&$:])", r"\1", said)
        if re.match(r"\| \d+ \|", line) and len(line) < 250 and not _is_printed(said, printed):
            yield f"Markdown has a row that the terminal lacks: {line}"
    shown = {(_letters(name), times): time for _, name, times, time, _ in rows}
    for row in document["compiled"][: len(rows)]:
        key = (_letters(f"{row['name']} {row['place']}"), f"\N{MULTIPLICATION SIGN}{row['count']}")
        time = shown.get(key)
        if time is not None and time != "stand-in" and time.removeprefix("≥ ") != duration(row["s"] * 1e9):
            yield f"the document has another time than the page: {row['name']}: {row['s']}, {time}"
    for _ in perfetto(drawing):
        pass


_WIDTH = 20_000
"""Columns in which each sentence has one line."""


def _is_printed(text, printed):
    """Whether the terminal prints it; it breaks what is longer than its line."""
    letters = _letters(text)
    return letters in printed or len(letters) > _WIDTH // 4


def _letters(text):
    return "".join(text.split())
