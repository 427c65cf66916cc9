# SPDX-License-Identifier: Apache-2.0
"""Collects PyTorch's own phrases about graph breaks from the sources of torch/_dynamo, of several versions.

    collect_graph_breaks.py 2.11=FOLDER 2.12=FOLDER ... [-o graph_breaks.json] [--drop PHRASE ...]

FOLDER is a `torch/_dynamo`, which is parsed and never imported. A type is every string that a call passes as `gb_type`: a literal, either
side of a conditional expression, a sum of literals, or what a name stands for (a variable of the function or of the module, an attribute
of a class, a parameter with what the module's callers pass for it). An f-string whose holes are all such names is each of its phrases. Any
other is not a whole phrase: it is listed on stderr and left out.
A hint is every string constant in an assignment of `graph_break_hints.py`.

The output has `types` and `hints`: the phrase, and the versions that have it, `""` where all of them do.
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
"""Functions that are passed the type by position, and the position."""
_DEPTH = 4
"""Names that are followed from one use to what they stand for."""


class Found(NamedTuple):
    """What one expression for a type can be. phrase is None for an expression with holes, or one that is not understood."""

    phrase: str | None
    source: str
    where: str


class _Module:
    """A module with the parent of each of its nodes."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.name = path.relative_to(folder).as_posix()
        self.tree = ast.parse(path.read_text(encoding="utf-8"))
        self.parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}
        self.calls = [node for node in ast.walk(self.tree) if isinstance(node, ast.Call)]

    def types(self) -> Iterator[Found]:
        """Everything that the module's calls pass as the type of a graph break."""
        for call in self.calls:
            expression = _passed(call, "gb_type", POSITIONS.get(_called(call) or ""))
            if expression is not None and not self._is_passed_on(call, expression):
                where = f"{self.name}:{call.lineno}"
                for phrase, node in self._values(expression, _DEPTH):
                    yield Found(phrase, ast.unparse(node), where)

    def _is_passed_on(self, node: ast.AST, expression: ast.expr) -> bool:
        """Whether the expression is the parameter `gb_type` of the function around it, whose callers are calls of their own."""
        while node in self.parents:
            node = self.parents[node]
            if isinstance(node, ast.FunctionDef):
                names = [argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)]
                return isinstance(expression, ast.Name) and expression.id == "gb_type" in names
        return False

    def _values(self, node: ast.expr, depth: int) -> Iterator[tuple[str | None, ast.expr]]:
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
                for texts in itertools.product(*([text for text, _ in each] for each in filled)):
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
        """What is assigned to a variable in the innermost scope that assigns it, to an attribute in a class, or passed for a parameter."""
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
                found = list(_assigned(scope.body, node.id))
                if not isinstance(scope, ast.Module):
                    found += self._arguments(scope, node.id)
                if found:
                    yield from found
                    return

    def _arguments(self, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> Iterator[ast.expr]:
        named = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
        if name in named or name in [argument.arg for argument in function.args.kwonlyargs]:
            is_method = named[:1] in (["self"], ["cls"])
            position = named.index(name) - is_method if name in named else None
            for call in self.calls:
                passed = _passed(call, name, position) if _called(call) == function.name else None
                if passed is not None:
                    yield passed


def _assigned(body: list[ast.stmt], name: str) -> Iterator[ast.expr]:
    """What the statements assign to the variable, except for those of functions and classes inside."""
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
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    return call.args[position] if position is not None and position < len(call.args) else None


def _hole(part: ast.expr) -> ast.expr:
    """What fills a hole of an f-string, if it stands there as it is."""
    match part:
        case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
            return value
    return part


def _called(call: ast.Call) -> str | None:
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


def types(folder: Path) -> list[Found]:
    """What the calls in `torch/_dynamo` pass as types of graph breaks."""
    return [found for path in sorted(folder.rglob("*.py")) for found in _Module(path, folder).types()]


def hints(folder: Path) -> list[str]:
    """The constants of `graph_break_hints`."""
    found = []
    for statement in ast.parse((folder / "graph_break_hints.py").read_text(encoding="utf-8")).body:
        match statement:
            case ast.Assign(value=ast.List(elts=parts)) | ast.AnnAssign(value=ast.List(elts=parts)):
                found += [text for text in map(_constant, parts) if text is not None]
    return found


def registered(folder: Path) -> set[str]:
    """The types in `graph_break_registry.json`, which also has those of earlier versions."""
    entries = json.loads((folder / "graph_break_registry.json").read_text(encoding="utf-8"))
    return {version["Gb_type"] for versions in entries.values() for version in versions}


def ranges(by_version: dict[str, set[str]]) -> dict[str, str]:
    """Each phrase with its versions: `2.11-2.13`, `2.11, 2.13-2.14`, or `""` for all."""
    names = list(by_version)
    answer = {}
    for phrase in sorted(set().union(*by_version.values())):
        runs: list[list[str]] = []
        for index, name in enumerate(names):
            if phrase in by_version[name]:
                if runs and index and runs[-1][-1] == names[index - 1]:
                    runs[-1].append(name)
                else:
                    runs.append([name])
        is_everywhere = runs == [names]
        answer[phrase] = (
            "" if is_everywhere else ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else run[0] for run in runs)
        )
    return answer


def main() -> None:
    """Write the phrases of the versions on the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("versions", nargs="+", metavar="VERSION=FOLDER")
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--drop", nargs="*", default=[], help="phrases that are PyTorch's, but say nothing")
    arguments = parser.parse_args()
    folders = {version: Path(folder) for version, _, folder in (each.partition("=") for each in arguments.versions)}
    by_version: dict[str, set[str]] = {}
    for version, folder in folders.items():
        found = types(folder)
        by_version[version] = {each.phrase for each in found if each.phrase} - set(arguments.drop)
        for each in found:
            if not each.phrase:
                print(f"{version} {each.where}: not a phrase: {each.source}", file=sys.stderr)
        known = registered(folder)
        print(f"{version}: {len(found)} calls, {len(by_version[version])} types", file=sys.stderr)
        for text in sorted(by_version[version] - known):
            print(f"{version} not in the registry: {text}", file=sys.stderr)
        print(f"{version} only in the registry: {sorted(known - by_version[version])}", file=sys.stderr)
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
