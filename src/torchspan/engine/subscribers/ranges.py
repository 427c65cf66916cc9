# SPDX-License-Identifier: Apache-2.0
"""`record_function`: ranges that a program records itself, as a decorator and as a context manager."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, overload

from torchspan.base import dynamo_safety, reading
from torchspan.base.errors import PROCESS_GUARD
from torchspan.base.reading import attribute, is_a
from torchspan.engine.subscribers.callback_registry import REGISTRY
from torchspan.engine.subscribers.checks import check_integer, check_name, check_record_scope, check_tuple
from torchspan.engine.subscribers.function_wrappers import wrapped
from torchspan.engine.subscribers.interest import Interest
from torchspan.engine.subscribers.record_function import RecordFunction
from torchspan.engine.subscribers.scope import RecordScope

if TYPE_CHECKING:
    from typing_extensions import Self

F = TypeVar("F", bound=Callable[..., Any])

_NONE: Any = object()
_STARTING, _ENDING = "starting a range", "ending a range"


@overload
def record_function(function: F, /) -> F: ...
@overload
def record_function(
    name: str,
    *,
    scope: RecordScope = ...,
    inputs: tuple[Any, ...] = ...,
    sequence_nr: int = ...,
    forward_thread_id: int = ...,
    debug_handle: int = ...,
    operator_name: str | None = ...,
) -> RecordedRange: ...
@overload
def record_function(
    *,
    scope: RecordScope = ...,
    sequence_nr: int = ...,
    forward_thread_id: int = ...,
    debug_handle: int = ...,
    operator_name: str | None = ...,
) -> Callable[[F], F]: ...
def record_function(
    name: Any = _NONE,
    *,
    scope: RecordScope = RecordScope.USER_SCOPE,
    inputs: tuple[Any, ...] = (),
    sequence_nr: int = -1,
    forward_thread_id: int = 0,
    debug_handle: int = -1,
    operator_name: str | None = None,
) -> Any:
    """Record a range of the program: the calls of a decorated function, or a `with` statement.

        @record_function  # the range has the function's qualified name
        def load(path): ...


        @record_function("load weights")
        def load_weights(path): ...


        with record_function("warm up"):
            ...

    Decorates functions, methods, static and class methods, coroutine functions, generators and async generators, and
    returns one of the same kind. The range of a generator begins with its first step and ends when it is exhausted,
    raises or is closed. A callback that is registered between the call of a generator or of a coroutine function and its
    first step may miss the range. Put the decorator above `types.coroutine`.

    While no callback is registered, a decorated function costs one more call and one more test. Nothing is recorded in a function
    that Dynamo traces, nor for tensors without data.

    Args:
        name: The range's name, which callbacks get as `RecordFunction.name`. Without it the result decorates a function,
            and the range has the function's qualified name.
        scope: What kind of range it is.
        inputs: The inputs of a `with` statement. The inputs of a decorated function are its arguments.
        sequence_nr: See `RecordFunction`; -1 for none.
        forward_thread_id: See `RecordFunction`; 0 for none.
        debug_handle: See `RecordFunction`; -1 for none.
        operator_name: See `RecordFunction`. Default: the name of a decorated operator of PyTorch, such as
            `aten::add.Tensor`; None for other functions.

    Returns:
        A `RecordedRange`, which is a decorator and a context manager. Without a name, a decorator. For a function in
        place of the name, the decorated function.

    Raises:
        TypeError: An argument has the wrong type, or the decorated object is a class or cannot be called.
    """
    if type(name) is not str and not isinstance(name, str):
        if name is _NONE:
            options = (scope, inputs, sequence_nr, forward_thread_id, debug_handle, operator_name)
            return lambda function: RecordedRange(_name_of(function), *options)(function)
        if callable(name) or isinstance(name, (staticmethod, classmethod)):
            return RecordedRange(_name_of(name))(name)
        check_name("record_function", name)
    return RecordedRange(name, scope, inputs, sequence_nr, forward_thread_id, debug_handle, operator_name)


def _name_of(function: Any) -> str:
    return reading.function_name(getattr(function, "__func__", function))


_USUAL = (tuple, -1, 0, -1, None)


def _check(
    inputs: object, sequence_nr: object, forward_thread_id: object, debug_handle: object, operator_name: object
) -> None:
    """Raise TypeError for an argument of the wrong type."""
    check_tuple("inputs", inputs)
    check_integer("sequence_nr", sequence_nr)
    check_integer("forward_thread_id", forward_thread_id)
    check_integer("debug_handle", debug_handle)
    if operator_name is not None and not isinstance(operator_name, str):
        raise TypeError(f"operator_name must be a str or None, not {operator_name!r}")


class RecordedRange:
    """A range that `record_function` made: a context manager, and a decorator.

    One object can be used for one `with` statement at a time. It may be entered again inside itself.

    Args:
        name: See `record_function`, as for the other arguments.
        scope: What kind of range it is.
        inputs: The inputs of a `with` statement.
        sequence_nr: -1 for none.
        forward_thread_id: 0 for none.
        debug_handle: -1 for none.
        operator_name: Default: that of a decorated operator of PyTorch.

    Raises:
        TypeError: An argument has the wrong type.
    """

    __slots__ = (
        "_inputs", "_interest", "_name", "_numbers", "_open", "_operator_name",
    )  # fmt: skip
    beginning, ending = _STARTING, _ENDING

    def __init__(
        self,
        name: str,
        scope: RecordScope = RecordScope.USER_SCOPE,
        inputs: tuple[Any, ...] = (),
        sequence_nr: int = -1,
        forward_thread_id: int = 0,
        debug_handle: int = -1,
        operator_name: str | None = None,
    ) -> None:
        if (inputs.__class__, sequence_nr, forward_thread_id, debug_handle, operator_name) != _USUAL:
            _check(inputs, sequence_nr, forward_thread_id, debug_handle, operator_name)
        self._name = name
        self._inputs = inputs
        self._numbers = sequence_nr, forward_thread_id, debug_handle
        self._operator_name = operator_name
        self._open: list[RecordFunction | None] | None = None
        self._interest = _USER if scope is _USER_SCOPE or dynamo_safety.is_tracing() else _fired(scope)

    # --- as a context manager ---------------------------------------------------------------------------------
    def __enter__(self) -> Self:
        if dynamo_safety.is_tracing():
            return self
        is_wanted = self._interest.countdown is not None
        record = PROCESS_GUARD.call(_STARTING, self._begun, self._inputs, {}) if is_wanted else None
        if record is not None or self._open is not None:
            self._open = [*(self._open or ()), record]
        return self

    def __exit__(
        self, _type: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if self._open is not None and not dynamo_safety.is_tracing():
            record = self._open.pop()
            self._open = self._open or None  # what is traced may be guarded by it: None wherever nothing is open
            if record is not None:
                PROCESS_GUARD.end(_ENDING, self._ended, record, error)

    @property
    def record(self) -> RecordFunction | None:
        """The innermost open range of this object. None while no callback is registered, and in code that Dynamo traces."""
        return None if dynamo_safety.is_tracing() or not self._open else self._open[-1]

    def set_outputs(self, outputs: Any) -> None:
        """Set the outputs of the `with` statement, which end callbacks get as `RecordFunction.outputs`.

        Args:
            outputs: A tuple of outputs. Anything else is the only output.
        """
        if not dynamo_safety.is_tracing() and self.record is not None:
            self.record.set_outputs(outputs)

    # --- as a decorator ---------------------------------------------------------------------------------------
    def __call__(self, function: F) -> F:
        """Record each call of a function.

        Args:
            function: A function, a static or class method, or another callable object.

        Returns:
            The decorated function, of the same kind.

        Raises:
            TypeError: `function` is a class (decorate its methods), or cannot be called.
        """
        if dynamo_safety.is_tracing():
            return function
        if isinstance(function, (staticmethod, classmethod)):
            return type(function)(self(function.__func__))
        if isinstance(function, type):
            raise TypeError(
                f"record_function takes functions, not a class: decorate the methods of {function.__qualname__}"
            )
        if not callable(function):
            raise TypeError(
                f"record_function({self._name!r}) takes a function to decorate: {function!r} cannot be called"
            )
        site = copy.copy(self)
        site._operator_name = self._operator_name or _operator_name(function)
        return wrapped(function, site, self._interest)

    # --- a range ----------------------------------------------------------------------------------------------
    def _begun(self, args: tuple[Any, ...], kwargs: dict[str, Any], resumes: bool = False) -> RecordFunction | None:
        """Start a range if a callback runs for it."""
        if not resumes and REGISTRY.is_quiet(self._interest):
            return None
        if dynamo_safety.is_symbolic((*args, *kwargs.values()) if kwargs else args):
            return None
        record = RecordFunction._opened(self._interest, resumes=resumes)
        if record is not None and record.is_active:
            sequence_nr, record.forward_thread_id, record.debug_handle = self._numbers
            record.operator_name = self._operator_name
            record._start(self._name, args, kwargs, sequence_nr)
        return record

    @staticmethod
    def _ended(record: RecordFunction, error: BaseException | None = None, outputs: Any = _NONE) -> None:
        """End the range: it raised `error`, or `outputs` came out, unless they have been set."""
        if outputs is not _NONE:
            record.set_outputs(outputs)
        # A consumer of a generator that has had enough closes it: nothing has failed.
        record._finish(None if is_a(error, GeneratorExit) else error)


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
    name, overload = (reading.text(attribute(schema, attribute_name)) for attribute_name in ("name", "overload_name"))
    return None if name is None else f"{name}.{overload}" if overload else name
