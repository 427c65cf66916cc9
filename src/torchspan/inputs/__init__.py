# SPDX-License-Identifier: Apache-2.0
"""What a model is called with: shapes of real calls, and the arguments and dynamic shapes that an export needs.

    observer = InputObserver()
    with observer(model):
        model(x1, y1)
        model(x2, y2)
    program = torch.export.export(model, observer.infer_arguments(), dynamic_shapes=observer.infer_dynamic_shapes())

docs/how-to/observing-inputs.md is a guide.
"""

from __future__ import annotations

from torchspan.base import dynamo_safety
from torchspan.inputs.aligned.findings import Finding
from torchspan.inputs.inferred.exports import ExportedModel
from torchspan.inputs.input_observer import InputObserver
from torchspan.inputs.observed.leaves import Absent, Constant, NotWrittenError, Opaque, TensorShape
from torchspan.inputs.observed.trees import Container
from torchspan.inputs.profiled.profiles import DimensionProfile, InputProfile, SharedDimension, TensorProfile
from torchspan.inputs.written.documents import InputFileError

__all__ = [
    "Absent",
    "Constant",
    "Container",
    "DimensionProfile",
    "ExportedModel",
    "Finding",
    "InputFileError",
    "InputObserver",
    "InputProfile",
    "NotWrittenError",
    "Opaque",
    "SharedDimension",
    "TensorProfile",
    "TensorShape",
]

dynamo_safety.register_with_dynamo()
