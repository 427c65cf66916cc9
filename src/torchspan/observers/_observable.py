# SPDX-License-Identifier: Apache-2.0
"""Functions that can be observed: what runs before a call, and after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

from torchspan import _dynamo_safety
from torchspan._base.errors import FAILED, ErrorPolicy
from torchspan.engine import Observed
from torchspan.observers._observer import Observer
from torchspan.subscribers.function_wrappers import wrapped
from torchspan.subscribers.registry import REGISTRY, Entry

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class ObserveContext:
    """What a callback of an observed function is given.

    callable: the function itself, without what observes it. args, kwargs: what it is called with. After the call also
    return_value: what it returned, None where it raised. outcome: `returned` or `raised`, None before the call.
    exception: what it raised, else None; to be looked at, and not kept.
    """

    callable: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    return_value: Any = None
    outcome: Literal["returned", "raised"] | None = None
    exception: BaseException | None = None

    @classmethod
    def of(cls, call: Observed) -> ObserveContext:
        """As it is now: before the call, or after it."""
        return cls(call.function, call.args, call.kwargs, call.return_value, call.outcome, call.exception)


@dataclass(frozen=True)
class CallableObservers:
    """pre: fires before each call. post: fires after it, however it ended."""

    pre: Observer[Callable[[ObserveContext], Any]]
    post: Observer[Callable[[ObserveContext], Any]]


class ObservedCallable(Protocol):
    """What `observable` makes of a function."""

    observers: CallableObservers
    orig_func: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...


class Site:
    """An observed function, as the registry knows it: the scope that its pair of observers and the bridge select."""

    def __init__(self, function: Callable[..., Any], policy: ErrorPolicy | None) -> None:
        self.function = function
        self.module = getattr(function, "__module__", None) or type(function).__module__
        self.name = getattr(function, "__qualname__", None) or type(function).__qualname__
        self.is_observed = True
        """False once the function is observed no more; where what observed it is still bound, calls pass through."""
        self.interest = REGISTRY.private_interest(self)
        self.observers = CallableObservers(
            pre=Observer(f"{self.name}.pre", policy=policy, _part_of=self, _call=self.interest),
            post=Observer(f"{self.name}.post", policy=policy, _part_of=self, _call=self.interest),
        )

    def _begun(self, args: tuple[Any, ...], kwargs: dict[str, Any], *, resumes: bool = False) -> ObservedCall | None:
        """A call begins; None where nobody is to hear of it. resumes: its body is left and entered again."""
        if not self.is_observed or REGISTRY.busy.now or _dynamo_safety.is_symbolic((*args, *kwargs.values())):
            return None
        call = ObservedCall(self, args, kwargs, resumes=resumes)
        _dynamo_safety.undisturbed(call.start)
        return call

    @staticmethod
    def _ended(call: ObservedCall, error: BaseException | None = None, result: Any = None) -> None:
        """The call ended: it raised `error`, or returned `result`."""
        # Who consumed a generator and has had enough closes it: nothing has failed.
        _dynamo_safety.undisturbed(call.finish, None if isinstance(error, GeneratorExit) else error, result)


class ObservedCall:
    """One call of an observed function, from its start to its end: what the bridge makes an event of, around the callbacks.

    resumes: it is a generator's, whose body is left and entered again.
    """

    __slots__ = ("_pairs", "observed", "resumes", "site")

    def __init__(self, site: Site, args: tuple[Any, ...], kwargs: dict[str, Any], *, resumes: bool) -> None:
        self.site = site
        self.resumes = resumes
        self.observed = Observed(site.function, args, kwargs)
        self._pairs: list[tuple[Entry, Any]] = []

    def start(self) -> None:
        """Run what runs before the call."""
        try:
            for entry in REGISTRY.listening(self.site.interest):
                if not isinstance(entry.owner, Observer):
                    self._pairs.append((entry, entry.begin(self)))
            self._tell(self.site.observers.pre)
        except BaseException as error:  # a policy's, or the program's own: what has started is closed before it passes
            self._end(error, None)
            raise

    def finish(self, error: BaseException | None, result: Any) -> None:
        """Run what runs after the call, which raised `error` or returned `result`."""
        self.observed.ended(error, result)
        try:
            self._tell(self.site.observers.post)
        finally:
            self._end(error, result)

    def _end(self, error: BaseException | None, result: Any) -> None:
        self.observed.ended(error, result)
        while self._pairs:
            entry, context = self._pairs.pop()
            if context is not FAILED:
                entry.finish(self, context)

    def _tell(self, observer: Observer[Any]) -> None:
        if observer.is_heard:
            observer.tell((ObserveContext.of(self.observed),), {})

    @staticmethod
    def inside() -> AbstractContextManager[None]:
        """Nothing is different while the body of a generator runs."""
        return nullcontext()


def observable(*, policy: ErrorPolicy | None = None) -> Callable[[F], F]:
    """A decorator: the function gets `observers`, whose `pre` and `post` are told of each call.

    It takes what `record_function` takes, and gives back one of the same kind: a coroutine's call ends when it has been
    awaited, a generator's when it is exhausted, raises or is closed. While the bridge is on each call is an event, a span
    where there is room for one. policy: what becomes of exceptions of callbacks.
    """

    def decorate(function: F) -> F:
        if isinstance(function, (staticmethod, classmethod)):
            return type(function)(decorate(function.__func__))
        return make_observable(function, policy)  # type: ignore[return-value]

    return decorate


def make_observable(orig_func: Callable[..., Any], policy: ErrorPolicy | None = None) -> ObservedCallable:
    """An observed form of a callable that one does not own. Raises TypeError for a class and for what cannot be called."""
    if _dynamo_safety.is_tracing():
        return orig_func  # type: ignore[return-value]
    if isinstance(orig_func, type) or not callable(orig_func):
        raise TypeError(f"only functions can be observed, and methods one by one: not {orig_func!r}")
    site = Site(orig_func, policy)
    observed: Any = wrapped(orig_func, site, site.interest)
    observed.observers = site.observers
    observed.orig_func = orig_func
    observed._torchspan_site = site
    return observed  # type: ignore[no-any-return]
