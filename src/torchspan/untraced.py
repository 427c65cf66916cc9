# SPDX-License-Identifier: Apache-2.0
"""What torch.compile and torch.export trace must not contain what is public here: `adapters/dynamo.py` sees to it."""

from __future__ import annotations

from collections.abc import Callable

from torchspan import imports
from torchspan.engine import REGISTRY


def keep_out() -> None:
    """Keep Dynamo out of everything of ours that has been imported, as soon as there is a Dynamo."""
    _when_imported("torch", "torch_arrived")
    _when_imported("torch._dynamo", "dynamo_arrived")


def _when_imported(library: str, arrived: str) -> None:
    def tell(_late: bool) -> Callable[[], None]:
        REGISTRY.guard.call("keeping out of what torch.compile traces", _tell)
        return _nothing

    def _tell() -> None:
        from torchspan.adapters import dynamo

        getattr(dynamo, arrived)()

    imports.when_imported(library, tell)


def _nothing() -> None:
    """It stays as it is for the life of the process."""
