# SPDX-License-Identifier: Apache-2.0
"""`record_function`: what a program records of its own, as decorator and context manager."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from torchspan import _dynamo_safety
from torchspan._base import reading
from torchspan._base.errors import PROCESS_GUARD
from torchspan._base.reading import attribute, is_a
from torchspan.subscribers.checks import check_name, check_record_scope
from torchspan.subscribers.function_wrappers import wrapped
from torchspan.subscribers.interest import Interest
from torchspan.subscribers.record_function import RecordFunction
from torchspan.subscribers.registry import REGISTRY
from torchspan.subscribers.scope import RecordScope

if TYPE_CHECKING:
    from typing_extensions import Self

F = TypeVar("F", bound=Callable[..., Any])

_NONE: Any = object()
_STARTING, _ENDING = "starting a range", "ending a range"


class record_function:  # noqa: N801 - PyTorch's name for it
    """A range of the program's own: a decorator and a context manager.

    As a decorator it takes functions, methods, static and class methods, coroutine functions, generators and async
    generators, and gives back one of the same kind. The range of a generator begins with its first step and ends when it is
    exhausted, raises or is closed; a callback that is registered between its call, or that of a coroutine function, and the
    first step may miss it. `types.coroutine` goes below. As a context manager it gives itself, to `set_outputs`. One object
    stands for one `with` statement at a time; nested in itself it may be.

    name: what callbacks get as the range's name. scope: what kind of range. inputs: of the `with` statement; a decorated
    function's are its arguments. sequence_nr, forward_thread_id, debug_handle, operator_name: see `RecordFunction`. Raises
    TypeError for a name that is no text (`@record_function` without parentheses) and for a scope that is no `RecordScope`.

    While no callback is registered, a decorated function costs one call and one test more. Nothing happens in a function that Dynamo
    traces, nor for stand-ins of tensors.
    """

    __slots__ = (
        "_debug_handle", "_forward_thread_id", "_inputs", "_interest", "_name", "_open", "_operator_name", "_sequence_nr",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        *,
        scope: RecordScope = RecordScope.USER_SCOPE,
        inputs: tuple[Any, ...] = (),
        sequence_nr: int = -1,
        forward_thread_id: int = 0,
        debug_handle: int = -1,
        operator_name: str | None = None,
    ) -> None:
        if type(name) is not str and not _dynamo_safety.is_tracing():  # a range is made often; a call takes its time
            check_name("record_function", name)
        self._name = name
        self._inputs = inputs
        self._sequence_nr = sequence_nr
        self._forward_thread_id = forward_thread_id
        self._debug_handle = debug_handle
        self._operator_name = operator_name
        self._open: list[RecordFunction | None] | None = None
        self._interest = _USER if scope is _USER_SCOPE or _dynamo_safety.is_tracing() else _fired(scope)

    # --- as a context manager ---------------------------------------------------------------------------------
    def __enter__(self) -> Self:
        if _dynamo_safety.is_tracing():
            return self
        record = None if self._interest.countdown is None else self._begun(self._inputs, {})
        if record is not None or self._open is not None:
            self._open = [*(self._open or ()), record]
        return self

    def __exit__(
        self, _type: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if self._open is not None and not _dynamo_safety.is_tracing():
            record = self._open.pop()
            self._open = self._open or None  # what is traced may be guarded by it: None wherever nothing is open
            if record is not None:
                self._ended(record, error)

    @property
    def record(self) -> RecordFunction | None:
        """The innermost range that is open here; None while no callback is registered, and in code that is being traced."""
        return None if _dynamo_safety.is_tracing() or not self._open else self._open[-1]

    def set_outputs(self, outputs: Any) -> None:
        """What comes out of the `with` statement: a tuple, or the only output."""
        if not _dynamo_safety.is_tracing() and self.record is not None:
            self.record.set_outputs(outputs)

    # --- as a decorator ---------------------------------------------------------------------------------------
    def __call__(self, function: F) -> F:
        """`function`, recorded at each call. Raises TypeError for a class (decorate its methods) and for what cannot be called."""
        if _dynamo_safety.is_tracing():
            return function
        if isinstance(function, (staticmethod, classmethod)):
            return type(function)(self(function.__func__))
        if isinstance(function, type):
            raise TypeError(f"record_function takes functions: decorate the methods of {function.__qualname__}")
        if not callable(function):
            raise TypeError(
                f"record_function({self._name!r}) takes a function to decorate: {function!r} cannot be called"
            )
        site = copy.copy(self)
        site._operator_name = self._operator_name or _operator_name(function)
        return wrapped(function, site, self._interest)

    # --- a range ----------------------------------------------------------------------------------------------
    def _begun(self, args: tuple[Any, ...], kwargs: dict[str, Any], *, resumes: bool = False) -> RecordFunction | None:
        """Start a range if a callback runs for it; never fails the program."""
        if not resumes and REGISTRY.is_quiet(self._interest):
            return None
        if _dynamo_safety.is_symbolic((*args, *kwargs.values()) if kwargs else args):
            return None
        begun: RecordFunction | None = _dynamo_safety.undisturbed(
            PROCESS_GUARD.call, _STARTING, self._begin, args, kwargs, resumes
        )
        return begun

    def _begin(self, args: tuple[Any, ...], kwargs: dict[str, Any], resumes: bool) -> RecordFunction | None:
        record = RecordFunction.opened(self._interest, resumes=resumes)
        if record is not None and record.is_active:
            record.forward_thread_id = self._forward_thread_id
            record.debug_handle = self._debug_handle
            record.operator_name = self._operator_name
            record.start(self._name, args, kwargs, self._sequence_nr)
        return record

    @staticmethod
    def _ended(record: RecordFunction, error: BaseException | None = None, outputs: Any = _NONE) -> None:
        """End the range: it raised `error`, or `outputs` came out, unless they have been set."""
        _dynamo_safety.undisturbed(PROCESS_GUARD.finish, _ENDING, _end, record, error, outputs)


def _fired(scope: RecordScope) -> Interest:
    """The interest in a scope other than the usual one; from now on it has a source."""
    check_record_scope(scope)
    _FIRED.add(scope)
    return REGISTRY.interest(scope)


_USER_SCOPE = RecordScope.USER_SCOPE  # a member of an enumeration takes its time to be found
_USER = REGISTRY.interest(_USER_SCOPE)
_FIRED = {_USER_SCOPE}
REGISTRY.add_source(_FIRED)


def _operator_name(function: Any) -> str | None:
    """`aten::add.Tensor` of an operator of PyTorch's."""
    schema = attribute(function, "_schema")
    name, overload = (reading.text(attribute(schema, each)) for each in ("name", "overload_name"))
    return None if name is None else f"{name}.{overload}" if overload else name


def _end(record: RecordFunction, error: BaseException | None, outputs: Any) -> None:
    if outputs is not _NONE:
        record.set_outputs(outputs)
    # A consumer of a generator that has had enough closes it: nothing has failed.
    record.finish(None if is_a(error, GeneratorExit) else error)
