# SPDX-License-Identifier: Apache-2.0
"""What the rest of torchspan uses of this package. It imports no other module of it.

Users import `torchspan.inputs`.
"""

from __future__ import annotations

from torchspan.inputs.input_observer import InputObserver
from torchspan.inputs.observed.attachments import CallHook
from torchspan.inputs.observed.leaves import public_label
from torchspan.inputs.observed.signatures import CallSignature, any_call, signature_of
from torchspan.inputs.observed.watched_classes import WatchedClass
from torchspan.inputs.observed.watched_classes import parsed as parsed_class
from torchspan.inputs.watched.compiled_limits import limits_of, shapes_of
from torchspan.inputs.watched.engine_limits import Drift, EngineLimits, LimitWatch, Outside
from torchspan.inputs.watched.observed_process import ObservedProcess
from torchspan.inputs.watched.traffic import Action, CallShape, Follower, Traffic
from torchspan.inputs.written import documents, merging
from torchspan.inputs.written.documents import Document, InputFileError
from torchspan.inputs.written.encoder import Record

__all__ = [
    "Action",
    "CallHook",
    "CallShape",
    "CallSignature",
    "Document",
    "Drift",
    "EngineLimits",
    "Follower",
    "InputFileError",
    "InputObserver",
    "LimitWatch",
    "ObservedProcess",
    "Outside",
    "Record",
    "Traffic",
    "WatchedClass",
    "any_call",
    "documents",
    "limits_of",
    "merging",
    "parsed_class",
    "public_label",
    "shapes_of",
    "signature_of",
]
