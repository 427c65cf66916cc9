# SPDX-License-Identifier: Apache-2.0
"""torchspan: what Torch-TensorRT does, as OpenTelemetry traces and metrics.

Under `opentelemetry-instrument` or `torchspan run` there is nothing to call. In code:

    import torchspan

    torchspan.instrument()
"""

# ARCHITECTURE.md shows the packages, and what each of them imports.

import typing as _typing

from torchspan._base.forks import uncut as _uncut
from torchspan._base.readiness import mark_not_ready, mark_ready
from torchspan._version import __version__
from torchspan.instrumentor import TorchspanInstrumentor, instrument, uninstrument

__all__ = [
    "TorchspanInstrumentor",
    "__version__",
    "batch",
    "instrument",
    "mark_not_ready",
    "mark_ready",
    "uninstrument",
]

if _typing.TYPE_CHECKING:
    from torchspan.batching import batch


def __getattr__(name: str) -> _typing.Any:
    """`batch`, imported at its first use: every Python that an instrumented program starts loads this module."""
    if name == "batch":
        with _uncut():
            from torchspan.batching import batch
        return globals().setdefault(name, batch)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
