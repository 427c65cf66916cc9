# SPDX-License-Identifier: Apache-2.0
"""Frames, backward graphs and their phases as events, from the begin and end reports of Dynamo."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from types import CodeType, FrameType, MethodType
from typing import Any, NamedTuple, TypeVar

from torchspan.base import reading
from torchspan.base.by_identity import ByIdentity
from torchspan.base.files.user_folder import digests_key
from torchspan.base.reading import traceback_of
from torchspan.engine import (
    DETACHED,
    Anchor,
    Audience,
    Engine,
    Event,
    EventStack,
    Observed,
    Occurrence,
    Placement,
    ProcessorClock,
    Steps,
)
from torchspan.hooks.adapters.dynamo import recorded
from torchspan.hooks.adapters.dynamo.compile_lock import Waits
from torchspan.hooks.probes import GIVES, Call
from torchspan.hooks.probes.describe import (
    compilation,
    compile_caches,
    declarations,
    frames,
    open_sizes,
    place,
    recompiles,
)
from torchspan.hooks.probes.describe.compile_caches import Cache
from torchspan.words import semconv
from torchspan.words.phase import COMPILE_BACKWARD, COMPILE_FRAME, COMPILE_PHASE, Phase
from torchspan.words.semconv.torch import FrameOutcome

# --- the state of Dynamo while it compiles a frame ------------------------------------------------------------------
_DEPTH = 16
"""Maximum number of Python frames between torchspan's and the function that compiles a frame; ten in torch 2.14."""


class Compiling(NamedTuple):
    """The frame that is being compiled.

    Attributes:
        code: None if this version of PyTorch does not expose it.
        receiver: The class of its first argument.
        is_whole: Whether a graph break is an error (`fullgraph=True`).
        wrapped: What is compiled, if the code is PyTorch's own that calls it: a module of a library, for example.
    """

    code: CodeType | None = None
    receiver: type | None = None
    is_whole: bool = False
    wrapped: Any = None


def compiling() -> Compiling:
    """The frame that the innermost call of Dynamo's `_compile` in this thread compiles."""
    variables = _variables()
    code = variables.get("code")
    wrapped = _wrapped(code, variables.get("closure")) if type(code) is CodeType else None
    return Compiling(
        code if type(code) is CodeType else None,
        _receiver(variables.get("locals")) if wrapped is None else type(wrapped),
        is_whole=variables.get("one_graph") is True,
        wrapped=wrapped,
    )


def _variables() -> Mapping[str, Any]:
    """The variables of that call of `_compile`."""
    frame = _converting("_compile")
    return {} if frame is None else frame.f_locals


def _wrapped(code: CodeType, closure: Any) -> Any:
    """What a wrapper of Dynamo's calls (torch/_dynamo/external_utils.py); None for any other code."""
    names = code.co_freevars
    if "fn" not in names or type(closure) is not tuple or len(closure) != len(names):
        return None
    return _of_module(closure[names.index("fn")].cell_contents) if code.co_filename.endswith(_WRAPPERS) else None


def _of_module(called: Any) -> Any:
    """What is called; of a module's method, which `module.compile()` gives, the module."""
    module = called.__self__ if type(called) is MethodType else None
    return module if reading.is_a(module, reading.loaded("torch.nn", "Module")) else called


_WRAPPERS = os.path.join("torch", "_dynamo", "external_utils.py")  # noqa: PTH118 - the end of a path


def called() -> CodeType | None:
    """The code of the call that this thread has handed to Dynamo, which may wait for its lock."""
    frame = _converting("__call__")
    code = None if frame is None else reading.attribute(frame.f_locals.get("frame"), "f_code")
    return code if type(code) is CodeType else None


def compiling_again() -> Mapping[str, Any]:
    """The variables of the innermost call of Dynamo's `_compile`; none if another function calls the one that is compiled."""
    converting = caller = _converting("_compile")
    while converting is not None and caller is not None and reading.module_of_frame(caller).startswith("torch."):
        if caller.f_code.co_name == "compile_wrapper":
            return converting.f_locals
        caller = caller.f_back
    return {}


def _receiver(variables: Any) -> type | None:
    """The class of `self` among the variables of a method, or of the first of `*args` of a decorator's function."""
    if type(variables) is not dict:
        return None
    if "self" in variables:
        return type(variables["self"])
    args = variables.get("args")
    return type(args[0]) if type(args) is tuple and args else None


def raised() -> BaseException | None:
    """The exception with which the reported phase ends; not one that the program was handling before.

    The exception is thrown into the context manager that reports (`dynamo_timed`), so its traceback begins there. An exception with
    which Dynamo begins its own analysis again (torch/_dynamo/exc.py: `RestartAnalysis`) is not an error: the frame is compiled.
    """
    error = sys.exc_info()[1]
    if reading.is_a(error, reading.loaded("torch._dynamo.exc", "RestartAnalysis")):
        return None
    entry = None if error is None else traceback_of(error)
    if entry is None or reading.module_of_frame(entry.tb_frame) != "torch._dynamo.utils":
        return None
    return error if any(outward is entry.tb_frame for outward in _outwards()) else None


def compile_context() -> Any:
    """The object that represents the current compilation. A backward graph has the object of its forward frame."""
    kind = reading.loaded("torch._guards", "CompileContext")
    return None if kind is None else kind.try_get()


def suppresses_errors() -> bool:
    """Whether Dynamo is configured to run frames eagerly that it fails to compile (`torch._dynamo.config.suppress_errors`)."""
    return getattr(sys.modules.get("torch._dynamo.config"), "suppress_errors", False) is True


def _converting(function: str) -> FrameType | None:
    """The innermost call of a function of the module with which Dynamo compiles a frame."""
    for frame in _outwards():
        if frame.f_code.co_name == function and reading.module_of_frame(frame) == "torch._dynamo.convert_frame":
            return frame
    return None


def _outwards() -> list[FrameType]:
    frame: FrameType | None = sys._getframe(2)
    frames: list[FrameType] = []
    while frame is not None and len(frames) < _DEPTH:
        frames.append(frame)
        frame = frame.f_back
    return frames


# ------------------------------------------------------------------------------------------------------------------
SHORT_NS = 1_000_000
"""A shorter phase has no event. It is a step of the event around it."""

BREAKS_LIMIT = 20
"""Maximum number of graph breaks of one frame that are events of its span. Further ones are counted."""

FRAME, BACKWARD = "dynamo", "entire_backward_compile"
_BACKEND = "backend_compile"
"""The phase in which other libraries work. Its event is open and current during that work."""
_WHOLE = "entire_frame_compile"
_ATTEMPT = "compile_attempt_"
"""Prefix of the phases around each attempt at a frame. They are not phases themselves."""
_LOOKUPS = {cache.phase: cache for cache in compile_caches.CACHES}
"""The caches, by the phase whose end reports the result of a lookup."""
_HITS = {cache.found: cache for cache in compile_caches.CACHES}
"""The caches, by the name of Dynamo's report of a hit."""


def keyed_digest(text: str) -> str:
    """16 hexadecimal digits for a text, under the key of this user."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=digests_key(), digest_size=8).hexdigest()


class _OpenWork:
    """A begin report whose end has not been reported: the backend's phase, unless it is of a class derived from this one.

    Work without an event began while nothing is observed, for example inside a callback. Nothing inside it is observed either.

    anchor: the clock of the compilation; None while nothing is observed. steps: short phases inside. facts: gathered until its end.
    """

    __slots__ = ("anchor", "event", "facts", "name", "steps")

    def __init__(self, name: str, event: Event | None) -> None:
        self.name = name
        self.event = event
        self.anchor = None if event is None else event.anchor
        self.steps = Steps()
        self.facts: dict[str, Any] = {}


class _OpenPhase(_OpenWork):
    """A phase that may turn out to be short. It has no event until one inside needs it, or until the phase ends.

    Args:
        anchor: The clock of the compilation.
        within: The event that was current when the phase began: a library's event, if a backend calls PyTorch's
            compilers.
        heard: The event for subscribers only.

    now_ns: the time by that clock. processor: the clocks of the processor at its beginning.
    """

    __slots__ = ("heard", "now_ns", "processor", "start_ns", "within")

    def __init__(self, name: str, anchor: Anchor, within: Event | None, heard: Event | None) -> None:
        super().__init__(name, None)
        self.anchor = anchor
        self.now_ns = anchor.now_ns
        self.start_ns = anchor.now_ns()
        self.within = within
        self.heard = heard
        self.processor = ProcessorClock(COMPILE_PHASE)


class _OpenWorker(_OpenWork):
    """Work that another thread's compilation has left to this thread."""

    __slots__ = ()


class _OpenCompilation(_OpenWork):
    """A backward graph or a frame. saved: what caches have saved, until their lookup ends."""

    __slots__ = ("saved",)

    def __init__(self, name: str, event: Event) -> None:
        super().__init__(name, event)
        self.saved: dict[Cache, dict[str, Any]] = {}


class _OpenFrame(_OpenCompilation):
    """A frame.

    breaks: number of its graph breaks, by class. measured: Dynamo's measurements so far, by Dynamo's names.
    """

    __slots__ = ("breaks", "compiling", "measured")

    def __init__(self, event: Event, compiling: Compiling) -> None:
        super().__init__(FRAME, event)
        self.compiling = compiling
        self.breaks: Counter[str] = Counter()
        self.measured: dict[str, Any] = {}

    def broke(self, graph_break: Mapping[str, Any]) -> None:
        """Record a graph break."""
        self.breaks[graph_break[semconv.GRAPH_BREAK_CLASS]] += 1
        if self.breaks.total() <= BREAKS_LIMIT:
            self.occurred(semconv.GRAPH_BREAK_EVENT, graph_break)

    def end(self, ending: frames.Ending) -> dict[str, Any]:
        """End the frame. Returns its facts."""
        left = ending.left_to_python()
        if left is not None and not self._is_left_by_a_break():
            self.broke(left)
        facts = {**self.facts, **ending.facts()}
        if self.breaks:
            facts[semconv.GRAPH_BREAK_CLASSES] = list(self.breaks)
            facts[semconv.GRAPH_BREAK_COUNTS] = list(self.breaks.values())
        return facts

    def summed_up(self, error: BaseException | None) -> frames.Measured | None:
        """Dynamo's measurements of the frame, which ends with `error`; None if Dynamo does not report them in this version of PyTorch."""
        if not self.measured:
            return None
        metrics = {"fail_reason": frames.limit_reason(error), **self.measured}
        self.facts.update(frames.summary(metrics, self.compiling.code, self.compiling.receiver))
        why: dict[str, Any] = {key: self.facts[key] for key in recompiles.KEYS if key in self.facts}
        if semconv.RECOMPILE_LIMIT in why:
            self.occurred(semconv.RECOMPILE_LIMIT_EVENT, why)
        elif why and self.event is not None:  # known when the frame began
            self.event.occurrences.insert(0, Occurrence(semconv.RECOMPILE_EVENT, self.event.start_ns, why))
        return metrics

    def _is_left_by_a_break(self) -> bool:
        occurred = () if self.event is None else self.event.occurrences
        return any(occurrence.attributes.get(semconv.GRAPH_BREAK_SKIPS) is True for occurrence in occurred)

    def occurred(self, name: str, facts: Mapping[str, Any]) -> None:
        """Add an event to its span, with the current time."""
        if self.event is not None:
            self.event.occurrences.append(Occurrence(name, self.event.anchor.now_ns(), facts))


_Innermost = TypeVar("_Innermost", bound=_OpenWork)


class _FramesOfThread(threading.local):
    """The open work of a thread, innermost last, and the stack of those of its events that are current."""

    def __init__(self, engine: Engine) -> None:
        self.open: list[_OpenWork] = []
        self.stack = EventStack(engine)


class Frames:
    """Makes events of Dynamo's reports. Only work inside a frame or a backward graph is an event.

    The events of a frame, of a backward graph and of the backend's phase are open while the work runs, so events inside lie below
    them. Most other phases are short. They get their events, with their own times, once they have turned out to be long. User
    callbacks and observers receive each phase when it begins.

    Args:
        reported: The function through which Dynamo reports.
    """

    def __init__(self, engine: Engine, reported: Any) -> None:
        self._engine = engine
        self._reported = reported
        self._thread = _FramesOfThread(engine)
        self.waits = Waits(engine, lambda: self._thread.open, called)
        self._interest = engine.registry.interest(COMPILE_PHASE)
        self._forward: ByIdentity[tuple[Any, Mapping[str, Any]]] = ByIdentity()
        """The handle of a frame's event and its function, by the object that represents the compilation."""
        self._compiled_at: ByIdentity[place.StackPlace] = ByIdentity()
        """Where the program called `torch.compile` for something that PyTorch's own code calls; of what it compiled before, the first
        call."""

    def report(self, report: Any) -> bool:
        """Receive a report of Dynamo that `name` begins (`ph` is `B`) or ends (`E`), with `args`. Returns True."""
        if type(report) is not dict or type(report["name"]) is not str or type(report["args"]) is not dict:
            return True
        if report["ph"] == "B":
            self._begin(report["name"], report["args"], report)
        elif report["ph"] == "E":
            self._end(report["name"], report["args"])
        return True

    def cut(self, report: Any) -> None:
        """Receive a report again that failed or was interrupted, perhaps before it arrived: what has ended is closed."""
        if type(report) is not dict or report.get("ph") != "E" or type(report.get("name")) is not str:
            return
        index = self._index(report["name"])
        if index is not None:
            self._abandon(index)
            self._thread.stack.end(report["name"])

    def measured(self, call: Call) -> None:
        """Receive Dynamo's measurements of the frame that is being compiled: `update_outer(self, values)`."""
        values, frame = call.get("values"), self._innermost(_OpenFrame)
        if type(values) is dict and frame is not None:
            frame.measured.update(values)
            if "guard_count" in values and frame.measured.get("recompile_reason"):
                frame.facts.update(open_sizes.facts(compiling_again()))
            if values.get("recompile_reason") is not None:  # of the first compiled version
                frame.measured[recompiles.REASONS] = _variables().get("reasons")

    def hit(self, call: Call) -> None:
        """Receive how long the compilation took that a cache has saved: `log_instant_event(self, event_name, time_ns, metadata)`."""
        cache, metadata = _HITS.get(reading.text(call.get("event_name")) or ""), call.get("metadata")
        compilation = None if cache is None else self._innermost(_OpenCompilation)
        if cache is not None and compilation is not None and type(metadata) is dict:
            compilation.saved[cache] = cache.saving(metadata)

    def broke(self, call: Call) -> None:
        """Record a graph break in the frame that is being traced."""
        frame, graph_break = self._innermost(_OpenFrame), frames.graph_break(call)
        if frame is not None and graph_break is not None:
            frame.broke(graph_break)

    def wrapped(self, call: Call) -> None:
        """Receive what `torch.compile` has been called with, if Dynamo compiles it through a wrapper: `wrap_inline(fn)`."""
        called_at = place.of_call()
        if called_at is not None:
            self._compiled_at[_of_module(call.get("fn"))] = called_at

    def refused(self, call: Call) -> None:
        """Receive the code that Dynamo is about to refuse, if it is a generator's."""
        why = frames.generator(call.args[0])
        event = self._engine.open(COMPILE_FRAME, frames.function(call.args[0]), placement=DETACHED) if why else None
        if event is not None:
            event.additions[semconv.FRAME_OUTCOME] = FrameOutcome.SKIPPED
            event.occurrences.append(Occurrence(semconv.GRAPH_BREAK_EVENT, event.start_ns, why))
            self._engine.close(event)

    def captured(self, call: Call) -> None:
        """Receive the graph of the frame that is being compiled, before its backend does: `call_user_compiler(self, gm, ...)`."""
        frame = self._innermost(_OpenFrame)
        if frame is not None:
            for declaration in declarations.kept(call.get("gm")):
                frame.occurred(semconv.DECLARATION_EVENT, declaration.facts())

    def compiled(self, output_graph: Any, graph: Any) -> Any:
        """The graph that the backend returned for the current frame, with its runs recorded."""
        frame = self._innermost(_OpenFrame)
        if frame is None or frame.event is None:
            return graph
        keys = (semconv.COMPILE_ID, semconv.CODE_FUNCTION, semconv.CODE_FILE, semconv.CODE_LINE)
        facts: dict[str, Any] = {key: frame.event.attributes[key] for key in keys if key in frame.event.attributes}
        links = () if frame.event.handle is None else (frame.event.handle,)
        return recorded.graph(graph, output_graph, facts, links)

    def phase_here(self) -> Event | None:
        """The event of the phase that runs in this thread, which is opened now; None if something else runs inside the phase."""
        innermost = self._thread.open[-1] if self._thread.open else None
        is_phase = isinstance(innermost, _OpenPhase) and innermost.within is self._current()
        return self.innermost() if is_phase else None

    # --- other threads and processes ----------------------------------------------------------------------------
    def innermost(self) -> Event | None:
        """The event of the innermost open work in this thread, which is opened now if the work has none."""
        open_ = self._thread.open
        return self._materialized(len(open_) - 1) if open_ else None

    def enter(self, worker: Event) -> None:
        """Assign the reports in this thread, and its time on the processor, to `worker`, until `leave`."""
        worker.processor = ProcessorClock(worker.phase)
        self._thread.open.append(_OpenWorker(worker.phase.name, worker))

    def leave(self, worker: Event) -> None:
        """The opposite of `enter`."""
        open_ = self._thread.open
        index = next((index for index, work in enumerate(open_) if work.event is worker), None)
        if index is not None:
            self._abandon(index + 1)
            worker.steps.merge(open_[index].steps)
            del open_[index:]

    # --- beginnings -------------------------------------------------------------------------------------------
    def _begin(self, name: str, args: Mapping[str, Any], report: Any) -> None:
        open_ = self._thread.open
        if name == FRAME:
            open_.append(self._begin_frame(_compile_id(args), report))
        elif name == BACKWARD:
            open_.append(self._begin_backward(_compile_id(args), report))
        elif not open_ or name == _WHOLE or name.startswith(_ATTEMPT):
            return
        elif (anchor := open_[-1].anchor) is None:
            open_.append(_OpenWork(name, None))
        elif name == _BACKEND:
            open_.append(self._begin_backend(report))
        else:
            open_.append(self._begin_phase(name, anchor, report))

    def _begin_frame(self, compile_id: str, report: Any) -> _OpenWork:
        frame, context = compiling(), compile_context()
        function = self._function(frame)
        facts = {semconv.COMPILE_ID: compile_id, **function, **declarations.stance()}

        def begun(event: Event) -> _OpenWork:
            event.scratch[GIVES] = frames.model(frame.receiver)
            if context is not None:
                self._forward[context] = event.handle, function
            self.waits.began(event)
            return _OpenFrame(event, frame)

        return self._begin_current(FRAME, begun, report, COMPILE_FRAME, facts)

    def _function(self, frame: Compiling) -> Mapping[str, Any]:
        """The function that is compiled; of what PyTorch's own code calls, its name and the line that called `torch.compile`."""
        if frame.wrapped is None:
            return frames.function(frame.code, frame.receiver)
        called_at = self._compiled_at.get(frame.wrapped) or place.of_call()
        if called_at is not None:
            self._compiled_at[frame.wrapped] = called_at
        facts = {} if called_at is None else called_at.facts()
        return {**facts, semconv.CODE_FUNCTION: reading.function_name(frame.wrapped)}

    def _begin_backward(self, compile_id: str, report: Any) -> _OpenWork:
        context = compile_context()
        forward, function = (context is not None and self._forward.get(context)) or (None, {})
        return self._begin_current(
            BACKWARD,
            partial(_OpenCompilation, BACKWARD),
            report,
            COMPILE_BACKWARD,
            {semconv.COMPILE_ID: compile_id, **function},
            links=() if forward is None else (forward,),
        )

    def _begin_backend(self, report: Any) -> _OpenWork:
        return self._begin_current(
            _BACKEND,
            partial(_OpenWork, _BACKEND),
            report,
            COMPILE_PHASE,
            {semconv.COMPILE_PHASE_NAME: _BACKEND},
            target=_BACKEND,
        )

    def _begin_current(
        self,
        name: str,
        begun: Callable[[Event], _OpenWork],
        report: Any,
        phase: Phase,
        facts: Mapping[str, Any],
        **how: Any,
    ) -> _OpenWork:
        stack = self._thread.stack
        event = stack.begin(name, phase, facts, observed=Observed(self._reported, (report,), {}), **how)
        if event is None:
            stack.end(name)  # its end is not expected there
            return _OpenWork(name, None)
        try:
            return begun(event)
        except BaseException:
            stack.end(name)
            raise

    def _begin_phase(self, name: str, anchor: Anchor, report: Any) -> _OpenWork:
        if isinstance(self._thread.open[-1], _OpenPhase):
            self._materialize_long()
        heard = None
        if self._interest.countdown is not None:
            heard = self._open(name, observed=Observed(self._reported, (report,), {}), audience=Audience.USERS)
        try:
            return _OpenPhase(name, anchor, self._current(), heard)
        except BaseException as error:
            if heard is not None:
                self._engine.close(heard, error)
            raise

    # --- ends -------------------------------------------------------------------------------------------------
    def _end(self, name: str, args: Mapping[str, Any]) -> None:
        open_ = self._thread.open
        index = self._index(name)
        if index is None:
            return
        ended = open_[index]
        if index + 1 < len(open_):
            self._abandon(index + 1)
        if name in _LOOKUPS:
            self._note_cache(_LOOKUPS[name], args)
        match ended:
            case _OpenPhase():
                self._end_phase(ended)
            case _OpenFrame():
                self._end_frame(ended)
            case _ if ended.event is not None:
                self._close(ended, ended.facts, raised())
        open_.pop()

    def _end_phase(self, phase: _OpenPhase) -> None:
        if phase.heard is not None:
            self._engine.close(phase.heard)
        end_ns = phase.now_ns()
        taken_ns = end_ns - phase.start_ns
        if phase.event is None and taken_ns < SHORT_NS:
            around = self._thread.open[-2].steps
            if phase.steps:
                around.merge(phase.steps)
            around.add(semconv.identifier(phase.name), max(taken_ns / 1e9 - phase.steps.seconds(), 0.0))
            return
        event = self._materialized(len(self._thread.open) - 1)
        if event is not None:
            if phase.steps:
                event.steps.merge(phase.steps)
            self._engine.close(event, at_ns=end_ns)

    def _end_frame(self, frame: _OpenFrame) -> None:
        error = raised()
        swallowed = None if frame.event is None else frame.event.scratch.get(compilation.SWALLOWED)
        ending = frames.Ending(
            metrics=frame.summed_up(error),
            error=error,
            swallowed=swallowed,
            is_whole=frame.compiling.is_whole,
            suppresses_errors=suppresses_errors(),
        )
        self._close(frame, frame.end(ending), error if ending.outcome == FrameOutcome.FAILED else None)

    def _close(self, ended: _OpenWork, facts: Mapping[str, Any], error: BaseException | None) -> None:
        if ended.event is not None and ended.steps:
            ended.event.steps.merge(ended.steps)
        self._thread.stack.end(ended.name, facts, error=error)

    def _abandon(self, index: int) -> None:
        """Close phases from `index` on, whose surroundings have ended before them. Events on the engine's stack are closed there."""
        for work in reversed(self._thread.open[index:]):
            if isinstance(work, _OpenPhase):
                for event in (work.heard, work.event):
                    if event is not None and event.end_ns is None:
                        event.is_incomplete = True
                        self._engine.close(event)
        del self._thread.open[index:]

    def _note_cache(self, cache: Cache, args: Mapping[str, Any]) -> None:
        compilation = self._innermost(_OpenCompilation)
        if compilation is None or args.get("cache_state") is None:
            return
        saved = compilation.saved.pop(cache, {})
        for key in cache.attributes():  # of an earlier lookup
            compilation.facts.pop(key, None)
        compilation.facts.update({**cache.facts(args, keyed_digest), **saved})

    # --- phases that turn out to be long ----------------------------------------------------------------------
    def _materialized(self, index: int) -> Event | None:
        """The event of the open work at `index`. The work, and the phases around it, get their events now if they have none."""
        work = self._thread.open[index]
        if work.event is None and isinstance(work, _OpenPhase):
            outer = self._thread.open[index - 1]
            is_nested = isinstance(outer, _OpenPhase) and outer.within is work.within
            around = self._materialized(index - 1) if is_nested else work.within
            if around is not None:
                work.event = self._open(
                    work.name, audience=Audience.LISTENERS, placement=Placement(around), at_ns=work.start_ns
                )
                if work.event is not None:
                    work.event.processor = work.processor
        return work.event

    def _materialize_long(self) -> None:
        """Open the event of a long phase while it runs, so that heartbeats and a crash report show it."""
        open_ = self._thread.open
        for index in range(len(open_) - 1, -1, -1):
            work = open_[index]
            if work.event is not None or not isinstance(work, _OpenPhase):
                return
            if work.now_ns() - work.start_ns >= SHORT_NS:
                self._materialized(index)
                return

    def _open(self, name: str, **how: Any) -> Event | None:
        name = semconv.identifier(name)
        return self._engine.open(COMPILE_PHASE, {semconv.COMPILE_PHASE_NAME: name}, target=name, **how)

    def _current(self) -> Event | None:
        """The event that a phase which begins now is part of. A worker's event is not current in any thread."""
        worker = self._innermost(_OpenWorker)
        return self._engine.innermost_open() if worker is None else worker.event

    def _index(self, name: str) -> int | None:
        """The place of the innermost open work of that name."""
        open_ = self._thread.open
        index = len(open_) - 1
        while index >= 0 and open_[index].name != name:
            index -= 1
        return None if index < 0 else index

    def _innermost(self, kind: type[_Innermost]) -> _Innermost | None:
        for work in reversed(self._thread.open):
            if isinstance(work, kind):
                return work
        return None


def _compile_id(args: Mapping[str, Any]) -> str:
    return reading.text(args.get("compile_id")) or "None"
