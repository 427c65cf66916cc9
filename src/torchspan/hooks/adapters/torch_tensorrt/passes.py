# SPDX-License-Identifier: Apache-2.0
"""Lowering passes, one by one."""

from __future__ import annotations

import copy
import functools
from typing import Any

from torchspan.base.reading import attribute, class_name, entries, instance_dict, is_of_library, text
from torchspan.engine import Audience, Event, Observed
from torchspan.hooks.adapters.machinery.wrap import RecordedCalls, WrapperFactory
from torchspan.hooks.probes import Call, Record, Target
from torchspan.hooks.probes.describe import compilation
from torchspan.words import semconv


def wrap_pass_manager(factory: WrapperFactory, target: Target, action: Record, original: Any, *, recorded: bool) -> Any:
    """`DynamoPassManager.__call__`, with an event for each pass.

    The manager takes its passes from a list that was made when the library was imported. The list is not changed: each call
    runs on a shallow copy of the manager with a list of wrapped passes. So other threads, the user's own passes and those of
    the Debugger (which swaps the list) work as before.

    Args:
        recorded: Whether the events are recorded. If not, only user callbacks and observers receive them, while any is
            registered.
    """
    engine = factory.engine
    interest = engine.registry.interest(action.phase)
    audience = Audience.ALL if recorded else Audience.USERS

    def with_wrapped_passes(manager: Any) -> Any:
        if engine.current is None or (not recorded and interest.countdown is None):
            return None
        passes = entries(attribute(manager, "passes"))
        if passes is None or not is_of_library(type(manager)):  # copying any other manager would run the program's code
            return None
        observed = copy.copy(manager)
        observed.passes = [_Pass.wrap(factory, target, action, pass_, audience) for pass_ in passes]
        return observed

    def remember(manager: Any, observed: Any) -> None:
        if hasattr(observed, "_validated"):  # the manager validates once, and remembers that
            manager._validated = observed._validated

    @functools.wraps(original)
    def observed_passes(self: Any, *args: Any, **kwargs: Any) -> Any:
        observed = engine.guard.call("wrapping the lowering passes", with_wrapped_passes, self)
        if observed is None:
            return original(self, *args, **kwargs)
        result = original(observed, *args, **kwargs)
        engine.guard.call("remembering that lowering passes are valid", remember, self, observed)
        return result

    return observed_passes


class _Pass(RecordedCalls):
    """The calls of one lowering pass as events. name: of the pass."""

    def __init__(
        self, factory: WrapperFactory, target: Target, action: Record, lowering_pass: Any, audience: Audience
    ) -> None:
        super().__init__(factory, target, action, lowering_pass)
        self._audience = audience
        named = text(attribute(lowering_pass, "__name__")) or class_name(type(lowering_pass)).rpartition(".")[2]
        self._name = semconv.identifier(named)

    def open(self, call: Call) -> Event | None:
        """See `RecordedCalls`."""
        engine = self.factory.engine
        facts = self.factory.described(self.target, functools.partial(compilation.lowering_pass, self._name), call)
        observed = Observed(self.original, call.args, call.kwargs)
        return engine.open(self.action.phase, facts, target=self._name, observed=observed, audience=self._audience)

    def replacement(self) -> Any:
        """See `RecordedCalls`. `functools.wraps` would read the attributes from the program's object."""
        observed_pass = self.bare()
        for attribute_name in functools.WRAPPER_ASSIGNMENTS:
            value = text(attribute(self.original, attribute_name))
            if value is not None:
                setattr(observed_pass, attribute_name, value)
        observed_pass.__dict__.update(instance_dict(self.original))
        observed_pass.__wrapped__ = self.original
        return observed_pass
