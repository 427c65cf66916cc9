# SPDX-License-Identifier: Apache-2.0
"""CONTRIBUTING.md leads to a first probe: its edits are made on a copy of the repository, and its commands run there.

In addition to the marks of `support.pages`, `below=FILE:NAME` puts a block below the statement that assigns or imports NAME (below the
last line without a name), `last-in=FILE:NAME` last into the tuple, list or dictionary of that name. `checks` are commands
that pass after the edits.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support import pages
from support.run_log import VARIABLE

TEXT = (pages.ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PAGE = pages.blocks(TEXT)
COPIED = (
    "Makefile",
    "src",
    "tests",
    "tools",
    "docs",
    "collector-config",
    "pyproject.toml",
    "ARCHITECTURE.md",
    "README.md",
    "CONTRIBUTING.md",
)
"""What the copy needs of the repository."""


def place(block):
    """(where, file, name) of a block that is put into a file; None for another one."""
    for mark in block.marks:
        where, _, rest = mark.partition("=")
        if where in {"below", "last-in"}:
            return where, *rest.partition(":")[::2]
    return None


def statement(tree, name):
    """The statement at the top of a module that assigns or imports a name."""
    for node in tree.body:
        names = [alias.asname or alias.name for alias in getattr(node, "names", ())]
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if name in names or any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return node
    raise LookupError(name)


def put(block, folder):
    """Edit a file of the copy as the page says."""
    where, file, name = place(block)
    path = folder / file
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    if not name:
        number = len(lines)
    elif where == "below":
        number = statement(ast.parse("".join(lines)), name).end_lineno
    else:
        number = statement(ast.parse("".join(lines)), name).value.end_lineno - 1
    path.write_text("".join([*lines[:number], block.text, *lines[number:]]), encoding="utf-8")


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the repository, as far as the page needs it, with the page's edits."""
    folder = tmp_path_factory.mktemp("clone")
    for each in COPIED:
        source = pages.ROOT / each
        if source.is_dir():
            shutil.copytree(source, folder / each, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / each)
    for block in PAGE:
        if place(block):
            put(block, folder)
    (folder / ".venv").symlink_to(sys.prefix, target_is_directory=True)
    return folder


@pytest.fixture(scope="module")
def surroundings(copy):
    """The contributor's: the copy is the package that is installed. What the copy's tests emit is none of this suite's."""
    base = {
        name: value for name, value in pages.environment().items() if not name.startswith(("PYTEST_", "MAKE", VARIABLE))
    }
    return {**base, "PYTHONPATH": os.pathsep.join(filter(None, (str(copy / "src"), base.get("PYTHONPATH"))))}


@pytest.fixture(scope="module")
def reader(copy, surroundings):
    each = pages.Reader(copy, surroundings)
    each.save(PAGE)
    return each


def test_every_program_of_the_page_says_what_a_test_does_with_it():
    unmarked = [block for block in PAGE if block.line in pages.unmarked(PAGE) and not place(block)]
    assert [block.line for block in unmarked if "checks" not in block.marks] == []


def test_the_text_above_an_edit_names_the_file_and_the_place():
    lines = TEXT.splitlines()
    for block in PAGE:
        if place(block):
            _, file, name = place(block)
            above = "\n".join(lines[: block.line - 1]).rstrip().rpartition("\n\n")[2]
            assert f"`{file}`" in above, f"line {block.line}"
            assert not name or f"`{name}`" in above, f"line {block.line}"


def test_the_commands_in_the_table_are_targets_of_the_makefile():
    makefile = (pages.ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"`make ([a-z-]+)", TEXT))
    assert {target for target in targets if f"\n{target}:" not in makefile} == set()


def test_the_probe_of_the_page_is_a_span_in_a_trace(reader):
    ((program, shown),) = pages.outputs(PAGE)
    assert pages.missing(shown.text, reader.run(program)) is None
    assert "torch.export.save" in shown.text


def test_the_checks_of_the_page_pass_after_its_edits(copy, surroundings):
    (block,) = (block for block in PAGE if "checks" in block.marks)
    printed = []
    for command in block.text.splitlines():
        # Without `setup`: what this environment lacks is not to be installed by a test.
        done = subprocess.run(
            ["bash", "-euc", command.replace("make ", "make -o setup ")],
            cwd=copy,
            env=surroundings,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
        printed.append(done.stdout)
    assert re.search(r"^3 passed", printed[-1], re.MULTILINE)
    assert "`torch.export.save.nodes`" in (copy / "docs/reference/semantic-conventions.md").read_text(encoding="utf-8")


def test_an_edit_that_names_a_missing_place_is_an_error(tmp_path):
    Path(tmp_path, "a.py").write_text("A = 1\n", encoding="utf-8")
    with pytest.raises(LookupError, match="B"):
        put(pages.Block(1, "python", ("below=a.py:B",), "C = 2\n"), tmp_path)
