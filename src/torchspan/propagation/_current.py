# SPDX-License-Identifier: Apache-2.0
"""OpenTelemetry's current context, as `torchspan._context.threads` propagates it."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Token

from opentelemetry import context as context_api
from opentelemetry.context import Context

from torchspan._base.forks import uncut
from torchspan._context.threads import ContextCarrier, Inside

CONSEQUENCE = "Propagating the context failed; the work continues, in traces of its own."


class CurrentContext(ContextCarrier):
    """OpenTelemetry's current context.

    carries: whether it may be propagated now.
    """

    outside = Context()

    def __init__(self, carries: Callable[[], bool] = lambda: True) -> None:
        super().__init__(CONSEQUENCE)
        self._carries = carries

    def for_thread(self) -> Context | None:
        """The context with a weak reference to its span, which may end before the thread does."""
        if not context_api.get_current() or not self._carries():
            return None
        with uncut():
            from torchspan.propagation._context import at_start

        return at_start()

    def for_item(self) -> Context | None:
        """The context with its span: work items are bounded."""
        return (context_api.get_current() or None) if self._carries() else None

    def enter(self, value: Context) -> Token[Context]:
        """Attach it."""
        return context_api.attach(value)

    def leave(self, before: Token[Context]) -> None:
        """Detach it."""
        context_api.detach(before)


_ATTACHED = CurrentContext()


def inside(context: Context) -> Inside:
    """A context manager in which `context` is the current one."""
    return Inside([(_ATTACHED, context)])


def outside() -> Inside:
    """A context manager in which the current context is empty. Long-lived workers are started in it."""
    return inside(CurrentContext.outside)
