# SPDX-License-Identifier: Apache-2.0
"""What in the observed calls hinders a compilation, or changes from call to call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from torchspan.inputs.aligned.alignment import Alignment, LeafSummary
from torchspan.inputs.observed.leaves import Constant, Path, TensorShape, label
from torchspan.inputs.observed.observations import SHAPES_LIMIT, VALUES_LIMIT, CallCounts
from torchspan.inputs.observed.trees import is_missing
from torchspan.inputs.written.portable import as_pair


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about the observed calls that prevents an export or an engine, or changes from call to call.

    Attributes:
        kind: What it concerns, such as `dtype`.
        path: The argument, or the place in it, such as `past[0][1]`. Empty if it concerns calls as a whole.
        message: What was observed, and what to do.
    """

    kind: str
    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


def of_counts(counts: CallCounts) -> Iterator[Finding]:
    """What is to be said of calls that were not recorded."""
    if not any(getattr(counts, name) for name in CallCounts.__slots__):
        yield Finding(
            "no_call",
            "",
            "No call was seen. Call the object that the observer is attached to. A call inside a region that torch.compile "
            "compiles is not seen: attach the observer to what torch.compile returned.",
        )
    texts = {
        "failed": "{} raised. Their shapes are not used.",
        "unfit": "{} did not fit the signature. They are not recorded.",
        "symbolic": "{} came from a tracer such as torch.export, with tensors that contain no data. They are not recorded.",
        "too_large": "{} had more tensors and containers in their arguments than an observer reads. They are not recorded.",
        "errors": "{} could not be recorded because torchspan failed. The log names the place.",
        "beyond_limit": f"{{}} had another shape than the first {SHAPES_LIMIT:,} shapes. Only the ranges of their sizes count.",
    }
    for name, text in texts.items():
        number = getattr(counts, name)
        if number:
            calls = "1 call" if number == 1 else f"{number:,} calls"
            yield Finding(name, "", text.format(calls))


def of_calls(alignment: Alignment, has_batch: Callable[[str], bool]) -> Iterator[Finding]:
    """What is to be said of the recorded calls, in the order of the arguments.

    Args:
        has_batch: Whether the first dimension of an argument's tensors is taken to vary.
    """
    template = dict(alignment.template_leaves())
    for path in sorted(
        alignment.summaries,
        key=lambda entry_path: (
            alignment.names.index(str(entry_path[0])),
            list(template).index(entry_path) if entry_path in template else -1,
        ),
    ):
        yield from _of_leaf(path, alignment.summaries[path])
        if has_batch(str(path[0])) and is_batch_of_1(alignment.summaries[path]):
            yield batch_of_1(path, "Observe larger batches, or call infer_arguments with an example of a larger batch.")
    for name in alignment.names:
        yield from _of_presence(name, alignment)
        yield from _of_structure(name, alignment)
        if alignment.signature.is_extra(name):
            yield Finding(
                "kwargs",
                name,
                "It is taken by `**kwargs`. Before PyTorch 2.14 torch.export refuses dynamic shapes for such arguments (pytorch "
                "issue 150022); in 2.14 it needs strict=True, or the program cannot be called. Give the method a parameter of "
                "this name, or remove it with remove_inputs.",
            )


def _of_leaf(path: Path, summary: LeafSummary) -> Iterator[Finding]:
    where = label(path)
    for kind, reason in summary.opaque.items():
        yield Finding(
            "opaque",
            where,
            f"It is an object of the class {kind.__name__}, of which nothing is recorded, because {reason}. Register the class "
            "with torch.utils._pytree, or a dataclass with torch.export.register_dataclass, before the calls.",
        )
    ranges = summary.ranges
    dtypes = {dtype: count for dtype, count in ranges.dtypes.items() if count}
    if len(dtypes) > 1:
        yield Finding("dtype", where, f"It has {_listed(dtypes)}. An engine takes one: convert it before the call.")
    if len(summary.devices) > 1:
        yield Finding("device", where, f"It is on {_listed(summary.devices)}. An exported program expects one device.")
    ranks = {rank: count for rank, (count, _, _) in ranges.by_rank.items() if count}
    if len(ranks) > 1:
        counted = ", ".join(f"{rank} in {calls_text(count)}" for rank, count in sorted(ranks.items()))
        yield Finding("rank", where, f"The number of its dimensions changes: {counted}. Export a program for each.")
    for rank in ranks:
        _, low, high = ranges.by_rank[rank]
        small = [axis for axis in range(rank) if low[axis] == 0 or (low[axis] == 1 and high[axis] > 1)]
        if small:
            sizes = [f"dimension {axis} has sizes from {low[axis]} to {high[axis]}" for axis in small]
            yield Finding(
                "size_0_or_1",
                where,
                f"{', '.join(sizes).capitalize()}. torch.export treats 0 and 1 as constants: the example needs a size of at least 2 "
                "there, and the small size may need a program of its own.",
            )
    if len(summary.constants) > 1:
        number = str(len(summary.constants))
        if len(summary.constants) >= VALUES_LIMIT or any(
            as_pair(constant)[1].startswith("?") for constant in summary.constants
        ):
            number = f"at least {number}"
        yield Finding(
            "constant",
            where,
            f"It has {number} values in {calls_text(sum(summary.constants.values()))}. An exported program holds one of them: pass a "
            "tensor, or export a program for each value.",
        )


def is_batch_of_1(summary: LeafSummary) -> bool:
    """Whether the first dimension had the size 1 in every call."""
    bounds = [(low[0], high[0]) for rank, (_, low, high) in summary.ranges.by_rank.items() if rank]
    return bool(bounds) and all(bound == (1, 1) for bound in bounds)


def batch_of_1(path: Path, what_to_do: str) -> Finding:
    """A first dimension that is said to vary had the size 1 in every call."""
    return Finding(
        "batch_of_1",
        label(path),
        f"Dimension 0 is to vary, but had the size 1 in every call. torch.export treats 1 as a constant. {what_to_do}",
    )


def _of_presence(name: str, alignment: Alignment) -> Iterator[Finding]:
    """A constant that some calls pass, and others leave to its default."""
    shapes = [shape for shape in alignment.shapes if not is_missing(shape.first.arguments.get(name))]
    constants = [shape for shape in shapes if isinstance(shape.first.arguments[name], Constant)]
    calls, count = sum(shape.count for shape in alignment.shapes), sum(constant.count for constant in constants)
    if constants and count < calls and not alignment.default_only(name):
        yield Finding(
            "constant",
            name,
            f"It was given in {count:,} of {calls_text(calls)} only. An exported program holds one value: pass it in every call, or "
            "export a program with it and one without.",
        )


def _of_structure(name: str, alignment: Alignment) -> Iterator[Finding]:
    """An argument whose containers have other parts from call to call."""
    expected = {path for path, leaf in alignment.template_leaves() if path[0] == name and isinstance(leaf, TensorShape)}
    others = 0
    for shape in alignment.shapes:
        tensors = {path for path, leaf in shape.first.leaves() if path[0] == name and isinstance(leaf, TensorShape)}
        if tensors and tensors != expected and not _is_filled(tensors, expected, shape.first.leaves()):
            others += shape.count
    if others:
        yield Finding(
            "structure",
            name,
            f"Its containers have other parts in {calls_text(others)} than in the call with the most tensors. An exported program "
            "takes one structure: export a program for each.",
        )


def _is_filled(tensors: set[Path], expected: set[Path], actual: list[Any]) -> bool:
    """Whether the call only has None where others have tensors."""
    paths = {path for path, _ in actual}
    return tensors <= expected <= paths


def _listed(counts: Any) -> str:
    return " and ".join(
        f"{str(dtype).removeprefix('torch.')} in {calls_text(count)}" for dtype, count in counts.items()
    )


def calls_text(count: int) -> str:
    """`1 call`, `2 calls`."""
    return "1 call" if count == 1 else f"{count:,} calls"
