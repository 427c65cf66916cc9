# SPDX-License-Identifier: Apache-2.0
"""What the generators of pages share: writing a page, or comparing it with what would be written."""

import sys


def write_or_check(file, text, arguments):
    """Write the text to the file; with `--check`, compare only. Returns the exit status: 1 where they differ."""
    if "--check" not in arguments:
        file.write_text(text, encoding="utf-8")
        return 0
    if file.is_file() and file.read_text(encoding="utf-8") == text:
        return 0
    print(f"{file.name} differs from its sources; write it with: make docs", file=sys.stderr)
    return 1


def cell(text):
    """A text as a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def recorded_on(result):
    """The date and the commit of a result."""
    commit = "uncommitted changes" if result["commit"] is None else f"commit {result['commit'][:12]}"
    return f"{result['date']}, on {commit}"
