# SPDX-License-Identifier: Apache-2.0
"""Compares what a compiled model returns with what the observed one returned, on calls whose tensors were kept."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

from torchspan.inputs.observed.leaves import Absent, Constant, Leaf, Opaque, Path, TensorShape, label
from torchspan.inputs.observed.observations import ModuleCall
from torchspan.inputs.observed.recorder import OUTPUT
from torchspan.inputs.observed.signatures import CallSignature
from torchspan.inputs.observed.trees import Reader, Tree, leaves, rebuilt

_Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class _DifferenceError(Exception):
    """The outputs cannot be compared as numbers; the text says why."""


class CallCheck:
    """How outputs are compared.

    Args:
        atol: The largest difference that is accepted.
        rtol: The largest one in relation to the observed number plus `rtol`.
        skip_none: An output that is None on one side is left out.
    """

    def __init__(self, signature: CallSignature, atol: float, rtol: float, *, skip_none: bool) -> None:
        self._signature = signature
        self._atol = atol
        self._rtol = rtol
        self._skip_none = skip_none

    def run(self, compiled: Any, call: ModuleCall) -> dict[str, Any]:
        """The outcome for one kept call, which had returned."""
        if call.outputs is None or call.outputs_kept is None:
            return {"SUCCESS": False, "error": "The outputs of the call were not kept."}
        began = time.perf_counter()
        try:
            function, (args, kwargs) = self._prepared(compiled, call)
            began = time.perf_counter()
            result = function(*args, **kwargs)
        except _LackingError as error:
            return {"SUCCESS": False, "error": str(error), "duration": time.perf_counter() - began}
        except Exception as error:
            return {
                "SUCCESS": False,
                "error": f"{type(error).__name__}: {error}",
                "duration": time.perf_counter() - began,
            }
        duration = time.perf_counter() - began
        values: dict[Path, Any] = {}
        actual = Reader(values).read(result, (OUTPUT,))
        try:
            difference, relative = self._compared(call.outputs, call.outputs_kept, actual, values)
        except _DifferenceError as error:
            return {"SUCCESS": False, "error": str(error), "duration": duration}
        success = difference <= self._atol and relative <= self._rtol
        return {"SUCCESS": success, "abs": difference, "rel": relative, "duration": duration}

    def _prepared(self, compiled: Any, call: ModuleCall) -> tuple[Any, _Arguments]:
        """What is called, and with what."""
        export: Any = sys.modules.get("torch.export")
        if export is not None and isinstance(compiled, export.ExportedProgram):
            return compiled.module(), self._as_the_program_takes_them(compiled, call)
        return compiled, self._as_the_call_was(call)

    def _as_the_call_was(self, call: ModuleCall) -> _Arguments:
        arguments = _values(call)
        rest = arguments.pop(str(self._signature.var_positional), ())
        positional = [name for name in self._signature.positional if name in arguments and name not in call.by_keyword]
        args = tuple(arguments.pop(name) for name in positional) + tuple(rest)
        return args, {self._signature.keyword_of(name): value for name, value in arguments.items()}

    def _as_the_program_takes_them(self, program: Any, call: ModuleCall) -> _Arguments:
        args, kwargs = program.example_inputs
        arguments = _values(call)
        rest = tuple(arguments.pop(str(self._signature.var_positional), ()))
        by_position = self._signature.positional[: len(args)]
        lacking = [name for name in by_position if name not in arguments]
        by_keyword = {
            self._signature.keyword_of(name): argument
            for name, argument in arguments.items()
            if name not in by_position
        }
        lacking += [name for name in kwargs if name not in by_keyword]
        if lacking:
            raise _LackingError(f"The call lacks {', '.join(lacking)}, which the program takes.")
        return tuple(arguments[name] for name in by_position) + rest, {name: by_keyword[name] for name in kwargs}

    def _compared(
        self, expected: Tree, kept: Mapping[Path, Any], actual: Tree, values: Mapping[Path, Any]
    ) -> tuple[float, float]:
        """The largest difference, and the largest one in relation to the expected number."""
        pairs = _paired([*leaves(expected, (OUTPUT,))], [*leaves(actual, (OUTPUT,))])
        largest = relative = 0.0
        for (path, observed), (other_path, other) in pairs:
            where = label(path)
            if isinstance(observed, Absent) or isinstance(other, Absent):
                if type(observed) is not type(other) and not self._skip_none:
                    raise _DifferenceError(f"{where} is None on one side only")
                continue
            if isinstance(observed, TensorShape) and isinstance(other, TensorShape):
                if (observed.shape, observed.dtype) != (other.shape, other.dtype):
                    raise _DifferenceError(f"{where} is {other}; the observed one is {observed}")
                both = self._difference(kept[path], values[other_path])
                largest, relative = max(largest, both[0]), max(relative, both[1])
            elif isinstance(observed, Constant) and isinstance(other, Constant):
                if observed.distinct != other.distinct:
                    raise _DifferenceError(f"{where} is {other}; the observed one is {observed}")
            elif not (isinstance(observed, Opaque) and isinstance(other, Opaque) and observed.kind is other.kind):
                raise _DifferenceError(f"{where} is {other}; the observed one is {observed}")
        return largest, relative

    def _difference(self, expected: Any, actual: Any) -> tuple[float, float]:
        torch: Any = sys.modules["torch"]
        if expected.numel() == 0:
            return 0.0, 0.0
        wide = torch.complex128 if expected.is_complex() else torch.float64
        observed, other = expected.detach().to(wide), actual.detach().to(device=expected.device, dtype=wide)
        difference = (observed - other).abs()
        same = (observed == other) | (observed.isnan() & other.isnan())
        difference = torch.where(same, torch.zeros_like(difference), difference).nan_to_num(nan=float("inf"))
        relative = (difference / (observed.abs() + self._rtol)).nan_to_num(nan=float("inf"))
        relative = torch.where(same, torch.zeros_like(relative), relative)
        return float(difference.max()), float(relative.max())


class _LackingError(Exception):
    """The program takes an argument that the call does not have."""


def _values(call: ModuleCall) -> dict[str, Any]:
    """The arguments of a kept call: copies of its tensors, so that a program may write to them."""
    kept = call.inputs_kept or {}

    def of_leaf(path: Path, leaf: Leaf) -> Any:
        if isinstance(leaf, TensorShape):
            return kept[path].clone()
        if isinstance(leaf, Constant):
            return leaf.value
        return kept.get(path)

    return {name: rebuilt(tree, (name,), of_leaf) for name, tree in call.arguments.items()}


def _paired(
    expected: list[tuple[Path, Leaf]], actual: list[tuple[Path, Leaf]]
) -> list[tuple[tuple[Path, Leaf], tuple[Path, Leaf]]]:
    if len(expected) != len(actual):
        raise _DifferenceError(f"there are {len(actual)} outputs; the observed model returned {len(expected)}")
    return [*zip(expected, actual, strict=True)]
