# SPDX-License-Identifier: Apache-2.0
"""From aligned calls to what `torch.export.export` takes: arguments and dynamic shapes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torchspan.inputs.aligned.alignment import Alignment
from torchspan.inputs.observed.leaves import (
    ABSENT,
    Absent,
    Constant,
    Leaf,
    NotWrittenError,
    Opaque,
    Path,
    TensorShape,
    label,
)
from torchspan.inputs.observed.observations import ModuleCall
from torchspan.inputs.observed.signatures import CallSignature
from torchspan.inputs.observed.trees import Tree, completed, is_missing, leaves, mirrored, rebuilt, replaced_leaves
from torchspan.inputs.written.portable import is_withheld


@dataclass(frozen=True, slots=True)
class Layout:
    """How arguments are passed to an exported program.

    Args:
        by_position: Names of the arguments that go by position, in order.
        rest: Whether `*args` is used.
        keywords: The others.
    """

    by_position: tuple[str, ...]
    rest: str | None
    keywords: tuple[str, ...]


class Inference:
    """Arguments and dynamic shapes that fit every call of an alignment."""

    def __init__(self, alignment: Alignment) -> None:
        self._all = alignment
        self._signature = alignment.signature

    # --- arguments ---------------------------------------------------------------------------------------------------
    def example(self, call: ModuleCall) -> dict[str, Tree]:
        """The structure of every argument of the example that is made of a call, by name; what it lacks is added."""
        joined: dict[str, Tree] = {}
        kept = self._kept_by_position()
        for name in self._signature.in_order({*self._all.names, *call.arguments}):
            argument = call.arguments.get(name)
            if name not in self._all.templates:
                if argument is not None:
                    joined[name] = argument
                continue
            if name not in kept and self._all.default_only(name) and self._is_default(name, argument):
                continue
            if argument is not None and not is_missing(argument):
                is_whole = all(not isinstance(leaf, Absent) for _, leaf in leaves(argument, (name,)))
                joined[name] = argument if is_whole else completed(argument, self._all.donor(name, call))
            elif argument is not None or not isinstance(self._all.templates[name], Constant):
                joined[name] = self._all.donor(name, call)
            elif self._must_be_given(name):
                joined[name] = self._constant_or_default(name)
        return joined

    def usual_example(self) -> dict[str, Tree]:
        """The example that fits every call best, without a size of 0 or 1 in a dimension that varies."""
        return enlarged(self._all, self.example(self._all.usual().first))

    def layout(self, names: list[str], *, as_args_kwargs: bool) -> Layout:
        """How arguments are passed. Raises RuntimeError where neither a tuple nor a dictionary alone can pass them."""
        signature = self._signature
        rest = signature.var_positional if signature.var_positional in names else None
        positional = [name for name in signature.positional if name in names]
        by_position = positional
        if rest is None:
            count = next(
                (i for i, name in enumerate(positional) if not self._goes_by_position(i, name)), len(positional)
            )
            by_position = positional[:count]
        keywords = [name for name in names if name not in by_position and name != rest]
        if as_args_kwargs or not keywords:
            return Layout(tuple(by_position), rest, tuple(keywords))
        if rest is not None or any(name in signature.positional_only for name in names):
            why = "`*args`" if rest is not None else "an argument that can only be passed by position"
            raise RuntimeError(
                f"A tuple or a dictionary alone cannot hold these arguments, because the signature has {why}. Call "
                "infer_arguments(as_args_kwargs=True), which returns both."
            )
        return Layout((), None, tuple(names))

    def _goes_by_position(self, index: int, name: str) -> bool:
        return self._signature.positional[index] == name and name not in self._all.by_keyword

    def _kept_by_position(self) -> frozenset[str]:
        """Arguments that are needed because a later one went by position, and none by keyword, in every call."""
        positional = self._signature.positional
        needed = [name for name in self._all.names if not self._all.default_only(name)]
        if self._signature.var_positional in needed:
            return frozenset(positional)
        if any(name not in positional or name in self._all.by_keyword for name in needed):
            return frozenset()
        last = max((positional.index(name) for name in needed), default=-1)
        return frozenset(positional[:last])

    def _is_default(self, name: str, argument: Tree | None) -> bool:
        """Whether an argument of a call has its default value."""
        if argument is None or is_missing(argument):
            return True
        return isinstance(argument, Constant) and argument.distinct == Constant(self._signature.defaults[name]).distinct

    def _must_be_given(self, name: str) -> bool:
        """Whether a call without this argument is not a call."""
        signature = self._signature
        is_optional = name in signature.defaults or signature.is_extra(name)
        return not is_optional or name in self._kept_by_position()

    def _constant_or_default(self, name: str) -> Tree:
        if name not in self._signature.defaults:
            return self._all.templates[name]
        default = self._signature.defaults[name]
        return ABSENT if default is None else Constant(default)

    # --- dynamic shapes ----------------------------------------------------------------------------------------------
    def dynamic_shapes(
        self, has_batch: Callable[[str], bool], dimension: Callable[[Path, int], Any]
    ) -> tuple[Any, ...] | dict[str, Any]:
        """Which dimensions vary, in the structure of the example.

        Args:
            has_batch: Whether the first dimension of an argument's tensors is taken to vary.
            dimension: What stands for a dimension that varies.
        """
        tree = self.example(self._all.usual().first)

        def of_leaf(path: Path, leaf: Leaf) -> dict[int, Any] | None:
            if not isinstance(leaf, TensorShape):
                return None
            axes = set(self._varying(path, leaf))
            if has_batch(str(path[0])) and leaf.shape:
                axes.add(0)
            return {axis: dimension(path, axis) for axis in sorted(axes)}

        return specified(tree, self.layout([*tree], as_args_kwargs=True), self._signature, of_leaf)

    def _varying(self, path: Path, leaf: TensorShape) -> tuple[int, ...]:
        summary = self._all.summaries.get(path)
        return () if summary is None else summary.varying(len(leaf.shape))


def specified(
    trees: Mapping[str, Tree],
    layout: Layout,
    signature: CallSignature,
    of_leaf: Callable[[Path, Leaf], Mapping[int, Any] | None],
) -> tuple[Any, ...] | dict[str, Any]:
    """What `torch.export.export` takes for `dynamic_shapes`.

    Args:
        of_leaf: The dimensions of a tensor that vary.
    """
    mirrored_trees = {name: mirrored(tree, (name,), of_leaf) for name, tree in trees.items()}
    if not layout.keywords and layout.rest is None:
        return tuple(mirrored_trees[name] for name in layout.by_position)
    extras = {signature.keyword_of(name): mirrored_trees.pop(name) for name in trees if signature.is_extra(name)}
    return {**mirrored_trees, **({str(signature.var_keyword): extras} if extras else {})}


def passed(
    arguments: Mapping[str, Any], layout: Layout, signature: CallSignature
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments as they are passed: by position and by keyword."""
    args = tuple(arguments[name] for name in layout.by_position) + (
        () if layout.rest is None else tuple(arguments[layout.rest])
    )
    return args, {signature.keyword_of(name): arguments[name] for name in layout.keywords}


def made(trees: Mapping[str, Tree], values: Mapping[Path, Any]) -> dict[str, Any]:
    """The arguments of an example.

    Args:
        values: Tensors and objects that are taken as they are, by path.
    """
    return {name: rebuilt(tree, (name,), _made(values)) for name, tree in trees.items()}


def _made(values: Mapping[Path, Any]) -> Callable[[Path, Leaf], Any]:
    """Makes the value of a leaf: the one that is given, else zeros of the shape."""

    def make(path: Path, leaf: Leaf) -> Any:
        if path in values:
            return values[path]
        if isinstance(leaf, TensorShape):
            torch: Any = sys.modules["torch"]
            return torch.zeros(leaf.shape, dtype=leaf.dtype, device=leaf.device)
        if isinstance(leaf, Constant):
            return _value(path, leaf)
        if isinstance(leaf, Absent):
            return None
        raise RuntimeError(_unknown(path, leaf))

    return make


def _value(path: Path, leaf: Constant) -> Any:
    if is_withheld(leaf.value):
        name = str(path[0])
        raise NotWrittenError(
            f"The file contains the type of {label(path)} ({type(leaf.value).__name__}), but not its value. "
            f"Give the argument: infer_arguments({{{name!r}: …}}); or leave it out with remove_inputs([{name!r}]); or write the "
            "file with values."
        )
    return leaf.value


def _unknown(path: Path, leaf: Opaque) -> str:
    return (
        f"The argument {label(path)} contains an object of the class {leaf.kind.__name__}, of which torchspan records nothing, "
        f"because {leaf.reason}. Either register its class with torch.utils._pytree (a dataclass: with "
        f"torch.export.register_dataclass) before the calls, or call remove_inputs([{str(path[0])!r}]), or give the argument: "
        f"infer_arguments({{{str(path[0])!r}: …}})."
    )


_Dimension = tuple[Path, int]


def enlarged(alignment: Alignment, trees: dict[str, Tree]) -> dict[str, Tree]:
    """An example in which no varying dimension has the size 0 or 1.

    Such a dimension gets its smallest observed size from 2 on; 2 where it has none. A dimension that had the same size in
    every call gets the same. One that was the sum of it and a third one in every call grows by the difference.
    """
    sizes = {
        (path, axis): leaf.shape[axis]
        for name, tree in trees.items()
        for path, leaf in leaves(tree, (name,))
        if isinstance(leaf, TensorShape) and path in alignment.summaries
        for axis in alignment.summaries[path].varying(len(leaf.shape))
    }
    small = [axis for axis, size in sizes.items() if size < 2]
    if not small:
        return trees
    for place in small:
        before = sizes[place]
        if before < 2:
            larger = min((size for size in alignment.sizes(*place) if size is not None and size >= 2), default=2)
            for other in sizes:
                if other == place or alignment.linked(place, other):
                    sizes[other] = larger
                elif alignment.is_sum(other, place, (third for third in sizes if third not in {place, other})):
                    sizes[other] += larger - before

    def of_leaf(path: Path, leaf: Leaf) -> Leaf:
        if not isinstance(leaf, TensorShape):
            return leaf
        shape = tuple(sizes.get((path, axis), size) for axis, size in enumerate(leaf.shape))
        return TensorShape(shape, leaf.dtype, leaf.device)

    return {name: replaced_leaves(tree, (name,), of_leaf) for name, tree in trees.items()}
