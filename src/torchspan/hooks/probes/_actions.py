# SPDX-License-Identifier: Apache-2.0
"""What is done at a hook point: each kind is a type with exactly the fields that it needs.

The functions in these fields describe and select. They are pure: they read a call and change nothing. A described fact that is None is not
known, and is left out; of a call that raised, it removes what was known before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torchspan.base.scratch import Key, Scratch
from torchspan.hooks.probes._call import Call
from torchspan.words import semconv
from torchspan.words.phase import Phase

Facts = Mapping[str, Any]
DescribeStart = Callable[[Call], Facts]
DescribeEnd = Callable[[Call, Any, Scratch], Facts]
DescribeFailure = Callable[[Call, BaseException, Scratch], Facts]
Select = Callable[[Call], Any]


GIVES: Key[Facts] = Key("gives")
"""Scratch key: facts that events inside take, and that the event itself does not have."""

NAMES = (semconv.MODEL_CLASS, semconv.ENGINE_MODULES)
"""What names an engine: known when its conversion starts."""


@dataclass(frozen=True, slots=True)
class Shares:
    """What the nearest outer event of one of `phases` receives as well: described facts by their `keys`, and scratch values."""

    phases: tuple[Phase, ...]
    keys: tuple[str, ...] = ()
    scratch: tuple[Key[Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Record:
    """The call is an event of `phase`.

    Args:
        start, end: Describe the call, and its result.
        failed: Describes a call that raised; it keeps nothing of the exception.
        within: The call has that phase only inside an event of one of these (for a method of torch that others call as
            well).
        elsewhere: The phase of a call outside of these. None: it is not recorded.
        links_to: Selects the object that the call works on. The event links to the event that made the object, if that
            was seen.
        takes: Keys of facts that the event has from the nearest event around it that has them or gives them (`GIVES`).
        is_named: What names the event's work, `NAMES`, names the result as well, and what runs for it.
        remembers_result: The result is remembered with the event, for the links of events that use it.
        creates: Selects an object that the call makes, which runs later and belongs to the compilation around the call.
        shares: Facts that an outer event carries too.
        follows: Selects, from the call and its result, a compiled module whose calls are followed if a setting enables
            that.
        excluded_callers: Calls by these libraries are ignored, because they have their own probes.
        around: The adapter's wrapper that runs the call, if recording it takes more than calling it.
    """

    phase: Phase
    start: DescribeStart | None = None
    end: DescribeEnd | None = None
    failed: DescribeFailure | None = None
    within: tuple[Phase, ...] = ()
    elsewhere: Phase | None = None
    links_to: Select | None = None
    takes: tuple[str, ...] = ()
    is_named: bool = False
    remembers_result: bool = False
    creates: Select | None = None
    shares: Shares | None = None
    follows: Callable[[Call, Any], Any] | None = None
    excluded_callers: tuple[str, ...] = ()
    around: str | None = None


@dataclass(frozen=True, slots=True)
class Annotate:
    """The call adds facts to the nearest event of one of `phases`. At least one of `start` and `end` describes it."""

    phases: tuple[Phase, ...]
    start: DescribeStart | None = None
    end: DescribeEnd | None = None


@dataclass(frozen=True, slots=True)
class Tally:
    """The call is counted in the nearest event of one of `phases`.

    Args:
        count: Adds one call, with its result and its duration in seconds.
        before: Reads the call before it runs. What it returns is `call.before`.
        counts_failures: Calls that raise are counted too, with `RAISED` as their result.
    """

    phases: tuple[Phase, ...]
    count: Callable[[Scratch, Call, Any, float], None]
    before: Select | None = None
    counts_failures: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """The call is counted with its duration in the innermost event.

    Args:
        annotate: The call adds facts as well.
        tally: It is counted in a second way as well.
        invalidates: Selects TensorRT's engine that the call changes in place, inside an event or not. The engine's id
            is not valid from then on.
        follows: Selects, from the call and its result, a module that was compiled elsewhere, as in `Record`.
    """

    annotate: Annotate | None = None
    tally: Tally | None = None
    invalidates: Select | None = None
    follows: Callable[[Call, Any], Any] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Arguments:
    """The two positional arguments of a frequent function: their names, and the positions of its engine and its inputs.

    Args:
        inputs: None if the inputs are not an argument.
    """

    names: tuple[str, str]
    engine: int
    inputs: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Runs:
    """The call is one run of an engine, which happens thousands of times a second: an event only within rate limits.

    Args:
        describe: Describes a run from the object that runs, its inputs, and whether this is its first run.
        end: Describes the result.
        arguments: Those of a function with two; None for `forward(self, *inputs)` of a module.
        excluded_callers: As in `Record`. Every run's duration is in the metric of the phase.
    """

    phase: Phase
    describe: Callable[[Any, Any, bool], Facts]
    end: DescribeEnd | None = None
    arguments: Arguments | None = None
    excluded_callers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tap:
    """The adapter's handler receives the arguments. The original runs unchanged, and the call itself is not an event.

    Args:
        handler: Its name in the adapter, `file:purpose`.
    """

    handler: str


Action = Record | Annotate | Step | Tally | Runs | Tap


def phases_of(action: Action) -> tuple[Phase, ...]:
    """The phases that an action opens, or that receive what it finds."""
    match action:
        case Record(elsewhere=elsewhere):
            return (action.phase,) if elsewhere is None else (action.phase, elsewhere)
        case Runs():
            return (action.phase,)
        case Annotate() | Tally():
            return action.phases
        case _:
            return ()
