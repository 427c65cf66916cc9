# SPDX-License-Identifier: Apache-2.0
"""torchspan's entry points as pyproject.toml declares them, for programs that a test starts."""

import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def declared_entry_points():
    """Group -> the text of its section, for each group that pyproject.toml declares."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return dict(re.findall(r"^\[project\.entry-points\.(\w+)\]\n((?:\w+ = .+\n)+)", text, re.M))


def environment(folder):
    """Variables with which a program finds them, also where the checkout was installed before they were declared.

    folder: where the metadata is written.
    """
    information = Path(folder) / "installed" / "torchspan-0.1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: torchspan\nVersion: 0.1.0\n")
    sections = [f"[{group}]\n{text}" for group, text in declared_entry_points().items()]
    (information / "entry_points.txt").write_text("\n".join(sections).replace('"', ""))
    search = [str(information.parent), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, search))}
