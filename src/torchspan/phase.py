# SPDX-License-Identifier: Apache-2.0
"""The shared vocabulary: which kinds of work are observed.

A phase is a row. Its name is the name of the span that shows it and is part of torchspan's contract:
fixed, prefixed by the library whose word it is. Where `has_target` is set, the name is followed by a
*bounded* target (a lowering pass, a build phase of TensorRT), never by a model, subgraph, shape or path.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Phase:
    """One kind of work.

    name: what a user sees; also the key under which callbacks select the phase.
    brief: one sentence for the generated documentation.
    keep: compile-class work: rare, long and worth keeping whatever the sampling rate, so that its spans
        carry `torchspan.keep`.
    collapses: work of this phase nested inside itself is one piece of work (`torch_tensorrt.compile` calls
        `torch_tensorrt.dynamo.compile`), so the inner call adds its facts to the outer one.
    has_target: the name is followed by a bounded target.
    is_long: may take minutes, so that it is told from outside while it runs.
    room: the share of a trace's spans after which work of this phase has none of its own and is counted in the
        work around it; details stop first, so that they use up no room of what matters more.
    """

    name: str
    brief: str
    keep: bool = True
    collapses: bool = False
    has_target: bool = False
    is_long: bool = False
    room: float = 1.0

    @property
    def short(self) -> str:
        """The last part of the name: `build_engine` of `tensorrt.build_engine`."""
        return self.name.rpartition(".")[2]


_DETAIL, _INSIDE, _BUILD = 0.5, 0.7, 0.95
"""Room of details, of what is inside a conversion, and of the engine build: then an engine has its `convert` alone."""

COMPILE = Phase(
    "torch_tensorrt.compile",
    "One compilation, from the entry point the user called to the compiled module.",
    collapses=True,
    is_long=True,
)
CONVERT_TO_ENGINE = Phase(
    "torch_tensorrt.convert_to_engine",
    "A whole model on its way to the bytes of one TensorRT engine, without a module around it.",
    collapses=True,
    is_long=True,
)
REFIT = Phase(
    "torch_tensorrt.refit",
    "New weights for the engines of a compiled module, without building them again.",
    collapses=True,
    is_long=True,
)
SAVE = Phase("torch_tensorrt.save", "Writing a compiled module to a file.", collapses=True)
LOAD = Phase("torch_tensorrt.load", "Reading a compiled module from a file, its engines included.", collapses=True)
TRACE = Phase("torch_tensorrt.trace", "`torch_tensorrt.dynamo.trace`: from a module to an exported program.")
EXPORT = Phase("torch.export", "`torch.export.export`, by Torch-TensorRT or by the program itself.")
LOWER_PRE_EXPORT = Phase("torch_tensorrt.lower.pre_export", "Lowering passes that run before decomposition.")
DECOMPOSE = Phase("torch_tensorrt.decompose", "Decomposition of the graph into the operators that converters know.")
LOWER = Phase("torch_tensorrt.lower", "Lowering passes that run after decomposition.")
PASS = Phase("torch_tensorrt.pass", "One lowering pass (at detail `passes`).", has_target=True, room=_DETAIL)
PARTITION = Phase("torch_tensorrt.partition", "Splitting the graph into what runs in TensorRT and what in PyTorch.")
CONVERT = Phase(
    "torch_tensorrt.convert",
    "One subgraph on its way to one TensorRT engine.",
    collapses=True,
)
CACHE_LOOKUP = Phase(
    "torch_tensorrt.engine_cache.lookup", "A look into the engine cache, a refit after a hit included.", room=_INSIDE
)
CACHE_INSERT = Phase("torch_tensorrt.engine_cache.insert", "Putting a new engine into the engine cache.", room=_INSIDE)
PARSE = Phase("tensorrt.parse", "TensorRT's parser reading an ONNX model into a network.")
CONSTRUCT_NETWORK = Phase(
    "torch_tensorrt.construct_network",
    "Running the converters: from the subgraph to TensorRT's network.",
    room=_INSIDE,
)
BUILD_ENGINE = Phase("tensorrt.build_engine", "TensorRT's builder at work on one network.", is_long=True, room=_BUILD)
BUILD_PHASE = Phase(
    "tensorrt.phase", "One of the phases that TensorRT's progress monitor reports.", has_target=True, room=_DETAIL
)
DESERIALIZE_ENGINE = Phase("tensorrt.deserialize_engine", "TensorRT reading a serialized engine.", room=_INSIDE)
CREATE_CONTEXT = Phase(
    "tensorrt.create_context", "Making an execution context of an engine, its device memory included."
)
SETUP_ENGINE = Phase("torch_tensorrt.setup_engine", "Making a serialized engine ready to run.", room=_INSIDE)
EXECUTE = Phase(
    "torch_tensorrt.execute", "One run of one engine, as the host sees it (the device works on).", keep=False
)
RUN_CONTEXT = Phase(
    "tensorrt.execute",
    "One run of an execution context that the program itself uses, as the host sees it (the device works on).",
    keep=False,
)
OBSERVED = Phase(
    "torchspan.observed",
    "One call of a function decorated with `@observable`, torchspan's or Torch-TensorRT's, or wrapped by `observe_function`; "
    "the target is the function.",
    keep=False,
    has_target=True,
    room=_DETAIL,
)
PROGRESS = Phase(
    "torchspan.progress",
    "Told at the start of work that may take minutes and at each heartbeat (`TORCHSPAN_HEARTBEAT`), and exported at once: "
    "what is running, and for how long. Its parent is the span of that work, which arrives when the work ends.",
)

ENTRIES: tuple[Phase, ...] = (COMPILE, CONVERT_TO_ENGINE, REFIT, SAVE, LOAD)
"""What a program calls itself: each says which entry point it was, and under which versions."""

LOWERING: tuple[Phase, ...] = (COMPILE, CONVERT_TO_ENGINE, REFIT)
"""What lowers a graph."""

PHASES: tuple[Phase, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Phase))
"""Every phase, in the order of a compilation."""

"""Tally key under which the engine leaves, for the event around it, the class of the last exception a child raised."""
