# SPDX-License-Identifier: Apache-2.0
"""The kinds of work that torchspan observes. Its public face is `torchspan.phase`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple


class Folded(NamedTuple):
    """Keys of the attributes that count work of one phase that has no spans. The span around that work carries them.

    Attributes:
        number: The key for the number of times that the work ran.
        duration_sum: The key for its total duration in seconds.
        duration_max: The key for the longest duration in seconds.
    """

    number: str
    duration_sum: str
    duration_max: str

    @classmethod
    def below(cls, namespace: str) -> Folded:
        """Make the keys `<namespace>.folded.count`, `.folded.duration.sum` and `.folded.duration.max`.

        Args:
            namespace: The prefix of the keys.

        Returns:
            The keys.
        """
        return cls(*(f"{namespace}.folded.{suffix}" for suffix in ("count", "duration.sum", "duration.max")))


@dataclass(frozen=True, slots=True, eq=False)
class Phase:
    """One kind of work, which callbacks select as a scope.

    Attributes:
        name: The name of the phase's spans.
        brief: A description, for the generated documentation.
        keep: Whether the work is rare and long, and worth keeping at any sampling rate. Its spans carry
            `torchspan.keep`.
        collapses: Whether nested work of this phase is one event. For example, `torch_tensorrt.compile` calls
            `torch_tensorrt.dynamo.compile`, whose attributes are added to the outer span.
        has_target: Whether a target from a bounded set follows the name in the span's name.
        is_long: Whether the work may take minutes, so that torchspan emits `torchspan.progress` spans while it runs.
            Such work starts threads and processes, so that the processor time of the whole process is measured.
        room: The share of a trace's span budget that work of this phase may use, from 0 to 1. Once this share is used
            up, such work gets no span and is counted on the span around it. Details have a smaller share, which leaves
            the rest of the budget to more important spans.
        folded: The keys under which the span around the work counts it if a rate limit left it without a span.
        stable: The name of the spans and what they stand for do not change: see docs/reference/stability.md. Otherwise
            they are in development.
    """

    name: str
    brief: str
    keep: bool = True
    collapses: bool = False
    has_target: bool = False
    is_long: bool = False
    room: float = 1.0
    folded: Folded | None = None
    stable: bool = False

    def __reduce__(self) -> Any:
        """A copy, also in another process, is the phase itself: phases are compared by identity."""
        return (_named, (self.name,)) if self in SPANS else super().__reduce__()

    @property
    def short(self) -> str:
        """The last part of the name, such as `build_engine` of `tensorrt.build_engine`."""
        return self.name.rpartition(".")[2]


_DETAIL, _INSIDE, _BUILD = 0.5, 0.7, 0.95
"""Shares of the budget for details, for the parts of a conversion, and for engine builds. `convert` has all of it."""

COMPILE_FRAME = Phase(
    "torch.compile_frame",
    "One frame that `torch.compile` compiles or gives up on: a function of the program, or the rest of a function "
    "after a graph break. The backend's work lies below this span.",
    is_long=True,
    stable=True,
)
COMPILE_BACKWARD = Phase(
    "torch.compile_backward",
    "The compilation of one backward graph of `torch.compile`, when the graph first runs. The span has a link to the "
    "span of the forward frame.",
    is_long=True,
    stable=True,
)
COMPILE_PHASE = Phase(
    "torch.compile_phase",
    "One phase of Dynamo, AOTAutograd or Inductor; the target is PyTorch's own name for the phase. A phase shorter "
    "than 1 ms is recorded as a step of the span around it.",
    has_target=True,
    room=_DETAIL,
)
COMPILE_WAIT = Phase(
    "torch.compile_wait",
    "A thread's wait for another thread's compilation: Dynamo compiles in one thread at a time. A wait of less than "
    "1 ms has no span. The span has links to the compilations that ran meanwhile.",
    stable=True,
)
COMPILE_WORKER = Phase(
    "torch.compile_worker",
    "Work that a compilation leaves to one of Inductor's threads or processes. For a process, the span lasts from the "
    "submission of the work to its result.",
    room=_INSIDE,
    stable=True,
)
RUN_GRAPH = Phase(
    "torch.run_graph",
    "One run of a graph that `torch.compile` compiled, as the host sees it, with a link to the span of the frame. "
    "Emitted only with `TORCHSPAN_GRAPH_RUNS`.",
    keep=False,
    room=_DETAIL,
    folded=Folded.below("torch.run_graph"),
    stable=True,
)
COMPILE = Phase(
    "torch_tensorrt.compile",
    "One compilation by Torch-TensorRT, from the entry point that the user called to the compiled module.",
    collapses=True,
    is_long=True,
    stable=True,
)
CONVERT_TO_ENGINE = Phase(
    "torch_tensorrt.convert_to_engine",
    "The conversion of a whole model to the bytes of one TensorRT engine, without a compiled module around it.",
    collapses=True,
    is_long=True,
    stable=True,
)
REFIT = Phase(
    "torch_tensorrt.refit",
    "The replacement of the weights in the engines of a compiled module, without building the engines again.",
    collapses=True,
    is_long=True,
)
SAVE = Phase("torch_tensorrt.save", "Writing a compiled module to a file.", collapses=True)
LOAD = Phase("torch_tensorrt.load", "Reading a compiled module from a file, including its engines.", collapses=True)
TRACE = Phase("torch_tensorrt.trace", "`torch_tensorrt.dynamo.trace`, which makes an exported program from a module.")
EXPORT = Phase(
    "torch.export",
    "`torch.export.export`, called by Torch-TensorRT or by the program itself.",
    collapses=True,
    stable=True,
)
EXPORT_CAPTURE = Phase(
    "torch.export.capture",
    "Dynamo's capture of the module's Python code as a graph of PyTorch functions: the first half of a strict export. "
    "A non-strict export has no such span.",
)
EXPORT_TRACE = Phase(
    "torch.export.trace",
    "Tracing to ATen operators. A non-strict export traces the module itself, which runs with tensors that contain no "
    "data; a strict export traces the graph that Dynamo captured.",
)
EXPORT_DECOMPOSE = Phase(
    "torch.export.decompose",
    "`ExportedProgram.run_decompositions`, called by the program itself. Inside a compilation by Torch-TensorRT, the "
    "span is `torch_tensorrt.decompose` instead.",
)
LOWER_PRE_EXPORT = Phase("torch_tensorrt.lower.pre_export", "Lowering passes that run before decomposition.")
DECOMPOSE = Phase("torch_tensorrt.decompose", "The decomposition of the graph into operators that converters know.")
LOWER = Phase("torch_tensorrt.lower", "Lowering passes that run after decomposition.", stable=True)
PASS = Phase(
    "torch_tensorrt.pass",
    "One lowering pass. It is a span only at detail `passes`; callbacks and observers receive it at every detail.",
    has_target=True,
    room=_DETAIL,
)
PARTITION = Phase(
    "torch_tensorrt.partition",
    "The partitioning of the graph into the parts that run in TensorRT and the parts that run in PyTorch.",
    stable=True,
)
CONVERT = Phase(
    "torch_tensorrt.convert",
    "The conversion of one subgraph to one TensorRT engine.",
    collapses=True,
    stable=True,
)
CACHE_LOOKUP = Phase(
    "torch_tensorrt.engine_cache.lookup",
    "An engine-cache lookup, including the refit after a hit.",
    room=_INSIDE,
    stable=True,
)
CACHE_INSERT = Phase(
    "torch_tensorrt.engine_cache.insert", "The insertion of a new engine into the engine cache.", room=_INSIDE
)
PARSE = Phase("tensorrt.parse", "The parsing of an ONNX model into a network by TensorRT's parser.")
CONSTRUCT_NETWORK = Phase(
    "torch_tensorrt.construct_network",
    "The construction of a TensorRT network from a subgraph, in which the converters run.",
    room=_INSIDE,
)
BUILD_ENGINE = Phase(
    "tensorrt.build_engine", "The build of one network by TensorRT's builder.", is_long=True, room=_BUILD, stable=True
)
BUILD_PHASE = Phase(
    "tensorrt.build_phase",
    "One phase of a build, as TensorRT's progress monitor reports it; the target is TensorRT's name of the phase. "
    "Emitted only if `TORCHSPAN_BUILD_PHASES` enables build phases.",
    has_target=True,
    room=_DETAIL,
)
DESERIALIZE_ENGINE = Phase("tensorrt.deserialize_engine", "The deserialization of an engine by TensorRT.", room=_INSIDE)
CREATE_CONTEXT = Phase(
    "tensorrt.create_context", "The creation of an execution context of an engine, including its device memory."
)
SETUP_ENGINE = Phase(
    "torch_tensorrt.setup_engine", "The preparation of a serialized engine for its runs.", room=_INSIDE
)
EXECUTE = Phase(
    "torch_tensorrt.execute",
    "One run of one engine through Torch-TensorRT, as the host sees it: the device may still be working when the span "
    "ends.",
    keep=False,
    folded=Folded.below("torch_tensorrt.execute"),
    stable=True,
)
RUN_CONTEXT = Phase(
    "tensorrt.execute",
    "One run of an execution context that the program itself uses, as the host sees it: the device may still be "
    "working when the span ends.",
    keep=False,
    folded=Folded.below("tensorrt.execute"),
    stable=True,
)
OBSERVED = Phase(
    "torchspan.observed",
    "One call of a function that is decorated with `@observable`, torchspan's or Torch-TensorRT's, or wrapped by "
    "`observe_function`; the target is the function.",
    keep=False,
    has_target=True,
    room=_DETAIL,
    folded=Folded.below("torchspan.observed"),
)
BATCH = Phase(
    "torchspan.batch",
    "Work for several requests at once, in `with torchspan.batch(requests)`. A child of the first sampled request, "
    "with links to all sampled requests. Not emitted if no request is sampled.",
    keep=False,
)
OPERATORS = Phase(
    "torchspan.operators",
    "A block `with torchspan.operators()`, or one call of a function that is decorated with it. PyTorch's operators "
    "that run in it are recorded.",
    keep=False,
    room=_DETAIL,
)
IMPORT = Phase(
    "torchspan.import",
    "The first import of torch, Torch-TensorRT or TensorRT, if torchspan was instrumented before it; and imports of "
    "modules of `torch._dynamo`, `torch._inductor`, `triton`, `torch_tensorrt` or `transformers` that take 100 ms or "
    "more. It is emitted afterwards, with the times of the import: at once if the program has a tracer provider, "
    "otherwise when the next span begins, or at the end of the process. A process that imports only torch has no such "
    "span, unless that import fails.",
)
PROGRESS = Phase(
    "torchspan.progress",
    "A heartbeat (`TORCHSPAN_HEARTBEAT`) of work that may take minutes: what is running, and for how long. Its parent "
    "is the span of that work, which is exported only when the work ends. In torchspan's own files, one more such "
    "span, of zero length, marks the start of work. A file of `torchspan_file` contains it for work that may take "
    "minutes; the file of `torchspan run` contains it for each span with `torchspan.keep` and for the first run of "
    "each engine.",
    stable=True,
)

ENTRIES: tuple[Phase, ...] = (COMPILE, CONVERT_TO_ENGINE, REFIT, SAVE, LOAD)
"""Entry points. Their spans record which one was called, and the versions of the libraries."""

COMPILATIONS: tuple[Phase, ...] = (COMPILE_FRAME, COMPILE_BACKWARD, COMPILE)
"""Compilations for which a request may wait, by `torch.compile` and by Torch-TensorRT."""

LOWERING: tuple[Phase, ...] = (COMPILE, CONVERT_TO_ENGINE, REFIT)
"""Work that lowers a graph."""

CONVERSIONS: tuple[Phase, ...] = (CONVERT, CONVERT_TO_ENGINE)
"""Work that makes one engine."""

RUNS: tuple[Phase, ...] = (EXECUTE, RUN_CONTEXT)
"""Runs of engines, thousands of times a second. Metrics count each run; few runs are spans."""

ROOTS: tuple[Phase, ...] = (RUN_GRAPH, EXECUTE, RUN_CONTEXT, OBSERVED, OPERATORS)
"""Work below which PyTorch's operators are recorded, where `TORCHSPAN_OPERATORS` or the program asks for it."""

NOTICED_LATE: tuple[Phase, ...] = (COMPILE_WAIT, IMPORT, PROGRESS)
"""Phases whose events are not opened when the work starts, so that their time on the processor is not measured."""

BUILDS: tuple[Phase, ...] = (COMPILE, CONVERT_TO_ENGINE, REFIT, BUILD_ENGINE)
"""Work that results in TensorRT engines."""

PLAIN: tuple[Phase, ...] = (PARSE, BUILD_ENGINE, DESERIALIZE_ENGINE, CREATE_CONTEXT, RUN_CONTEXT)
"""Work that programs do with TensorRT directly. Without a span around it, its span records the versions."""

PHASES: tuple[Phase, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Phase))
"""Every phase, in the order of a compilation."""

# No assignment: for type checkers and for the site, every name without an underscore is then public.
globals()["__all__"] = [
    name
    for name, value in sorted(globals().items())
    if isinstance(value, Phase) or name in {"PHASES", "Folded", "Phase"}
]

RUN = Phase(
    "torchspan.run",
    "One program under `torchspan run`, from before its start to after its end. `torchspan run` itself writes the "
    "span, as a child of the caller's `TRACEPARENT`. If the program has no tracer provider of its own, this span is "
    "the parent of the program's root spans until the program serves its first request.",
    keep=False,
)
"""Not work of the program: neither callbacks nor observers receive it."""

OPERATOR = Phase(
    "torch.operator",
    "One operator of PyTorch, one function of autograd or TorchScript, or one of PyTorch's own ranges, below a span "
    "for which operators are recorded (`TORCHSPAN_OPERATORS`); the target is the operator.",
    keep=False,
    has_target=True,
)
"""Recorded by callbacks in C++: neither callbacks nor observers of torchspan receive it."""

DOCTOR = Phase("torchspan.doctor", "The test trace of `torchspan doctor --send`: the only span of its trace.")
"""Not work of the program: neither callbacks nor observers receive it."""

SPANS: tuple[Phase, ...] = (*PHASES, RUN, OPERATOR, DOCTOR)
"""Every kind of span."""


def _named(name: str) -> Phase:
    return next(phase for phase in SPANS if phase.name == name)
