# SPDX-License-Identifier: Apache-2.0
"""Compilations that many tests read and none changes: each is done once a process, and what it left is handed out."""

import contextlib
import logging
import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch_tensorrt
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from support import models
from support.emitted import EMITTED
from support.metrics import Metrics, Point
from torchspan import TorchspanInstrumentor


@dataclass(frozen=True)
class Recorded:
    """spans: those that ended, in that order. metrics: name -> points. log: messages of the library. module: what the work returned."""

    spans: tuple[ReadableSpan, ...]
    metrics: Mapping[str, tuple[Point, ...]]
    log: tuple[str, ...]
    module: Any


class Messages(logging.Handler):
    """Keeps what is logged."""

    def __init__(self):
        super().__init__()
        self.messages = []

    def emit(self, record):
        self.messages.append(record.getMessage())


@contextlib.contextmanager
def library_log():
    """The messages of Torch-TensorRT's own loggers, from level INFO on."""
    logger, handler = logging.getLogger("torch_tensorrt"), Messages()
    interpreter = logging.getLogger("torch_tensorrt.dynamo.conversion._TRTInterpreter")
    level = interpreter.level
    interpreter.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        yield handler.messages
    finally:
        logger.removeHandler(handler)
        interpreter.setLevel(level)


def record(work, **settings):
    """Run `work()` under the bridge with these settings, and heartbeats off; returns what it left."""
    instrumentor = TorchspanInstrumentor()
    assert not instrumentor.is_instrumented_by_opentelemetry
    exporter, metrics = InMemorySpanExporter(), Metrics()
    provider = TracerProvider(shutdown_on_exit=False)
    for each in (exporter, EMITTED):
        provider.add_span_processor(SimpleSpanProcessor(each))
    torch._dynamo.reset()
    with library_log() as log, torch.no_grad():
        instrumentor.instrument(
            tracer_provider=provider, meter_provider=metrics.provider, **{"heartbeat": "0", **settings}
        )
        try:
            module = work()
        finally:
            instrumentor.uninstrument()
    read = {name: tuple(points) for name, points in metrics.read().items()}
    return Recorded(tuple(exporter.get_finished_spans()), types.MappingProxyType(read), tuple(log), module)


# --- the work ------------------------------------------------------------------------------------------------------


def mlp():
    """The two linear layers, from the entry point that most programs call."""
    return torch_tensorrt.compile(models.seeded(models.Mlp), ir="dynamo", inputs=[torch.ones(2, 16)], min_block_size=1)


def traced_mlp():
    """The same, traced first and compiled then."""
    inputs = [torch.ones(2, 16)]
    program = torch_tensorrt.dynamo.trace(models.seeded(models.Mlp), arg_inputs=inputs)
    return torch_tensorrt.dynamo.compile(program, arg_inputs=inputs, min_block_size=1)


def _compiled_and_called(model_class):
    x = models.image()
    module = torch_tensorrt.compile(models.seeded(model_class), ir="dynamo", inputs=[x], min_block_size=1)
    module(x)
    return module


def conv_net():
    """The convolutional net, compiled and called once."""
    return _compiled_and_called(models.ConvNet)


def fallback():
    """The net with one operator that has no converter, compiled and called once."""
    return _compiled_and_called(models.Fallback)


def stages():
    """The net of blocks with an engine on each side of the operator that has no converter, compiled and called once."""
    return _compiled_and_called(models.Stages)
