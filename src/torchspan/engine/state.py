# SPDX-License-Identifier: Apache-2.0
"""What the engine keeps for an open event, apart from what the event shows to callbacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from torchspan.engine.deferral import Deferral
    from torchspan.engine.pipeline import Member
    from torchspan.subscribers.record_function import RecordFunction
    from torchspan.subscribers.sampling import Tree


class Subscriber(Protocol):
    """Runs around events alongside the pipeline: a user's pair of callbacks, or the official observers of a phase."""

    def begin(self, subject: Any) -> Any:
        """The event has started. Returns `FAILED` for an event whose end is not to be reported."""

    def finish(self, subject: Any, context: Any) -> None:
        """The event has ended. `context` is what `begin` returned."""


class State:
    """members: pipeline members whose start ran, each with what it returned. subscribers: the same, with the subject that each
    received. record: how user callbacks see the event. tree, opens_tree: where sampling is decided once for all events inside.
    for_subscribers: the pipeline does not receive the event, and for nesting it does not exist. child_error: identity of the last
    exception that ended an event inside. deferral: completes the event after it has been closed.
    """

    __slots__ = (
        "child_error", "deferral", "for_subscribers", "members", "opens_tree", "record", "subscribers", "tree",
    )  # fmt: skip

    def __init__(self, tree: Tree | None, *, opens_tree: bool, for_subscribers: bool) -> None:
        self.members: list[tuple[Member, Any]] = []
        self.subscribers: list[tuple[Subscriber, Any, Any]] = []
        self.record: RecordFunction | None = None
        self.tree = tree
        self.opens_tree = opens_tree
        self.for_subscribers = for_subscribers
        self.child_error: int | None = None
        self.deferral: Deferral | None = None
