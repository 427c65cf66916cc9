# SPDX-License-Identifier: Apache-2.0
"""Collects PyTorch's own phrases about graph breaks from the sources of torch/_dynamo, of several versions.

    collect_graph_breaks.py 2.11=FOLDER 2.12=FOLDER ... [-o graph_breaks.json] [--drop PHRASE ...]

FOLDER is a `torch/_dynamo`. It is parsed and never imported. A type is every string that a call passes as `gb_type`: a literal, either
side of a conditional expression, a sum of literals, or what a name stands for (a variable of the function or of the module, an attribute
of a class, a parameter with what the module's callers pass for it). An f-string stands for each of its phrases if all its holes are such
names. Any other expression is listed on stderr and left out. A hint is every string constant in an assignment of `graph_break_hints.py`.

The output has `types` and `hints`, each a phrase with the versions that have it, `""` if all have it. Read the difference before you commit
it: every phrase in it leaves the process.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

POSITIONS = {"format_graph_break_message": 0, "Unsupported": 1}
"""Functions that take the type by position, and the position."""
_DEPTH = 4
"""How many names are followed from a use to what it stands for."""


class BreakType(NamedTuple):
    """A type that a call passes.

    Attributes:
        phrase: None if the expression is not understood.
        source: The expression.
        where: The module and the line of the call.
    """

    phrase: str | None
    source: str
    where: str


class _Module:
    """A parsed module of `torch/_dynamo`."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.name = path.relative_to(folder).as_posix()
        self.tree = ast.parse(path.read_text(encoding="utf-8"))
        self.parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}
        self.calls = [node for node in ast.walk(self.tree) if isinstance(node, ast.Call)]

    def types(self) -> Iterator[BreakType]:
        """The types of graph breaks that the module's calls pass."""
        for call in self.calls:
            expression = _passed(call, "gb_type", POSITIONS.get(_called(call) or ""))
            if expression is not None and not self._is_passed_on(call, expression):
                where = f"{self.name}:{call.lineno}"
                for phrase, node in self._values(expression, _DEPTH):
                    yield BreakType(phrase, ast.unparse(node), where)

    def _is_passed_on(self, node: ast.AST, expression: ast.expr) -> bool:
        """Whether the expression is the parameter `gb_type` of the function around it. Calls of that function pass the phrase."""
        while node in self.parents:
            node = self.parents[node]
            if isinstance(node, ast.FunctionDef):
                names = [argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)]
                return isinstance(expression, ast.Name) and expression.id == "gb_type" in names
        return False

    def _values(self, node: ast.expr, depth: int) -> Iterator[tuple[str | None, ast.expr]]:
        """The texts that the expression can be, each with its part of the expression; None for a part that is not understood."""
        text = _constant(node)
        match node:
            case _ if text is not None:
                yield text, node
            case ast.IfExp():
                yield from self._values(node.body, depth)
                yield from self._values(node.orelse, depth)
            case ast.BoolOp():
                for value in node.values:
                    yield from self._values(value, depth)
            case ast.JoinedStr(values=parts) if depth:
                filled = [list(self._values(_hole(part), depth - 1)) for part in parts]
                for texts in itertools.product(*([text for text, _ in choices] for choices in filled)):
                    yield (None if None in texts else "".join(filter(None, texts))), node
            case ast.Name() | ast.Attribute() if depth:
                meanings = list(self._meanings(node))
                if not meanings:
                    yield None, node
                for meaning in meanings:
                    yield from self._values(meaning, depth - 1)
            case _:
                yield None, node

    def _meanings(self, node: ast.Name | ast.Attribute) -> Iterator[ast.expr]:
        """What a name stands for.

        Of a variable, what the innermost scope that has it assigns to it, or what callers pass for the parameter. Of an attribute,
        what classes of the module assign to it.
        """
        if isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}:
                for scope in ast.walk(self.tree):
                    if isinstance(scope, ast.ClassDef):
                        yield from _assigned(scope.body, node.attr)
            return
        scope: ast.AST | None = node
        while scope is not None:
            scope = self.parents.get(scope)
            if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
                meanings = list(_assigned(scope.body, node.id))
                if not isinstance(scope, ast.Module):
                    meanings += self._arguments(scope, node.id)
                if meanings:
                    yield from meanings
                    return

    def _arguments(self, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> Iterator[ast.expr]:
        """What the module's calls pass for a parameter of the function."""
        named = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
        if name in named or name in [argument.arg for argument in function.args.kwonlyargs]:
            is_method = named[:1] in (["self"], ["cls"])
            position = named.index(name) - is_method if name in named else None
            for call in self.calls:
                passed = _passed(call, name, position) if _called(call) == function.name else None
                if passed is not None:
                    yield passed


def _assigned(body: list[ast.stmt], name: str) -> Iterator[ast.expr]:
    """What the statements assign to the variable. Functions and classes inside have variables of their own."""
    for statement in body:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                continue
            case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                yield value
            case ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as value) if target == name:
                yield value
            case _:
                for field in ("body", "orelse", "finalbody"):
                    yield from _assigned(getattr(statement, field, []), name)
                for inner in (*getattr(statement, "handlers", []), *getattr(statement, "cases", [])):
                    yield from _assigned(inner.body, name)


def _passed(call: ast.Call, name: str, position: int | None) -> ast.expr | None:
    """What the call passes for the parameter, by its name or its position."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    return call.args[position] if position is not None and position < len(call.args) else None


def _hole(part: ast.expr) -> ast.expr:
    """The expression in a hole of an f-string that has no format; any other part of an f-string as it is."""
    match part:
        case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
            return value
    return part


def _called(call: ast.Call) -> str | None:
    """The name of the function or method that is called."""
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return None


def _constant(node: ast.expr) -> str | None:
    """The text of a literal, of a sum of literals, or of an f-string without holes."""
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            parts = _constant(left), _constant(right)
        case ast.JoinedStr(values=values):
            parts = tuple(_constant(value) for value in values)
        case _:
            return None
    return None if None in parts else "".join(filter(None, parts))


def types(folder: Path) -> list[BreakType]:
    """The types of graph breaks that the calls in a `torch/_dynamo` pass."""
    return [kind for path in sorted(folder.rglob("*.py")) for kind in _Module(path, folder).types()]


def hints(folder: Path) -> list[str]:
    """The string constants of `graph_break_hints.py`."""
    texts = []
    for statement in ast.parse((folder / "graph_break_hints.py").read_text(encoding="utf-8")).body:
        match statement:
            case ast.Assign(value=ast.List(elts=parts)) | ast.AnnAssign(value=ast.List(elts=parts)):
                texts += [text for text in map(_constant, parts) if text is not None]
    return texts


def registered(folder: Path) -> set[str]:
    """The types in PyTorch's own list, `graph_break_registry.json`. It has those of earlier versions, too."""
    entries = json.loads((folder / "graph_break_registry.json").read_text(encoding="utf-8"))
    return {version["Gb_type"] for versions in entries.values() for version in versions}


def ranges(by_version: dict[str, set[str]]) -> dict[str, str]:
    """Each phrase with its versions: `2.11-2.13`, `2.11, 2.13-2.14`, or `""` for all."""
    return {phrase: _range(phrase, by_version) for phrase in sorted(set().union(*by_version.values()))}


def _range(phrase: str, by_version: dict[str, set[str]]) -> str:
    versions = list(by_version)
    runs = [
        [version for _, version in run]
        for has_phrase, run in itertools.groupby(enumerate(versions), lambda pair: phrase in by_version[pair[1]])
        if has_phrase
    ]
    if runs == [versions]:
        return ""
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else run[0] for run in runs)


def _phrases(version: str, folder: Path) -> set[str]:
    """The types of one version. What a person has to review is printed to stderr."""
    of_calls = types(folder)
    phrases = {kind.phrase for kind in of_calls if kind.phrase}
    for kind in of_calls:
        if not kind.phrase:
            print(f"{version} {kind.where}: not a phrase: {kind.source}", file=sys.stderr)
    in_registry = registered(folder)
    print(f"{version}: {len(of_calls)} calls, {len(phrases)} types", file=sys.stderr)
    for phrase in sorted(phrases - in_registry):
        print(f"{version} not in the registry: {phrase}", file=sys.stderr)
    print(f"{version} only in the registry: {sorted(in_registry - phrases)}", file=sys.stderr)
    return phrases


def main() -> None:
    """Write the phrases of the versions on the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("versions", nargs="+", metavar="VERSION=FOLDER")
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--drop", nargs="*", default=[], help="phrases to leave out")
    arguments = parser.parse_args()
    folders = {version: Path(folder) for version, _, folder in (text.partition("=") for text in arguments.versions)}
    by_version = {version: _phrases(version, folder) - set(arguments.drop) for version, folder in folders.items()}
    tables = {
        "types": ranges(by_version),
        "hints": ranges({version: set(hints(folder)) for version, folder in folders.items()}),
    }
    text = json.dumps(tables, indent=1, ensure_ascii=False) + "\n"
    if arguments.output is None:
        sys.stdout.write(text)
    else:
        arguments.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
