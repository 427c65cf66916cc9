# SPDX-License-Identifier: Apache-2.0
"""Observing functions that one does not own."""

from __future__ import annotations

import difflib
import importlib
import weakref
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

from torchspan import _dynamo_safety
from torchspan._base.errors import ErrorPolicy
from torchspan.observers._checks import checked_policy
from torchspan.observers._observable import CallableObservers, make_observable
from torchspan.observers._observer import Observer
from torchspan.subscribers.registry import REGISTRY

if TYPE_CHECKING:
    from typing_extensions import Self

    from torchspan._base.patching import Patches


class Observation:
    """A function that is being observed: `remove` ends that, as do a call and the end of a `with` statement.

    observers: the function's pair.
    """

    def __init__(self, observed: Any, patches: Patches | None) -> None:
        self._observed = observed
        self._patches = patches

    @property
    def observers(self) -> CallableObservers:
        """The pair that fires before and after each call."""
        found: CallableObservers = _NEVER_FIRED if self._observed is None else self._observed.observers
        return found

    def remove(self) -> None:
        """Put the function back wherever what observes it is still bound; elsewhere calls pass through. A second time: nothing."""
        if self._patches is None or _dynamo_safety.is_tracing():
            return
        with REGISTRY.changing():
            patches, self._patches = self._patches, None
            _GOING_ON.discard(self)
            patches.undo(above=[each._patches for each in _GOING_ON if each._patches is not None])
            self._observed._torchspan_site.ended()

    __call__ = remove

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.remove()


_NEVER_FIRED = CallableObservers(pre=Observer("pre"), post=Observer("post"))
"""Of what was to be observed in code that is being traced."""

_GOING_ON: weakref.WeakSet[Observation] = weakref.WeakSet()
"""A later one of the same function lies over an earlier one, which may end first."""


def observe_function(target: str, *, policy: ErrorPolicy | None = None) -> Observation:
    """Observe a function that one does not own, in every module that has taken it, until `Observation.remove`.

    target: `module:name`, `module:Class.method`; the module is imported. policy: what becomes of exceptions of callbacks.
    Raises ValueError for what is no such text, TypeError for a function in place of its name, ImportError for a module that cannot be imported, AttributeError where it
    has no such name, TypeError for what is no function or lies in a type whose attributes cannot be replaced.
    """
    if _dynamo_safety.is_tracing():
        return Observation(None, None)
    from torchspan._base.patching import Patches, in_use

    if not isinstance(target, str):
        module, name = getattr(target, "__module__", None), getattr(target, "__qualname__", None)
        hint = f": write observe_function({f'{module}:{name}'!r})" if module and name else ""
        raise TypeError(f"target must be text, `module:name` or `module:Class.method`, not {target!r}{hint}")
    checked_policy(policy)
    module_name, separator, path = target.partition(":")
    if not (separator and module_name and all(part.isidentifier() for part in path.split("."))):
        raise ValueError(f"{target!r} names no function: write `module:name` or `module:Class.method`")
    holder, name = _find(target, importlib.import_module(module_name), path.split("."))
    patches = Patches(module_name.partition(".")[0], everywhere=True)
    made: list[Any] = []

    def make(function: Any) -> Any:
        made.append(make_observable(function, policy))
        return made[0]

    with REGISTRY.changing():
        original = vars(holder)[name]
        try:
            if isinstance(holder, ModuleType):
                patches.replace_functions([(original, make(in_use(original)))])
            else:
                patches.replace_attribute(holder, name, make)
        except (TypeError, AttributeError) as error:
            raise TypeError(f"{target} cannot be observed: {error}") from error
        observation = Observation(made[0], patches)
        _GOING_ON.add(observation)
    return observation


def _find(target: str, module: ModuleType, path: list[str]) -> tuple[Any, str]:
    """The module or class that defines the name, and the name."""
    holder: Any = module
    for part in path[:-1]:
        holder = getattr(holder, part) if hasattr(holder, part) else _missing(target, holder, part)
        if not isinstance(holder, (type, ModuleType)):
            raise TypeError(f"{target} cannot be observed: {part} is no class")
    name = path[-1]
    if name not in vars(holder):
        owner = next((each for each in getattr(holder, "__mro__", ()) if name in vars(each)), None)
        if owner is not None:
            raise AttributeError(f"{target} is inherited: observe {owner.__module__}:{owner.__qualname__}.{name}")
        _missing(target, holder, name)
    return holder, name


def _missing(target: str, holder: Any, name: str) -> NoReturn:
    close = difflib.get_close_matches(name, list(vars(holder)), 1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise AttributeError(f"cannot observe {target}: {holder.__name__} has no {name!r}{hint}")
