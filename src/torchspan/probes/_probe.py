# SPDX-License-Identifier: Apache-2.0
"""What a hook point is: one frozen row."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from torchspan.phase import Phase
from torchspan.probes._call import Call
from torchspan.probes.describe.log import Line

Facts = Mapping[str, Any]
Tally = dict[str, Any]
DescribeStart = Callable[[Call], Facts]
DescribeEnd = Callable[[Call, Any, Tally], Facts]
DescribeFailure = Callable[[Call, BaseException, Tally], Facts]
Count = Callable[[Tally, Call, Any, float], None]
ReadLine = Callable[[tuple[Any, ...], dict[str, Any]], Line | None]
Version = tuple[int, int]

SUPPORTED: tuple[Version, Version] = ((2, 11), (2, 14))
"""Oldest and newest torch-tensorrt (and -rtx) that torchspan is tested with."""


class Action(Enum):
    """What is done at a hook point."""

    EVENT = "event"
    """The call is an event of the row's phase."""
    FACTS = "facts"
    """The call adds facts to the event of the row's phase around it."""
    STEP = "step"
    """The call is counted, with its duration, in whatever event is around it; a row that describes adds facts too."""
    TALLY = "tally"
    """The call is counted, in the row's own way, in the event of the row's phases around it."""
    PASSES = "passes"
    """Each lowering pass that the called pass manager runs is an event."""
    MAKES = "makes"
    """The call makes an object that runs later; nothing is recorded here."""
    EXECUTE = "execute"
    """A hot path: rate-limited events, nothing built otherwise."""
    BUILD = "build"
    """An event, with TensorRT's progress monitor chained in where that is asked for."""
    LINES = "lines"
    """Each call is a line of a library's log: it is kept, where it matters, in whatever event is around it."""
    OBSERVES = "observes"
    """An observer fires: an occurrence in the event around, or the start or the end of an observed function's call."""
    PARSER = "parser"
    """The call makes a parser, whose network is remembered; nothing is recorded here."""
    PARSE = "parse"
    """The call of a parser is an event, described with the parser's network."""
    CONTEXT = "context"
    """The call makes an execution context and is an event; from the first on, runs of contexts are watched."""
    WATCH = "watch"
    """Nothing is done: the row is here so that a version without this name is noticed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    """A place we hook.

    library: import name of the library, `torch_tensorrt` or `tensorrt` (which means TensorRT-RTX as well).
    target: `module:name` or `module:Class.name`.
    why: the reason for the hook, shown by `torchspan probes`.
    phases: the phase opened (EVENT) or those that receive what is found (FACTS, TALLY: the closest wins).
    start, end: pure functions that describe the call; `end` sees the result and the event's tally.
    failed: the same for a call that raised; it looks at the exception and keeps nothing of it.
    count: for TALLY, adds one call to the tally; a STEP that has one is counted in both ways.
    count_raised: `count` is told of calls that raise too, with `RAISED` for a result.
    before: for a row with `count`: what it must know before the call runs, handed on as `call.before`.
    line: for LINES, reads the line from the arguments; None for one that does not matter.
    share: keys that `end` or `failed` describes and that the nearest event of one of `share_with` carries too.
    produces: for a call that makes an object whose later use belongs to this compilation: picks that object.
    serialized: with `produces`: picks the bytes from which the object was made.
    changes: for a STEP that changes an engine in place: picks TensorRT's engine.
    remembered: what the call returns is remembered with its event, for the links of those that use it.
    uses: picks the object that the call works on; the event links to the one that made it, if that was seen.
    within: only inside an event of one of these phases (a method of torch that others call as well).
    since, until: versions of the library, both included, that have the target.
    told_by: the library whose calls are left to rows of its own.
    parameters: names by which a frequent function of an extension type takes its two arguments.
    package: the only TensorRT package (`tensorrt`, `tensorrt_rtx`) that has it.
    detail: the detail level from which on what it finds is recorded.
    """

    library: str
    target: str
    why: str
    action: Action = Action.EVENT
    phases: tuple[Phase, ...] = ()
    start: DescribeStart | None = None
    end: DescribeEnd | None = None
    failed: DescribeFailure | None = None
    count: Count | None = None
    line: ReadLine | None = None
    count_raised: bool = False
    before: Callable[[Call], Any] | None = None
    share: tuple[str, ...] = ()
    share_with: tuple[Phase, ...] = ()
    produces: Callable[[Call], Any] | None = None
    serialized: Callable[[Call], Any] | None = None
    changes: Callable[[Call], Any] | None = None
    remembered: bool = False
    uses: Callable[[Call], Any] | None = None
    within: tuple[Phase, ...] = ()
    told_by: str | None = None
    parameters: tuple[str, str] | None = None
    package: str | None = None
    since: Version | None = None
    until: Version | None = None
    detail: str = "stages"

    @property
    def module(self) -> str:
        return self.target.partition(":")[0]

    @property
    def path(self) -> tuple[str, ...]:
        """The names below the module: `("Class", "name")` or `("name",)`."""
        return tuple(self.target.partition(":")[2].split("."))

    def holds_for(self, version: str, package: str | None) -> bool:
        """Whether a library of this version, over this package, is expected to have the target.

        A version without a number might have it.
        """
        number = parse_version(version)
        if self.package is not None and package != self.package:
            return False
        if number is None:
            return True
        return (self.since is None or self.since <= number) and (self.until is None or number <= self.until)


def parse_version(version: str) -> Version | None:
    """Major and minor of `2.14.1+cu130`, `2.11.0a0+1a2b.nv26.01`, `2.15.0.dev20261101`; None without digits."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else None
