# SPDX-License-Identifier: Apache-2.0
"""torch_tensorrt's own functions, as far as they need a stand-in or have to be listened to."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os.path
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from torchspan.hooks.without_gpu import _engines
from torchspan.hooks.without_gpu._reference import Reference
from torchspan.hooks.without_gpu._runtime import refitting_to

# A GPU would not see these: its inputs are on the device. Dynamo breaks the graph at a call of a logger's method.
_ABOUT_INPUTS = ("Input tensor is not on a CUDA device", "Detected input ")

_writers: weakref.WeakKeyDictionary[Any, list[str]] = weakref.WeakKeyDictionary()
"""By interpreter: for each of its `ctx.aliased_outputs`, the name of the node that it came from."""


@contextmanager
def hidden_during_import() -> Iterator[None]:
    """While the body of torch_tensorrt runs: no C++ runtime, and no plugin package that cannot be imported.

    With the C++ runtime hidden, torch_tensorrt takes its Python runtime, as in an installation without the library.
    """
    isfile, find_spec = os.path.isfile, importlib.util.find_spec

    @functools.wraps(isfile)
    def isfile_except_for_the_runtime(path: Any) -> bool:
        return "libtorchtrt" not in str(path) and isfile(path)

    @functools.wraps(find_spec)
    def find_spec_or_none(name: str, package: str | None = None) -> Any:
        try:
            return find_spec(name, package)
        except (ImportError, AttributeError, ValueError):
            if name.startswith("tensorrt.plugin"):
                return None
            raise

    os.path.isfile = isfile_except_for_the_runtime
    importlib.util.find_spec = find_spec_or_none
    try:
        yield
    finally:
        if os.path.isfile is isfile_except_for_the_runtime:
            os.path.isfile = isfile
        if importlib.util.find_spec is find_spec_or_none:
            importlib.util.find_spec = find_spec


def device_to(original: Any, _call: str) -> Any:
    """`torch_tensorrt.Device.to`: tensors for this device are made on the CPU."""

    @functools.wraps(original)
    def to(_self: Any, _target: Any) -> torch.device:
        return torch.device("cpu")

    return to


def device_from(original: Any, _call: str) -> Any:
    """`torch_tensorrt.Device._from`: the device of a tensor "on the GPU" is the CPU, and means the GPU here."""

    @functools.wraps(original.__func__)
    def _from(cls: Any, device: Any) -> Any:
        if isinstance(device, torch.device) and device.type == "cpu":
            return cls(gpu_id=0)
        return original.__func__(cls, device)

    return classmethod(_from)


def decompose_attention_of_the_cpu(original: Any, _call: str) -> Any:
    """`TORCH_TRT_DECOMPOSITIONS`, in place: a CPU's attention is decomposed as torch_tensorrt decomposes a GPU's.

    torch traces attention to the variant of the device. torch_tensorrt knows those of a GPU only.
    """
    library: Any = sys.modules["torch_tensorrt.dynamo.lowering._decompositions"]

    def scaled_dot_product_flash_attention_for_cpu(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        attn_mask: torch.Tensor | None = None,
        scale: float | None = None,
    ) -> tuple[torch.Tensor, None]:
        is_grouped = query.size(-3) != key.size(-3)
        # By its name in the library: torchspan observes it there, and the compilation says that it was used.
        attention = library.scaled_dot_product_attention_decomposition(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=is_grouped
        )
        return attention, None

    operator: Any = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
    original.setdefault(operator, scaled_dot_product_flash_attention_for_cpu)
    return original


def construct_network(original: Any, _call: str) -> Any:
    """`TRTInterpreter._construct_trt_network_def`: afterwards the network is known to describe this graph."""

    @functools.wraps(original)
    def _construct_trt_network_def(self: Any) -> Any:
        writers = _writers[self] = []
        result = original(self)
        _engines.constructed(self.ctx.net, Reference.of_interpreter(self, writers))
        return result

    return _construct_trt_network_def


def run_node(original: Any, _call: str) -> Any:
    """`TRTInterpreter.run_node`: afterwards it is known which inputs of the network the node writes to.

    The converter records the tensor it writes in `ctx.aliased_outputs` (since 2.14), and not the node.
    """

    @functools.wraps(original)
    def run_node(self: Any, n: torch.fx.Node) -> Any:
        result = original(self, n)
        writers = _writers.get(self)
        if writers is not None:
            writers.extend([n.name] * (len(getattr(self.ctx, "aliased_outputs", ())) - len(writers)))
        return result

    return run_node


def fake_kernel(original: Any, _call: str) -> Any:
    """The fake kernel of `tensorrt::execute_engine` that torch_tensorrt registers where its C++ runtime is loaded.

    It computes the sizes of the outputs from the expressions that the compilation recorded, so that sizes which vary stay
    symbols. The Python runtime's own asks the execution context, which takes numbers only. Up to 2.12 there is no operator.
    """
    kernel = _meta_ops().fake_tensorrt_execute_engine

    @functools.wraps(original)
    def execute_engine_fake(input_tensors: list[torch.Tensor], engine: Any) -> Any:
        return kernel(input_tensors, engine)

    return execute_engine_fake


def setup_inputs(original: Any, _call: str) -> Any:
    """`setup_input_tensors` of the Python runtime: raises for a shape that the engine refuses, as the C++ runtime does.

    The Python runtime ignores TensorRT's answer.
    """

    @functools.wraps(original)
    def setup_input_tensors(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        for message in filter(None, self.context.refused.values()):
            raise RuntimeError(f"Error while setting the input shape: {message}")

    return setup_input_tensors


def _meta_ops() -> Any:
    """The module, which also registers a fake form of a C++ class: there is no such class without the C++ runtime."""
    library: Any = sys.modules["torch._library"]
    register = library.register_fake_class

    @functools.wraps(register)
    def register_none(_name: str, fake_class: Any = None, /) -> Any:
        return (lambda value: value) if fake_class is None else fake_class

    library.register_fake_class = register_none
    try:
        return importlib.import_module("torch_tensorrt.dynamo.runtime.meta_ops.register_meta_ops")
    finally:
        library.register_fake_class = register


def refit_engine(original: Any, _call: str) -> Any:
    """`_refit_single_trt_engine_with_gm`: the one place through which every refit goes, with the graph it refits to."""

    @functools.wraps(original)
    def _refit_single_trt_engine_with_gm(new_gm: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        with refitting_to(new_gm):
            return original(new_gm, *args, **kwargs)

    return _refit_single_trt_engine_with_gm


_IGNORED = "torchspan.testing: a warning about inputs on the CPU"
"""What Dynamo knows the replacements of `logger.warning` by."""


def quiet_about_inputs(original: Any, _call: str) -> Any:
    """`logger.warning` of a runtime module, without what it says about inputs on the CPU."""

    @functools.wraps(original)
    def warning(message: Any, *args: Any, **kwargs: Any) -> None:
        if not str(message).startswith(_ABOUT_INPUTS):
            kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1
            original(message, *args, **kwargs)

    # Dynamo ignores a method whose `__func__` is in this set (LoggingLoggerVariable). torch 2.11 sorts the set and writes it as JSON
    # with the summary of each frame, and has no summary where that fails, as it does for functions.
    vars(warning)["__func__"] = _IGNORED
    sys.modules["torch._dynamo"].config.ignore_logging_functions.add(_IGNORED)
    return warning
