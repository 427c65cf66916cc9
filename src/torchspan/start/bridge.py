# SPDX-License-Identifier: Apache-2.0
"""The running bridge: one engine and one writer, and an adapter for each library that the program has imported."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from torchspan import engine
from torchspan.base.boundaries import undo_all
from torchspan.base.errors import PROCESS_GUARD
from torchspan.base.logs import Log
from torchspan.engine.dispatch import OPENING
from torchspan.engine.subscribers.callback_registry import REGISTRY
from torchspan.engine.subscribers.recording import BEGINNING, BEING_RECORDED, RECORDING
from torchspan.hooks import adapters
from torchspan.hooks.adapters import dynamo, export, observed_functions, tensorrt, torch_tensorrt
from torchspan.hooks.device import DeviceTimes, LayerTimes, set_thread_local_capture
from torchspan.hooks.operators import BLOCKS, OperatorRoots, OperatorsOfCompilations
from torchspan.output import writer
from torchspan.start.launched.process import RunProcess
from torchspan.start.launched.run_report import RunCounts, RunReport
from torchspan.words import semconv
from torchspan.words import settings as _settings
from torchspan.words.environment_variables import TORCHSPAN_BUILD_PHASES
from torchspan.words.phase import BUILD_PHASE, OPERATOR, PHASES, PROGRESS
from torchspan.words.redaction import messages
from torchspan.words.sampling.rules import SamplingRules
from torchspan.words.settings import Settings
from torchspan.words.settings.kinds import FOLLOW_COMPILED, FOLLOW_NONE

if TYPE_CHECKING:
    from torchspan.hooks.adapters.machinery.wrap import Follow
    from torchspan.hooks.adapters.module_inputs import ModuleInputs

logger = Log("torchspan")

Undo = Callable[[], None]


class Bridge:
    """Made when the first observed library is imported. The others join it.

    Args:
        providers: Those to use instead of the global ones, by the names of `instrument()`'s arguments.
        run: torchspan's part in this process, if the program runs under `torchspan run`.
    """

    def __init__(self, settings: Settings, providers: Mapping[str, Any], run: RunProcess | None) -> None:
        self._settings = settings
        self._run = run
        self._undo: list[Undo] = []
        self._report = None if run is None else run.report
        self._engine = engine.Engine(REGISTRY)
        engine.RUNNING.start(self._engine)
        try:
            self._set_up(
                providers.get("tracer_provider"), providers.get("meter_provider"), providers.get("logger_provider")
            )
        except BaseException:
            self._engine.stop()
            raise

    def _set_up(self, tracer_provider: Any, meter_provider: Any, logger_provider: Any) -> None:
        settings, run = self._settings, self._run
        self._parents = writer.SpanParents()
        self._sampling = engine.RunSampling(engine.RateLimits(), _asked_rules(settings))
        self._device_times = DeviceTimes(self._engine) if settings.gpu_time == "sampled" else None
        self._signals = writer.event_signals(
            os.environ.get(writer.OPT_IN, ""), settings.events, logger_provider, capture_text=settings.capture == "text"
        )
        self._ports = self._make_ports()
        self._provenance = adapters.Provenance()
        self._observations = observed_functions.Observations(self._engine, self._ports)
        self._ranks = writer.SelectedRanks(settings.ranks)
        self._writer = writer.SpanWriter(
            tracer_provider,
            parents=self._parents,
            capture=settings.capture,
            signals=self._signals,
            tracer_of=None if run is None else run.tracer,
            holds=self._sampling.use,
            ranks=self._ranks,
        )
        self._progress = writer.ProgressWriter(tracer_provider, tracer_of=None if run is None else run.tracer)
        self._operators = OperatorRoots(_load_native, settings.operators, settings.capture)
        if run is None and self._ranks.has_this_one():  # below `run` the first span decides
            self._engine.guard.call("looking for a provider", self._writer.look_for_provider)
        self._inputs = self._following(settings)
        self._metrics = self._make_metrics(meter_provider)
        self._totals = None if run is None else engine.RunTotals(self._engine.run_times.values())
        self._engine.listen(self._listeners(), is_suppressed=writer.is_suppressed, is_inside=writer.is_inside_output)
        self._engine.at_stop(REGISTRY.explain(BUILD_PHASE, _why_no_build_phases(settings.build_phases)))
        self.imports = adapters.Imports(self._engine, self._writer.has_destination)
        """Receives imports that have ended."""
        self._tensorrt_hooked: tensorrt.Hooked = set()
        if self._report is not None:
            self._report.complete = self._complete

    def _make_ports(self) -> adapters.Ports:
        notes = writer.CurrentSpanNotes(self._signals)
        return adapters.Ports(
            redact=messages.line_reader(capture_text=self._settings.capture == "text"),
            annotate_current=notes.add_again,
            parents=self._parents,
            call_policy=engine.LimitedCalls(engine.RateLimits()),
            sampling=self._sampling,
        )

    def _make_metrics(self, meter_provider: Any) -> writer.MetricWriter:
        dropped: dict[str, Callable[[], int]] = {
            semconv.DroppedReason.BUDGET: lambda: self._writer.dropped,
            semconv.DroppedReason.RANK: lambda: self._ranks.left_out,
            semconv.DroppedReason.SAMPLER: lambda: self._writer.refused,
            semconv.DroppedReason.PAUSED: self._spans_of_pauses,
            semconv.DroppedReason.INSIDE: lambda: self._engine.missed,
            semconv.DroppedReason.RING: partial(self._operators.lost, "ring"),
            semconv.DroppedReason.LATE: lambda: self._engine.late + self._operators.lost("late"),
        }
        emitted: dict[str, Callable[[], int]] = {
            **{kind.name: partial(self._writer.emitted_of, kind) for kind in PHASES},
            PROGRESS.name: lambda: self._progress.emitted,
            OPERATOR.name: lambda: self._operators.emitted,
        }
        return writer.MetricWriter(
            self._engine,
            meter_provider,
            dropped=dropped,
            emitted=emitted,
            gathered=tuple if self._inputs is None else self._inputs.measurements,
            default=None if self._run is None else self._run.meter_provider,
        )

    def _listeners(self) -> Iterator[engine.Listener]:
        """Those who receive events, in their order."""
        long = engine.ActiveWork()
        yield writer.ServingMarks()
        yield self._writer
        yield self._operators
        yield OperatorsOfCompilations(self._operators)
        yield long
        yield from self._metrics.listeners
        if self._settings.heartbeat != 0:
            guard, is_exported = self._engine.guard, self._writer.is_exported
            heartbeats = writer.Heartbeats(
                long, self._progress, self._settings.heartbeat, guard, is_exported=is_exported
            )
            self._engine.at_stop(heartbeats.stop)
            yield heartbeats
        if self._totals is not None:
            yield self._totals
        sampler = writer.Sampler()
        self._engine.at_stop(sampler.close)
        yield writer.ProcessMemory(sampler, self._writer.is_exported)
        yield writer.DeviceMemory(sampler, self._writer.is_exported, set_thread_local_capture)
        yield LayerTimes(self._settings.layers)
        if self._device_times is not None:
            yield self._device_times

    def hook(self, library: str, *, late: bool) -> None:
        """Hook into `library`, which has been imported, and into the TensorRT that came with it.

        Args:
            late: The library was imported before the bridge was enabled.
        """
        if library == torch_tensorrt.LIBRARY:
            self._undo.append(
                torch_tensorrt.install(
                    self._engine,
                    self._provenance,
                    self._ports,
                    self._observations,
                    detail=self._settings.detail,
                    follow=self._follow_compiled(),
                    late=late,
                )
            )
            _warn_of_untested()
        if library == dynamo.LIBRARY:
            graph_runs = self._settings.graph_runs or self._settings.operators != "off"
            self._undo.append(dynamo.install(self._engine, self._ports, self.imports, graph_runs=graph_runs))
        if library == export.LIBRARY:
            self._undo.append(export.install(self._engine, self._provenance, follow=self._follow_compiled()))
        if library == observed_functions.LIBRARY:
            self._undo.append(RECORDING.install(self._observations))
        if self._settings.operators != "off" or library == BLOCKS:
            self._engine.guard.call("loading the library for operators", self._operators.prepare)
        # With Torch-TensorRT a name or a class may have come that TensorRT alone did not have.
        for package in tensorrt.loaded():
            wants_phases = self._wants_phases(package)
            self._undo.append(
                tensorrt.install(
                    self._engine,
                    self._provenance,
                    self._ports,
                    package,
                    hooked=self._tensorrt_hooked,
                    build_phases=wants_phases,
                    late=late,
                )
            )
        if self._report is not None:
            self._report.write()

    def _following(self, settings: Settings) -> ModuleInputs | None:
        """Makes what follows the calls of modules; None if no module is to be followed."""
        if settings.inputs == FOLLOW_NONE:
            return None
        from torchspan.hooks.adapters.module_inputs import ModuleInputs

        inputs = ModuleInputs(self._engine, self._ports, settings.inputs_every, self._provenance.ids)
        for folder in settings.inputs.split(","):
            if folder != FOLLOW_COMPILED:
                self._engine.guard.call("following the calls of a class", inputs.watch, folder)
        self._undo.append(inputs.close)
        return inputs

    def _follow_compiled(self) -> Follow | None:
        if self._inputs is None or FOLLOW_COMPILED not in self._settings.inputs.split(","):
            return None
        return self._inputs.follow_compiled

    def _wants_phases(self, package: str) -> bool:
        if self._settings.build_phases == "auto":
            return self._report is not None and package == "tensorrt_rtx"
        return self._settings.build_phases == "on"

    def exports(self) -> list[Callable[[], object]]:
        """What exports the metrics that torchspan has recorded, if any is exported, and its log records, if there are
        some.
        """
        return [*([self._metrics.export] if self._metrics.is_read() else []), *self._signals.exports()]

    def write_waiting(self) -> None:
        """Write what waits: imports until there is a provider, runs until their device has ended, sums until a reader collects."""
        self.imports.report()
        self._complete_waiting()
        self._metrics.collect()

    def _complete_waiting(self) -> None:
        if self._device_times is not None:
            self._device_times.flush()
        self._engine.flush()

    def close(self) -> None:
        """Undo everything, last done first."""
        undo_all(
            (
                self.imports.report,
                self._complete_waiting,
                self._engine.stop,
                *reversed(self._undo),
                self._metrics.stop,
                self._parents.close,
                self._leave,
            )
        )
        self._undo.clear()

    def _leave(self) -> None:
        if self._report is not None:
            self._report.write()
            self._report.counted_elsewhere()
            self._report.complete = None

    def _spans_of_pauses(self) -> int:
        """Number of spans that were not started because starting them was paused."""
        left_out = self._engine.guard.left_out
        of_wrappers = sum(count for name, count in left_out.items() if name.startswith(OPENING))
        of_calls = left_out.get(BEING_RECORDED, 0) + PROCESS_GUARD.left_out.get(BEGINNING, 0)
        return of_wrappers + left_out.get(self._writer.name, 0) + of_calls

    def _complete(self, report: RunReport) -> None:
        resolved = adapters.resolve_probes()
        report.libraries = adapters.versions()
        report.rows = len(resolved)
        report.resolved = sum(probe.status == "resolved" for probe in resolved)
        runs, runs_s = (0, 0.0) if self._totals is None else self._totals.now()
        report.count(RunCounts(self._writer.recorded, self._writer.unsampled, runs, runs_s, self._ranks.left_out))
        report.count_pauses(self._engine.guard.left_out)
        report.stance = adapters.dynamo.stance()


def _asked_rules(settings: Settings) -> SamplingRules:
    """The rules that are set. With operators, runs that nothing surrounds are recorded unless a rule says which."""
    rules = _settings.sampling(settings)
    if settings.operators == "on" and not rules.keys() & {"execute", "execute_target"}:
        rules["execute"] = 1.0
    return SamplingRules(**rules)


def _load_native() -> object:
    """The library that records operators. Most programs never ask for it, so it is imported here."""
    from torchspan.hooks import native

    return native.library()


def _why_no_build_phases(setting: str) -> str:
    """What is said to users who register for build phases where nothing fires them, though torchspan is
    instrumented.
    """
    if setting == "on":
        return "TensorRT has not been imported yet"
    meaning = ", which enables them only under `torchspan run` with TensorRT-RTX" if setting == "auto" else ""
    return f"{TORCHSPAN_BUILD_PHASES} is `{setting}`{meaning}; set it to `on`"


def _warn_of_untested() -> None:
    version = adapters.versions().get(torch_tensorrt.LIBRARY, "unknown")
    if not adapters.is_supported(version):
        logger.warning(
            "torch_tensorrt %s is outside the versions that torchspan is tested with. The hook points that resolve are used; "
            "`torchspan probes` lists all of them.",
            version,
        )
