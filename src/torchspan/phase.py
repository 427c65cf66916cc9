# SPDX-License-Identifier: Apache-2.0
"""The kinds of work that torchspan observes.

The name of a phase is the name of its spans. It does not change between versions, and it starts with the name of the
library that does the work. Where `has_target` is set, a target follows the name. Targets come from a bounded set:
lowering passes, build phases of TensorRT. They are never models, subgraphs, shapes or paths.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

__all__ = [
    "BATCH",
    "BUILD_ENGINE",
    "BUILD_PHASE",
    "CACHE_INSERT",
    "CACHE_LOOKUP",
    "COMPILE",
    "COMPILE_BACKWARD",
    "COMPILE_FRAME",
    "COMPILE_PHASE",
    "COMPILE_WAIT",
    "COMPILE_WORKER",
    "CONSTRUCT_NETWORK",
    "CONVERT",
    "CONVERT_TO_ENGINE",
    "CREATE_CONTEXT",
    "DECOMPOSE",
    "DESERIALIZE_ENGINE",
    "EXECUTE",
    "EXPORT",
    "EXPORT_CAPTURE",
    "EXPORT_DECOMPOSE",
    "EXPORT_TRACE",
    "IMPORT",
    "LOAD",
    "LOWER",
    "LOWER_PRE_EXPORT",
    "OBSERVED",
    "PARSE",
    "PARTITION",
    "PASS",
    "PHASES",
    "PROGRESS",
    "REFIT",
    "RUN_CONTEXT",
    "RUN_DISABLED",
    "RUN_GRAPH",
    "SAVE",
    "SETUP_ENGINE",
    "TRACE",
    "Folded",
    "Phase",
]


class Folded(NamedTuple):
    """Keys of the attributes that count work of one phase without spans. The span around that work carries them.

    Attributes:
        number: The key of how often the work ran.
        duration_sum: The key of how many seconds it took in all.
        duration_max: The key of how many seconds the longest took.
    """

    number: str
    duration_sum: str
    duration_max: str

    @classmethod
    def below(cls, namespace: str) -> Folded:
        """Make the keys `<namespace>.folded.count`, `.folded.duration.sum` and `.folded.duration.max`.

        Args:
            namespace: What the keys begin with.

        Returns:
            The keys.
        """
        return cls(*(f"{namespace}.folded.{each}" for each in ("count", "duration.sum", "duration.max")))


@dataclass(frozen=True, slots=True)
class Phase:
    """One kind of work, which callbacks select as a scope.

    Attributes:
        name: The name of the phase's spans.
        brief: A description, for the generated documentation.
        keep: Whether the work is rare and long, and worth keeping at any sampling rate. Its spans carry
            `torchspan.keep`.
        collapses: Whether work of this phase inside work of this phase is one event: `torch_tensorrt.compile` calls
            `torch_tensorrt.dynamo.compile`, whose attributes are added to the outer span.
        has_target: Whether a target from a bounded set follows the name in the span's name.
        is_long: Whether the work may take minutes, so that torchspan emits `torchspan.progress` spans while it runs.
        room: The share of a trace's span budget, 0 to 1, from which on work of this phase gets no span and is counted
            on the span around it. Details have a smaller share, which leaves the budget to more important spans.
        folded: The keys under which the span around it counts work of this phase that a rate limit left without a span.
    """

    name: str
    brief: str
    keep: bool = True
    collapses: bool = False
    has_target: bool = False
    is_long: bool = False
    room: float = 1.0
    folded: Folded | None = None

    @property
    def short(self) -> str:
        """The last part of the name, such as `build_engine` of `tensorrt.build_engine`."""
        return self.name.rpartition(".")[2]


_DETAIL, _INSIDE, _BUILD = 0.5, 0.7, 0.95
"""Shares of the budget for details, for the parts of a conversion, and for engine builds. `convert` has all of it."""

COMPILE_FRAME = Phase(
    "torch.compile_frame",
    "One frame that `torch.compile` compiles, or gives up on: a function of the program, or what is left of it after a "
    "graph break. The backend's work lies below it.",
    is_long=True,
)
COMPILE_BACKWARD = Phase(
    "torch.compile_backward",
    "A backward graph of `torch.compile`, compiled when it first runs, with a link to the span of its forward frame.",
    is_long=True,
)
COMPILE_PHASE = Phase(
    "torch.compile_phase",
    "One phase of Dynamo, AOTAutograd or Inductor; the target is PyTorch's own name of it. A phase of less than 1 ms "
    "is a step of the span around it.",
    has_target=True,
    room=_DETAIL,
)
COMPILE_WAIT = Phase(
    "torch.compile_wait",
    "A thread waiting until another one has compiled: Dynamo compiles in one thread at a time. It is emitted when it "
    "ends, where it took at least 1 ms, with links to what was compiled meanwhile.",
)
COMPILE_WORKER = Phase(
    "torch.compile_worker",
    "Work of a compilation in one of Inductor's threads, or in one of its processes: there from the submission to the "
    "result.",
    room=_INSIDE,
)
RUN_GRAPH = Phase(
    "torch.run_graph",
    "One run of a graph that `torch.compile` has compiled, as the host sees it, with a link to the span of its frame. "
    "With `TORCHSPAN_GRAPH_RUNS` alone.",
    keep=False,
    room=_DETAIL,
    folded=Folded.below("torch.run_graph"),
)
RUN_DISABLED = Phase(
    "torch.run_disabled",
    "One call of a function that `torch.compiler.disable` leaves to Python. With `TORCHSPAN_DISABLED_CALLS` alone.",
    keep=False,
    room=_DETAIL,
    folded=Folded.below("torch.run_disabled"),
)
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
EXPORT = Phase(
    "torch.export",
    "`torch.export.export`, by Torch-TensorRT or by the program itself. `torch.export.draft_export`, which exports up "
    "to two times, is one span.",
    collapses=True,
)
EXPORT_CAPTURE = Phase(
    "torch.export.capture",
    "Dynamo reading the module's Python into a graph of PyTorch's functions: the first half of a strict export. "
    "A non-strict export has none.",
)
EXPORT_TRACE = Phase(
    "torch.export.trace",
    "Tracing to operators of ATen: of a non-strict export the module itself, which runs with tensors that hold no "
    "data; of a strict one the graph that Dynamo captured.",
)
EXPORT_DECOMPOSE = Phase(
    "torch.export.decompose",
    "`ExportedProgram.run_decompositions`, called by the program itself. Inside a compilation of Torch-TensorRT it is "
    "`torch_tensorrt.decompose`.",
)
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
    "torch_tensorrt.engine_cache.lookup", "An engine-cache lookup, a refit after a hit included.", room=_INSIDE
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
    "tensorrt.build_phase", "One of the phases that TensorRT's progress monitor reports.", has_target=True, room=_DETAIL
)
DESERIALIZE_ENGINE = Phase("tensorrt.deserialize_engine", "TensorRT reading a serialized engine.", room=_INSIDE)
CREATE_CONTEXT = Phase(
    "tensorrt.create_context", "Making an execution context of an engine, its device memory included."
)
SETUP_ENGINE = Phase("torch_tensorrt.setup_engine", "Making a serialized engine ready to run.", room=_INSIDE)
EXECUTE = Phase(
    "torch_tensorrt.execute",
    "One run of one engine, as the host sees it (the device may still be working).",
    keep=False,
    folded=Folded.below("torch_tensorrt.execute"),
)
RUN_CONTEXT = Phase(
    "tensorrt.execute",
    "One run of an execution context that the program itself uses, as the host sees it (the device may still be "
    "working).",
    keep=False,
    folded=Folded.below("tensorrt.execute"),
)
OBSERVED = Phase(
    "torchspan.observed",
    "One call of a function decorated with `@observable`, torchspan's or Torch-TensorRT's, or wrapped by "
    "`observe_function`; the target is the function.",
    keep=False,
    has_target=True,
    room=_DETAIL,
    folded=Folded.below("torchspan.observed"),
)
BATCH = Phase(
    "torchspan.batch",
    "Work for several requests at once, in `with torchspan.batch(requests)`: a child of the first sampled "
    "request, with links to all sampled requests. There is no span where no request is sampled.",
    keep=False,
)
IMPORT = Phase(
    "torchspan.import",
    "The first import of torch, Torch-TensorRT or TensorRT, where torchspan was instrumented before it. It is emitted "
    "after it ended, with its own times: once the program has a tracer provider, at the latest before torchspan's next "
    "span or at the end of the process. A process that imports torch alone has none, unless that import fails.",
)
PROGRESS = Phase(
    "torchspan.progress",
    "Emitted at each heartbeat (`TORCHSPAN_HEARTBEAT`) of work that may take minutes: what is running, and for how "
    "long. Its parent is the span of that work, which arrives when the work ends. torchspan's own files alone have one "
    "more, of no length, at the start: a file of `torchspan_file` for that work, the file of `torchspan run` for each "
    "span with `torchspan.keep` and for the first run of each engine.",
)

ENTRIES: tuple[Phase, ...] = (COMPILE, CONVERT_TO_ENGINE, REFIT, SAVE, LOAD)
"""Entry points: their spans say which one was called, and the versions of the libraries."""

LOWERING: tuple[Phase, ...] = (COMPILE, CONVERT_TO_ENGINE, REFIT)
"""Work that lowers a graph."""

DECOMPOSITIONS: tuple[Phase, ...] = (DECOMPOSE, EXPORT_DECOMPOSE)
"""Work that decomposes the operators of a graph."""

CONVERSIONS: tuple[Phase, ...] = (CONVERT, CONVERT_TO_ENGINE)
"""Work that makes one engine."""

RUNS: tuple[Phase, ...] = (EXECUTE, RUN_CONTEXT)
"""Runs of engines, thousands of times a second: each is in a metric, and few are spans."""

BUILDS: tuple[Phase, ...] = (COMPILE, CONVERT_TO_ENGINE, REFIT, BUILD_ENGINE)
"""Work that ends with engines of TensorRT."""

PLAIN: tuple[Phase, ...] = (PARSE, BUILD_ENGINE, DESERIALIZE_ENGINE, CREATE_CONTEXT, RUN_CONTEXT)
"""Work that programs do with TensorRT itself. With no span of torchspan around it, its span says the versions."""

PHASES: tuple[Phase, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Phase))
"""Every phase, in the order of a compilation."""

RUN = Phase(
    "torchspan.run",
    "One program under `torchspan run`, from before its start to after its end; written by `run` itself. A child of "
    "the caller's `TRACEPARENT`. Where the program has no tracer provider of its own, the parent of its traces' first "
    "spans, up to the first request that it serves.",
    keep=False,
)
"""No work of the program's: neither callbacks nor observers have it."""

DOCTOR = Phase("torchspan.doctor", "The test trace of `torchspan doctor --send`: one span, the only one of its trace.")
"""No work of the program's: neither callbacks nor observers have it."""

SPANS: tuple[Phase, ...] = (*PHASES, RUN, DOCTOR)
"""Every kind of span."""
