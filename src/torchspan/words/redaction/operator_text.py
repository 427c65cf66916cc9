# SPDX-License-Identifier: Apache-2.0
"""Kinds of text about operators: their names, the validators that refused them, and their arguments."""

from __future__ import annotations

import re
import sys

from torchspan.words.redaction import UNKNOWN
from torchspan.words.redaction.kinds_of_text import NAME_LIMIT, Kind, is_name
from torchspan.words.redaction.operator_registry import is_operator
from torchspan.words.redaction.type_names import DATA_TYPES, ONNX_OPERATORS

_OPERATOR = re.compile(r"[A-Za-z_]\w*(?:(?:\.|::)[A-Za-z_]\w*){0,8}", re.ASCII)
_NODES = frozenset({"placeholder", "get_attr", "call_function", "call_module", "call_method", "output"})
"""Kinds of nodes of torch.fx."""
_FUNCTIONS = frozenset({"_operator", "operator", "math", "builtins", "torch", "torch_tensorrt"})
"""Packages whose functions occur in graphs alongside operators."""
_KNOWN_LIMIT = 4096
_known: set[str] = set()


def _is_known(name: str) -> bool:
    """Whether a name is known. Only known names are remembered, because PyTorch's registry may grow later."""
    if name in _known:
        return True
    if name in _NODES or is_operator(name) or _is_library_function(name):
        if len(_known) < _KNOWN_LIMIT:
            _known.add(name)
        return True
    return False


def _is_library_function(name: str) -> bool:
    module, _, function = name.rpartition(".")
    loaded_module = sys.modules.get(module)
    return module.partition(".")[0] in _FUNCTIONS and loaded_module is not None and function in vars(loaded_module)


class Operator(Kind):
    """An operator that PyTorch's registry knows, a function of the libraries, or a kind of node of torch.fx.

    The name of an operator in PyTorch's registry, including the program's custom operators; of a function of Python, PyTorch or
    Torch-TensorRT that occurs in a graph (`_operator.getitem`); or of a kind of node (`placeholder`). Anything else is `?`.
    """

    title = "operator"

    def accepts(self, text: str) -> bool:
        """See `Kind`. Only the spelling counts: another process may know other operators."""
        return text == UNKNOWN or (len(text) <= NAME_LIMIT and _OPERATOR.fullmatch(text) is not None)

    def reduced(self, text: str) -> str:
        """See `Kind`. A name that is unknown in this process becomes `?`."""
        return text if self.accepts(text) and _is_known(text) else UNKNOWN


_RANGES = {
    "TorchDynamo Cache Lookup": "torch.compile.cache_lookup",
    "PythonDispatchMode": "torch.PythonDispatchMode",
    "PythonSubclass": "torch.PythonSubclass",
    "<forward op>": "torchscript.forward",
    "<forked function>": "torchscript.forked_function",
}
"""PyTorch's own ranges, and how they are called here."""
_NUMBERED_RANGES = {
    "Torch-Compiled Region": "torch.compile.region",
    "## Call CompiledFxGraph": "torch.inductor.CompiledFxGraph",
    "Optimizer.step#": "torch.optim.Optimizer.step",
    "Optimizer.zero_grad#": "torch.optim.Optimizer.zero_grad",
}
"""The same for ranges whose names contain a number or a class: how these names begin."""
_AUTOGRAD = "autograd::engine::evaluate_function: "
_NATIVE_AUTOGRAD = "torch::autograd::"
_EVALUATES = "autograd.engine.evaluate_function."
_OWN_FUNCTIONS = frozenset({"CompiledFunction", "CompiledFunctionBackward"})
"""Functions of autograd that AOTAutograd makes."""


def operator_name(name: str, overload: str = "") -> str:
    """How an operator is called in spans, by what `at::RecordFunction` has of it: `aten::add`, `Tensor` -> `aten.add.Tensor`.

    A function of autograd has its own name (`AddmmBackward0`), and its call by autograd's engine one that begins with
    `autograd.engine.evaluate_function.`. A name that is not PyTorch's is returned as it is.
    """
    if name in _RANGES:
        return _RANGES[name]
    if name.startswith(_AUTOGRAD):
        return _EVALUATES + name[len(_AUTOGRAD) :].removeprefix(_NATIVE_AUTOGRAD)
    for beginning, public in _NUMBERED_RANGES.items():
        if name.startswith(beginning):
            return public
    spelled = f"{name}.{overload}" if overload else name
    return spelled.replace("::", ".") if is_operator(spelled) else name.removeprefix(_NATIVE_AUTOGRAD)


def _is_autograd_function(name: str) -> bool:
    functions = getattr(sys.modules.get("torch._C"), "_functions", None)
    return functions is not None and name in vars(functions)


def _is_recorded(name: str) -> bool:
    function = name.removeprefix(_EVALUATES)
    return (
        _is_known(name)
        or function in _OWN_FUNCTIONS
        or _is_autograd_function(function)
        or name in _RANGES.values()
        or name in _NUMBERED_RANGES.values()
    )


class RecordedOperator(Kind):
    """What PyTorch's callbacks see: an operator, a function of autograd or TorchScript, or a range.

    The name of an operator in PyTorch's registry, including the program's custom operators (`aten.add.Tensor`); of a function of
    PyTorch's autograd (`AddmmBackward0`); or of a range that PyTorch itself opens (`torch.compile.region`). The name of a range of the
    program, and anything else, is `?`.
    """

    title = "recorded operator"
    leaves_with_text = "The name of any range, at most 256 bytes."
    is_local = True
    _LIMIT = 256

    def accepts(self, text: str) -> bool:
        """See `Kind`. Only the spelling counts: another process may know other operators."""
        return is_name(text)

    def reduced(self, text: str) -> str:
        """See `Kind`."""
        return text if _is_recorded(text) and is_name(text) else UNKNOWN

    def whole(self, text: str) -> str:
        """See `Kind`."""
        return text.encode("utf-8", "replace")[: self._LIMIT].decode("utf-8", "ignore")


class OnnxOperator(Kind):
    """An operator of the ONNX standard.

    The name of an operator of the ONNX standard. Anything else is `?`.
    """

    title = "ONNX operator"

    def accepts(self, text: str) -> bool:
        """See `Kind`."""
        return text in ONNX_OPERATORS or text == UNKNOWN


class _Entries(Kind):
    """A text of entries separated by `, `. An entry that is not accepted is `?`."""

    _LIMIT = 1024

    def reduced(self, text: str) -> str:
        """See `Kind`."""
        if len(text) > self._LIMIT:
            return UNKNOWN
        return ", ".join(part if self._is_entry(part) else UNKNOWN for part in text.split(", "))

    def _is_entry(self, text: str) -> bool:
        raise NotImplementedError


class OperatorArguments(_Entries):
    """Arguments of an operator: the names in its schema, with data types.

    Names of arguments, as an operator's schema has them, with the data types of tensors, and `dynamic` for a symbolic shape (`self:
    float64, dim`). Anything but names of letters, digits and `_`, and data types is `?`.
    """

    title = "arguments"
    _ARGUMENT = re.compile(r"(?:argument \d{1,4}|(?P<name>[A-Za-z_]\w{0,63}))(?:: (?P<types>[\w ]{1,128}))?", re.ASCII)
    _TYPES = frozenset({*DATA_TYPES, "dynamic"})

    def _is_entry(self, text: str) -> bool:
        match = self._ARGUMENT.fullmatch(text)
        if match is None:
            return text in {"", UNKNOWN}
        return match["types"] is None or self._TYPES.issuperset(match["types"].split(" "))


class Validators(_Entries):
    """Names of functions that were asked about an operator and refused it.

    Names of functions, each an identifier, separated by commas; `supports_dynamic_shapes=False` for a converter that supports only
    static shapes. Anything else is `?`.
    """

    title = "validators"
    STATIC_ONLY = "supports_dynamic_shapes=False"

    def _is_entry(self, text: str) -> bool:
        return is_name(text) or text in {"", UNKNOWN, self.STATIC_ONLY}
