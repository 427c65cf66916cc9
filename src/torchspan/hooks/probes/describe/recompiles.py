# SPDX-License-Identifier: Apache-2.0
"""Recompiles: which guards failed, from Dynamo's own words."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from types import CodeType

from torchspan.base import reading
from torchspan.hooks.probes._actions import Facts
from torchspan.hooks.probes.describe.common import first_match, without_none
from torchspan.words import semconv
from torchspan.words.semconv.torch import GuardClass

KEYS = (semconv.RECOMPILE_CLASS, semconv.RECOMPILE_REASON, semconv.RECOMPILE_LIMIT)
"""The attributes about why a frame is compiled again, or is not compiled any more."""

REASONS = "all_recompile_reasons"
"""The name under which the reasons of all compiled versions are passed with Dynamo's measurements, which have only the first one."""
_MOST_REASONS = 8
"""How many reasons are recorded. All of them decide about the class."""

_NUMBER = re.compile(r"((?:!\d+/)?\d+/\d+: )?(.*)")
"""Compile id of the version whose guard failed, at the beginning of a reason."""
_HINT = re.compile(r"\. Guard failed on a parameter, consider using .*")
"""PyTorch's advice behind a guard on a parameter (torch/csrc/dynamo/guards.cpp)."""
_INT_HINT = re.compile(
    r"\(HINT: torch\.compile considers integer attributes of the nn\.Module to be static\. [^()]*\)$"
)
"""PyTorch's advice at the end of the line of the program (torch/_dynamo/guards.py)."""
_TRAINING = re.compile(r"(?:.*\._modules\[[^\[\]]*\]|(self))\.training == (?:True|False)")
_SCOPES = frozenset({"G", "L"})
_TEXT = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_COMMENT = re.compile(rf"(?P<text>{_TEXT})|\s+# .*")
"""A text of the program, which may contain anything, or the line of the program for which the guard exists."""

_PHRASES = (
    (r"tensor '.*' size mismatch at index \d+\. expected -?\d+, actual -?\d+$", GuardClass.SIZE),
    (r"tensor '.*' stride mismatch at index \d+\. expected -?\d+, actual -?\d+$", GuardClass.STRIDE),
    (r"tensor '.*' rank mismatch\. expected \d+, actual \d+$", GuardClass.RANK),
    (r"tensor '.*' dtype mismatch\. expected \w+, actual \w+$", GuardClass.DTYPE),
    (r"tensor '.*' device index mismatch\. .*\d$", GuardClass.DEVICE),
    (r"tensor '.*' requires_grad mismatch\. expected requires_grad=\d$", GuardClass.REQUIRES_GRAD),
    (r"expected type of '.*' to be .*, but found .*", GuardClass.TYPE),
    (r"GLOBAL_STATE changed:", GuardClass.STATE),
    (r"BACKEND_MATCH failure", GuardClass.BACKEND),
    (r"Duplicate tensors found: |Cache line invalidated because .* got deallocated$", GuardClass.IDENTITY),
)
"""What PyTorch writes instead of a condition. The first expression that a text matches at its beginning gives the class."""
_KEY_SETS = re.compile(
    r"tensor '.*' dispatch key set mismatch\. expected DispatchKeySet\((.*)\), actual DispatchKeySet\((.*)\)"
)
_DEVICE = re.compile(r"(?:Sparse|SparseCsr|Quantized|NestedTensor)?([A-Z]{2,4}|Lazy|PrivateUse\d|Meta)")
"""A dispatch key that stands for a device."""

_FUNCTIONS = (
    (r"(?:___check_type_id|type)$", GuardClass.TYPE),
    (r"___check_obj_id$", GuardClass.IDENTITY),
    (r"___check_torch_function_mode_stack$|torch\._functorch\.", GuardClass.STATE),
    (
        r"(?:len|list|tuple|hasattr|set\.\w+|dict\.\w+|___dict_\w+|___check_\w*keys|___tuple_iterator_len|___normalize_\w+)$",
        GuardClass.CONTENTS,
    ),
    (r"(?:__(?:math|numpy)_isnan|int|float|str|bool|complex)$", GuardClass.VALUE),
)
"""What a guard concerns, by the function of Dynamo's that it calls."""
_TYPE = re.compile(r", type=<class .*>$")
_SIZES = frozenset({"size", "stride", "storage_offset", "dim"})
_STATES = frozenset({"utils_device.CURRENT_DEVICE", "torch.autograd.forward_ad._current_level"})

_LIMIT = re.compile(r"Dynamo recompile limit exceeded\n.*?(?:currently set to (\d+)\).*?)?Limit type: (\w+)", re.DOTALL)


def recompile(metrics: Mapping[str, object], code: object, *, is_of_module: bool) -> Facts:
    """Classes and texts of the guards that failed, for a frame of `code` that is compiled again; nothing for another one.

    Args:
        is_of_module: Whether `self` is a module.
    """
    reasons = reading.entries(metrics.get(REASONS)) or [metrics.get("recompile_reason")]
    failed = [_failed(text, code, is_of_module=is_of_module) for text in map(reading.text, reasons) if text]
    if not failed:
        return {}
    kinds = {kind for _, _, kind in failed}
    facts: dict[str, object] = {
        semconv.RECOMPILE_CLASS: kinds.pop() if len(kinds) == 1 else GuardClass.SEVERAL,
        semconv.RECOMPILE_REASON: failed[0][1],
    }
    if len(failed) > 1:
        facts[semconv.RECOMPILE_REASONS] = [f"{number}{guard}" for number, guard, _ in failed[:_MOST_REASONS]]
    return facts


def _failed(reason: str, code: object, *, is_of_module: bool) -> tuple[str, str, str]:
    """The compile id of a version, its guard that failed, and the guard's class."""
    number, line = re.findall(_NUMBER, reason)[0]
    text = _COMMENT.sub(lambda part: part["text"] or "", line).strip()
    guard = _HINT.sub("", text)
    kind, training = class_of(guard), _TRAINING.fullmatch(guard)
    if text != guard:
        kind = GuardClass.PARAMETER
    elif kind == GuardClass.VALUE and _INT_HINT.search(line):
        kind = GuardClass.MODULE_INT
    elif training is not None and (is_of_module or not training[1]):
        kind = GuardClass.TRAINING
    return number, _distinguished(guard, code), kind


def _distinguished(guard: str, code: object) -> str:
    """Dynamo writes `G['x']` for a global name, and leaves out the `L[...]` around a local one. So a key of a dictionary of the
    program that is itself called `G` or `L` would read like a name.
    """
    names = (*code.co_varnames, *code.co_cellvars, *code.co_freevars) if type(code) is CodeType else ()
    for scope in _SCOPES.intersection(names):
        guard = re.sub(rf"\b{scope}\[", f"{scope} [", guard)
    return guard


def class_of(guard: str) -> str:
    """The class of a guard that failed: of its form, never of names and texts of the program in it."""
    sets = _KEY_SETS.fullmatch(guard)
    if sets is not None:
        return _class_of_keys(*(set(side.split(", ")) for side in sets.groups()))
    kind = first_match(_PHRASES, guard, "")
    if kind:
        return kind
    try:
        return _class_of_condition(ast.parse(_TYPE.sub("", guard), mode="eval").body)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return GuardClass.OTHER


def _class_of_keys(expected: set[str], actual: set[str]) -> str:
    before, now = ({match[1] for match in map(_DEVICE.fullmatch, keys) if match} for keys in (expected, actual))
    if before != now:
        return GuardClass.DEVICE
    is_of_autograd = all(key.startswith(("Autograd", "AD")) for key in expected ^ actual)
    return GuardClass.INFERENCE_MODE if is_of_autograd else GuardClass.DISPATCH_KEYS


def _class_of_condition(tree: ast.expr) -> str:
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    if any(isinstance(function, ast.Attribute) and function.attr in _SIZES for function in calls):
        return GuardClass.SHAPE
    while isinstance(tree, ast.UnaryOp | ast.BoolOp):
        tree = tree.operand if isinstance(tree, ast.UnaryOp) else tree.values[-1]
    compared = tree.left if isinstance(tree, ast.Compare) else tree
    while isinstance(compared, ast.Subscript):
        compared = compared.value
    if isinstance(compared, ast.Call):
        return first_match(_FUNCTIONS, ast.unparse(compared.func), GuardClass.OTHER)
    if isinstance(tree, ast.Compare) and isinstance(tree.ops[0], ast.Is | ast.IsNot):
        return GuardClass.TYPE if ast.unparse(tree.comparators[0]) == "None" else GuardClass.IDENTITY
    return GuardClass.STATE if ast.unparse(compared) in _STATES else GuardClass.VALUE


def limit(metrics: Mapping[str, object]) -> Facts:
    """Which recompile limit was reached, where one was, and how high it is in this thread."""
    match = _LIMIT.match(reading.text(metrics.get("fail_reason")) or "")
    if match is None:
        return {}
    value = None if match[1] is None else int(match[1])
    return without_none({semconv.RECOMPILE_LIMIT: match[2], semconv.RECOMPILE_LIMIT_VALUE: value})
