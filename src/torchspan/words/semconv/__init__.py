# SPDX-License-Identifier: Apache-2.0
"""The tables of attributes and metrics: everything that torchspan emits, with its type and meaning.

These tables are the contract. `docs/reference/semantic-conventions.md` is generated from them (`make docs`), and the
checks compare them, in both directions, with everything that the tests emitted. An `Attribute` is a string, the key
itself, so a row is used wherever a key is needed: ``attributes[semconv.ENGINE_NAME] = name``. Likewise, a `Metric` is
its name.

Each library has a module with the keys that start with the library's name. Keys that start with `torchspan.` describe
the observation itself. Keys without one of these prefixes are those of the OpenTelemetry conventions. This package
exports all rows.
"""
# ruff: noqa: F403 - a row that is added to a module is exported without being listed here

from __future__ import annotations

from torchspan.words.redaction.export_text import ExportFailure as ExportFailure
from torchspan.words.redaction.kinds_of_text import OTHER_VALUE as OTHER_VALUE
from torchspan.words.redaction.kinds_of_text import Enumeration as Enumeration
from torchspan.words.redaction.kinds_of_text import Kind as Kind
from torchspan.words.semconv import input_limits as _input_limits
from torchspan.words.semconv import opentelemetry as _opentelemetry
from torchspan.words.semconv import tensorrt as _tensorrt
from torchspan.words.semconv import torch as _torch
from torchspan.words.semconv import torch_tensorrt as _torch_tensorrt
from torchspan.words.semconv import torchspan as _torchspan
from torchspan.words.semconv._emitted import EmissionGate as Gate
from torchspan.words.semconv._emitted import identifier as identifier
from torchspan.words.semconv._emitted import span_name as span_name
from torchspan.words.semconv._table import Attribute as Attribute
from torchspan.words.semconv._table import rows as _rows
from torchspan.words.semconv.input_limits import *
from torchspan.words.semconv.measures import Metric as Metric
from torchspan.words.semconv.metrics import *
from torchspan.words.semconv.opentelemetry import *
from torchspan.words.semconv.tensorrt import *
from torchspan.words.semconv.torch import *
from torchspan.words.semconv.torch_tensorrt import *
from torchspan.words.semconv.torchspan import *

SCOPE_NAME = "torchspan"
"""The instrumentation scope of every span and metric."""

NAMESPACES = ("torchspan.", "torch.", "torch_tensorrt.", "tensorrt.")
"""What torchspan's own names begin with. Other names are those of the OpenTelemetry conventions."""

ATTRIBUTES: tuple[Attribute, ...] = tuple(
    row
    for module in (_torchspan, _input_limits, _opentelemetry, _torch, _torch_tensorrt, _tensorrt)
    for row in _rows(module)
)
"""Every row of the table of attributes."""

OF_WORK: tuple[Attribute, ...] = (
    _torch.COMPILE_ID,
    _torch.WAIT_IDS,
    _torch.COMPILE_PHASE_NAME,
    _opentelemetry.CODE_FUNCTION,
    _opentelemetry.CODE_FILE,
    _opentelemetry.CODE_LINE,
    _opentelemetry.THREAD_ID,
)
"""What is known of work when it begins, and names it: what is said of work that did not end."""

GATE = Gate(ATTRIBUTES)
"""The gate of the table."""

emitted = GATE.emitted
"""The attributes as they may leave the process: see `Gate.emitted`."""

whole_texts = GATE.whole_texts
"""The texts of attributes of which only a part may leave: see `Gate.whole_texts`."""

event_name = GATE.event_name
"""The name of a span event as it may leave the process: see `Gate.event_name`."""
