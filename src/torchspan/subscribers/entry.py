# SPDX-License-Identifier: Apache-2.0
"""One registered pair of user callbacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torchspan._base.errors import UserCallback
from torchspan.subscribers.sampling import SamplingMode
from torchspan.subscribers.scope import Scope

if TYPE_CHECKING:
    from typing_extensions import Self


# --- What a registration returns ------------------------------------------------------------------------------------
class Removable:
    """Something that is registered until `remove` is called, or until the end of a `with` statement."""

    __slots__ = ()

    def remove(self) -> None:
        """End the registration. A second call does nothing."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.remove()


# ------------------------------------------------------------------------------------------------------------------
@dataclass(eq=False)
class Entry:
    """One pair of callbacks as it is registered.

    Args:
        handle: Unique in the process, never reused.
        guarded: The callback as the guard knows it.
        start, end: The pair.
        scopes: The scopes for which it runs; empty means all.
        is_on: Whether it starts for events.
        is_removed: Whether it will never start again.
    """

    handle: int
    guarded: UserCallback
    start: Callable[[Any], Any]
    end: Callable[[Any, Any], Any]
    scopes: frozenset[Scope]
    probability: float = 1.0
    mode: SamplingMode = SamplingMode.PER_EVENT
    should_run: Callable[[], Any] | None = None
    needs_inputs: bool = False
    needs_outputs: bool = False
    needs_ids: bool = False
    is_on: bool = True
    is_removed: bool = False
    is_sampled: bool = field(init=False)
    """Whether its probability decides."""

    def __post_init__(self) -> None:
        self.is_sampled = self.probability < 1 and self.should_run is None

    @property
    def may_run(self) -> bool:
        """Whether it would start for any event."""
        return self.is_on and (self.probability > 0 or self.should_run is not None)

    @property
    def asks_the_root(self) -> bool:
        """Whether the root of a tree of events decides for all events inside."""
        return self.is_sampled and self.mode is SamplingMode.PER_ROOT

    def selects(self, scope: Scope) -> bool:
        """Whether it runs for events of `scope`."""
        return not self.scopes or scope in self.scopes

    def begin(self, record: Any) -> Any:
        """Run the start. Returns what it returned, or `FAILED` if it raised: then there is no end."""
        return self.guarded.call(self.start, record)

    def finish(self, record: Any, context: Any) -> None:
        """Run the end of a start that ran, even if the callback has been removed since."""
        self.guarded.end(self.end, record, context)
