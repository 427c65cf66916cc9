# SPDX-License-Identifier: Apache-2.0
"""`record_function`: what a program records of its own, as decorator and context manager."""

from __future__ import annotations

import copy
import functools
import inspect
import types
from collections.abc import AsyncGenerator, Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from torchspan.engine import _tracing
from torchspan.engine._record import RecordFunction
from torchspan.engine._registry import REGISTRY, Interest
from torchspan.engine._scope import RecordScope

if TYPE_CHECKING:
    from typing_extensions import Self

F = TypeVar("F", bound=Callable[..., Any])

_OF_DYNAMO = ("_torchdynamo_", "get_compiler_config")
"""Attributes with which Dynamo marks a function, which hold of that function alone."""
_NONE: Any = object()
_STARTING, _ENDING = "starting a range", "ending a range"


class record_function:  # noqa: N801 - PyTorch's name for it
    """A range of the program's own: a decorator and a context manager.

    As a decorator it takes functions, methods, static and class methods, coroutine functions, generators and async
    generators, and gives back one of the same kind. The range of a generator begins with its first step and ends when it is
    exhausted, raises or is closed; who begins to listen between its call, or that of a coroutine function, and the first
    step may not hear of it. `types.coroutine` goes below. As a context manager it gives itself, to `set_outputs`. One object
    stands for one `with` statement at a time; nested in itself it may be.

    name: what callbacks are told. scope: what kind of range. inputs: of the `with` statement; a decorated function's are its
    arguments. sequence_nr, forward_thread_id, debug_handle, operator_name: see `RecordFunction`.

    While nobody listens a decorated function costs one call and one test more. Nothing happens in a function that Dynamo
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
        self._name = name
        self._inputs = inputs
        self._sequence_nr = sequence_nr
        self._forward_thread_id = forward_thread_id
        self._debug_handle = debug_handle
        self._operator_name = operator_name
        self._open: list[RecordFunction | None] | None = None
        self._interest = _USER if scope is _USER_SCOPE or _tracing.is_tracing() else _fired(scope)

    # --- as a context manager ---------------------------------------------------------------------------------
    def __enter__(self) -> Self:
        if _tracing.is_tracing():
            return self
        record = None if self._interest.countdown is None else _open(self, self._inputs, {})
        if record is not None or self._open is not None:
            self._open = [*(self._open or ()), record]
        return self

    def __exit__(
        self, _type: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if self._open is not None and not _tracing.is_tracing():
            record = self._open.pop()
            self._open = self._open or None  # what is traced may be guarded by it: None wherever nothing is open
            if record is not None:
                _close(record, error)

    @property
    def record(self) -> RecordFunction | None:
        """The innermost range that is open here; None while nobody listens, and in code that is being traced."""
        return None if _tracing.is_tracing() or not self._open else self._open[-1]

    def set_outputs(self, outputs: Any) -> None:
        """What comes out of the `with` statement: a tuple, or the only output."""
        if not _tracing.is_tracing() and self.record is not None:
            self.record.set_outputs(outputs)

    # --- as a decorator ---------------------------------------------------------------------------------------
    def __call__(self, function: F) -> F:
        """`function`, recorded at each call. Raises TypeError for a class: decorate its methods."""
        if _tracing.is_tracing():
            return function
        if isinstance(function, (staticmethod, classmethod)):
            return type(function)(self(function.__func__))
        if isinstance(function, type):
            raise TypeError(f"record_function takes functions: decorate the methods of {function.__qualname__}")
        site = copy.copy(self)
        site._operator_name = self._operator_name or _operator_name(function)
        wrapper = _wrapper(function, site, self._interest)
        functools.update_wrapper(wrapper, function, updated=())
        wrapper.__dict__.update(
            (name, value)
            for name, value in getattr(function, "__dict__", {}).items()
            if not name.startswith(_OF_DYNAMO) and name not in wrapper.__dict__
        )
        wrapper._torchdynamo_inline = function  # Dynamo, tracing a call of ours, reads the function instead
        return wrapper  # type: ignore[no-any-return]


def _fired(scope: RecordScope) -> Interest:
    """Who listens to a scope other than the usual one; from now on it has a source."""
    _FIRED.add(scope)
    return REGISTRY.interest(scope)


_USER_SCOPE = RecordScope.USER_SCOPE  # a member of an enumeration takes its time to be found
_USER = REGISTRY.interest(_USER_SCOPE)
_FIRED = {_USER_SCOPE}
REGISTRY.add_source(_FIRED)


def _operator_name(function: Any) -> str | None:
    """`aten::add.Tensor` of an operator of PyTorch's."""
    schema = getattr(function, "_schema", None)
    name, overload = getattr(schema, "name", None), getattr(schema, "overload_name", "")
    return None if not isinstance(name, str) else f"{name}.{overload}" if overload else name


# --- a range --------------------------------------------------------------------------------------------------
def _open(site: record_function, args: tuple[Any, ...], kwargs: dict[str, Any], *, resumes: bool = False) -> Any:
    """Start a range if somebody is to hear of it; never fails the program."""
    if (not resumes and REGISTRY.is_quiet(site._interest)) or _tracing.is_symbolic(
        (*args, *kwargs.values()) if kwargs else args
    ):
        return None
    return _tracing.undisturbed(REGISTRY.guard.call, _STARTING, _begin, site, args, kwargs, resumes)


def _begin(site: record_function, args: tuple[Any, ...], kwargs: dict[str, Any], resumes: bool) -> Any:
    record = RecordFunction.opened(site._interest, resumes=resumes)
    if record is not None and record.is_active:
        record.forward_thread_id = site._forward_thread_id
        record.debug_handle = site._debug_handle
        record.operator_name = site._operator_name
        record.start(site._name, args, kwargs, site._sequence_nr)
    return record


def _close(record: RecordFunction, error: BaseException | None = None, outputs: Any = _NONE) -> None:
    _tracing.undisturbed(REGISTRY.guard.finish, _ENDING, _end, record, error, outputs)


def _end(record: RecordFunction, error: BaseException | None, outputs: Any) -> None:
    if outputs is not _NONE:
        record.set_outputs(outputs)
    # Who consumed a generator and has had enough closes it: nothing has failed.
    record.finish(None if isinstance(error, GeneratorExit) else error)


def _observe(function: Callable[..., Any], site: record_function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    record = _open(site, args, kwargs)
    if record is None:
        return function(*args, **kwargs)
    try:
        result = function(*args, **kwargs)
    except BaseException as error:
        _close(record, error)
        raise
    _close(record, None, result)
    return result


# --- one wrapper for each kind of function --------------------------------------------------------------------
def _wrapper(function: Any, site: record_function, interest: Interest) -> Any:
    if inspect.iscoroutinefunction(function):
        flag, of_kind, before = inspect.CO_COROUTINE, _of_coroutine, _before_coroutine
    elif inspect.isasyncgenfunction(function):
        flag, of_kind, before = inspect.CO_ASYNC_GENERATOR, _of_async_generator, _before_async_generator
    elif inspect.isgeneratorfunction(function):
        flag, of_kind, before = inspect.CO_GENERATOR, _of_generator, _before_generator
    else:
        return _of_function(function, site, interest)
    flags = getattr(getattr(function, "__code__", None), "co_flags", 0)
    if flags & inspect.CO_ITERABLE_COROUTINE:
        of_kind = _of_awaitable_generator
    recording = of_kind(function, site, interest)
    if not (_FLAGS_ARE_MARKS and flags & flag):
        return recording
    # What a coroutine or generator calls itself, in warnings too, it has from the function that made it.
    functools.update_wrapper(recording, function, assigned=("__name__", "__qualname__"), updated=())
    return before(function, recording, interest)


def _before(function: Any, recording: Any, interest: Interest) -> Any:
    """While nobody listens, what is called is the function itself: no frame of ours is around what it makes."""

    def recorded(*args: Any, **kwargs: Any) -> Any:
        if interest.countdown is None:
            return function(*args, **kwargs) if kwargs else function(*args)
        return recording(*args, **kwargs)

    return recorded


def _marked(factory: Callable[..., Any], flag: int) -> Any:
    """`factory`, whose functions say of themselves what `flag` says.

    It is what `inspect` reads. Its own mark would not do: there is one for coroutine functions only, since Python 3.12, and
    `functools.wraps` puts it on whatever is put around them as well, `def main(): asyncio.run(…)` included.
    """
    code = factory.__code__
    constants = (
        each.replace(co_flags=each.co_flags | flag) if isinstance(each, types.CodeType) else each
        for each in code.co_consts
    )
    return types.FunctionType(code.replace(co_consts=tuple(constants)), globals())


_before_coroutine = _marked(_before, inspect.CO_COROUTINE)
_before_generator = _marked(_before, inspect.CO_GENERATOR)
_before_async_generator = _marked(_before, inspect.CO_ASYNC_GENERATOR)
_FLAGS_ARE_MARKS = _before_generator(lambda: None, None, Interest(_USER_SCOPE))() is None
"""Whether the interpreter goes by the code and leaves the flags to those who ask. Python 3.10 makes a generator by the flag."""


def _of_function(function: Any, site: record_function, interest: Interest) -> Any:
    def recorded(*args: Any, **kwargs: Any) -> Any:
        countdown = interest.countdown
        if countdown is None:
            # Passing on no keywords takes longer than asking whether there are any.
            return function(*args, **kwargs) if kwargs else function(*args)
        for _ in countdown.passes:  # at most once: one event is let pass
            return function(*args, **kwargs) if kwargs else function(*args)
        return _observe(function, site, args, kwargs)

    return recorded


def _of_coroutine(function: Any, site: record_function, interest: Interest) -> Any:
    async def recorded(*args: Any, **kwargs: Any) -> Any:
        if interest.countdown is None:
            return await function(*args, **kwargs)
        record = _open(site, args, kwargs)
        if record is None:
            return await function(*args, **kwargs)
        try:
            result = await function(*args, **kwargs)
        except BaseException as error:
            _close(record, error)
            raise
        _close(record, None, result)
        return result

    return recorded


def _of_generator(function: Any, site: record_function, interest: Interest) -> Any:
    def recorded(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        record = None if interest.countdown is None else _open(site, args, kwargs, resumes=True)
        if record is None:
            return (yield from function(*args, **kwargs))
        try:
            result = yield from _resumed(function(*args, **kwargs), record)
        except BaseException as error:
            _close(record, error)
            raise
        _close(record, None, result)
        return result

    return recorded


_of_awaitable_generator = _marked(_of_generator, inspect.CO_ITERABLE_COROUTINE)  # what `types.coroutine` made


def _resumed(generator: Generator[Any, Any, Any], record: RecordFunction) -> Generator[Any, Any, Any]:
    """As `yield from generator`, each step of which runs inside the range."""
    step, argument = generator.send, None
    while True:
        with record.inside():
            try:
                value = step(argument)
            except StopIteration as stop:
                return stop.value
        try:
            step, argument = generator.send, (yield value)
        except GeneratorExit:
            with record.inside():
                generator.close()
            raise
        except BaseException as error:  # thrown in by the consumer: the generator's to handle
            step, argument = generator.throw, error


def _of_async_generator(function: Any, site: record_function, interest: Interest) -> Any:
    async def recorded(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        record = None if interest.countdown is None else _open(site, args, kwargs, resumes=True)
        generator = function(*args, **kwargs)
        step, argument, failure = generator.asend, None, None
        try:
            while True:
                try:
                    value = await _step(step, argument, record)
                except StopAsyncIteration:
                    return
                try:
                    step, argument = generator.asend, (yield value)
                except GeneratorExit:
                    await _step(lambda _none: generator.aclose(), None, record)
                    raise
                except BaseException as error:  # thrown in by the consumer: the generator's to handle
                    step, argument = generator.athrow, error
        except BaseException as error:
            failure = error
            raise
        finally:
            if record is not None:
                _close(record, failure)
            del failure

    return recorded


async def _step(step: Callable[[Any], Any], argument: Any, record: RecordFunction | None) -> Any:
    if record is None:
        return await step(argument)
    with record.inside():
        return await step(argument)
