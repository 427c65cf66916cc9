# SPDX-License-Identifier: Apache-2.0
"""CONTRIBUTING.md leads to a first probe: its edits are made on a copy of the repository, and its commands run there.

In addition to the marks of `support.pages`, `below=FILE:NAME` puts a block below the statement that assigns or imports NAME
and its docstring (below the last line without a name), `last-in=FILE:NAME` last into the tuple, list or dictionary of that
name. `checks` are commands that pass after the edits.
"""

import ast
import os
import re
import shlex
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
    "examples",
    "benchmarks",
    "mkdocs.yml",
    "pyproject.toml",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "README.md",
    "SECURITY.md",
)
"""What the copy needs of the repository."""

CHECKS = "tools/check.py format lint types docs"
AT_RISK = " ".join(
    (
        "-m pytest -q -n 0 -p no:cacheprovider",
        "tests/test_architecture.py::test_imports_point_one_way",
        "tests/test_architecture.py::test_no_part_is_allowed_an_import_that_it_does_not_have",
        "tests/test_semantic_conventions.py",
        "tests/semconv",
        "tests/probes",
        "tests/pipeline/test_routes.py",
        "'tests/pipeline/test_probes_resolve.py::test_each_row_resolves_or_says_why_not[torch.export:unflatten]'",
        "tests/tools/test_tools.py::test_the_page_of_phases_has_a_section_for_each_phase_with_its_spans",
        "tests/docs/test_callbacks_page.py::test_every_public_name_is_on_a_page",
        "tests/docs/test_guides.py",
        "tests/docs/test_site.py::test_every_public_name_of_a_module_is_documented",
        "tests/typing",
    )
)
"""Tests that compare all phases, attributes, probes or pairs with something, in addition to those that the page names."""


def place(block):
    """(where, file, name) of a block that is put into a file; None for another one."""
    for mark in block.marks:
        where, _, rest = mark.partition("=")
        if where in {"below", "last-in"}:
            return where, *rest.partition(":")[::2]
    return None


def statement(tree, name):
    """The statement at the top of a module that assigns or imports a name, and the last line of its docstring or its own."""
    for node, after in zip(tree.body, [*tree.body[1:], None], strict=True):
        names = [alias.asname or alias.name for alias in getattr(node, "names", ())]
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if name in names or any(isinstance(target, ast.Name) and target.id == name for target in targets):
            is_described = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            return node, (after if is_described else node).end_lineno
    raise LookupError(name)


def put(block, folder):
    """Edit a file of the copy as the page says."""
    where, file, name = place(block)
    path = folder / file
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    if not name:
        number = len(lines)
    elif where == "below":
        _, number = statement(ast.parse("".join(lines)), name)
    else:
        node, _ = statement(ast.parse("".join(lines)), name)
        number = node.value.end_lineno - 1
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
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)  # the site is built of what git lists
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


def test_the_first_probe_touches_four_files():
    assert len({place(block)[1] for block in PAGE if place(block)}) == 4


def test_the_commands_in_the_table_are_targets_of_the_makefile():
    makefile = (pages.ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"`make ([a-z-]+)", TEXT))
    assert {target for target in targets if f"\n{target}:" not in makefile} == set()


def test_the_probe_of_the_page_is_a_span_in_a_trace(reader):
    ((program, shown),) = pages.outputs(PAGE)
    assert pages.missing(shown.text, reader.run(program)) is None
    assert "torch.export.unflatten" in shown.text


def printed_by(command, folder, environment):
    """Standard output of a command that succeeds."""
    done = subprocess.run(
        ["bash", "-euc", command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def checked(copy, surroundings):
    """What the commands of the last step print, after all edits of the page."""
    (block,) = (block for block in PAGE if "checks" in block.marks)
    # Without `setup`: what this environment lacks is not to be installed by a test.
    commands = block.text.replace("make ", "make -o setup ").splitlines()
    return [printed_by(command, copy, surroundings) for command in commands]


def test_the_checks_of_the_page_pass_after_its_edits(copy, checked):
    assert [re.search(r"^\d+ passed", printed, re.MULTILINE) is not None for printed in checked[-1:]] == [True]
    assert "`torch.export.unflatten.nodes`" in (copy / "docs/reference/semantic-conventions.md").read_text(
        encoding="utf-8"
    )
    assert "::: torchspan.phase.EXPORT_UNFLATTEN" in (copy / "docs/reference/api/phase.md").read_text(encoding="utf-8")


@pytest.mark.usefixtures("checked")
@pytest.mark.parametrize("command", [CHECKS, AT_RISK], ids=["checks", "tests"])
@pytest.mark.slow
def test_whatever_else_a_new_probe_can_break_passes_after_the_edits_of_the_page(command, copy, surroundings):
    printed_by(f"{shlex.quote(sys.executable)} {command}", copy, surroundings)


def test_an_edit_that_names_a_missing_place_is_an_error(tmp_path):
    Path(tmp_path, "a.py").write_text("A = 1\n", encoding="utf-8")
    with pytest.raises(LookupError, match="B"):
        put(pages.Block(1, "python", ("below=a.py:B",), "C = 2\n"), tmp_path)
