# SPDX-License-Identifier: Apache-2.0
"""Compiled modules in files. Paths are the user's and are not recorded."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from torchspan import semconv
from torchspan._base.scratch import Scratch
from torchspan.probes._call import Call
from torchspan.probes.describe._values import known
from torchspan.probes.describe.compilation import ENGINE_PREFIX

Facts = dict[str, Any]

MUTABLE = "mutable_module"
"""Format of `MutableTorchTensorRTModule.save`: a pickle of the module with its engines."""


def save(call: Call) -> Facts:
    """`torch_tensorrt.save(module, file_path, output_format=, retrace=)`."""
    return {
        semconv.ENTRY_POINT: "torch_tensorrt.save",
        semconv.FILE_FORMAT: _format(call.get("output_format")),
        semconv.SAVE_RETRACE: bool(call.get("retrace")),
        **_engines(call.get("module")),
    }


def _format(given: Any) -> str:
    """The text that was given; what is no text is not asked for one."""
    return given if type(given) is str else semconv.OTHER_VALUE


def save_cross_compiled(call: Call) -> Facts:
    """`save_cross_compiled_exported_program(gm, file_path)`."""
    entry_point = "torch_tensorrt.dynamo.save_cross_compiled_exported_program"
    return {
        semconv.ENTRY_POINT: entry_point,
        semconv.FILE_FORMAT: "exported_program",
        **_engines(call.get("gm")),
    }


def save_mutable(call: Call) -> Facts:
    """`MutableTorchTensorRTModule.save(module, path)`."""
    return {
        semconv.ENTRY_POINT: "torch_tensorrt.MutableTorchTensorRTModule.save",
        semconv.FILE_FORMAT: MUTABLE,
        **_engines(getattr(call.get("module"), "gm", None)),
    }


def saved(call: Call, _result: Any, _scratch: Scratch) -> Facts:
    """The size of the file, whichever parameter names it."""
    return _size(call)


def load(call: Call) -> Facts:
    """`torch_tensorrt.load(file_path, format=)`; what the file holds is known afterwards."""
    return known({semconv.ENTRY_POINT: "torch_tensorrt.load", **_size(call)})


def load_cross_compiled(call: Call) -> Facts:
    """`load_cross_compiled_exported_program(file_path)`, which works on Windows alone."""
    return {semconv.ENTRY_POINT: "torch_tensorrt.load_cross_compiled_exported_program", **_size(call)}


def load_mutable(call: Call) -> Facts:
    """`MutableTorchTensorRTModule.load(path)`."""
    return {
        semconv.ENTRY_POINT: "torch_tensorrt.MutableTorchTensorRTModule.load",
        semconv.FILE_FORMAT: MUTABLE,
        **_size(call),
    }


def loaded(_call: Call, result: Any, _scratch: Scratch) -> Facts:
    """What `torch_tensorrt.load` found: it tries one format after the other, and a failed attempt is no failure."""
    if hasattr(result, "graph_signature"):
        return {semconv.FILE_FORMAT: "exported_program", **_engines(result)}
    if hasattr(result, "gm"):
        return _engines(result.gm)
    return {semconv.FILE_FORMAT: "torchscript" if hasattr(result, "save_to_buffer") else "executorch"}


def _size(call: Call) -> Facts:
    path = call.get("file_path") or call.get("path")
    if not isinstance(path, (str, os.PathLike)) or not os.path.isfile(path):  # noqa: PTH113 - any path-like
        return {}
    return {semconv.FILE_SIZE: os.stat(path).st_size}  # noqa: PTH116


def _engines(holder: Any) -> Facts:
    sizes = list(_engine_sizes(holder))
    return {semconv.ENGINE_COUNT: len(sizes), semconv.ENGINES_SIZE: sum(sizes)} if sizes else {}


def _engine_sizes(holder: Any) -> Iterator[int]:
    """Bytes of each engine of a compiled module, or of an exported program, which holds engines as constants."""
    for name, child in getattr(holder, "named_children", tuple)():
        if name.startswith(ENGINE_PREFIX):
            yield len(getattr(child, "serialized_engine", None) or b"")
    for constant in getattr(holder, "constants", {}).values():
        serialized = getattr(constant, "serialized_engine", None)
        if isinstance(serialized, bytes):
            yield len(serialized)
