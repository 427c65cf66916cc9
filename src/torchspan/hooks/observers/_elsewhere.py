# SPDX-License-Identifier: Apache-2.0
"""Observing functions of other libraries."""

from __future__ import annotations

import difflib
import importlib
import weakref
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

from torchspan.base import dynamo_safety
from torchspan.base.errors import ErrorPolicy
from torchspan.engine.subscribers.callback_registry import REGISTRY
from torchspan.engine.subscribers.entry import Removable
from torchspan.hooks.observers._checks import checked_policy
from torchspan.hooks.observers._observable import CallableObservers, make_observable
from torchspan.hooks.observers._observer import Observer

if TYPE_CHECKING:
    from torchspan.base.patching import Patches


class Observation(Removable):
    """A function that `observe_function` observes. Call `remove` to stop, or use this object in a `with` statement.

    Args:
        observed: The observed form of the function. None in code that Dynamo traces.
        patches: The names that it is bound to. None in code that Dynamo traces.
    """

    def __init__(self, observed: Any, patches: Patches | None) -> None:
        self._observed = observed
        self._patches = patches

    @property
    def observers(self) -> CallableObservers:
        """The pair that fires before and after each call."""
        observers: CallableObservers = _NEVER_FIRED if self._observed is None else self._observed.observers
        return observers

    def remove(self) -> None:
        """Restore the function wherever the observed one is bound. Other references to it call the function unobserved.

        A second call does nothing.
        """
        if self._patches is None or dynamo_safety.is_tracing():
            return
        with REGISTRY.changing():
            patches, self._patches = self._patches, None
            _ACTIVE.discard(self)
            patches.undo(above=[proxy._patches for proxy in _ACTIVE if proxy._patches is not None])
            self._observed._torchspan_site.ended()


_NEVER_FIRED = CallableObservers(pre=Observer("pre"), post=Observer("post"))
"""Returned in code that Dynamo traces, which observes nothing."""

_ACTIVE: weakref.WeakSet[Observation] = weakref.WeakSet()
"""A later one of the same function lies over an earlier one, which may end first."""


def observe_function(target: str, *, policy: ErrorPolicy | None = None) -> Observation:
    """Observe a function of another library, in every module that has imported it, until `Observation.remove`.

    Args:
        target: `module:name` or `module:Class.method`. The module is imported.
        policy: How exceptions of callbacks are handled. Default: they are logged, and a callback that keeps failing is
            disabled.

    Returns:
        The observation, whose `observers` are the pair that fires. It ends with `remove()` or with a `with` statement.

    Raises:
        TypeError: `target` is not a string or is not the path of a function, or `policy` has the wrong type.
        ValueError: `target` does not have the form `module:name`.
        ImportError: The module cannot be imported.
        AttributeError: The module or the class has no such name.
    """
    if dynamo_safety.is_tracing():
        return Observation(None, None)
    from torchspan.base.patching import Patches, in_use

    if not isinstance(target, str):
        module, name = getattr(target, "__module__", None), getattr(target, "__qualname__", None)
        hint = f": write observe_function({f'{module}:{name}'!r})" if module and name else ""
        raise TypeError(f"target must be a str, 'module:name' or 'module:Class.method', not {target!r}{hint}")
    checked_policy(policy)
    module_name, separator, path = target.partition(":")
    if not (separator and module_name and all(part.isidentifier() for part in path.split("."))):
        raise ValueError(f"target must be 'module:name' or 'module:Class.method', not {target!r}")
    holder, name = _find(target, importlib.import_module(module_name), path.split("."))
    patches = Patches(module_name.partition(".")[0], everywhere=True)
    observables: list[Any] = []

    def make(function: Any) -> Any:
        observables.append(make_observable(function, policy))
        return observables[0]

    with REGISTRY.changing():
        original = vars(holder)[name]
        try:
            if isinstance(holder, ModuleType):
                patches.replace_functions([(original, make(in_use(original)))])
            else:
                patches.replace_attribute(holder, name, make)
        except (TypeError, AttributeError) as error:
            raise TypeError(f"{target} cannot be observed: {error}") from error
        observation = Observation(observables[0], patches)
        _ACTIVE.add(observation)
    return observation


def _find(target: str, module: ModuleType, path: list[str]) -> tuple[Any, str]:
    """The module or class that defines the name, and the name."""
    holder: Any = module
    for part in path[:-1]:
        holder = getattr(holder, part) if hasattr(holder, part) else _missing(target, holder, part)
        if not isinstance(holder, (type, ModuleType)):
            raise TypeError(f"{target} cannot be observed: {part} is not a class")
    name = path[-1]
    if name not in vars(holder):
        owner = next((class_ for class_ in getattr(holder, "__mro__", ()) if name in vars(class_)), None)
        if owner is not None:
            raise AttributeError(f"{target} is inherited: observe {owner.__module__}:{owner.__qualname__}.{name}")
        _missing(target, holder, name)
    return holder, name


def _missing(target: str, holder: Any, name: str) -> NoReturn:
    close = difflib.get_close_matches(name, list(vars(holder)), 1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise AttributeError(f"cannot observe {target}: {holder.__name__} has no {name!r}{hint}")
