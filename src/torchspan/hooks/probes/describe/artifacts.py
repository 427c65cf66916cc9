# SPDX-License-Identifier: Apache-2.0
"""Compiled modules in files. Paths are the user's and are not recorded."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import PosixPath, WindowsPath
from typing import Any

from torchspan.base import reading
from torchspan.base.reading import attribute, is_a
from torchspan.base.scratch import Scratch
from torchspan.hooks.probes._call import Call
from torchspan.hooks.probes.describe.common import children, graph_of
from torchspan.hooks.probes.describe.compilation import ENGINE_PREFIX
from torchspan.words import semconv

Facts = dict[str, Any]

MUTABLE = "mutable_module"
"""Format of `MutableTorchTensorRTModule.save`: a pickle of the module with its engines."""


def save(call: Call) -> Facts:
    """`torch_tensorrt.save(module, file_path, output_format=)`."""
    given = call.get("output_format")
    facts: Facts = {
        semconv.ENTRY_POINT: "torch_tensorrt.save",
        semconv.FILE_FORMAT: given if type(given) is str else semconv.OTHER_VALUE,
    }
    return {**facts, **_engines(call.get("module"))}


def save_mutable(call: Call) -> Facts:
    """`MutableTorchTensorRTModule.save(module, path)`."""
    return {
        semconv.ENTRY_POINT: "torch_tensorrt.MutableTorchTensorRTModule.save",
        semconv.FILE_FORMAT: MUTABLE,
        **_engines(attribute(call.get("module"), "gm")),
    }


def saved(call: Call, _result: Any, _scratch: Scratch) -> Facts:
    """The size of the file, whichever parameter names it."""
    return _size(call)


def load(call: Call) -> Facts:
    """`torch_tensorrt.load(file_path, format=)`. The content of the file is known afterwards."""
    return {semconv.ENTRY_POINT: "torch_tensorrt.load", **_size(call)}


def load_mutable(call: Call) -> Facts:
    """`MutableTorchTensorRTModule.load(path)`."""
    return {
        semconv.ENTRY_POINT: "torch_tensorrt.MutableTorchTensorRTModule.load",
        semconv.FILE_FORMAT: MUTABLE,
        **_size(call),
    }


def loaded(_call: Call, result: Any, _scratch: Scratch) -> Facts:
    """What `torch_tensorrt.load` found. It tries one format after the other, and a failed attempt is not a failure."""
    if reading.is_of_library(type(result)) and graph_of(result) is not None:
        return {semconv.FILE_FORMAT: "exported_program", **_engines(result)}
    if reading.has(result, "gm"):
        return _engines(attribute(result, "gm"))
    is_script = is_a(result, reading.loaded("torch.jit", "ScriptModule"))
    return {semconv.FILE_FORMAT: "torchscript" if is_script else "executorch"}


def _size(call: Call) -> Facts:
    size = file_size(call.get("file_path"))
    return {semconv.FILE_SIZE: file_size(call.get("path")) if size is None else size}


def file_size(path: Any) -> int | None:
    """Bytes of the file at a path, which may be a text or a `pathlib` path; None if there is no file."""
    if not reading.exactly(path, str, PosixPath, WindowsPath):
        return None
    try:
        status = os.stat(path)  # noqa: PTH116
    except (OSError, ValueError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _engines(holder: Any) -> Facts:
    sizes = list(_engine_sizes(holder))
    return {semconv.ENGINE_COUNT: len(sizes), semconv.ENGINES_SIZE: sum(sizes)} if sizes else {}


def _engine_sizes(holder: Any) -> Iterator[int]:
    """Bytes of each engine of a compiled module, or of an exported program, which holds engines as constants."""
    for name, child in children(holder):
        if name.startswith(ENGINE_PREFIX):
            yield reading.size(attribute(child, "serialized_engine")) or 0
    for _, constant in reading.pairs(attribute(holder, "constants")):
        serialized = attribute(constant, "serialized_engine")
        if type(serialized) is bytes:
            yield len(serialized)
