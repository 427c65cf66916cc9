# SPDX-License-Identifier: Apache-2.0
"""torchspan: what Torch-TensorRT does, as OpenTelemetry traces and metrics.

Under ``opentelemetry-instrument`` or ``torchspan run`` nothing has to be called. In code::

    from torchspan import TorchspanInstrumentor

    TorchspanInstrumentor().instrument()
"""

# General layout, in the direction in which the data flow; a folder imports only from those before it:
#
#   names.py, carrying.py  replacing names of the standard library; what follows the work into threads
#   phase.py, semconv.py   the vocabulary: kinds of work, attributes
#   probes/                WHERE we hook: rows of data, and pure functions that describe a call
#   engine/                WHEN something happens: paired callbacks; knows neither torch nor OpenTelemetry
#   adapters/              HOW a library is hooked: applies the rows, returns the undo
#   writer/                WHAT becomes of it: spans and metrics, through OpenTelemetry's API
#   callbacks.py           the user's side of engine/: RecordFunction in Python
#   observers/             and the Observers of Torch-TensorRT
#   session.py             puts the four together, once Torch-TensorRT is imported
#   instrumentor.py        switches that on and off, and imports none of it before
#   serving.py             whether the program has begun to serve, which it says itself
#   cli/                   the command `torchspan`
#
# sdk/ (plugs into the OpenTelemetry SDK) and testing/ (the pipeline without a GPU) stand alone.

from torchspan._version import __version__
from torchspan.instrumentor import TorchspanInstrumentor
from torchspan.serving import mark_ready

__all__ = ["TorchspanInstrumentor", "__version__", "mark_ready"]
