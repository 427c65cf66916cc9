# SPDX-License-Identifier: Apache-2.0
"""How an observer is put on a model, and taken off: hooks for `forward`, a wrapper for any other method."""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable
from types import MethodType
from typing import Any, Protocol

from torchspan import _dynamo_safety
from torchspan._base.reading import is_a
from torchspan.inputs.observed.recorder import ModuleRecorder


class Attachment(Protocol):
    """An observer that is on a model."""

    def detach(self) -> None:
        """Take it off, whatever was put on the model since."""


def attach(model: Any, method_name: str, recorder: ModuleRecorder) -> Attachment:
    """Have the recorder see the calls of a method of this model."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and method_name == "forward" and is_a(model, torch.nn.Module):
        return ForwardHooks(model, recorder)
    return WrappedMethod(model, method_name, recorder)


# --- forward ---------------------------------------------------------------------------------------------------------
class ForwardHooks:
    """Two hooks of a module: they see the calls of the module, and no direct call of its `forward`."""

    def __init__(self, module: Any, recorder: ModuleRecorder) -> None:
        self._before = module.register_forward_pre_hook(_Hook(module, _begin(recorder)), with_kwargs=True)
        try:
            self._after = module.register_forward_hook(
                _Hook(module, _end(recorder)), with_kwargs=True, always_call=True
            )
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
        self._before = module.register_forward_pre_hook(_CallHook(module, begin), prepend=comes_first, with_kwargs=True)

    def detach(self) -> None:
        self._before.remove()


def _begin(recorder: ModuleRecorder) -> Callable[..., None]:
    def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        recorder.begin(args, kwargs)

    return begin


def _end(recorder: ModuleRecorder) -> Callable[..., None]:
    def end(_args: tuple[Any, ...], _kwargs: dict[str, Any], result: Any) -> None:
        recorder.end(result)

    return end


class _Hook:
    """A hook of one module alone: a copy of the module, made while the observer is on it, is not observed."""

    __slots__ = ("_module", "_record")

    def __init__(self, module: Any, record: Callable[..., None]) -> None:
        self._module = weakref.ref(module)
        self._record = record

    def __call__(self, module: Any, *call: Any) -> None:
        if not _dynamo_safety.is_tracing() and self._module() is module:
            _dynamo_safety.undisturbed(self._record, *call)

    def __deepcopy__(self, _memo: dict[int, Any]) -> Callable[..., None]:
        return _no_hook

    def __reduce__(self) -> tuple[Any, ...]:
        return _get_no_hook, ()


class _CallHook(_Hook):
    """A hook that runs at every call in production: `*call` of the other one would take longer."""

    __slots__ = ()

    def __call__(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not _dynamo_safety.is_tracing() and self._module() is module:
            _dynamo_safety.undisturbed(self._record, args, kwargs)


def _no_hook(*_call: Any) -> None:
    """The hook of a copy."""


def _get_no_hook() -> Callable[..., None]:
    return _no_hook


# --- other methods ---------------------------------------------------------------------------------------------------
class WrappedMethod:
    """A method of one object is replaced by a function that calls it. All observers of the method share the function."""

    def __init__(self, model: Any, name: str, recorder: ModuleRecorder) -> None:
        attribute_value = vars(model).get(name)
        self._wrapper = (
            attribute_value
            if isinstance(attribute_value, _Wrapper)
            else _Wrapper(model, name, attribute_value, getattr(model, name))
        )
        self._recorder = recorder
        self._wrapper.recorders = (*self._wrapper.recorders, recorder)
        if attribute_value is not self._wrapper:
            _store(model, name, self._wrapper)

    def detach(self) -> None:
        self._wrapper.remove(self._recorder)


class _Wrapper:
    """What stands in an object's dictionary in place of its method."""

    def __init__(self, model: Any, name: str, own_value: Any, method: Callable[..., Any]) -> None:
        self._model = weakref.ref(model)
        self._name = name
        self._held = own_value  # what the object itself had under this name
        self._method: Any = method if own_value is not None else getattr(method, "__func__", method)
        self._is_bound = own_value is None and isinstance(method, MethodType)
        self.recorders: tuple[ModuleRecorder, ...] = ()
        functools.update_wrapper(self, method)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _dynamo_safety.is_tracing():
            return self._call(*args, **kwargs)
        recorders = self.recorders
        for recorder in recorders:
            _dynamo_safety.undisturbed(recorder.begin, args, kwargs)
        result = None
        try:
            result = self._call(*args, **kwargs)
        except BaseException:
            self._end(recorders, None)  # here, where the exception is being handled
            raise
        self._end(recorders, result)
        return result

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        return self._method(self._model(), *args, **kwargs) if self._is_bound else self._method(*args, **kwargs)

    def _end(self, recorders: tuple[ModuleRecorder, ...], result: Any) -> None:
        for recorder in reversed(recorders):
            _dynamo_safety.undisturbed(recorder.end, result)

    def remove(self, recorder: ModuleRecorder) -> None:
        """Stop recording; with the last recorder, the object is as it was, unless something else replaced the method."""
        self.recorders = tuple(other for other in self.recorders if other is not recorder)
        model = self._model()
        if self.recorders or model is None or vars(model).get(self._name) is not self:
            return
        if self._held is None:
            _delete(model, self._name)
        else:
            _store(model, self._name, self._held)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """The method itself, of the copy."""
        copy = memo.get(id(self._model()))
        return MethodType(self._method, copy) if self._is_bound and copy is not None else self._method

    def __reduce__(self) -> tuple[Any, ...]:
        return (getattr, (self._model(), self._name)) if self._is_bound else (_itself, (self._method,))


def _itself(method: Any) -> Any:
    return method


def _store(model: Any, name: str, value: Any) -> None:
    """As `setattr`, which a module has its own ideas of."""
    vars(model)[name] = value


def _delete(model: Any, name: str) -> None:
    vars(model).pop(name, None)
