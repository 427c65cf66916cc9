# SPDX-License-Identifier: Apache-2.0
"""A side of a comparison: a file, or a folder whose files are runs of one program, with what each run compiled.

The same work of two runs has the same key, whatever its names and numbers.
"""

from __future__ import annotations

import dataclasses
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from torchspan.reading.answers import GpuTime
from torchspan.reading.answers._attributes import strings
from torchspan.reading.answers._compiled import Compiled, compiled
from torchspan.reading.answers._device_times import gpu_times
from torchspan.reading.answers._operator_rows import has_operators, is_operator
from torchspan.reading.answers.units import plural
from torchspan.reading.answers.whole_texts import with_texts
from torchspan.reading.comparison._exact_test import MOST
from torchspan.reading.traces import Node, Run, Trace, by_run, read, trees
from torchspan.words import phase, semconv

Source = str | os.PathLike[str]
_SUFFIXES = (".jsonl", ".jsonl.gz")
"""Of the files of a folder that are read. Pages and files of inputs may lie beside them."""


class ComparisonError(ValueError):
    """Two sides cannot be compared. The message says why, and what would change it, in one line."""


class WorkKey(NamedTuple):
    """What a compilation is.

    Attributes:
        what: `compile`, `export`, `build_engine`, …
        name: The class of the model, or the function.
        entry: The entry point of Torch-TensorRT, or the file of a function, without its folder.
        inputs: The shapes of the inputs, or the line of a function.
    """

    what: str
    name: str
    entry: str
    inputs: str


@dataclass(frozen=True)
class ComparedRun:
    """One run of a program.

    Attributes:
        name: The name of its file.
        id: Its id; empty if it did not run under `torchspan run`.
        works: What it compiled, by what the work is, the worst first. Equal work is one entry.
        gpu_times: Runs with times on the device, by the name of their spans and the engine or graph.
    """

    name: str
    id: str
    works: dict[WorkKey, Compiled]
    gpu_times: dict[tuple[str, str], GpuTime]


@dataclass(frozen=True)
class Side:
    """One side.

    Attributes:
        name: What lines call it.
        runs: Its runs, at least one.
        left_out: What of its files is not compared, in words.
    """

    name: str
    runs: list[ComparedRun] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def works(self, key: WorkKey) -> list[Compiled]:
        """The work of a key in each run that has it.

        Args:
            key: What the work is, one of `keys`.

        Returns:
            The rows of the runs, in their order.
        """
        return [run.works[key] for run in self.runs if key in run.works]

    @property
    def keys(self) -> list[WorkKey]:
        """The work of all runs, without repetition."""
        return list(dict.fromkeys(key for run in self.runs for key in run.works))


def two_sides(base: Source, new: Source, *, texts: bool) -> tuple[Side, Side]:
    """Read both sides, which are called by the names of their files, or `base` and `new` where these are equal.

    Raises:
        ComparisonError: A side has no run that can be compared, or runs of several programs.
        OSError: A file cannot be opened or read.
    """
    names = [path.name if path.is_dir() else path.stem for path in (Path(base).absolute(), Path(new).absolute())]
    first, second = names if names[0] != names[1] else ("base", "new")
    return _side(Path(base), first, texts=texts), _side(Path(new), second, texts=texts)


def _side(path: Path, name: str, *, texts: bool) -> Side:
    side, files = Side(name), [path]
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.name.endswith(_SUFFIXES) and file.is_file())
    for file in files[:MOST]:
        _add_file(side, file, texts=texts)
    if len(files) > MOST:
        side.left_out.append(f"{len(files) - MOST} files of {name}: a side has at most {MOST}")
    if not side.runs:
        raise ComparisonError(
            f"no run to compare in {path}: {'; '.join(side.left_out) or 'the folder has no files *.jsonl'}"
        )
    _check(side, path)
    return side


def _add_file(side: Side, path: Path, *, texts: bool) -> None:
    """Add the newest run of a file, or say why it is left out."""
    file = read(path)
    every = with_texts(file.records) if texts else file.records
    records = [span for span in every if not is_operator(span)]
    parts = by_run(trees(records))
    newest = max((part for part in parts if isinstance(part, Run)), key=lambda run: run.span.start_ns, default=None)
    traces = newest.members if newest else [part for part in parts if isinstance(part, Trace)]
    on_device = {(runs.root, runs.name): runs for runs in gpu_times(node for trace in traces for node in trace.nodes())}
    run = ComparedRun(path.name, newest.run_id if newest else "", works_of(traces), on_device)
    if file.unread:
        side.left_out.append(f"{plural(file.unread, 'place')} of {path.name} that cannot be read")
    if newest is None and any(semconv.RUN_ID in span.resource for span in records):
        side.left_out.append(f"{path.name}: it is still being written, or its run was killed")
    elif not run.works:
        side.left_out.append(f"{path.name}: nothing was compiled")
    else:
        side.runs.append(run)
        if newest and len(parts) > 1:
            side.left_out.append(f"{plural(len(parts) - 1, 'older run or other trace')} of {path.name}")


def _check(side: Side, path: Path) -> None:
    """Raises ComparisonError where the files of a side are not one run each of one program."""
    first, *others = side.runs
    names = {first.id: first.name}
    for run in others:
        same = names.setdefault(run.id, run.name)
        if run.id and same != run.name:
            raise ComparisonError(f"{same} and {run.name} of {path} are one run; write it to one file, without %p")
        if not run.works.keys() & first.works:
            programs = " and ".join(f"{other.name} compiled {described(other.works)}" for other in (first, run))
            raise ComparisonError(f"{path} has files of different programs: {programs}")


def described(keys: Iterable[WorkKey]) -> str:
    """The first compilations, in words."""
    texts = [" ".join(filter(None, key[1:])) for key in keys]
    return ", ".join(texts[:3]) + (", …" if len(texts) > 3 else "")


# --- what work is ---------------------------------------------------------------------------------------------------
_FRAMES = frozenset({phase.COMPILE_FRAME.name, phase.COMPILE_BACKWARD.name})


def works_of(traces: Iterable[Trace]) -> dict[WorkKey, Compiled]:
    """What the traces of a run compiled, and work with blocks of operators, by what the work is, the worst first."""
    works: dict[WorkKey, Compiled] = {}
    for row in (row for row in compiled(traces) if row.is_compilation or _has_block(row)):
        nodes: defaultdict[WorkKey, list[Node]] = defaultdict(list)
        for node in row.nodes:
            nodes[_key(row, node)].append(node)
        for key, own in nodes.items():
            if key in works:  # files of one name in two folders
                works[key] = dataclasses.replace(row, nodes=[*works[key].nodes, *own])
            else:  # a row of one key stays itself, with the findings that it has computed
                works[key] = row if len(nodes) == 1 else dataclasses.replace(row, nodes=own)
    return works


def _has_block(row: Compiled) -> bool:
    """Whether operators were recorded in blocks of the program. Of other work, rate limits decide which runs have them."""
    return any(node.span.name == phase.OPERATORS.name and has_operators(node.span) for node in row.every)


def _key(row: Compiled, node: Node) -> WorkKey:
    if node.span.name in _FRAMES:
        file, _, line = row.place.rpartition(":")
        return WorkKey("compile", row.name, os.path.basename(file), line)  # noqa: PTH119 - a path of another machine
    if not row.is_compilation:
        return WorkKey("run", row.name, node.span.name, "")
    entry = str(node.span.attributes.get(semconv.ENTRY_POINT) or node.span.name)
    what = node.span.name.rpartition(".")[2]
    inputs = (
        strings(inside.span.attributes, semconv.INPUT_SHAPES)
        for inside in node.below()
        if inside.span.name != phase.CONVERT.name  # those of an engine, which depend on the partition
    )
    return WorkKey(what, row.name, entry, ", ".join(next(filter(None, inputs), ())))


def pairs(base: Sequence[WorkKey], new: Sequence[WorkKey]) -> Iterator[tuple[WorkKey, WorkKey]]:
    """The keys of the same work on both sides.

    A function that moved to another line is the same one if no other of that name in its file lacks a partner.
    """
    common = set(base) & set(new)
    yield from ((key, key) for key in base if key in common)
    before, after = (_moved(key for key in side if key not in common) for side in (base, new))
    yield from ((key, after[whole]) for whole, key in before.items() if whole in after)


def _moved(keys: Iterable[WorkKey]) -> dict[WorkKey, WorkKey]:
    """Functions by what they are without their line."""
    functions = [key for key in keys if key.inputs.isdigit()]
    same = Counter(key._replace(inputs="") for key in functions)
    return {whole: key for key in functions if same[whole := key._replace(inputs="")] == 1}


def labels(keys: Iterable[WorkKey]) -> dict[WorkKey, str]:
    """`compile ConvNet`: what lines call each work, with entry and inputs where others have the same name."""
    every = dict.fromkeys(keys)
    same = Counter(key[:2] for key in every)
    return {key: _label(key, is_alone=same[key[:2]] == 1) for key in every}


def _label(key: WorkKey, *, is_alone: bool) -> str:
    if key.inputs.isdigit():
        return f"{key.what} {key.name} {key.entry}:{key.inputs}"
    return f"{key.what} {key.name}" if is_alone else f"{key.what} {key.name} {key.entry} {key.inputs}".rstrip()
