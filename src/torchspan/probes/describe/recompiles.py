# SPDX-License-Identifier: Apache-2.0
"""Recompiles: which guard failed, from Dynamo's own words."""

from __future__ import annotations

import re
import sys
from types import CodeType

from torchspan import semconv
from torchspan._base import reading
from torchspan._base.reading import attribute
from torchspan.probes._actions import Facts
from torchspan.probes.describe.common import first_match, without_none
from torchspan.semconv.torch import GuardClass

KEYS = (semconv.RECOMPILE_CLASS, semconv.RECOMPILE_REASON, semconv.RECOMPILE_LIMIT)
"""The attributes about why a frame is compiled again, or is not compiled any more."""

_NUMBER = re.compile(r"\d+/\d+: ")
"""Compile id of the entry whose guard failed, at the beginning of a reason."""
_HINT = re.compile(r"\. Guard failed on a parameter, consider using .*")
"""PyTorch's advice behind a guard on a parameter (torch/csrc/dynamo/guards.cpp)."""
_SCOPES = frozenset({"G", "L"})
_TEXT = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_TEXTS = re.compile(_TEXT)
_COMMENT = re.compile(rf"(?P<text>{_TEXT})|\s+# .*")
"""A text of the program, which may contain anything, or the line of the program for which the guard exists."""

_CLASSES = (
    (r"tensor '.*' size mismatch", GuardClass.SIZE),
    (r"tensor '.*' stride mismatch", GuardClass.STRIDE),
    (r"tensor '.*' rank mismatch", GuardClass.RANK),
    (r"tensor '.*' dtype mismatch", GuardClass.DTYPE),
    (r"tensor '.*' device index mismatch|tensor '.*' dispatch key set mismatch", GuardClass.DEVICE),
    (r"tensor '.*' requires_grad mismatch", GuardClass.REQUIRES_GRAD),
    (r"expected type of '.*' to be a tensor|.*___check_type_id\(|.*\btype\(.*\) ==|.*type mismatch", GuardClass.TYPE),
    (
        r".*(?:GLOBAL_STATE|grad_mode|torch_function|TORCH_FUNCTION|DETERMINISTIC|default_device|autocast)",
        GuardClass.STATE,
    ),
    (r".*BACKEND_MATCH", GuardClass.BACKEND),
    (r".*\.(?:size|stride|storage_offset|dim)\(", GuardClass.SHAPE),
    (r".*(?:\blen\(|___dict_contains|___check_.*keys|\bhasattr\(|dict_version)", GuardClass.CONTENTS),
    (r".*(?:___check_obj_id\(| is (?:not )?)", GuardClass.IDENTITY),
    (r".*(?:==|!=|<|>|\bin\b|^not )", GuardClass.VALUE),
)
"""The first expression that a guard matches at its beginning gives its class."""

_LIMIT = re.compile(r"Limit type: (\w+)")


def recompile(metrics: object, code: object) -> Facts:
    """Class and text of the guard that failed, for a frame of `code` that is compiled again; nothing for another one."""
    text = reading.text(attribute(metrics, "recompile_reason"))
    if not text:
        return {}
    line = _NUMBER.sub("", text.partition("\n")[0], count=1)
    guard = _COMMENT.sub(lambda part: part["text"] or "", line).strip()
    guard = _distinguished(_HINT.sub("", guard), code)
    return {semconv.RECOMPILE_CLASS: class_of(guard), semconv.RECOMPILE_REASON: guard}


def _distinguished(guard: str, code: object) -> str:
    """Dynamo writes `G['x']` for a global name, and leaves out the `L[...]` around a local one. So a key of a dictionary of the
    program that is itself called `G` or `L` would read like a name.
    """
    names = (*code.co_varnames, *code.co_cellvars, *code.co_freevars) if type(code) is CodeType else ()
    for scope in _SCOPES.intersection(names):
        guard = re.sub(rf"\b{scope}\[", f"{scope} [", guard)
    return guard


def class_of(guard: str) -> str:
    """The class of a guard that failed. The texts in it, which are the program's, do not matter."""
    return first_match(_CLASSES, _TEXTS.sub("'?'", guard), GuardClass.OTHER)


def limit(metrics: object) -> Facts:
    """Which recompile limit was reached, where one was, and what it is for this function in this thread."""
    match = _LIMIT.search(reading.text(attribute(metrics, "fail_reason")) or "")
    if match is None:
        return {}
    value = getattr(sys.modules.get("torch._dynamo.config"), match[1], None)
    return without_none({semconv.RECOMPILE_LIMIT: match[1], semconv.RECOMPILE_LIMIT_VALUE: reading.whole_number(value)})
