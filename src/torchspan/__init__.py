# SPDX-License-Identifier: Apache-2.0
"""torchspan: what Torch-TensorRT does, as OpenTelemetry traces and metrics.

Under `opentelemetry-instrument` or `torchspan run` there is nothing to call. In code:

    import torchspan

    torchspan.instrument()
"""

# General layout, in the direction in which data flows; a package imports only from those before it:
#
#   _base/              what everything builds on: import hooks, patching, error boundaries, privacy, ids
#   phase.py, semconv   the vocabulary: kinds of work, attributes, metrics
#   probes/             WHERE torchspan hooks: typed rows, and pure functions that describe a call
#   subscribers/        user callbacks: RecordFunction in Python
#   engine/             WHEN something happens: events; knows neither torch nor OpenTelemetry
#   adapters/           HOW a library is hooked: applies its probes, returns the undo
#   writer/             WHAT happens to events: spans and metrics, through OpenTelemetry's API
#   propagation/        carries OpenTelemetry's context into threads and processes
#   batching.py         one run for several requests
#   callbacks.py        the public side of subscribers/
#   observers/          Torch-TensorRT's Observer API, for torchspan's phases and for user functions
#   inputs/             what a model is called with, and what an export needs of it
#   _bridge.py          builds engine, writer and adapters once an observed library is imported
#   instrumentor.py     enables and disables that, and imports none of it before
#   cli/                the command `torchspan`
#
# sdk/ (plugs into the OpenTelemetry SDK) and testing/ (the pipeline without a GPU) stand alone.

import typing as _typing

from torchspan._base.readiness import mark_ready
from torchspan._version import __version__
from torchspan.instrumentor import TorchspanInstrumentor, instrument, uninstrument

__all__ = ["TorchspanInstrumentor", "__version__", "batch", "instrument", "mark_ready", "uninstrument"]

if _typing.TYPE_CHECKING:
    from torchspan.batching import batch


def __getattr__(name: str) -> _typing.Any:
    """`batch`, imported at its first use: every Python that an instrumented program starts loads this module."""
    if name == "batch":
        from torchspan.batching import batch

        return globals().setdefault(name, batch)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
