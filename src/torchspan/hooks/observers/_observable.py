# SPDX-License-Identifier: Apache-2.0
"""Functions that can be observed: callbacks run before and after each call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar, overload

from torchspan.base import dynamo_safety, reading
from torchspan.base.boundaries import is_programs
from torchspan.base.errors import ErrorPolicy
from torchspan.base.reading import is_a
from torchspan.engine import Observed
from torchspan.engine.subscribers.callback_registry import REGISTRY
from torchspan.engine.subscribers.function_wrappers import wrapped
from torchspan.engine.subscribers.interest import Gate
from torchspan.engine.subscribers.recording import BEGINNING, BEING_RECORDED, RECORDING, Recorder
from torchspan.hooks.observers._checks import checked_policy
from torchspan.hooks.observers._observer import Observer, PartObserver

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")
D = TypeVar("D", bound="staticmethod[..., Any] | classmethod[Any, ..., Any]")

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True)
class ObserveContext:
    """What a callback of an observed function receives.

    Attributes:
        callable: The original function, which is not observed.
        args: The positional arguments of the call.
        kwargs: The keyword arguments of the call.
        return_value: What the function returned. None before the call, and if it raised.
        outcome: `returned` or `raised`. None before the call.
        exception: What the function raised, otherwise None. Keep no reference to it: it keeps the frames of the call alive.
    """

    callable: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    return_value: Any = None
    outcome: Literal["returned", "raised"] | None = None
    exception: BaseException | None = None

    @classmethod
    def _of(cls, call: Observed) -> ObserveContext:
        """The context of a call as it is now, before the call or after it."""
        return cls(call.function, call.args, call.kwargs, call.return_value, call.outcome, call.exception)


@dataclass(frozen=True)
class CallableObservers:
    """The pair of observers of a function, or of a phase of torchspan.

    Attributes:
        pre: Fires before each call.
        post: Fires after each call, whether it returned or raised.
    """

    pre: Observer[Callable[[ObserveContext], Any]]
    post: Observer[Callable[[ObserveContext], Any]]

    if not TYPE_CHECKING:  # a type checker knows that there is nothing else

        def __getattr__(self, name: str) -> Any:
            hint = f": write .pre.{name} or .post.{name}" if hasattr(Observer, name) else ""
            raise AttributeError(f"a pair of observers has no {name!r}, only pre and post{hint}")


class ObservedCallable(Protocol[P, R]):
    """An observed function, made by `observable` or `make_observable`. It is called like the function.

    Attributes:
        observers: The pair that fires before and after each call.
        orig_func: The original function, which is not observed.
    """

    observers: CallableObservers
    orig_func: Callable[P, R]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

    if TYPE_CHECKING:  # a function in a class is a method

        @overload
        def __get__(self, instance: None, owner: type, /) -> Self: ...
        @overload
        def __get__(
            self: ObservedCallable[Concatenate[S, Q], R], instance: S, owner: type | None = None, /
        ) -> Callable[Q, R]: ...


class ObservableSite:
    """An observed function: its pair of observers, and the gate that its wrapper tests."""

    beginning, ending = BEGINNING, "ending an observed call"

    def __init__(self, function: Callable[..., Any], policy: ErrorPolicy | None) -> None:
        self.function = function
        self.module = reading.text(reading.attribute(function, "__module__")) or reading.module_of(type(function))
        self.name = reading.function_name(function)
        self.is_observed = True
        """False once the function is observed no more; where what observed it is still bound, calls pass through."""
        self.recorded_as: Any = None
        """What the recorder remembers of the function."""
        self.gate = Gate()
        self._is_heard = False
        self.pre: PartObserver[Callable[[ObserveContext], Any]]
        self.post: PartObserver[Callable[[ObserveContext], Any]]
        self.pre = PartObserver(f"{self.name}.pre", self._changed, policy=policy)
        self.post = PartObserver(f"{self.name}.post", self._changed, policy=policy)
        self.observers = CallableObservers(self.pre, self.post)
        RECORDING.add(self)

    def _changed(self) -> None:
        """Open the gate while a call is wanted."""
        with REGISTRY.changing():
            self._is_heard = self.pre.is_heard or self.post.is_heard
            self.gate.set(self.is_observed and (self._is_heard or RECORDING.recorder is not None))

    def ended(self) -> None:
        """The function is not observed any more."""
        self.is_observed = False
        self._changed()

    def _begun(self, args: tuple[Any, ...], kwargs: dict[str, Any], resumes: bool = False) -> ObservedCall | None:
        """A call begins; None where no event of it is wanted.

        Args:
            args: The positional arguments of the call.
            kwargs: The keyword arguments of the call.
            resumes: Whether the body of the function is left and entered again.
        """
        recorder = RECORDING.recorder
        if REGISTRY.busy.now and recorder is not None:
            recorder.missed()
        if not self.is_observed or REGISTRY.busy.now or dynamo_safety.is_symbolic((*args, *kwargs.values())):
            return None
        observed = Observed(self.function, args, kwargs)
        call = ObservedCall(observed, recorder, None)
        if recorder is not None and not (recorder.guard.failing and recorder.guard.leaves_out(BEING_RECORDED)):
            try:
                call.begun = recorder.begin(self, observed, resumes)
            except Exception as error:  # the user's callbacks run all the same
                if is_programs(error):
                    raise
                recorder.guard.caught(BEING_RECORDED, "begin")
            else:
                if recorder.guard.failing:
                    recorder.guard.worked(BEING_RECORDED, "begin")
        if self._is_heard:
            try:
                notify(self.pre, observed)
            except (
                BaseException
            ) as error:  # a policy's, or the program's own: what has started is closed before it passes
                if recorder is not None and call.begun is not None:
                    recorder.end(call.begun, error, None)
                raise
        return call

    def _ended(self, call: ObservedCall, error: BaseException | None = None, result: Any = None) -> None:
        """The call ended: it raised `error`, or returned `result`."""
        if error is not None and is_a(error, GeneratorExit):
            error = None  # a consumer of a generator that has had enough closes it: nothing has failed
        # The exception's traceback refers to the call: a circle would keep the arguments.
        observed, call.observed = call.observed, None
        try:
            if observed is not None and self._is_heard:
                observed.ended(error, result)
                notify(self.post, observed)
        finally:
            if call.recorder is not None and call.begun is not None:
                call.recorder.end(call.begun, error, result)
                call.recorder = None


def notify(observer: PartObserver[Any], call: Observed) -> None:
    """Call the callbacks of one observer of a pair with a call as it is now, if there are any."""
    if observer.is_heard:
        observer.notify(ObserveContext._of(call))


class ObservedCall:
    """One call of an observed function, from its start to its end. begun: what the recorder has returned for it, if there is one."""

    __slots__ = ("begun", "observed", "recorder")

    def __init__(self, observed: Observed, recorder: Recorder | None, begun: Any) -> None:
        self.observed: Observed | None = observed
        self.recorder = recorder
        self.begun = begun

    @staticmethod
    def _enter() -> None:
        """Nothing is different while the body of a generator runs."""


class _Decorator(Protocol):
    """What `observable(policy=…)` returns."""

    @overload
    def __call__(self, function: D, /) -> D: ...  # type: ignore[overload-overlap]  # they are callable, too
    @overload
    def __call__(self, function: Callable[P, R], /) -> ObservedCallable[P, R]: ...


@overload
def observable(function: D, /) -> D: ...  # type: ignore[overload-overlap]  # as in _Decorator
@overload
def observable(function: Callable[P, R], /) -> ObservedCallable[P, R]: ...
@overload
def observable(*, policy: ErrorPolicy | None = None) -> _Decorator: ...
def observable(function: Any = None, /, *, policy: ErrorPolicy | None = None) -> Any:
    """Decorate a function with a pair of observers, `function.observers`, which fire at each call.

    Write `@observable` or `@observable(policy=…)`. It decorates functions, methods, static and class methods, coroutine
    functions, generators and async generators, and returns one of the same kind. The call of a coroutine function ends when
    it has been awaited. That of a generator ends when it is exhausted, raises or is closed. While torchspan is instrumented,
    each call is a span, within the span limits of the trace.

    Args:
        function: The function to decorate. Without it, the result is a decorator.
        policy: How exceptions of callbacks are handled. Default: they are logged, and a callback that keeps failing is
            disabled.

    Returns:
        The observed function, or a decorator.

    Raises:
        TypeError: `function` is a class (decorate its methods) or cannot be called, or `policy` has the wrong type.
    """
    checked_policy(policy)

    def decorate(function: Any) -> Any:
        if isinstance(function, (staticmethod, classmethod)):
            return type(function)(decorate(function.__func__))
        return make_observable(function, policy)

    return decorate if function is None else decorate(function)


def make_observable(orig_func: Callable[P, R], policy: ErrorPolicy | None = None) -> ObservedCallable[P, R]:
    """Make an observed form of a function. The function itself stays unchanged.

    Args:
        orig_func: The function to observe.
        policy: How exceptions of callbacks are handled. Default: they are logged, and a callback that keeps failing is
            disabled.

    Returns:
        The observed form, with `observers` and `orig_func`.

    Raises:
        TypeError: `orig_func` is a class (observe its methods) or cannot be called, or `policy` has the wrong type.
    """
    if dynamo_safety.is_tracing():
        return orig_func  # type: ignore[return-value]
    if isinstance(orig_func, type) or not callable(orig_func):
        hint = ": observe its methods" if isinstance(orig_func, type) else ""
        raise TypeError(f"only a function can be observed, not {orig_func!r}{hint}")
    site = ObservableSite(orig_func, checked_policy(policy))
    observed: Any = wrapped(orig_func, site, site.gate)
    observed.observers = site.observers
    observed.orig_func = orig_func
    observed._torchspan_site = site
    return observed  # type: ignore[no-any-return]
