# SPDX-License-Identifier: Apache-2.0
"""One piece of work, from its start to its end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter_ns, time_ns  # the real ones, also where a test of the program replaces them later
from typing import TYPE_CHECKING, Any, Literal

from torchspan.base.scratch import Scratch
from torchspan.engine.processor_time import UNMEASURED, ProcessorClock, ProcessorTime
from torchspan.words.phase import NOTICED_LATE, Phase

if TYPE_CHECKING:
    from torchspan.engine.deferral import Deferral
    from torchspan.engine.listener import Listener
    from torchspan.engine.subscribers.sampling import Tree

Attributes = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Placement:
    """Where an event lies.

    Attributes:
        parent: The event that it lies below, wherever that was opened. None: below the current event.
        is_current: Whether it is the current event until it is closed in the same thread. Work that is left and
            entered again, as the body of a generator is, and work that a source reports from any thread, is
            never current.
    """

    parent: Event | None = None
    is_current: bool = False


CURRENT, DETACHED = Placement(is_current=True), Placement()


class Anchor:
    """A pair of readings, wall clock and monotonic clock, taken where a tree of events starts.

    Every time within the tree is the wall reading plus monotonic time since then, so that children lie inside
    their parents whatever is done to the wall clock meanwhile.
    """

    __slots__ = ("_offset_ns",)

    def __init__(self) -> None:
        self._offset_ns = time_ns() - perf_counter_ns()

    def now_ns(self) -> int:
        """Nanoseconds since the Unix epoch."""
        return perf_counter_ns() + self._offset_ns

    @property
    def offset_ns(self) -> int:
        """Nanoseconds to add to a reading of the monotonic clock."""
        return self._offset_ns


class Steps(dict[str, list[float]]):
    """Short pieces of work that get no event of their own, by name: how often, and how many seconds."""

    def add(self, name: str, duration_s: float, count: float = 1) -> None:
        """Count `count` runs of `name` that took `duration_s` seconds together."""
        entry = self.setdefault(name, [0, 0.0])
        entry[0] += count
        entry[1] += duration_s

    def merge(self, other: Steps) -> None:
        """Count every run of `other` as well."""
        for name, (count, seconds) in other.items():
            self.add(name, seconds, count)

    def renamed(self, rename: Callable[[str], str]) -> Steps:
        """The same work under other names. Work that has the same name then is counted together."""
        renamed = Steps()
        for name, (count, seconds) in self.items():
            renamed.add(rename(name), seconds, count)
        return renamed

    def seconds(self) -> float:
        """The seconds of all of them together."""
        return sum(seconds for _, seconds in self.values())

    def longest(self, limit: int) -> list[tuple[str, int, float]]:
        """At most `limit` rows (name, count, seconds), longest first."""
        rows = ((name, int(count), seconds) for name, (count, seconds) in self.items())
        return sorted(rows, key=lambda row: -row[2])[:limit]


NOTES_LIMIT = 20
"""Maximum number of occurrences of one name on one span: frequent ones do not displace the others."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Something that happened at one moment inside an event, such as a line of a library's log."""

    name: str
    time_ns: int
    attributes: Attributes


class Observed:
    """The call that an event records.

    Args:
        function: What is called.
        args, kwargs: Its arguments.
        outcome: `returned` or `raised` once it has ended, with `return_value` or `exception`; None before.
    """

    __slots__ = ("args", "exception", "function", "kwargs", "outcome", "return_value")

    def __init__(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.return_value: Any = None
        self.exception: BaseException | None = None
        self.outcome: Literal["returned", "raised"] | None = None

    def ended(self, exception: BaseException | None, return_value: Any) -> None:
        """Record how the call ended."""
        self.exception, self.return_value = exception, return_value
        self.outcome = "returned" if exception is None else "raised"


class ObservedRun(Observed):
    """A run of an engine or of a graph that is about to be made.

    Args:
        runner: The object that runs.
        inputs: Its inputs, empty if they are not arguments.
    """

    __slots__ = ("inputs", "runner")

    def __init__(
        self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], runner: Any, inputs: Any
    ) -> None:
        super().__init__(function, args, kwargs)
        self.runner = runner
        self.inputs = inputs


class Event:
    """A piece of work of one phase, as callbacks see it.

    `attributes` are those known at the start. `additions` and `occurrences` are gathered until the end. `scratch` holds what is
    counted meanwhile and summed up at the end. None of them keeps an observed object alive. `observed`, the call that the event
    records, is released at the event's end. `root` is the outermost event of the tree, which may be the event itself. `root.running`
    is the innermost open event of the tree, for other threads that read it.

    `is_open` turns false before the time of the end is read: a time that another thread read before it saw the event
    open lies inside the event.
    """

    # Defaults of the class: setting them all would be most of what an event costs.
    running: Event | None = None
    processor_time: ProcessorTime = UNMEASURED
    """What it took of the processor. Known after its end."""
    is_open = True
    is_incomplete = False
    """Whether torchspan did not see its end. It was closed because the work around it had ended."""
    end_ns: int | None = None
    error: BaseException | None = None
    innermost = True
    """Whether `error` was raised in this event's own work rather than passed on by a child."""
    handle: Any = None
    """Identifies this event outside the process (a span context). The span writer sets it."""
    is_sampled = False
    """Whether it has been given an identity of its own outside the process, which records and is sampled. The span writer sets it."""
    follows_sampled = False
    """Whether what is around it outside the process is sampled, or nothing is around it and `pick` is not `FOR_ITSELF`: then the
    sampler itself decided about it. The span writer sets it."""
    was_here = False
    """Whether it was current where it was closed. Abandoned work may be closed in any context. Known when listeners leave it."""
    # What the engine itself keeps:
    is_for_users = False
    """Whether only the user's callbacks receive it. For nesting, it does not exist."""
    tree: Tree | None = None
    opens_tree = False
    """Where sampling is decided once for all events inside, and whether this event is the root there."""
    child_error: int | None = None
    """The address of the last exception that ended an event inside."""
    deferral: Deferral | None = None
    """Completes the event after it has been closed."""

    def __init__(
        self,
        phase: Phase,
        target: str | None,
        attributes: Attributes,
        parent: Event | None,
        placement: Placement,
        links: tuple[Any, ...],
        observed: Observed | None,
        at_ns: int | None,
        pick: Any,
    ) -> None:
        self.phase = phase
        self.target = target
        self.name = f"{phase.name} {target}" if target else phase.name
        """The phase's name, with the target where it has one."""
        self.attributes: dict[str, Any] = dict(attributes)
        self.additions: dict[str, Any] = {}
        self.scratch = Scratch()
        self.steps = Steps()
        self.occurrences: list[Occurrence] = []
        self.parent = parent
        self.placement = placement
        self.root: Event = self if parent is None else parent.root
        if parent is None:
            self.running = self
        self.thread_id = threading.get_ident()
        self.links = links
        self.observed = observed
        self.pick: Any = pick
        """Why it is recorded whatever surrounds it (`torchspan.engine.run_sampling.Pick`). None: its surroundings decide."""
        self.anchor: Anchor = parent.anchor if parent is not None else Anchor()
        now_ns = self.anchor.now_ns()
        earliest_ns = 0 if parent is None else parent.start_ns
        self.start_ns: int = now_ns if at_ns is None else max(earliest_ns, min(at_ns, now_ns))
        is_clocked = phase.keep and placement.is_current and at_ns is None and phase not in NOTICED_LATE
        self.processor = ProcessorClock(phase) if is_clocked else None
        """The clocks of the processor at its start. None for frequent work, for work that the thread does not do itself, and for
        work that was opened after its start, unless its source sets them."""
        self.opened: list[tuple[Listener, Any]] = []
        """The listeners whose `open` has returned, each with its token."""
        self.to_leave: list[tuple[Listener, Any]] = []
        """Those of them that have a `leave`."""

    def elapsed_ns(self) -> int:
        """Nanoseconds since its start, whether or not it has ended."""
        return self.anchor.now_ns() - self.start_ns

    def innermost_running(self) -> Event:
        """The innermost open event inside this one, or the event itself. Any thread may ask."""
        running = self.root.running
        while running is not None and not running.is_open:
            running = running.parent
        event = running
        while event is not None and event is not self:
            event = event.parent
        return self if event is None or running is None else running

    def nearest(self, *phases: Phase) -> Event | None:
        """The closest event of one of `phases`, from this one outwards."""
        event: Event | None = self
        while event is not None and event.phase not in phases:
            event = event.parent
        return event
