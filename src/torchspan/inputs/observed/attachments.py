# SPDX-License-Identifier: Apache-2.0
"""How an observer is put on a module, and taken off: by hooks, which see the calls of the module, and no direct call of its
`forward`.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from torchspan.base import dynamo_safety
from torchspan.inputs.observed.recorder import ModuleRecorder


class ForwardHooks:
    """Two hooks of a module, before and after each call."""

    def __init__(self, module: Any, recorder: ModuleRecorder) -> None:
        _let_torchscript_pass()
        self._before = module.register_forward_pre_hook(_Hook(module, recorder.begin), with_kwargs=True)
        try:
            self._after = module.register_forward_hook(_EndHook(module, recorder.end), always_call=True)
        except BaseException:
            self._before.remove()
            raise

    def detach(self) -> None:
        self._before.remove()
        self._after.remove()


class CallHook:
    """One hook of a module, which has the arguments of each call before the module runs.

    Args:
        begin: Takes the positional and the keyword arguments, and raises nothing.
        comes_first: Before the hooks that the module has. Otherwise after them, with the arguments that they make of
            the call's.
    """

    def __init__(
        self, module: Any, begin: Callable[[tuple[Any, ...], dict[str, Any]], None], *, comes_first: bool = False
    ) -> None:
        _let_torchscript_pass()
        self._before = module.register_forward_pre_hook(_Hook(module, begin), prepend=comes_first, with_kwargs=True)

    def detach(self) -> None:
        self._before.remove()


class _Hook:
    """A hook of one module alone: a copy of the module, made while the observer is on it, is not observed."""

    __slots__ = ("_module", "_record")

    def __init__(self, module: Any, record: Callable[..., None]) -> None:
        self._module = weakref.ref(module)
        self._record = record

    def __call__(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not dynamo_safety.is_tracing() and self._module() is module:
            dynamo_safety.undisturbed(self._record, args, kwargs)

    def __deepcopy__(self, _memo: dict[int, Any]) -> Callable[..., None]:
        return _no_hook

    def __reduce__(self) -> tuple[Any, ...]:
        return _get_no_hook, ()


class _EndHook(_Hook):
    __slots__ = ()

    def __call__(self, module: Any, _args: tuple[Any, ...], _result: Any) -> None:
        if not dynamo_safety.is_tracing() and self._module() is module:
            dynamo_safety.undisturbed(self._record)


def _no_hook(*_call: Any) -> None:
    """The hook of a copy."""


def _get_no_hook() -> Callable[..., None]:
    return _no_hook


_TABLES = ("_forward_hooks", "_forward_pre_hooks")


@functools.cache
def _let_torchscript_pass() -> None:
    """From now on `torch.jit.script`, which compiles every hook of a module, sees the hooks of the program alone."""
    library = sys.modules["torch.jit._recursive"]
    for name in ("get_hook_stubs", "infer_concrete_type_builder"):
        setattr(library, name, _seeing_hooks_of_the_program(getattr(library, name)))


def _seeing_hooks_of_the_program(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def without_own_hooks(module: Any, *args: Any, **kwargs: Any) -> Any:
        tables = {name: vars(module)[name] for name in _TABLES if name in vars(module)}
        for name, table in tables.items():  # another one: a call in another thread may be iterating over this one
            hooks = ((key, hook) for key, hook in table.items() if not (isinstance(hook, _Hook) or _no_hook is hook))
            vars(module)[name] = OrderedDict(hooks)
        try:
            return function(module, *args, **kwargs)
        finally:
            vars(module).update(tables)

    return without_own_hooks
