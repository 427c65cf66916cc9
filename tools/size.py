# SPDX-License-Identifier: Apache-2.0
"""Measures the size of the package: lines of code, files, the longest functions, and names that are used twice.

`size.py [folder] [--by]` prints the figures; `--by` adds the lines of each package. `size.py --check` also exits with status 1 if a
figure is above its limit. A limit is raised in the commit that needs it, with the reason.
"""

import ast
import io
import statistics
import sys
import tokenize
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "torchspan"

LIMITS = {
    "lines of code": 35_570,
    "files": 395,
    "lines of the longest function": 60,
    "class names used twice": 0,
    "module names used twice": 0,
}
"""What the package may have at most. Lines of code are without docstrings, comments and blank lines. 25 of them are room for a first probe.
"""

_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_PARALLEL = {"adapters", "probes", "observers", "hooks"}
"""Packages that have a module for each library by design."""


@dataclass
class Measured:
    """One file. functions: (lines of code, name) of each. classes: names, nested classes included."""

    code: int
    functions: list[tuple[int, str]]
    classes: list[str]


def measure(text):
    """The figures of one file's text."""
    tree = ast.parse(text)
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type not in _NO_CODE]
    code = {line for token in tokens for line in range(token.start[0], token.end[0] + 1)} - _docstrings(tree)
    return Measured(
        len(code),
        [
            (len(code.intersection(range(node.lineno, node.end_lineno + 1))), node.name)
            for node in ast.walk(tree)
            if isinstance(node, _FUNCTIONS)
        ],
        [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)],
    )


def _docstrings(tree):
    """The lines of strings that stand alone: docstrings, also those below an assignment."""
    statements = (
        statement
        for node in ast.walk(tree)
        for statement in (getattr(node, "body", None) if isinstance(getattr(node, "body", None), list) else ())
    )
    return {
        line
        for statement in statements
        if isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
        for line in range(statement.lineno, statement.end_lineno + 1)
    }


def figures(files):
    """Name of a limit → figure. files: path → `Measured`."""
    code = sum(file.code for file in files.values())
    classes = Counter(name for file in files.values() for name in set(file.classes))
    modules = Counter(name for name in map(_module, files) if name is not None)
    return {
        "lines of code": code,
        "files": len(files),
        "lines of the longest function": max(length for file in files.values() for length, _ in file.functions),
        "class names used twice": sum(count > 1 for count in classes.values()),
        "module names used twice": sum(count > 1 for count in modules.values()),
    }


def _module(path):
    """The name of a module as a reader sees it; None for those that need no name of their own."""
    parts = path.relative_to(SOURCE).parts if path.is_relative_to(SOURCE) else ("", path.name)
    needs_none = path.name in {"__init__.py", "__main__.py"} or len(parts) == 1 or parts[0] in _PARALLEL
    return None if needs_none else path.stem.strip("_")


def measured(folder):
    """Path → `Measured`, of each file in a folder."""
    return {path: measure(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.py"))}


def main(arguments):
    """Print the figures, and return the exit status."""
    folders = [Path(argument).resolve() for argument in arguments if not argument.startswith("-")]
    files = measured(*(folders or [SOURCE]))
    lengths = sorted((length, name, path) for path, file in files.items() for length, name in file.functions)
    print(f"functions: median {statistics.median(length for length, _, _ in lengths)} lines of code; the longest:")
    for length, name, path in lengths[:-6:-1]:
        print(f"  {length:4} {path}:{name}")
    if "--by" in arguments:
        packages = Counter()
        for path, file in files.items():
            packages[path.relative_to((folders or [SOURCE])[0]).parts[0]] += file.code
        print("\n".join(f"{lines:6} {package}" for package, lines in packages.most_common()))
    above = False
    for name, figure in figures(files).items():
        limit = LIMITS[name] if not folders else None
        above |= limit is not None and figure > limit
        mark = "" if limit is None else f" of {limit:,}{'  ABOVE THE LIMIT' if figure > limit else ''}"
        print(f"{name}: {figure:,}{mark}")
    return int(above and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
