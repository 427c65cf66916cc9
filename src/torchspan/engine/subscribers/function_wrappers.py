# SPDX-License-Identifier: Apache-2.0
"""One wrapper for each kind of function whose calls are recorded."""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from torchspan.base.errors import PROCESS_GUARD
from torchspan.engine.subscribers.interest import Gate

if TYPE_CHECKING:
    from typing_extensions import Self

F = TypeVar("F", bound=Callable[..., Any])

_ENTERING = "entering the body of a recorded generator"

_OF_DYNAMO = ("_torchdynamo_", "get_compiler_config")
"""Attributes with which Dynamo marks a function, which apply to that function alone."""


class Opened(Protocol):
    """A call that is recorded and has not ended."""

    def _enter(self) -> Callable[[], object] | None:
        """A step of a generator's body begins. Returns what runs at its end; None for nothing."""


class Site(Protocol):
    """Records the calls of one function.

    beginning, ending: the names by which the guard knows its two steps.
    """

    @property
    def beginning(self) -> str: ...
    @property
    def ending(self) -> str: ...

    def _begun(self, args: tuple[Any, ...], kwargs: dict[str, Any], resumes: bool = False) -> Any:
        """A call begins. Returns an `Opened`, or None if no callback runs for it.

        Args:
            resumes: Its body is left and entered again.
        """

    def _ended(self, opened: Any, error: BaseException | None = None, result: Any = None) -> None:
        """It ended: it raised `error`, or returned `result`."""


def wrapped(function: F, site: Site, gate: Gate) -> F:
    """A wrapper of `function`, of the same kind and with its attributes, whose calls `site` records while `gate` is open."""
    wrapper = _wrapper(function, site, gate)
    functools.update_wrapper(wrapper, function, updated=())
    theirs = {
        name: value for name, value in getattr(function, "__dict__", {}).items() if not name.startswith(_OF_DYNAMO)
    }
    # Dynamo, tracing a call of the wrapper, reads the function instead.
    wrapper.__dict__ = _OwnAttributes({**theirs, **wrapper.__dict__, "_torchdynamo_inline": function})
    return wrapper  # type: ignore[no-any-return]


class _OwnAttributes(dict[str, Any]):
    """The attributes of a wrapper. A copy of them has only those that may apply to another function too.

    `functools.wraps` copies them to the wrapper that a program puts around a decorated function. Dynamo would mistake that for
    torchspan's wrapper, and read the undecorated function in its place. So compiled code would skip what the program's wrapper does.
    """

    def keys(self) -> Any:
        return [name for name in dict.keys(self) if not name.startswith(_OF_DYNAMO)]

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def items(self) -> Any:
        return [(name, self[name]) for name in self.keys()]

    def __reduce__(self) -> Any:
        return dict, (self.items(),)


def _wrapper(function: Any, site: Site, gate: Gate) -> Any:
    if inspect.iscoroutinefunction(function):
        flag, of_kind, before = inspect.CO_COROUTINE, _of_coroutine, _before_coroutine
    elif inspect.isasyncgenfunction(function):
        flag, of_kind, before = inspect.CO_ASYNC_GENERATOR, _of_async_generator, _before_async_generator
    elif inspect.isgeneratorfunction(function):
        flag, of_kind, before = inspect.CO_GENERATOR, _of_generator, _before_generator
    else:
        return _of_function(function, site, gate)
    flags = getattr(getattr(function, "__code__", None), "co_flags", 0)
    if flags & inspect.CO_ITERABLE_COROUTINE:
        of_kind = _of_awaitable_generator
    recording = of_kind(function, site, gate)
    if not flags & flag or sys.version_info < (3, 11):  # Python 3.10 makes a generator because of the flag
        return recording
    # What a coroutine or generator calls itself, in warnings too, it has from the function that made it.
    functools.update_wrapper(recording, function, assigned=("__name__", "__qualname__"), updated=())
    return before(function, recording, gate)


def _before(function: Any, recording: Any, gate: Gate) -> Any:
    """While the gate is closed, the function itself is called, without a frame of torchspan around what it makes."""

    def recorded(*args: Any, **kwargs: Any) -> Any:
        if gate.countdown is None:
            return function(*args, **kwargs) if kwargs else function(*args)
        return recording(*args, **kwargs)

    return recorded


def _marked(factory: Callable[..., Any], flag: int) -> Any:
    """`factory`, whose functions have the code flag `flag`.

    `inspect` reads that flag. The mark of `inspect` would not do: it exists only for coroutine functions, since Python 3.12, and
    `functools.wraps` copies it to every wrapper around them as well, `def main(): asyncio.run(…)` included. The code of all wrappers is
    one object, which Dynamo gets to know when it arrives.
    """
    code = factory.__code__
    constants = (
        const.replace(co_flags=const.co_flags | flag) if isinstance(const, types.CodeType) else const
        for const in code.co_consts
    )
    return types.FunctionType(code.replace(co_consts=tuple(constants)), globals())


_before_coroutine = _marked(_before, inspect.CO_COROUTINE)
_before_generator = _marked(_before, inspect.CO_GENERATOR)
_before_async_generator = _marked(_before, inspect.CO_ASYNC_GENERATOR)


class _InBody:
    """Around a step of a generator's body. record: None for a call that is not recorded."""

    __slots__ = ("_leave", "_record")

    def __init__(self, record: Opened | None) -> None:
        self._record = record
        self._leave: Callable[[], object] | None = None

    def __enter__(self) -> None:
        if self._record is not None:
            self._leave = PROCESS_GUARD.call(_ENTERING, self._record._enter)

    def __exit__(self, *_exception: object) -> None:
        if self._leave is not None:
            PROCESS_GUARD.end(_ENTERING, self._leave)


def _of_function(function: Any, site: Site, gate: Gate) -> Any:
    call, begun, end, ended = PROCESS_GUARD.call, site._begun, PROCESS_GUARD.end, site._ended
    beginning, ending = site.beginning, site.ending

    def observe(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        record = call(beginning, begun, args, kwargs)
        if record is None:
            return function(*args, **kwargs)
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            end(ending, ended, record, error)
            raise
        end(ending, ended, record, None, result)
        return result

    def recorded(*args: Any, **kwargs: Any) -> Any:
        countdown = gate.countdown
        if countdown is None:
            # Passing on no keywords takes longer than asking whether there are any.
            return function(*args, **kwargs) if kwargs else function(*args)
        for _ in countdown.passes:  # at most once: one event is let pass
            return function(*args, **kwargs) if kwargs else function(*args)
        return observe(args, kwargs)

    return recorded


def _begun(site: Site, gate: Gate, args: tuple[Any, ...], kwargs: dict[str, Any], *, resumes: bool) -> Any:
    """The recorded call of a function whose body is left and entered again; None if it is not recorded."""
    return None if gate.countdown is None else PROCESS_GUARD.call(site.beginning, site._begun, args, kwargs, resumes)


class _Ending:
    """A context manager that ends a recorded call, with what it raises or with its `result`."""

    __slots__ = ("_record", "_site", "result")

    def __init__(self, site: Site, record: Opened | None) -> None:
        self._site = site
        self._record = record
        self.result: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if self._record is not None:
            PROCESS_GUARD.end(self._site.ending, self._site._ended, self._record, error, self.result)


def _of_coroutine(function: Any, site: Site, gate: Gate) -> Any:
    async def recorded(*args: Any, **kwargs: Any) -> Any:
        record = _begun(site, gate, args, kwargs, resumes=False)
        if record is None:
            return await function(*args, **kwargs)
        with _Ending(site, record) as ending:
            ending.result = await function(*args, **kwargs)
        return ending.result

    return recorded


def _of_generator(function: Any, site: Site, gate: Gate) -> Any:
    def recorded(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        record = _begun(site, gate, args, kwargs, resumes=True)
        if record is None:
            return (yield from function(*args, **kwargs))
        with _Ending(site, record) as ending:
            ending.result = yield from _Steps(function(*args, **kwargs), record)
        return ending.result

    return recorded


_of_awaitable_generator = _marked(_of_generator, inspect.CO_ITERABLE_COROUTINE)  # what `types.coroutine` made


class _Steps:
    """A generator of the program for `yield from`, each step of which runs inside the range."""

    __slots__ = ("_generator", "_record")

    def __init__(self, generator: Generator[Any, Any, Any], record: Opened) -> None:
        self._generator = generator
        self._record = record

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        """As the generator's."""
        with _InBody(self._record):
            return self._generator.send(value)

    def throw(self, *error: Any) -> Any:
        """As the generator's: what the consumer throws in is for the generator to handle."""
        with _InBody(self._record):
            return self._generator.throw(*error)

    def close(self) -> None:
        """As the generator's."""
        with _InBody(self._record):
            self._generator.close()


def _of_async_generator(function: Any, site: Site, gate: Gate) -> Any:
    async def recorded(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        record = _begun(site, gate, args, kwargs, resumes=True)
        steps = _AsyncSteps(function(*args, **kwargs), record)
        with _Ending(site, record):
            while await steps.advance():
                try:
                    steps.send((yield steps.value))
                except BaseException as error:
                    await steps.throw(error)

    return recorded


class _AsyncSteps:
    """An asynchronous generator of the program, each step of which runs inside the range.

    value: what the last step has yielded.
    """

    __slots__ = ("_generator", "_next", "_record", "value")

    def __init__(self, generator: AsyncGenerator[Any, Any], record: Opened | None) -> None:
        self._generator = generator
        self._record = record
        self.value: Any = None
        self.send(None)

    async def advance(self) -> bool:
        """Make the next step. Returns whether it has yielded a value."""
        try:
            with _InBody(self._record):
                self.value = await self._next()
        except StopAsyncIteration:
            return False
        return True

    def send(self, value: Any) -> None:
        """Have the next step get `value`."""
        self._next = functools.partial(self._generator.asend, value)

    async def throw(self, error: BaseException) -> None:
        """Have the next step raise `error`, which the consumer has thrown in. Closed by the consumer, there is none."""
        if isinstance(error, GeneratorExit):
            with _InBody(self._record):
                await self._generator.aclose()
            raise error
        self._next = functools.partial(self._generator.athrow, error)
