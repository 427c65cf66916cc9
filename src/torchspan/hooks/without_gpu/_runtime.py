# SPDX-License-Identifier: Apache-2.0
"""TensorRT's runtime half on CPU memory: engine, execution context, runtime configuration, refitter.

The builder half is real. torch_tensorrt's own Python runtime is real too: it binds the addresses of CPU tensors, and
`ExecutionContext.execute_async_v3` reads and writes there.
"""

from __future__ import annotations

import ctypes
import math
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from torchspan.hooks.without_gpu import _engines
from torchspan.hooks.without_gpu._reference import Reference, Shape
from torchspan.hooks.without_gpu._stand_in_errors import NeedsGpuError

_REFITTED = b"torchspan-refitted"
_refit = threading.local()


_real: dict[str, Any] = {}
"""TensorRT's own classes by the names under which the package has the stand-ins."""


def tensorrt() -> Any:
    """The module that torch_tensorrt calls `tensorrt`, whichever package it is; before that, the package itself."""
    return sys.modules.get("tensorrt") or sys.modules["tensorrt_rtx"]


def stand_in_for(interface: str, original: Any) -> Any:
    """Our class for TensorRT's `original`, which is called `interface`."""
    _real[interface] = original
    return {class_.interface: class_ for class_ in (StandInEngine, ExecutionContext, Refitter)}[interface]


class StandIn:
    """Base of what stands in for a TensorRT object: what the real interface has and this lacks raises NeedsGpuError."""

    __torchspan_stand_in__ = True
    interface = ""

    def __getattr__(self, name: str) -> Any:
        interface = _real.get(self.interface) or getattr(tensorrt(), self.interface)
        real = vars(interface).get(name) if not name.startswith("__") else None
        if real is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        call = f"tensorrt.{self.interface}.{name}"
        if isinstance(real, property):
            raise NeedsGpuError(call)

        def refuse(*_args: Any, **_kwargs: Any) -> Any:
            raise NeedsGpuError(call)

        return refuse


class StandInEngine(StandIn):
    """Stands in for `tensorrt.ICudaEngine`: answers from the network it was built from."""

    interface = "ICudaEngine"
    name = "torchspan stand-in"
    refittable = True
    num_layers = num_aux_streams = 0
    device_memory_size = device_memory_size_v2 = 0
    streamable_weights_size = weight_streaming_budget_v2 = 0

    def __init__(self, plan: bytes, reference: Reference, logger: Any = None) -> None:
        self.plan, self.reference, self.logger = plan, reference, logger

    @property
    def num_io_tensors(self) -> int:
        return len(self.reference.bindings)

    @property
    def num_optimization_profiles(self) -> int:
        return max((len(p) for p in self.reference.profiles.values()), default=1)

    def names(self, is_input: bool) -> list[str]:
        return [name for name, binding in self.reference.bindings.items() if binding.is_input is is_input]

    def torch_dtype(self, name: str) -> torch.dtype:
        dtypes = sys.modules["torch_tensorrt"].dtype
        dtype: torch.dtype = dtypes._from(self.get_tensor_dtype(name)).to(torch.dtype)
        return dtype

    def refuse(self, message: str) -> bool:
        """False, TensorRT's answer, after an error in the log of the runtime that made the engine."""
        if self.logger is not None:
            self.logger.log(tensorrt().ILogger.Severity.ERROR, message)
        return False

    def get_tensor_name(self, index: int) -> str:
        return list(self.reference.bindings)[index]

    def get_tensor_mode(self, name: str) -> Any:
        mode = tensorrt().TensorIOMode
        return mode.INPUT if self.reference.bindings[name].is_input else mode.OUTPUT

    def get_tensor_dtype(self, name: str) -> Any:
        return getattr(tensorrt().DataType, self.reference.bindings[name].dtype)

    def get_tensor_shape(self, name: str) -> Any:
        shape = self.reference.bindings[name].shape
        return tensorrt().Dims(shape) if shape else ()  # Dims(()) is one dimension of size zero to the binding

    def get_tensor_profile_shape(self, name: str, profile_index: int) -> list[Shape]:
        profiles = self.reference.profiles[name]
        return [*profiles[min(profile_index, len(profiles) - 1)]]  # a static input has one shape for all of them

    def is_shape_inference_io(self, name: str) -> bool:
        del name
        return False

    def get_aliased_input_tensor(self, name: str) -> str | None:
        return self.reference.bindings[name].written_input

    def get_weight_streaming_automatic_budget(self) -> int:
        return 0

    def serialize(self) -> bytes:
        return self.plan

    def serialize_with_config(self, config: Any) -> bytes:
        del config
        return self.plan

    def create_serialization_config(self) -> SerializationConfig:
        return SerializationConfig()

    def create_runtime_config(self) -> RuntimeConfig:
        return RuntimeConfig()

    def create_execution_context(self, *_args: Any, **_kwargs: Any) -> ExecutionContext:
        return ExecutionContext(self)


class SerializationConfig(StandIn):
    """Stands in for `tensorrt.ISerializationConfig`: flags are taken and change nothing."""

    interface = "ISerializationConfig"
    flags = 0

    def set_flag(self, flag: Any) -> bool:
        del flag
        return True

    clear_flag = get_flag = set_flag


class RuntimeConfig(StandIn):
    """Stands in for TensorRT-RTX's `tensorrt.IRuntimeConfig`: strategies are kept, CUDA graphs are refused."""

    interface = "IRuntimeConfig"
    dynamic_shapes_kernel_specialization_strategy: Any = None

    def __init__(self) -> None:
        self._cuda_graph_strategy: Any = None

    @property
    def cuda_graph_strategy(self) -> Any:
        return self._cuda_graph_strategy

    @cuda_graph_strategy.setter
    def cuda_graph_strategy(self, strategy: Any) -> None:
        if strategy != tensorrt().CudaGraphStrategy.DISABLED:
            raise NeedsGpuError("tensorrt.IRuntimeConfig.cuda_graph_strategy", "Leave CUDA graphs disabled.")
        self._cuda_graph_strategy = strategy

    def set_execution_context_allocation_strategy(self, strategy: Any) -> None:
        self.execution_context_allocation_strategy = strategy

    def get_execution_context_allocation_strategy(self) -> Any:
        return self.execution_context_allocation_strategy

    def create_runtime_cache(self) -> RuntimeCache:
        return RuntimeCache()

    def set_runtime_cache(self, cache: Any) -> bool:
        self.runtime_cache = cache
        return True

    def get_runtime_cache(self) -> Any:
        return self.runtime_cache


class RuntimeCache(StandIn):
    """Stands in for TensorRT-RTX's `tensorrt.IRuntimeCache`: empty, so that no file is written for it."""

    interface = "IRuntimeCache"

    def serialize(self) -> None:
        return None

    def deserialize(self, data: Any) -> bool:
        del data
        return True


class ExecutionContext(StandIn):
    """Stands in for `tensorrt.IExecutionContext`: shape inference and execution on CPU memory."""

    interface = "IExecutionContext"

    def __init__(self, engine: StandInEngine) -> None:
        self.engine = engine
        self.active_optimization_profile = 0
        self.refused: dict[str, str] = {}
        self._shapes: dict[str, Shape] = {}
        self._addresses: dict[str, int] = {}
        self._allocators: dict[str, Any] = {}
        self._inferred: dict[Any, list[Shape]] = {}

    @property
    def profiler(self) -> None:
        return None

    @profiler.setter
    def profiler(self, profiler: Any) -> None:
        del profiler
        raise NeedsGpuError("tensorrt.IExecutionContext.profiler", "TensorRT's layer times exist on a GPU only.")

    def set_input_shape(self, name: str, shape: Any) -> bool:
        """As TensorRT: False, and the shape is as before, unless the engine was built for `shape`."""
        sizes = tuple(int(size) for size in shape)
        self.refused[name] = self._unfit(name, sizes)
        if self.refused[name]:
            return self.engine.refuse(self.refused[name])
        self._shapes[name] = sizes
        return True

    def set_tensor_address(self, name: str, address: int) -> bool:
        self._addresses[name] = address
        return True

    def set_output_allocator(self, name: str, allocator: Any) -> bool:
        self._allocators[name] = allocator
        return True

    def set_optimization_profile_async(self, index: int, stream: int) -> bool:
        del stream
        self.active_optimization_profile = index
        return True

    def set_device_memory(self, address: int, size: int) -> None:
        """Nothing: the reference allocates for itself."""

    def infer_shapes(self) -> list[str]:
        return []

    def is_stream_capturable(self, stream: int) -> bool:
        del stream
        return False

    def get_tensor_shape(self, name: str) -> Shape:
        """The shape of an input as set, of an output as inferred from the inputs'; -1 where an input's is not known yet."""
        static = self._shape(name)
        inputs = self.engine.names(is_input=True)
        if -1 not in static or name in inputs:
            return static
        shapes = tuple(self._shape(n) for n in inputs)
        numbers = {index: inputs[index] for index in self.engine.reference.number_inputs()}
        if any(-1 in shape for shape in shapes) or not all(name in self._addresses for name in numbers.values()):
            return static
        values = {index: self._tensor(name, self._shape(name)).item() for index, name in numbers.items()}
        key = (shapes, tuple(values.items()))
        if key not in self._inferred:
            dtypes = [self.engine.torch_dtype(n) for n in inputs]
            self._inferred[key] = self.engine.reference.output_shapes(list(zip(shapes, dtypes, strict=True)), values)
        return self._inferred[key][self.engine.names(is_input=False).index(name)]

    def execute_async_v3(self, stream_handle: int) -> bool:
        """Runs at once, and has finished when it returns.

        Outputs may be bound to the memory of inputs: all are computed before the first is written.

        False, and nothing is read or written, where the shape of an input does not fit or memory is missing.

        Raises NeedsGpuError where the engine's outputs are more or fewer than its graph's and their names do not tell
        which is which, and RuntimeError for an output of another size than was said.
        """
        return self._run(stream_handle)

    def _run(self, stream: int) -> bool:
        read, names = self.engine.names(is_input=True), self.engine.names(is_input=False)
        unfit = [*self.refused.values(), *(self._unfit(name, self._shape(name)) for name in read)]
        bound = {*self._allocators, *(name for name, address in self._addresses.items() if address)}
        unbound = [name for name in (*read, *names) if name not in bound and 0 not in self.get_tensor_shape(name)]
        unfit += [f"Address is not set for {name}." for name in unbound]
        for message in filter(None, unfit):
            return self.engine.refuse(message)
        outputs = self.engine.reference.run([self._tensor(name, self._shape(name)) for name in read])
        if len(outputs) != len(names):
            raise NeedsGpuError(_unlike(len(names), len(outputs)))
        if not {self._addresses.get(name) for name in names}.isdisjoint(self._addresses.get(name) for name in read):
            outputs = [output.clone() for output in outputs]  # one may be a view of an input that another overwrites
        for name, output in zip(names, outputs, strict=True):
            self._deliver(name, output.to(self.engine.torch_dtype(name)), stream)
        return True

    def execute_v2(self, bindings: list[int]) -> bool:
        """As execute_async_v3; `bindings` are the addresses of inputs and outputs, in the order of the engine."""
        self._addresses.update(zip(self.engine.reference.bindings, bindings, strict=True))
        return self._run(0)

    def _shape(self, name: str) -> Shape:
        return self._shapes.get(name, tuple(self.engine.reference.bindings[name].shape))

    def _unfit(self, name: str, shape: Shape) -> str:
        """What TensorRT says about an input of a shape that the engine was not built for; nothing if it was."""
        static, profile = self.engine.reference.bindings[name].shape, self.active_optimization_profile
        low, _, high = self.engine.get_tensor_profile_shape(name, profile) if -1 in static else (static, static, static)
        shape = shape or (low if low == (1,) else shape)  # Torch-TensorRT passes a number without its dimension
        if len(shape) == len(low) and all(a <= size <= b for a, size, b in zip(low, shape, high, strict=True)):
            return ""
        set_, least, most = (str([*sizes]).replace(" ", "") for sizes in (shape, low, high))
        return _MISFIT.format(name, set_, profile, least, most)

    def _deliver(self, name: str, output: torch.Tensor, stream: int) -> None:
        allocator = self._allocators.get(name)
        if allocator is not None:
            size = output.numel() * output.element_size()
            self._addresses[name] = allocator.reallocate_output_async(name, 0, size, 256, stream)
            allocator.notify_shape(name, tuple(output.shape))
        elif output.numel() != math.prod(self.get_tensor_shape(name)):  # a number may be of no dimension or of one
            raise RuntimeError(f"Nothing is written: {name} is {tuple(output.shape)}, which its engine did not say.")
        self._tensor(name, tuple(output.shape)).copy_(output)

    def _tensor(self, name: str, shape: Shape) -> torch.Tensor:
        """The memory bound to `name` as a tensor; it is the caller's, who keeps it alive during the call."""
        dtype = self.engine.torch_dtype(name)
        size = math.prod(shape) * dtype.itemsize
        if not size:
            return torch.empty(shape, dtype=dtype)
        memory = (ctypes.c_byte * size).from_address(self._addresses[name])
        return torch.frombuffer(memory, dtype=dtype).reshape(shape)


_MISFIT = (
    "IExecutionContext::setInputShape: Error Code 3: API Usage Error (Parameter check failed, condition: satisfyProfile. "
    "Set dimension {1} for tensor {0} does not satisfy any optimization profiles. Valid range for profile {2}: {3}..{4}.)"
)


def _unlike(engine: int, graph: int) -> str:
    return f"Running an engine with {engine} outputs, which cannot be matched with the {graph} outputs of its graph,"


@contextmanager
def refitting_to(graph: torch.fx.GraphModule) -> Iterator[None]:
    """Refitters used in this thread until the end of the context refit to the weights of `graph`."""
    outer, _refit.graph = getattr(_refit, "graph", None), graph
    try:
        yield
    finally:
        _refit.graph = outer


class Refitter(StandIn):
    """Stands in for `tensorrt.Refitter`: the engine continues with the graph that torch_tensorrt is refitting to.

    The engine's bytes change with the weights, so that they can be distinguished and found again.
    """

    interface = "Refitter"

    def __init__(self, engine: StandInEngine, logger: Any) -> None:
        del logger
        if not isinstance(engine, StandInEngine):  # what deserializing returned for an engine that it could not read
            raise TypeError(f"Refitter() takes an engine, not {engine!r}")
        self.engine = engine

    def get_all_weights(self) -> list[str]:
        return [*self.engine.reference.weights]

    def get_missing_weights(self) -> list[str]:
        return []

    def set_named_weights(self, name: str, *_args: Any) -> bool:
        del name
        return True

    def refit_cuda_engine(self) -> bool:
        """False where more than the values of weights differs: their sizes, or what is done with them.

        Raises NeedsGpuError for a refit that torch_tensorrt does not do: there is no graph to take the weights from.
        """
        graph = getattr(_refit, "graph", None)
        if graph is None:
            raise NeedsGpuError("tensorrt.Refitter.refit_cuda_engine", "Refit through torch_tensorrt.")
        engine, reference = self.engine, self.engine.reference.with_weights_of(graph)
        if reference is None:
            return self.engine.refuse("A refit changes the values of weights, and not their sizes or the operators.")
        engine.plan = engine.plan.partition(_REFITTED)[0] + _REFITTED + reference.weights_digest()
        engine.reference = reference
        _engines.keep(engine.plan, reference)
        return True
