# SPDX-License-Identifier: Apache-2.0
"""torchspan: what torch.compile and Torch-TensorRT do, as OpenTelemetry traces and metrics.

Under `opentelemetry-instrument` or `torchspan run` there is nothing to call. In code:

    import torchspan

    torchspan.instrument()

A switch of pytest's, which would warn where this is imported before pytest starts: PYTEST_DONT_REWRITE.
"""

# ARCHITECTURE.md shows the packages, and what each of them imports.

import importlib as _importlib
import typing as _typing

from torchspan.base.readiness import mark_not_ready, mark_ready
from torchspan.base.version import __version__

__all__ = [
    "TorchspanInstrumentor",
    "__version__",
    "batch",
    "flush",
    "instrument",
    "layers",
    "mark_not_ready",
    "mark_ready",
    "operators",
    "uninstrument",
]

if _typing.TYPE_CHECKING:
    from torchspan.hooks.batching import batch
    from torchspan.hooks.device._requests import layers
    from torchspan.hooks.operators._block import operators
    from torchspan.start.instrumentor import TorchspanInstrumentor, flush, instrument, uninstrument

_LATER = {
    "TorchspanInstrumentor": "start.instrumentor",
    "batch": "hooks.batching",
    "flush": "start.instrumentor",
    "instrument": "start.instrumentor",
    "layers": "hooks.device._requests",
    "operators": "hooks.operators._block",
    "uninstrument": "start.instrumentor",
}


def __getattr__(name: str) -> _typing.Any:
    """A name of `_LATER`, imported at its first use: every Python that an instrumented program starts loads this module."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from torchspan.base.forks import uncut

    with uncut():
        module = _importlib.import_module(f"{__name__}.{_LATER[name]}")
    return globals().setdefault(name, getattr(module, name))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
