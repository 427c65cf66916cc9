# SPDX-License-Identifier: Apache-2.0
"""The summary of every file of traces that a run of the suite has written, hostile ones included, against its schema."""

import hashlib
import json
import stat
from pathlib import Path

import jsonschema

from torchspan import answers

SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "reference" / "summary.schema.json"


def invalid(folder):
    """Sentences: the files below a folder whose summary the schema refuses. Equal files are looked at once."""
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
            document = json.loads(json.dumps(answers.read(file).answers.document(), allow_nan=False))
            yield from (
                f"{file.relative_to(folder)}: {error.json_path}: {error.message[:200]}"
                for error in validator.iter_errors(document)
            )
