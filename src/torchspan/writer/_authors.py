# SPDX-License-Identifier: Apache-2.0
"""Determines whether a library or the program wrote an exception's message.

The frame that raised the exception is not enough. `torch._check` raises a text that its caller wrote, and the exception of a C++
operator of the program comes from the frame in PyTorch that called the operator.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from torchspan._base.reading import traceback_of

LIBRARIES = frozenset(("torch", "torch_tensorrt", "tensorrt", "tensorrt_rtx"))
"""Libraries whose messages are templates filled with values. Other messages may consist only of a value."""

_OWN = """
    aten prim prims inductor_prims rngprims debugprims quantized _quantized quantization quantized_decomposed sparse
    mkldnn mkldnn_prepacked mkl onednn xnnpack prepacked cuda c10d _c10d_functional _c10d_functional_autograd
    c10d_functional fsdp symm_mem _dtensor inductor export profiler static_runtime onnx _native coor debug_mode_ops
    tensorrt torch_tensorrt
"""
OWN_NAMESPACES = frozenset(_OWN.split())
"""Namespaces of operators that PyTorch and Torch-TensorRT define. Other namespaces are the program's."""

_PRIMS_CHECK = ("torch._prims_common", "check")
_TESTING = "torch.testing"

_MODULE_OF: Any = vars(type)["__module__"]
"""Reads the module of a class without calling its metaclass."""

_MESSAGES = ("assert_msg", "msg", "message")
"""Arguments of operators that contain the text of an exception."""


def is_written_by_library(error: BaseException) -> bool:
    """Whether a library wrote the text of `error`: one of its frames raised the exception, and its code chose the words."""
    frames = _frames(error)
    while frames and _is_handed_text(frames[-1]):
        frames.pop()
    return bool(frames) and _package(frames[-1]) in LIBRARIES and not _is_programs_operator(frames[-1])


def _frames(error: BaseException) -> list[FrameType]:
    frames, entry = [], traceback_of(error)
    while entry is not None:
        frames.append(entry.tb_frame)
        entry = entry.tb_next
    return frames


def _is_handed_text(frame: FrameType) -> bool:
    """Whether the frame raises a text that its caller passed: `torch._check_value`, `torch._assert`, `torch.testing`."""
    module, name = _module(frame), frame.f_code.co_name
    if module == _TESTING or module.startswith(f"{_TESTING}."):
        return True
    return (module == "torch" and name.startswith(("_check", "_assert"))) or (module, name) == _PRIMS_CHECK


def _is_programs_operator(frame: FrameType) -> bool:
    """Whether PyTorch was calling an operator of the program, or an operator that receives its text as an argument."""
    ops: Any = sys.modules.get("torch._ops")
    if ops is None or frame.f_globals is not vars(ops):
        return False
    operator = frame.f_locals.get("self")
    if type(operator) not in (ops.OpOverload, ops.OpOverloadPacket):
        return not _MODULE_OF.__get__(type(operator)).startswith("torch.")  # written in Python, or a namespace
    variables = vars(operator)
    name = str(variables.get("_qualified_op_name") or variables.get("_name")).partition(".")[0]
    if name.partition("::")[0] not in OWN_NAMESPACES:
        return True
    schemas = ops.torch._C._jit_get_schemas_for_operator(name)
    return any(argument.name in _MESSAGES for schema in schemas for argument in schema.arguments)


def _package(frame: FrameType) -> str:
    return _module(frame).partition(".")[0]


def _module(frame: FrameType) -> str:
    name = frame.f_globals.get("__name__")
    return name if type(name) is str else ""
