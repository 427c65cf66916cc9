# SPDX-License-Identifier: Apache-2.0
"""What torchspan raises. Nothing of it ever reaches a program from inside an observed call."""

from __future__ import annotations


class ConfigurationError(ValueError):
    """A setting has a value that means nothing; the message says which, where it came from and what is allowed.

    Raised by `TorchspanInstrumentor().instrument(...)` for arguments; for environment variables it is logged once
    and the default used, because a typing error in a deployment must not stop the program.
    """
