# SPDX-License-Identifier: Apache-2.0
"""Replaces `tensorrt.IExecutionContext` of a GPU: a context that reports layers to its profiler at the end of each run.

Its rules are those of TensorRT: `IExecutionContext::setEnqueueEmitsProfile` in NvInferRuntime.h (the enqueue waits for the device
and reports each layer, unless the flag is False), python/src/infer/pyCore.cpp of NVIDIA/TensorRT (the profiler is an `IProfiler`,
the property returns the object that was set, times are 32-bit floats, and what a profiler raises is written to stderr), and
what TensorRT-RTX 1.4 did on an H100: None is refused with an error in its log, and the profiler stays.
"""

import ctypes
import sys
from types import SimpleNamespace


class Profiler:
    """Replaces `tensorrt.IProfiler`, which a derived class must initialize by name."""

    is_initialized = False

    def __init__(self):
        self.is_initialized = True


class Layered:
    """What a context of a GPU does with its profiler.

    layers: (name, milliseconds) of each report of a run.
    """

    layers = ()
    enqueue_emits_profile = True
    interface_of_profilers = Profiler
    _profiler = None

    @property
    def profiler(self):
        return self._profiler

    @profiler.setter
    def profiler(self, profiler):
        if profiler is None:
            print("[ERROR] setProfiler: condition: (profiler) != nullptr", file=sys.stderr)
            return
        if not isinstance(profiler, self.interface_of_profilers):
            raise TypeError("incompatible function arguments")
        self._profiler = profiler

    def execute_async_v3(self, stream_handle):
        done = super().execute_async_v3(stream_handle)
        if self._profiler is not None and self.enqueue_emits_profile:
            for name, ms in self.layers:
                self._report(name, ctypes.c_float(ms).value)
        return done

    def _report(self, name, ms):
        try:
            self._profiler.report_layer_time(name, ms)
        except Exception as error:
            print(f"[ERROR] Exception caught in report_layer_time(): {type(error).__name__}", file=sys.stderr)


class _Empty:
    def execute_async_v3(self, stream_handle):
        return True


class LayeredContext(Layered, _Empty):
    """A context without tensors, of an engine with a name."""

    def __init__(self, *layers, engine="plain"):
        self.layers = layers
        self.engine = SimpleNamespace(name=engine)


LIBRARY = SimpleNamespace(IExecutionContext=LayeredContext, IProfiler=Profiler)
"""Replaces the module `tensorrt`."""


def layer(context, *layers, interface):
    """Have a context of `torchspan.testing` report `layers`, through TensorRT's own call from C++ into Python.

    interface: TensorRT's real `IProfiler`.
    """
    report = lambda self, name, ms: interface.report_layer_time(self._profiler, name, ms)
    kind = type("LayeredStandIn", (Layered, type(context)), {"interface_of_profilers": interface, "_report": report})
    context.__class__, context.layers = kind, layers
