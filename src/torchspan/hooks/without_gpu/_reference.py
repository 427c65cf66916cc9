# SPDX-License-Identifier: Apache-2.0
"""What an engine was built from: the subgraph, run by PyTorch on the CPU wherever TensorRT would run the engine."""

from __future__ import annotations

import collections
import copy
import dataclasses
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import _disable_current_modes

Shape = tuple[int, ...]

OutputSource = int | str
"""Where an output of the network comes from: a position among the graph's outputs, or the name of one of its nodes."""


@dataclass(frozen=True)
class Binding:
    """One input or output of the network.

    Args:
        dtype: The name of a `tensorrt.DataType`.
        shape: A dynamic dimension is -1.
        written_input: The input in whose memory TensorRT puts this output: that of a KV-cache update.
    """

    is_input: bool
    dtype: str
    shape: Shape
    written_input: str | None = None


@dataclass
class Reference:
    """A private copy of the subgraph with its own weights, the network's bindings, and the optimization profiles.

    Args:
        graph: Returns the network's outputs, in the network's order.
        profiles: Input name -> one (min, opt, max) per profile.
        outputs: The sources of those outputs in the graph that was compiled. None: its own, as they are.
        weights: The names by which TensorRT has the weights.
    """

    graph: torch.fx.GraphModule
    bindings: dict[str, Binding]
    profiles: dict[str, list[tuple[Shape, Shape, Shape]]]
    outputs: Sequence[OutputSource] | None = None
    weights: Sequence[str] = ()

    @classmethod
    def of_interpreter(cls, interpreter: Any, writers: Sequence[str]) -> Reference:
        """Of a TRTInterpreter whose network has just been constructed.

        Args:
            interpreter: The interpreter.
            writers: For each of `interpreter.ctx.aliased_outputs`, the name of the node that it came from.
        """
        network = interpreter.ctx.net
        tensors = [(True, network.get_input(i)) for i in range(network.num_inputs)]
        tensors += [(False, network.get_output(i)) for i in range(network.num_outputs)]
        aliases = getattr(interpreter, "_aliased_io", {}).items()  # since 2.14
        written = {output: name for output, (name, kind) in aliases if kind == "kv_cache_update"}
        bindings = {
            t.name: Binding(is_input, t.dtype.name, tuple(t.shape), written.get(t.name)) for is_input, t in tensors
        }
        specs = zip(interpreter._input_names, interpreter.input_specs, strict=False)  # what is bound counts
        profiles = {name: _profiles(interpreter, s) for name, s in specs}
        outputs = _output_sources(interpreter, writers)
        graph = _returning(private_copy(interpreter.module), outputs)
        return cls(graph, bindings, profiles, outputs, [*interpreter.ctx.weight_refit_map])

    def with_weights_of(self, graph: torch.fx.GraphModule) -> Reference | None:
        """The same network with the weights (and constants) of `graph`, as a refit makes it. None: it is another network."""
        new = private_copy(graph)
        if _structure(new) != _structure(self.graph):
            return None
        return dataclasses.replace(self, graph=_returning(new, self.outputs))

    def run(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The outputs for `inputs`, both in the order of the network.

        No mode of the program reaches inside, and no operator in here is recorded: an engine is one opaque call.
        """
        with _opaque():
            return self._run(inputs)

    def output_shapes(
        self, inputs: Sequence[tuple[Shape, torch.dtype]], numbers: Mapping[int, int | float]
    ) -> list[Shape]:
        """The shapes of the outputs for inputs of these shapes, without computing them.

        Args:
            inputs: The shape and the type of each input, in the order of the network.
            numbers: The values of those inputs that the graph takes as numbers, by position (`number_inputs`): shapes
                depend on them.
        """
        with _opaque(), FakeTensorMode(allow_non_fake_inputs=True):
            tensors = [torch.empty(shape, dtype=dtype) for shape, dtype in inputs]
            outputs = self._call([numbers.get(index, tensor) for index, tensor in enumerate(tensors)])
        return [tuple(int(size) for size in output.shape) for output in outputs]

    def number_inputs(self) -> list[int]:
        """Positions of the inputs that the graph takes as numbers: sizes that `torch.compile` found to vary."""
        return [index for index, placeholder in enumerate(self._placeholders()) if _is_number(placeholder)]

    def weights_digest(self) -> bytes:
        digest = hashlib.sha256()
        for _, _, tensor in _tensors(self.graph):
            data = tensor.detach().cpu().contiguous()
            digest.update(data.reshape(-1).view(torch.uint8).numpy().tobytes())
        return digest.digest()

    def _run(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        pairs = zip(self._placeholders(), inputs, strict=True)
        return self._call([value.item() if _is_number(placeholder) else value for placeholder, value in pairs])

    def _placeholders(self) -> list[torch.fx.Node]:
        return [node for node in self.graph.graph.nodes if node.op == "placeholder"]

    def _call(self, arguments: Sequence[Any]) -> list[torch.Tensor]:
        outputs = self.graph(*arguments)
        return [torch.as_tensor(o) for o in (outputs if isinstance(outputs, (tuple, list)) else [outputs])]


@contextmanager
def _opaque() -> Iterator[None]:
    with (
        _disable_current_modes(),
        torch._C.DisableTorchFunction(),
        torch.no_grad(),
        torch.autocast("cpu", enabled=False),
    ):
        torch.autograd._enable_record_function(False)  # this thread's only
        try:
            yield
        finally:
            torch.autograd._enable_record_function(True)


def _is_number(placeholder: torch.fx.Node) -> bool:
    """TensorRT takes numbers as tensors; the graph takes them as numbers, or gives them to an operator that does."""
    if isinstance(placeholder.meta.get("val"), (torch.SymInt, int, torch.SymFloat, float)):
        return True
    return any(_wants_number(user, placeholder) for user in placeholder.users)


def _wants_number(user: torch.fx.Node, value: torch.fx.Node) -> bool:
    """Whether an operator takes `value` where its schema has a number, as `aten.arange` takes its end."""
    schema = getattr(user.target, "_schema", None)
    arguments = zip(user.args, schema.arguments if schema is not None else (), strict=False)
    return any(operand is value and argument.type.kind() in _NUMBERS for operand, argument in arguments)


_NUMBERS = {"NumberType", "IntType", "FloatType", "SymIntType"}


def _profiles(interpreter: Any, spec: Any) -> list[tuple[Shape, Shape, Shape]]:
    if not isinstance(spec.shape, dict):
        shape = tuple(spec.shape)
        return [(shape, shape, shape)]
    if hasattr(interpreter, "_per_profile_shapes"):  # since 2.14 there may be several
        return [(tuple(low), tuple(opt), tuple(high)) for low, opt, high in interpreter._per_profile_shapes(spec)]
    return [(tuple(spec.shape["min_shape"]), tuple(spec.shape["opt_shape"]), tuple(spec.shape["max_shape"]))]


def _output_sources(interpreter: Any, writers: Sequence[str]) -> Sequence[OutputSource] | None:
    """One source for each output of the network. None where their names do not tell: of another version.

    The network has an output less where the graph returns a tensor twice, and one more for each write to an input that
    the graph does not return. torch_tensorrt names each output by its position, before it leaves any out.
    """
    graph_outputs = range(len(_outputs(interpreter.module.graph)))
    aliased = getattr(interpreter.ctx, "aliased_outputs", ())  # since 2.14; their tensors now have the output's name
    written = {entry.output_tensor.name: writer for entry, writer in zip(aliased, writers, strict=True)}
    names = getattr(interpreter, "_user_output_binding_names", None) or [f"output{i}" for i in graph_outputs]
    positions = dict(zip(names, graph_outputs, strict=False))
    sources = [positions.get(name, written.get(name)) for name in interpreter._output_names]
    return None if None in sources else [source for source in sources if source is not None]


def _outputs(graph: torch.fx.Graph) -> Sequence[Any]:
    returned = graph.output_node().args[0]
    return returned if isinstance(returned, (tuple, list)) else [returned]


def _returning(module: torch.fx.GraphModule, sources: Sequence[OutputSource] | None) -> torch.fx.GraphModule:
    """`module`, returning these instead. Raises KeyError if it lacks one of the nodes."""
    returned = _outputs(module.graph)
    if sources is not None and sources != list(range(len(returned))):
        nodes = {node.name: node for node in module.graph.nodes}
        outputs = tuple(returned[source] if isinstance(source, int) else nodes[source] for source in sources)
        module.graph.output_node().args = (outputs,)
        module.recompile()
    return module


def private_copy(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A GraphModule with its own graph and its own weights: an engine keeps what it was built with.

    Of its nodes' metadata there is only what `_is_number` asks for: symbols carry their ShapeEnv, which cannot be pickled.
    """
    copied_graph = copy.deepcopy(module.graph)
    # An engine's bindings are flat, whatever the arguments of the program are.
    copied_graph.set_codegen(torch.fx.graph.CodeGen())
    graph = torch.fx.GraphModule(module, copied_graph)
    for node in graph.graph.nodes:
        node.meta = {"val": 0} if node.op == "placeholder" and _is_number(node) else {}
    copies: dict[int, torch.Tensor] = {}  # a tensor of two names stays one
    with _disable_current_modes():  # torch.compile's backend is called in a fake mode, which would clone fakes
        for owner, name, tensor in _tensors(graph):
            copied = copies.setdefault(id(tensor), tensor.detach().clone())
            owner._parameters.pop(name, None)
            owner._buffers.pop(name, None)
            owner.__dict__.pop(name, None)
            owner.register_buffer(name, copied)
    return graph


def _structure(graph: torch.fx.GraphModule) -> tuple[Any, ...]:
    """What a refit leaves as it is: the operators, and the types and sizes of weights."""
    operators = collections.Counter(str(node.target) for node in graph.graph.nodes if node.op.startswith("call"))
    return operators, [(tensor.shape, tensor.dtype) for _, _, tensor in _tensors(graph)]


def _tensors(graph: torch.fx.GraphModule) -> Iterator[tuple[torch.nn.Module, str, torch.Tensor]]:
    """Owner, name and value of each tensor that the graph reads by name, each once."""
    for target in dict.fromkeys(node.target for node in graph.graph.nodes if node.op == "get_attr"):
        path, _, name = str(target).rpartition(".")
        owner = graph.get_submodule(path)
        value = getattr(owner, name)
        if isinstance(value, torch.Tensor):
            yield owner, name, value
