# SPDX-License-Identifier: Apache-2.0
"""What a user callback selects."""

from __future__ import annotations

from enum import Enum

from torchspan.words.phase import Phase


class RecordScope(Enum):
    """The scopes of `at::RecordScope` (ATen/record_function.h), with its names and values."""

    FUNCTION = 0
    """c10/ATen operators, autograd nodes."""
    BACKWARD_FUNCTION = 1
    """Functions and nodes called from autograd."""
    TORCHSCRIPT_FUNCTION = 2
    """TorchScript functions and methods."""
    KERNEL_FUNCTION_DTYPE = 3
    """Kernel function with its data type."""
    CUSTOM_CLASS = 4
    """Torchbind custom class."""
    BUILD_FEATURE = 5
    """Generic build feature."""
    LITE_INTERPRETER = 6
    """Kernel function of the lite interpreter."""
    USER_SCOPE = 7
    """What a program records of its own with `record_function`."""
    STATIC_RUNTIME_OP = 8
    """Operator of the static runtime."""
    STATIC_RUNTIME_MODEL = 9
    """Model of the static runtime."""


Scope = RecordScope | Phase
"""A scope of the header or a phase: events of the same engine, selected the same way."""
