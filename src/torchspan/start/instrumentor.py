# SPDX-License-Identifier: Apache-2.0
"""Starts and stops tracing: `torchspan.instrument`, and the class that OpenTelemetry's distros call."""

# Every Python that an instrumented program starts comes by here, and most never import torch: what is not needed
# before one of the observed libraries is there is imported when it is.

from __future__ import annotations

import enum
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from opentelemetry import trace

from torchspan.base import forks
from torchspan.base.boundaries import ErrorBoundary, failed, is_programs, undo_all
from torchspan.base.forks import renewed
from torchspan.base.import_hooks import when_imported
from torchspan.base.imports import FirstImports, Import
from torchspan.base.logs import Log
from torchspan.base.reading import module_of_frame
from torchspan.exceptions import ConfigurationError
from torchspan.output.server_span import SERVER_SPANS
from torchspan.start.launched.start import CONFIGURATION_FILE
from torchspan.start.launched.start import current as current_run
from torchspan.words import settings as _settings
from torchspan.words.sampling import rules as sampling_rules

try:
    from opentelemetry.instrumentation.instrumentor import BaseInstrumentor
except ValueError as error:  # importing it reads OTEL_PROPAGATORS
    _REFUSED = error

    class BaseInstrumentor:  # type: ignore[no-redef]
        """In its place where OpenTelemetry refuses its configuration: torchspan cannot be enabled."""

        is_instrumented_by_opentelemetry = False

        def instrument(self, **_kwargs: Any) -> None:
            """Say why."""
            logger.warning("torchspan is not enabled, because OpenTelemetry refuses its configuration: %s", _REFUSED)

        def uninstrument(self, **_kwargs: Any) -> None:
            """Nothing is instrumented."""


if TYPE_CHECKING:
    from types import FrameType

    from opentelemetry.trace import TracerProvider
    from typing_extensions import Unpack

    from torchspan.start.bridge import Bridge
    from torchspan.start.launched.process import RunProcess
    from torchspan.words.settings import Settings
    from torchspan.words.settings.arguments import InstrumentSettings

logger = Log("torchspan")

Undo = Callable[[], None]

OBSERVED = (
    "torch._dynamo",
    "torch.export._trace",
    "torch_tensorrt",
    "tensorrt",
    "tensorrt_rtx",
    "torchspan.observers",
    "torchspan.hooks.operators._block",
    "torchspan.hooks.device._requests",
)
"""The libraries whose imports set the bridge to work, whichever comes first. Three of torchspan's own modules are among them:
functions that a program observes, and operators in its blocks, are recorded whether or not it ever compiles, and a request for
layer times stands before there is an engine."""

IMPORTS = ("torch", "torch_tensorrt", "tensorrt", "tensorrt_rtx")
"""The modules whose first imports are spans."""

LIBRARIES = ("torch._dynamo", "torch._inductor", "triton", "torch_tensorrt", "transformers")
"""The libraries whose modules are imported during work. Such imports are spans too, if they are long."""

LOADER = "opentelemetry.instrumentation.auto_instrumentation"
"""The package that calls instrumentors because they are installed."""

CONFIGURATION = "opentelemetry.configuration"
"""The one that hands over the options of a configuration file."""

RUN = "torchspan.start.launched.start"
"""The module that has them called below `torchspan run`."""


INDUCTORS = ("/torch/_inductor/compile_worker/__main__.py", "/torch/_inductor/__autotune_main__.py")
"""The programs of the processes in which Inductor compiles, and measures."""


class Origin(enum.IntEnum):
    """Who has called `instrument()`: `torchspan run`, `opentelemetry-instrument`, or the program. Later ones win."""

    RUN = 1
    LOADER = 2
    PROGRAM = 3


class _Configuration:
    """The type of the options, made when it is first read: every Python that starts would pay for it."""

    def __get__(self, _instance: object, _owner: type) -> type:
        return _settings.options()


class TorchspanInstrumentor(BaseInstrumentor):  # type: ignore[misc]  # the base class is untyped
    """Traces torch.compile, Torch-TensorRT and TensorRT; the `opentelemetry_instrumentor` entry point `torchspan`.

    Distros call ``instrument()``; programs call `torchspan.instrument`, which takes the same arguments and shows their
    types. A misspelled argument raises TypeError. Any other unknown argument is ignored with one warning, since a
    distro may pass the same arguments to every instrumentor. ``uninstrument()`` puts every replaced name back.

    A call in the program wins over the call that `torchspan run` or `opentelemetry-instrument` made: its providers and
    settings apply from then on. A second call in the program changes nothing.

    Attributes:
        configuration: The type with which OpenTelemetry's declarative configuration checks the options of a file. The
            options apply to the process, and arguments of a call win over them. `enabled: false` in the file disables
            torchspan until the program calls `instrument()` itself.
    """

    configuration = _Configuration()

    _undo: Sequence[Undo] = ()
    _active: Mapping[str, Any] = {}
    """The arguments in use."""
    _passed: Mapping[str, Any] = {}
    """Those of them that were given in a call."""
    _options: Mapping[str, Any] = {}
    """Those of the configuration file."""
    _is_files = False
    """Whether the call in use is that of the configuration file, whose options yield to a distro's arguments."""
    _origin = Origin.PROGRAM
    _arrivals: _Arrivals | None = None
    """What the running bridge is behind, while torchspan is instrumented."""
    _switching: Any
    """Held while torchspan is enabled or disabled: two threads at once would each replace the same names."""

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return no dependencies: nightly and vendor builds of torch count as well as released ones."""
        return ()

    def instrument(self, **kwargs: Any) -> None:
        """Start tracing, as `torchspan.instrument` does.

        Args:
            **kwargs: The arguments of `torchspan.instrument` and of `BaseInstrumentor.instrument`.

        Raises:
            TypeError: An argument is misspelled.
            torchspan.exceptions.ConfigurationError: A value is invalid. An invalid option of a configuration file is a
                warning.
        """
        self._enabling(self._instrument_for, sys._getframe(1), kwargs)

    def _enabling(self, action: Callable[..., None], *args: Any) -> None:
        """Call `action(*args)`. A failure of torchspan's own is logged, and the program continues without it."""
        try:
            with self._switching:
                action(*args)
        except Exception as error:
            if _is_refusal(error) or is_programs(error):
                raise
            failed("torchspan could not be enabled; the program continues without it.")
            _REPORTING.attempt(_report_not_enabled, error)

    def _instrument_for(self, frame: FrameType, kwargs: dict[str, Any]) -> None:
        origin, is_file = _caller(frame)
        if origin is not Origin.PROGRAM and _is_inductors():
            return
        if is_file:
            type(self)._options, kwargs = kwargs, {}
        _settings.refuse_misspelled(kwargs)
        self._request(origin, kwargs, is_file=is_file)

    def _request(self, origin: Origin, arguments: Mapping[str, Any], *, is_file: bool = False) -> None:
        """Start tracing as a call from there asks, or say what of the call is ignored."""
        given = _settings.passed(arguments)
        if not (self._wins(origin) or (given and self._is_files and origin is self._origin)):
            _warn_of_differences(self._active, given)
        elif origin is Origin.PROGRAM or is_file or not _is_disabled_by_file():
            self._start(origin, arguments)
            type(self)._is_files = is_file

    def uninstrument(self, **kwargs: Any) -> None:
        """Stop tracing, as `torchspan.uninstrument` does."""
        with self._switching:
            _DISABLING.end(partial(super().uninstrument, **kwargs))

    def _wins(self, origin: Origin) -> bool:
        """Whether a call from there has an effect now."""
        return not self.is_instrumented_by_opentelemetry or origin > self._origin

    def _start(self, origin: Origin, arguments: Mapping[str, Any]) -> None:
        """Start tracing with these arguments, or continue with them where the loader has started it.

        Raises `torchspan.exceptions.ConfigurationError` for an invalid value, and an error of `torchspan.testing` where the
        program cannot run without a GPU, both with nothing changed.
        """
        combined = {**self._passed, **_settings.passed(arguments)}
        settings = _settings.load(combined, file=self._options)
        unknown = [name for name in arguments if name not in (*_settings.ARGUMENTS, *_BASE_CLASS)]
        if unknown:
            logger.warning("instrument() ignores unknown arguments: %s", ", ".join(unknown))
        if settings.without_gpu:
            from torchspan.hooks.without_gpu import _switch

            _switch.enable()
        if self.is_instrumented_by_opentelemetry:
            self.uninstrument()
        type(self)._origin, type(self)._passed = origin, combined
        providers = {name: combined.get(name) for name in _settings.PROVIDERS}
        super().instrument(skip_dep_check=True, settings=settings, providers=providers)

    def _instrument(self, *, settings: Settings, providers: Mapping[str, Any]) -> None:
        sampling_rules.Instrumented.now = _settings.sampling(settings)
        tracer_provider, run = providers["tracer_provider"], current_run()
        if run is not None:
            run.is_alone = self._origin is Origin.RUN
            if tracer_provider is not None:
                run.attach(tracer_provider)
        arrivals = _Arrivals(settings, providers, run)
        try:
            self._install(settings, tracer_provider, arrivals)
        except BaseException:
            self._uninstrument()
            raise
        type(self)._active, type(self)._arrivals = {**settings, **providers}, arrivals

    def _install(self, settings: Settings, tracer_provider: TracerProvider | None, arrivals: _Arrivals) -> None:
        waiting: list[Undo] = []
        undo: list[Undo] = [partial(undo_all, waiting), arrivals.close]
        type(self)._undo = undo  # complete after each step
        undo.insert(0, arrivals.times.install())
        if settings.propagation != "off":
            undo.append(_carry(settings, tracer_provider, self._origin, arrivals.exports))
        if settings.ready_after is not None:
            from torchspan.base.readiness import mark_ready_after

            undo.append(mark_ready_after(settings.ready_after))
        # No class is seen before the bridge is there.
        libraries = (*OBSERVED, "torch") if ":" in settings.inputs else OBSERVED
        waiting.extend(when_imported(library, partial(arrivals.hook, library)) for library in libraries)
        undo.append(SERVER_SPANS.start())
        SERVER_SPANS.watch(tracer_provider or trace.get_tracer_provider())

    def _uninstrument(self, **kwargs: Any) -> None:  # noqa: ARG002 - the base class hands on what it was given
        undo_all(self._undo)
        type(self)._undo = ()
        type(self)._active, type(self)._passed, type(self)._arrivals = {}, {}, None
        sampling_rules.Instrumented.now = None


TorchspanInstrumentor._switching = renewed(threading.RLock())


def instrument(*, tracer_provider: TracerProvider | None = None, **settings: Unpack[InstrumentSettings]) -> None:
    """Start tracing what torch.compile, torch.export, Torch-TensorRT and TensorRT do.

    May be called before or after these libraries are imported; it imports neither them nor torch. While torchspan is
    instrumented, another call does nothing, and logs a warning if it asks for different settings. The exception is a program's
    first call under `torchspan run` or `opentelemetry-instrument`: its arguments apply from then on.

    Each argument is optional. Without it, the environment variable `TORCHSPAN_` plus its name in capitals applies, or else
    the default.

    Args:
        tracer_provider: where spans go. Default: the global tracer provider.
        meter_provider: where metrics go. Default: the global meter provider.
        logger_provider: where events and exceptions go as log records, if `events` and `OTEL_SEMCONV_EXCEPTION_SIGNAL_OPT_IN`
            enable them. Default: the global logger provider.
        detail: `stages`: a span for each stage of a compilation. `passes`: a span for each lowering pass, too. Default: `stages`.
        build_phases: `on` or `off`: whether TensorRT's build phases are spans below the engine build. `auto`: only under
            `torchspan run` and `torchspan demo`, with TensorRT-RTX. Default: `auto`.
        heartbeat: Seconds between the `torchspan.progress` spans of a long compilation. The first comes after 2 s at the latest.
            Not set: 2, 7, 17, 37 and 77 s after its start, then every 60 s. Values: 0 for none, or 0.1 to 86400 seconds. Default:
            gaps of 5 to 60 s.
        capture: Who gets the texts of messages and guards whole. `local`: the file that `torchspan run` makes, the terminal on
            which it ends, and `torchspan.testing.capture()`. Exporters get what the table of messages lets through. `none`: no
            one. `text`: exporters too, and paths of source files are absolute. Default: `local`.
        events: What torchspan's events are, such as graph breaks and lines of TensorRT's log. `span`: events of spans. `log`: log
            records with the ids of their spans; events of spans where no logger provider accepts them. The file of `torchspan
            run` and `torchspan.testing.capture()` have them on spans in any case. Default: `span`.
        propagation: `on`: the context is propagated into threads, pools and processes. `links`: the same, but the span that
            started this process becomes a link instead of a parent. `off`: the context is not propagated. Default: `on`.
        without_gpu: Run Torch-TensorRT's pipeline on a machine without a GPU. Default: `False`.
        ready_after: `module:function`: the program is ready to serve once this function has returned; later compilations are
            marked `torchspan.while_serving`. Values: module:function, of a module that the program imports. Default: when the
            program calls `torchspan.mark_ready()`.
        sample_other: With torchspan's sampler: the share of traces in which the program's own spans are kept. Values: a number
            from 0 to 1. Default: `1`.
        sample_execute: The share of engine runs outside every span that begin a trace. With another sampler than torchspan's, a
            value above `0` leaves the decision to that sampler. Values: a number from 0 to 1. Default: `0`.
        sample_execute_per_second: How many runs of one engine may be spans within a second, in addition to its first run and
            failed runs. Values: a number above 0, at most 1000000. Default: `10`, none with a target.
        sample_execute_target: With torchspan's sampler: how many engine runs per second are spans in a process, however many runs
            there are. Values: a number above 0, at most 1000000. Default: no target.
        ranks: The ranks of a distributed job that record torchspan's spans. Every rank records metrics. A process without a rank
            records spans. Values: all, or ranks such as 0, 0-7 or 0,4-6. Default: `all`.
        graph_runs: Runs of graphs that `torch.compile` compiles after instrumentation are spans, within the limits and rules of
            engine runs. Default: `False`.
        operators: Where PyTorch's operators are spans. `off`: only in blocks `with torchspan.operators()`. `sampled`: also below
            runs of engines and compiled graphs, and observed functions, in traces that the sampler has kept. `on`: below each of
            these that is recorded; runs that nothing surrounds are recorded as well, within their limits. Needs a library that
            `python -m torchspan.native build` builds. Default: `off`.
        gpu_time: `sampled`: runs of engines and compiled graphs that have a span also have their time on the device, between two
            CUDA events on the program's stream. torchspan never waits for the device. Default: `off`.
        layers: The engine whose layers TensorRT times in its next runs that are spans: its name, or `*` for each engine, and
            after a colon the number of these runs (`*:50`; without it 20). TensorRT waits for the device at the end of each of
            these runs. Values: off, or the name of an engine or *, and after a colon a number of runs from 1 to 10000 (*:50).
            Default: `off`.
        inputs: The modules whose calls are counted by the shapes of their arguments. `compiled`: the modules that Torch-TensorRT
            compiles, or that the program loads, after instrumentation. `module:Class`: the objects of a class that are created
            after instrumentation. Separate several by commas. Values: off, or compiled and module:Class, separated by commas, of
            modules that the program imports. Default: `off`.
        inputs_every: Of the calls that `inputs` counts, one in this many is an event on the current span, and so is the first of
            each shape. Values: a whole number from 1 to 1000000000. Default: `100`.

    Raises:
        TypeError: for an argument that does not exist.
        torchspan.exceptions.ConfigurationError: for an invalid value.
        torchspan.testing.TooLateError: `without_gpu` is set, and torch_tensorrt was imported before or CUDA is initialized.
    """
    _settings.refuse_unknown(settings)
    instrumentor = TorchspanInstrumentor()
    instrumentor._enabling(instrumentor._request, Origin.PROGRAM, {"tracer_provider": tracer_provider, **settings})


def uninstrument() -> None:
    """Stop tracing and restore every name that was replaced. Does nothing while torchspan is not instrumented."""
    instrumentor = TorchspanInstrumentor()
    with instrumentor._switching:
        if instrumentor.is_instrumented_by_opentelemetry:
            instrumentor.uninstrument()


def flush(timeout: float = 5.0) -> bool:
    """Deliver what torchspan has recorded so far: for a program that ends by a signal, and so without exit handlers.

    Spans and sums that wait are written. Then the tracer, meter and logger providers that torchspan is instrumented with export what
    they hold, all at once: `force_flush` of each. Providers of OpenTelemetry's API alone are skipped. What is still running is not
    delivered. May be called in a signal handler, and more than once; raises nothing for an exporter that fails. Does nothing while
    torchspan is not instrumented.

    Args:
        timeout: Seconds after which it returns at the latest, 0 to 86400. The export continues in daemon threads.

    Returns:
        Whether everything was exported in time. False if a `force_flush` failed, returned False, or took longer. The batch processors
        of OpenTelemetry's SDK return True also if their exporter was refused, and log that.

    Raises:
        TypeError: `timeout` is not a number.
        ValueError: `timeout` is negative or longer than a day.
    """
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise TypeError(f"timeout must be a number of seconds, not {timeout!r}")
    if not 0 <= timeout <= LONGEST_S:
        raise ValueError(f"timeout must be 0 to {LONGEST_S} seconds, not {timeout!r}")
    return _FLUSHING.attempt(_flush, timeout) is True


def _flush(timeout: float) -> bool:
    with forks.uncut():
        from torchspan.base import flushing

    arrivals, active, run = TorchspanInstrumentor._arrivals, TorchspanInstrumentor._active, current_run()
    if arrivals is None:
        return True
    owners = [_provider(active, name) for name in _settings.PROVIDERS]
    return flushing.flush_all(arrivals.write_waiting, [*owners, *([] if run is None else run.own_providers())], timeout)


def tracer_provider() -> TracerProvider | None:
    """The provider of torchspan's spans; None while torchspan is not instrumented."""
    instrumentor = TorchspanInstrumentor()
    if not instrumentor.is_instrumented_by_opentelemetry:
        return None
    provider: TracerProvider = _provider(instrumentor._active, "tracer_provider")
    return provider


def _provider(active: Mapping[str, Any], name: str) -> Any:
    """The provider in use: the one that was given, or the global one of now."""
    if active.get(name):
        return active[name]
    from opentelemetry import _logs, metrics

    defaults = (trace.get_tracer_provider, metrics.get_meter_provider, _logs.get_logger_provider)
    return dict(zip(_settings.PROVIDERS, defaults, strict=True))[name]()


def _warn_of_differences(active: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Say which of the given arguments are not in use."""
    in_use = {name: _provider(active, name) if name in _settings.PROVIDERS else active[name] for name in given}
    different = [
        f"{name}={value!r} (in use: {_settings.describe(name, in_use[name])})"
        for name, value in given.items()
        if value != in_use[name]
    ]
    if different:
        logger.warning(
            "torchspan is already instrumented; ignoring %s. Call torchspan.uninstrument() first to change it.",
            ", ".join(different),
        )


def _caller(caller: FrameType) -> tuple[Origin, bool]:
    """Who calls `TorchspanInstrumentor.instrument`, by the modules on the stack, and whether with the options of a file."""
    origin = Origin.PROGRAM
    is_file = module_of_frame(caller).startswith(CONFIGURATION)
    frame: FrameType | None = caller
    while frame is not None:
        module = module_of_frame(frame)
        if module == RUN:
            return Origin.RUN, is_file
        if module.startswith((LOADER, CONFIGURATION)):
            origin = Origin.LOADER
        frame = frame.f_back
    return origin, is_file


_NOT_INSTRUMENTED = "torchspan failed to instrument %s; continuing without tracing it."

_BASE_CLASS = ("skip_dep_check", "raise_exception_on_conflict")
"""Arguments of OpenTelemetry's `BaseInstrumentor`. torchspan depends on no version of a library."""

LONGEST_S = 86_400
"""Most seconds for `flush`, a day: what waits longer is a mistake."""

_REPORTING = ErrorBoundary("The report of the run does not say that torchspan could not be enabled.")
_DISABLING = ErrorBoundary("torchspan could not be disabled; it continues.")
_FLUSHING = ErrorBoundary("torchspan.flush() failed; what was recorded waits for the next delivery.")


def _is_refusal(error: Exception) -> bool:
    """Whether `instrument` refuses by `error` what it was called with."""
    from torchspan.hooks.without_gpu._stand_in_errors import WithoutGpuError

    return isinstance(error, (ConfigurationError, _settings.UnknownArgumentError, WithoutGpuError))


def _report_not_enabled(error: Exception) -> None:
    run = current_run()
    if run is not None:
        from torchspan.start.launched.run_report import NOT_ENABLED

        run.fail(f"{NOT_ENABLED}: {error!r}")


def _is_inductors() -> bool:
    """Whether this process is one that Inductor has started: what it does there is a span of the process that compiles."""
    arguments = sys.orig_argv
    return len(arguments) > 1 and arguments[1].replace(os.sep, "/").endswith(INDUCTORS)


def _is_disabled_by_file() -> bool:
    if not os.environ.get(CONFIGURATION_FILE):
        return False
    from torchspan.words import config_file

    return config_file.disables()


class _Arrivals:
    """Hands libraries and imports that arrive, in whichever order and thread, to the one bridge.

    No thread waits here for another one: it may be in an import, for whose end the other one waits. What it has to do is done by the
    thread that is at it already.
    """

    def __init__(self, settings: Settings, providers: Mapping[str, Any], run: RunProcess | None) -> None:
        self._bridge: Bridge | None = None
        self._run = run
        self._is_needed = False
        """Whether something has arrived for which there must be a bridge. Imports alone wait for that."""
        self._is_closed = False
        self._due: deque[tuple[str, Callable[[Bridge], object]]] = deque()
        self._lock = renewed(threading.Lock())
        self.times = FirstImports(IMPORTS, self.imported, LIBRARIES)
        self._how = settings, providers, run

    def hook(self, library: str, late: bool) -> Undo:
        """Raises nothing: it would come out of the program's own import of the library."""
        self._hand_over(library, lambda bridge: bridge.hook(library, late=late), is_needed=True)
        return _nothing

    def imported(self, ended: Import) -> None:
        """An import of a library has ended.

        Without an observed library there is no bridge, unless the import failed, or `torchspan run` splits the time of a
        program that imports torch alone.
        """
        is_needed = ended.has_failed or self._run is not None
        self._hand_over(ended.name, lambda bridge: bridge.imports.add(ended), is_needed=is_needed)

    def _hand_over(self, library: str, action: Callable[[Bridge], object], *, is_needed: bool) -> None:
        try:
            if is_needed:
                self._load()
        except Exception:
            failed(_NOT_INSTRUMENTED, library)
        else:
            self._due.append((library, action))
            self._is_needed = self._is_needed or is_needed
            self._work()

    def _load(self) -> None:
        """Import what the bridge needs, outside the lock: another thread may wait for it inside an import."""
        with forks.uncut():
            from torchspan.start import bridge as _bridge  # noqa: F401
        if self._run is not None:
            self._run.load()

    def _work(self) -> None:
        """Do what is due. A thread that comes here meanwhile leaves what it brings, and so does a signal handler."""
        while self._due and self._is_needed and self._lock.acquire(blocking=False):
            try:
                if self._due:
                    self._do(*self._due.popleft())
            finally:
                self._lock.release()

    def _do(self, library: str, action: Callable[[Bridge], object]) -> None:
        try:
            if not self._is_closed:
                self._bridge = self._bridge or self._make_bridge()
                action(self._bridge)
            if self._is_closed and self._bridge is not None:
                self._bridge.close()
                self._bridge = None  # afterwards: a second call does what an interrupt left undone
        except Exception:
            failed(_NOT_INSTRUMENTED, library)

    def _make_bridge(self) -> Bridge:
        from torchspan.start.bridge import Bridge

        return Bridge(*self._how)

    def exports(self) -> list[Callable[[], object]]:
        """What exports the metrics and log records of torchspan; nothing where there are none."""
        bridge = self._bridge
        return [] if bridge is None else bridge.exports()

    def write_waiting(self) -> None:
        """Write spans and sums that wait."""
        bridge = self._bridge
        if bridge is not None:
            bridge.write_waiting()

    def close(self) -> None:
        """Undo the hooks of all libraries, at the latest when the thread that hooks one has done so."""
        self._is_closed = True
        self._due.append(("torchspan", _nothing))
        self._work()


def resume(origin: int = Origin.LOADER, **settings: Any) -> None:
    """In a process that an instrumented one has started: enable with its settings, unless that has been done.

    Args:
        origin: Who has enabled torchspan there. A call of the program's in this process wins all the same.
        **settings: The fields of `Settings` there.
    """
    instrumentor = TorchspanInstrumentor()
    origin = Origin(min(origin, Origin.LOADER))
    with instrumentor._switching:
        if instrumentor._wins(origin):
            instrumentor._start(origin, settings)


def _carry(settings: Settings, provider: Any, origin: Origin, others: Callable[[], list[Callable[[], object]]]) -> Undo:
    """Let the context follow the work into threads and processes.

    Args:
        settings: The settings that a started process receives.
        provider: The tracer provider, whose spans are exported before a process is replaced.
        origin: Who has enabled torchspan.
        others: Returns what exports the metrics and log records.
    """
    from torchspan.hooks import propagation

    run = current_run()

    def exports() -> list[Callable[[], object]]:
        from torchspan.hooks.propagation import private_api as otel_private

        flushes = (getattr(owner, "force_flush", None) for owner in (provider, otel_private.tracer_provider()))
        callables = [flush for flush in flushes if flush is not None]
        return [*callables, *others()]

    return propagation.install(
        resume=partial(resume, int(origin), **settings),
        exports=exports,
        as_parent=settings.propagation != "links",
        run=run,
    )


def _nothing(*_: object) -> None:
    pass
