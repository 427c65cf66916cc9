# SPDX-License-Identifier: Apache-2.0
"""The exceptions that torchspan raises. None of them reaches a program from inside an observed call."""

from __future__ import annotations

__all__ = ["ConfigurationError"]


class ConfigurationError(ValueError):
    """An argument has an invalid value. The message has the argument's name, the value and what is expected.

    Raised by `torchspan.instrument()` and `TorchspanInstrumentor().instrument()`. An invalid environment variable is
    logged instead, and the default used: a typing error in a deployment must not stop the program.
    """
