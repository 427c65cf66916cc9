# SPDX-License-Identifier: Apache-2.0
"""What a trace says, as data. Each finding has a sentence, and most have a remedy: what would change it."""

from __future__ import annotations

from dataclasses import dataclass, field

from torchspan.reading.answers.lines import Paragraph
from torchspan.reading.traces import Node


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One thing that a trace says.

    Attributes:
        sentence_pieces: The sentence in pieces.
        remedy_pieces: What would change it, in pieces; empty if nothing is known.
        details: Further paragraphs: the operator, the place, the arguments.
        joint: What stands between sentence and remedy.
    """

    sentence_pieces: Paragraph = field(repr=False)
    remedy_pieces: Paragraph = field(default=(), repr=False)
    details: tuple[Paragraph, ...] = field(default=(), repr=False)
    joint: str = field(default=";", repr=False)

    @property
    def sentence(self) -> str:
        """What happened."""
        return " ".join(self.sentence_pieces)

    @property
    def remedy(self) -> str:
        """What would change it; empty if nothing is known."""
        return " ".join(self.remedy_pieces)

    @property
    def paragraph(self) -> Paragraph:
        """Sentence and remedy."""
        if not self.remedy_pieces:
            return self.sentence_pieces
        *before, last = self.sentence_pieces
        return (*before, f"{last}{self.joint}", *self.remedy_pieces)


@dataclass(frozen=True, kw_only=True)
class Stage(Answer):
    """A stage of the work, with the time in which it ran and nothing inside it did.

    Attributes:
        name: The last part of the span's name, or its target: `decompose`, `Timing tactics`, `compile_file`.
        s: Seconds, summed over its calls.
        calls: How often it ran.
        in_workers: Whether it ran in compile workers, while other work waits for it.
    """

    name: str
    s: float
    calls: int
    in_workers: bool = False


@dataclass(frozen=True, kw_only=True)
class OperatorTime(Answer):
    """An operator of PyTorch that ran inside spans for which operators are recorded.

    Attributes:
        root: The name of these spans, such as `torch_tensorrt.execute`.
        name: The operator, with its overload; `(range of the program)` stands for all names that are not recorded.
        count: How often it ran, in all of these spans.
        s: Seconds in all, the operators inside it included.
        self_s: Seconds without the operators inside it.
        longest_s: Seconds of the longest run.
    """

    root: str
    name: str
    count: int
    s: float
    self_s: float
    longest_s: float


@dataclass(frozen=True, kw_only=True)
class GpuTime(Answer):
    """The runs of one engine or graph that have times on the device.

    Attributes:
        root: The name of their spans, such as `torch_tensorrt.execute`.
        name: The engine or graph; the name of the spans where that is not known.
        runs: How many runs have a time on the device.
        gpu_s: Seconds on the device, the median of these runs.
        host_s: Seconds of the spans of these runs, their median.
        still_running: How many of these runs ended on the host before the device had finished.
    """

    root: str
    name: str
    runs: int
    gpu_s: float
    host_s: float
    still_running: int


@dataclass(frozen=True, kw_only=True)
class LayerTime(Answer):
    """A layer of an engine that TensorRT timed.

    Attributes:
        engine: The engine.
        name: TensorRT's name of the layer.
        s: Seconds on the device, the median of the runs.
        share: Its share in the sum of all layers, from 0 to 1.
        runs: How many runs were timed.
    """

    engine: str
    name: str
    s: float
    share: float
    runs: int


@dataclass(frozen=True, kw_only=True)
class BuiltEngine(Answer):
    """A TensorRT engine that was built, or taken from the engine cache.

    Attributes:
        name: The name of the subgraph, such as `_run_on_acc_0`; empty where TensorRT is used alone.
        model: The class of the model; empty if unknown.
        modules: The first and the last module in it, in the order of execution; empty if unknown.
        s: Seconds of the conversion, or of the build where TensorRT is used alone.
        bytes: Its size; None if unknown.
        operators: Operators in it; None if unknown.
        cache: What the engine cache did: `hit`, `miss`, `disabled`; empty if unknown.
        node: The span of the conversion or the build; not part of the document.
    """

    name: str
    model: str
    modules: tuple[str, ...]
    s: float
    bytes: int | None
    operators: int | None
    cache: str
    node: Node = field(repr=False, compare=False)


@dataclass(frozen=True, kw_only=True)
class Frame(Answer):
    """A frame of torch.compile that was compiled, or that Dynamo gave up on.

    Attributes:
        function: The name of the function; of the rest of a function after a graph break, its name and the line.
        place: File and line of the function; empty if unknown.
        id: Dynamo's compile id, such as `0/1`.
        outcome: A value of `torch.compile.outcome`; empty if the frame did not end.
        s: Seconds.
        recompiled: The guard that failed; empty for a first compilation.
        node: The span of the frame; not part of the document.
    """

    function: str
    place: str
    id: str
    outcome: str
    s: float
    recompiled: str
    node: Node = field(repr=False, compare=False)


@dataclass(frozen=True, kw_only=True)
class Fallback(Answer):
    """An operator that runs in PyTorch instead of TensorRT, for one reason.

    Attributes:
        operator: Its name; empty if the reason concerns no operator.
        count: How many there are.
        reason: A value of `torch_tensorrt.fallback.reason.classes`.
        place: The first line of the model that it comes from; empty if unknown.
        places: How many such lines there are.
        is_of_stand_in: Whether the stand-in for the GPU is the reason.
    """

    operator: str
    count: int
    reason: str
    place: str
    places: int
    is_of_stand_in: bool


@dataclass(frozen=True, kw_only=True)
class CacheResult(Answer):
    """What a cache did, for one reason.

    Attributes:
        cache: `engine`, `aotautograd` or `inductor`.
        outcome: `hit`, `miss`, `bypass`, `disabled`, …
        reason: Why; empty where it needs none, or none is known.
        count: How often.
        saved_s: Seconds that the hits saved, as PyTorch reports them; None if unknown.
    """

    cache: str
    outcome: str
    reason: str
    count: int
    saved_s: float | None


@dataclass(frozen=True, kw_only=True)
class Recompile(Answer):
    """Compilations of functions again because of one guard.

    Attributes:
        functions: The functions.
        guard: What the guard concerns: a value of `torch.compile.recompile.class`; empty if unknown.
        count: How often.
        limit: The setting of `torch._dynamo.config` whose limit was reached, so that later calls run eagerly; empty otherwise.
        processes: `on rank 1`, or `in process 14300` where the rank is not known; empty if one process compiled everything.
    """

    functions: tuple[str, ...]
    guard: str
    count: int
    limit: str
    processes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Break(Answer):
    """A place at which Dynamo breaks a graph.

    Attributes:
        function: The function.
        place: File and line; empty if unknown.
        reason: A value of `torch.compile.graph_break.class`.
        count: How often.
        skips_frame: Whether all of the function runs eagerly because of it.
        type: PyTorch's name for this kind of graph break.
        explanation: PyTorch's explanation, one sentence; empty if it is not recorded.
        hint: PyTorch's first hint; empty if none is recorded.
    """

    function: str
    place: str
    reason: str
    count: int
    skips_frame: bool
    type: str
    explanation: str
    hint: str


@dataclass(frozen=True, kw_only=True)
class Failure(Answer):
    """An exception.

    Attributes:
        type: Its class.
        message: Its message; empty where it is not recorded.
        stage: What failed, such as `build_engine`.
        is_caught: Whether torch.compile caught it and runs the function eagerly.
        count: How often torch.compile caught it; 1 for an exception that it did not catch.
    """

    type: str
    message: str
    stage: str
    is_caught: bool
    count: int = 1


@dataclass(frozen=True, kw_only=True)
class Sizes(Answer):
    """Sizes of inputs that do not fit what an engine was built for.

    Attributes:
        is_outside: Whether the sizes lie outside of its range; otherwise they are usual, but not what it is optimized for.
    """

    is_outside: bool
