# SPDX-License-Identifier: Apache-2.0
"""Lowering passes, one by one."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

from torchspan import semconv
from torchspan._base.reading import attribute, class_name, entries, instance_dict, is_of_library, text
from torchspan.adapters.machinery.wrap import WrapperFactory
from torchspan.engine import Audience, Observed
from torchspan.probes import Call, Record, Target
from torchspan.probes.describe import compilation


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
    audience = Audience.ALL if recorded else Audience.SUBSCRIBERS

    @engine.guard.around("wrapping the lowering passes")
    def with_wrapped_passes(manager: Any) -> Any:
        passes = entries(attribute(manager, "passes"))
        if passes is None or not is_of_library(type(manager)):  # copying any other manager would run the program's code
            return None
        observed = copy.copy(manager)
        observed.passes = [_wrap_pass(factory, target, action, audience, pass_) for pass_ in passes]
        return observed

    @engine.guard.around("remembering that lowering passes are valid")
    def remember(manager: Any, observed: Any) -> None:
        if hasattr(observed, "_validated"):  # the manager validates once, and remembers that
            manager._validated = observed._validated

    @functools.wraps(original)
    def observed_passes(self: Any, *args: Any, **kwargs: Any) -> Any:
        if engine.current is None or (not recorded and interest.countdown is None):
            return original(self, *args, **kwargs)
        observed = with_wrapped_passes(self)
        if observed is None:
            return original(self, *args, **kwargs)
        result = original(observed, *args, **kwargs)
        remember(self, observed)
        return result

    return observed_passes


def _wrap_pass(
    factory: WrapperFactory,
    target: Target,
    action: Record,
    audience: Audience,
    lowering_pass: Callable[..., Any],
) -> Callable[..., Any]:
    engine = factory.engine
    describe = engine.guard.around("describing a lowering pass")(compilation.lowering_pass)
    named = text(attribute(lowering_pass, "__name__")) or class_name(type(lowering_pass)).rpartition(".")[2]
    name = semconv.identifier(named)

    def observed_pass(*args: Any, **kwargs: Any) -> Any:
        call = Call(None, args, kwargs)
        facts = describe(name, call) or {}
        observed = Observed(lowering_pass, args, kwargs)
        event = engine.open(action.phase, facts, target=name, observed=observed, audience=audience)
        return (
            lowering_pass(*args, **kwargs) if event is None else factory.run(target, action, lowering_pass, call, event)
        )

    for attribute_name in functools.WRAPPER_ASSIGNMENTS:  # `functools.wraps` would read them from the program's object
        value = text(attribute(lowering_pass, attribute_name))
        if value is not None:
            setattr(observed_pass, attribute_name, value)
    observed_pass.__dict__.update(instance_dict(lowering_pass))
    observed_pass.__wrapped__ = lowering_pass  # type: ignore[attr-defined]
    return observed_pass
