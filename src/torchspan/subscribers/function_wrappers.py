# SPDX-License-Identifier: Apache-2.0
"""One wrapper for each kind of function whose calls are recorded."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from torchspan.subscribers.interest import Gate

F = TypeVar("F", bound=Callable[..., Any])

_OF_DYNAMO = ("_torchdynamo_", "get_compiler_config")
"""Attributes with which Dynamo marks a function, which apply to that function alone."""


class Opened(Protocol):
    """A call that is recorded and has not ended."""

    def _inside(self) -> AbstractContextManager[None]:
        """Around each step of a generator's body."""


class Site(Protocol):
    """Records the calls of one function."""

    def _begun(self, args: tuple[Any, ...], kwargs: dict[str, Any], *, resumes: bool = False) -> Any:
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
    if not (_FLAGS_ARE_MARKS and flags & flag):
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
    `functools.wraps` copies it to every wrapper around them as well, `def main(): asyncio.run(…)` included.
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
_FLAGS_ARE_MARKS = _before_generator(lambda: None, None, Gate())() is None
"""Whether the interpreter uses the code and ignores the flags. Python 3.10 makes a generator because of the flag."""


def _observe(function: Callable[..., Any], site: Site, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    record = site._begun(args, kwargs)
    if record is None:
        return function(*args, **kwargs)
    try:
        result = function(*args, **kwargs)
    except BaseException as error:
        site._ended(record, error)
        raise
    site._ended(record, None, result)
    return result


def _of_function(function: Any, site: Site, gate: Gate) -> Any:
    def recorded(*args: Any, **kwargs: Any) -> Any:
        countdown = gate.countdown
        if countdown is None:
            # Passing on no keywords takes longer than asking whether there are any.
            return function(*args, **kwargs) if kwargs else function(*args)
        for _ in countdown.passes:  # at most once: one event is let pass
            return function(*args, **kwargs) if kwargs else function(*args)
        return _observe(function, site, args, kwargs)

    return recorded


def _of_coroutine(function: Any, site: Site, gate: Gate) -> Any:
    async def recorded(*args: Any, **kwargs: Any) -> Any:
        if gate.countdown is None:
            return await function(*args, **kwargs)
        record = site._begun(args, kwargs)
        if record is None:
            return await function(*args, **kwargs)
        try:
            result = await function(*args, **kwargs)
        except BaseException as error:
            site._ended(record, error)
            raise
        site._ended(record, None, result)
        return result

    return recorded


def _of_generator(function: Any, site: Site, gate: Gate) -> Any:
    def recorded(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        record = None if gate.countdown is None else site._begun(args, kwargs, resumes=True)
        if record is None:
            return (yield from function(*args, **kwargs))
        try:
            result = yield from _resumed(function(*args, **kwargs), record)
        except BaseException as error:
            site._ended(record, error)
            raise
        site._ended(record, None, result)
        return result

    return recorded


_of_awaitable_generator = _marked(_of_generator, inspect.CO_ITERABLE_COROUTINE)  # what `types.coroutine` made


def _resumed(generator: Generator[Any, Any, Any], record: Opened) -> Generator[Any, Any, Any]:
    """As `yield from generator`, each step of which runs inside the range."""
    step, argument = generator.send, None
    while True:
        with record._inside():
            try:
                value = step(argument)
            except StopIteration as stop:
                return stop.value
        try:
            step, argument = generator.send, (yield value)
        except GeneratorExit:
            with record._inside():
                generator.close()
            raise
        except BaseException as error:  # thrown in by the consumer: the generator's to handle
            step, argument = generator.throw, error


def _of_async_generator(function: Any, site: Site, gate: Gate) -> Any:
    async def recorded(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        record = None if gate.countdown is None else site._begun(args, kwargs, resumes=True)
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
                site._ended(record, failure)
            del failure

    return recorded


async def _step(step: Callable[[Any], Any], argument: Any, record: Opened | None) -> Any:
    if record is None:
        return await step(argument)
    with record._inside():
        return await step(argument)
