# SPDX-License-Identifier: Apache-2.0
"""Reads a `torch.onnx.InputObserver`."""

from __future__ import annotations

import inspect
from typing import Any

from torchspan.inputs.observed.observations import ModuleCall, ObservedCalls
from torchspan.inputs.observed.signatures import CallSignature, UnfitCallError
from torchspan.inputs.observed.trees import Reader, SymbolicCallError, TooManyLeavesError
from torchspan.inputs.written.portable import Portable

_KIND = "torch.onnx.InputObserver"


def read(observer: Any) -> Portable:
    """The calls that it kept. Raises TypeError for something else, and RuntimeError where it has no calls."""
    if not hasattr(observer, "info") or not callable(getattr(observer, "infer_dynamic_shapes", None)):
        raise TypeError(f"from_torch_onnx takes a torch.onnx.InputObserver, not an object of {type(observer).__name__}")
    info = observer.info
    if info is None or not info.inputs:
        raise RuntimeError("The torch.onnx.InputObserver has no calls. Call the model inside its `with` block.")
    if not hasattr(info, "signature_names"):
        raise TypeError(
            "This torch.onnx.InputObserver keeps no names of parameters. Use the one of torch 2.11 or later."
        )
    signature = CallSignature(inspect.Signature(_parameters(info)))
    observations = ObservedCalls()
    for number, candidate in enumerate(info.inputs):
        observations.next_number()
        try:
            bound = signature.bind(candidate.args, {**candidate.kwargs, **candidate.cst_kwargs})
            reader = Reader()
            arguments = {name: reader.read(value, (name,)) for name, value in bound.arguments.items()}
        except UnfitCallError:
            observations.skipped("unfit")
        except SymbolicCallError:
            observations.skipped("symbolic")
        except TooManyLeavesError:
            observations.skipped("too_large")
        else:
            observations.ended(ModuleCall(arguments, bound.by_keyword, number))
    return Portable(_KIND, "forward", signature, observations.snapshot(), {}, frozenset())


def _parameters(info: Any) -> list[inspect.Parameter]:
    """Of the observed method: it has kept the names, and the default values that are numbers and strings."""
    kinds = inspect.Parameter
    rest = info.args_name_and_position[0] if info.args_name_and_position else None
    parameters: list[inspect.Parameter] = []
    is_optional = False
    for index, name in enumerate(info.signature_names):
        if name == rest:
            parameters.append(kinds(name, kinds.VAR_POSITIONAL))
        elif name == info.kwargs_name:
            parameters.append(kinds(name, kinds.VAR_KEYWORD))
        else:
            is_after = rest is not None and index > info.args_name_and_position[1]
            kind = kinds.KEYWORD_ONLY if is_after else kinds.POSITIONAL_OR_KEYWORD
            default = info.default_values.get(name, kinds.empty)
            is_lacking = any(index >= len(input_.args) and name not in input_.kwargs for input_ in info.inputs)
            # The default value may be None, or of a class that it does not keep. After an optional parameter all are.
            if default is kinds.empty and (is_lacking or (is_optional and not is_after)):
                default = None
            is_optional = is_optional or (default is not kinds.empty and not is_after)
            parameters.append(kinds(name, kind, default=default))
    return parameters
