# SPDX-License-Identifier: Apache-2.0
"""Every query of every panel, in the real programs, against the figure computed from the spans that were emitted.

The known set of compilations runs twice: in one process that lives on, the service `one`, and in four that end after one step
or two each, the service `four`. Both send to one Collector, which a Prometheus reads.
"""

import bisect
import contextlib
import itertools
import re
import time
from collections import defaultdict
from dataclasses import dataclass, field

import pytest

from support import backends, figures, known_compiles, otlp, panels, scraped
from support.figures import Exactly, InBucket, Levels, PowersOfTwo, added_up, counted, grouped, labels, named
from support.receiver import Receiver
from torchspan.words.semconv import measures, metrics

pytestmark = pytest.mark.needs("otelcol-torchspan", "prometheus")

COMPILE, CONVERT, LOOKUP = "torch_tensorrt.compile", "torch_tensorrt.convert", "torch_tensorrt.engine_cache.lookup"
RUN, CONTEXT_RUN = "torch_tensorrt.execute", "tensorrt.execute"
FRAME, BACKWARD, FRAME_PHASE = "torch.compile_frame", "torch.compile_backward", "torch.compile_phase"
FRAME_OUTCOMES = {"compiled", "skipped", "limit", "fallen_back", "failed"}
UNSEEN = 2
"""Runs of engines that have no span: the second ones of the step `fallback`, for each time that it is done."""
SLOW_RUN_S = 0.25
SERVICES = ("one", "four")
STEP_S = 5
"""Between the points of a panel over time."""


@dataclass
class Known:
    """What was emitted, and where it can be asked for.

    emitted: service -> what its processes emitted. instance: the Collector, as a label. building: when Prometheus had read
    that the first engine is being built. end: when it had read everything.
    """

    prometheus: panels.Prometheus
    instance: str
    emitted: dict = field(default_factory=dict)
    start: float = field(default_factory=time.time)
    building: float = 0.0
    end: float = 0.0
    _figures: dict = field(default_factory=dict)

    @property
    def window(self):
        return panels.seconds(self.end - self.start)

    def processes(self):
        return [each for of_service in self.emitted.values() for each in of_service]

    def of(self, service):
        """What is to be compared for one service; the Collector's own figures concern all."""
        if service not in self._figures:
            own = self.prometheus.series('{job="collector"}', self.end)
            self._figures[service] = Figures(service, self.emitted[service], self.processes(), own)
        return self._figures[service]


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    variables = {
        "TORCHSPAN_METRICS_FLUSH": "200ms",
        "TORCHSPAN_DECISION_WAIT": "1s",
        "TORCHSPAN_KEEP_PERCENT": "0",
        "TORCHSPAN_SLOW_RUN": f"{SLOW_RUN_S}s",
    }
    with Receiver() as backend:
        variables["TORCHSPAN_OTLP_ENDPOINT"] = backend.url
        with backends.collector("base.yaml", "metrics.yaml", "sampling.yaml", environment=variables) as collector:
            with backends.prometheus(reading({"spans": collector.metrics, "collector": collector.own_metrics})) as api:
                known = Known(panels.Prometheus(api.api), _host(collector.own_metrics))

                def read():
                    wait_until_read(known.prometheus, time.time())

                def read_while_it_builds():
                    read()
                    known.building = time.time()

                for service, run in zip(
                    SERVICES, (known_compiles.one_process, known_compiles.process_each), strict=True
                ):
                    folder = tmp_path_factory.mktemp(service)
                    environment = exporting_to(collector, service)
                    options = {}
                    if service == "one":
                        steps = (*known_compiles.STEPS, known_compiles.INDUCTOR)
                        options = {"steps": steps, "after_each": read, "while_it_builds": read_while_it_builds}
                    known.emitted[service] = run(folder, environment, **options)
                kept = len([span for trace in decided(all_spans(known))[True] for span in trace])
                backend.wait_for(lambda receiver: len(receiver.spans()) >= kept)
                traces = len(figures.by_trace(all_spans(known)))
                scraped.wait_for(
                    collector.own_metrics,
                    lambda found: scraped.total(found, f"{SAMPLING}_global_count_traces_sampled") == traces,
                )
                read()
                known.end = time.time()
                yield known


def reading(addresses):
    """A configuration of Prometheus. addresses: job -> what it reads each second."""
    return {
        "global": {"scrape_interval": "1s"},
        "scrape_configs": [
            {"job_name": job, "honor_labels": True, "static_configs": [{"targets": [_host(each)]}]}
            for job, each in addresses.items()
        ],
    }


def _host(address):
    return address.split("/")[2]


def wait_until_read(prometheus, since):
    """Until Prometheus has read every target after a time."""

    def is_read():
        found = prometheus.now("timestamp(up)", time.time())
        return found and min(found.values()) > since

    otlp.wait_until(is_read)


def exporting_to(collector, service):
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.http,
        "OTEL_SERVICE_NAME": service,
        "OTEL_BSP_SCHEDULE_DELAY": "3600000",  # the spans of a trace arrive together
        "TORCHSPAN_HEARTBEAT": "0.5",
        **known_compiles.FAULTS,
    }


def all_spans(known):
    return figures.spans_of(known.processes())


# --- what tail sampling decides -------------------------------------------------------------------------------------

SAMPLING = "otelcol_processor_tail_sampling"


def votes(trace):
    """The policies of sampling.yaml that keep the spans of a trace."""
    policies = {
        "keep": any(span.attributes.get("torchspan.keep") for span in trace),
        "errors": any(span.is_error for span in trace),
        "exceptions": any(span.has_exception for span in trace),
        "fallback": any("torch_tensorrt.fallback.reason_classes" in span.attributes for span in trace),
        "slow-runs": any(span.duration_s > SLOW_RUN_S for span in named(trace, RUN, CONTEXT_RUN)),
    }
    return {name for name, is_kept in policies.items() if is_kept}


def decided(spans):
    """Whether it is kept -> traces."""
    return grouped(figures.by_trace(spans), lambda trace: bool(votes(trace)), lambda trace: trace)


# --- figures ----------------------------------------------------------------------------------------------------------


class Figures:
    """What was emitted, as the panels sum it up.

    service: the chosen one. emitted, everything: of the chosen service, and of all. own: what Prometheus read of the Collector: name, labels, value.
    """

    def __init__(self, service, emitted, everything, own):
        self.service, self.emitted, self._own = service, emitted, own
        self.spans, self.all_spans = figures.spans_of(emitted), figures.spans_of(everything)
        self.own = [span for span in self.spans if span.is_torchspan]
        self.compilations = named(self.spans, COMPILE)
        self.conversions = named(self.spans, CONVERT)
        self.lookups = named(self.spans, LOOKUP)
        self.runs, self.context_runs = named(self.spans, RUN), named(self.spans, CONTEXT_RUN)
        self.frames, self.backwards = named(self.spans, FRAME), named(self.spans, BACKWARD)

    def outcomes(self):
        return Exactly(counted(self.compilations, lambda span: labels(torch_tensorrt_compile_outcome=outcome(span))))

    def while_serving(self):
        compilations = [*self.compilations, *self.frames, *self.backwards]  # none lies below another
        serving = [span for span in compilations if span.attributes.get("torchspan.while_serving")]

        def of_phase_and_kind(span):
            return labels(torchspan_phase=span.phase, torchspan_serving_kind=span.attributes["torchspan.serving.kind"])

        return Exactly(counted(serving, of_phase_and_kind))

    def compile_quantile(self, share):
        return InBucket(share, grouped(self.compilations, of()), measures.LONG_S)

    def phases(self):
        others = (COMPILE, FRAME, BACKWARD, FRAME_PHASE, RUN, CONTEXT_RUN, "torchspan.import", "torchspan.progress")
        return [span for span in self.own if span.phase not in others and not span.phase.startswith("torch.")]

    def phases_of_torch(self, prefix):
        left_out = (FRAME, BACKWARD, FRAME_PHASE)
        return [span for span in self.own if span.phase.startswith(prefix) and span.phase not in left_out]

    def exports(self):
        return self.phases_of_torch("torch.export")

    def waits_and_workers(self):
        return added_up_by_phase(self.phases_of_torch("torch.compile_"))

    def phase_quantile(self, share):
        return InBucket(share, grouped(self.phases(), of_phase), measures.LONG_S)

    def export_quantile(self, share):
        return InBucket(share, grouped(self.exports(), of_phase), measures.LONG_S)

    def phase_sums(self):
        return added_up_by_phase(self.phases())

    def export_sums(self):
        return added_up_by_phase(self.exports())

    def engines(self):
        return Exactly(counted(self.conversions_with_size(), of()))

    def engine_bytes(self):
        return Exactly(added_up(self.conversions_with_size(), of(), size))

    def engine_quantile(self, share):
        return InBucket(share, grouped(self.conversions_with_size(), of(), size), metrics.SIZES)

    def conversions_with_size(self):
        return [span for span in self.conversions if size(span) is not None]

    def hit_ratio(self):
        results = counted(self.conversions, lambda span: span.attributes["torch_tensorrt.engine_cache.result"])
        return Levels({labels(): results["hit"] / (results["hit"] + results["miss"] + results["rejected"])})

    def lookups_by_result(self):
        return Exactly(
            counted(
                self.conversions,
                of(
                    torch_tensorrt_engine_cache_result="torch_tensorrt.engine_cache.result",
                    torch_tensorrt_engine_cache_reason="torch_tensorrt.engine_cache.reason",
                ),
            )
        )

    def lookup_cost(self):
        costs = grouped(self.lookups, of_result)
        return Levels({key: sum(values) / len(values) for key, values in costs.items()})

    def conversion_quantile(self, share):
        return InBucket(share, grouped(self.conversions, of_result), measures.LONG_S)

    def fallback(self, what):
        totals = defaultdict(int)
        for span in self.compilations:
            reasons = span.attributes.get("torch_tensorrt.fallback.totals.reasons", ())
            numbers = span.attributes.get(f"torch_tensorrt.fallback.totals.{what}", ())
            for reason, number in zip(reasons, numbers, strict=True):
                totals[labels(torch_tensorrt_fallback_reason_class=reason)] += number
        return Exactly(totals)

    def frame_outcomes(self):
        return Exactly(counted(self.frames, of(torch_compile_outcome="torch.compile.outcome")))

    def frame_quantile(self, share):
        return InBucket(share, grouped(self.frames, of()), measures.LONG_S)

    def again(self):
        """Frames that were to be compiled again."""
        return [span for span in self.frames if "torch.compile.recompile.class" in span.attributes]

    def backward_quantile(self, share):
        return InBucket(share, grouped(self.backwards, of()), measures.LONG_S)

    def frame_phases(self):
        return [span for span in self.own if span.phase == FRAME_PHASE]

    def frame_phase_quantile(self, share):
        return InBucket(share, grouped(self.frame_phases(), of_frame_phase), measures.LONG_S)

    def frame_phase_sums(self):
        return Exactly(added_up(self.frame_phases(), of_frame_phase, lambda span: span.duration_s))

    def frames_with(self, key):
        """How many frames have each value of an attribute that most do not have."""
        having = [span for span in self.frames if key in span.attributes]
        return Exactly(counted(having, lambda span: labels(**{key.replace(".", "_"): span.attributes[key]})))

    def graph_breaks(self):
        totals = defaultdict(int)
        for span in self.frames:
            classes = span.attributes.get("torch.compile.graph_break.classes", ())
            for kind, number in zip(classes, span.attributes.get("torch.compile.graph_break.counts", ()), strict=True):
                totals[labels(torch_compile_graph_break_class=kind)] += number
        return Exactly(totals)

    def graph_lookups(self, cache):
        key = f"torch.compile.{cache}_cache.result"
        return [span for span in (*self.frames, *self.backwards) if key in span.attributes]

    def graph_lookups_by_result(self, cache):
        name, key = f"torch_compile_{cache}_cache_result", f"torch.compile.{cache}_cache.result"
        return Exactly(counted(self.graph_lookups(cache), of(**{name: key})))

    def graph_hit_ratio(self, cache):
        results = counted(
            self.graph_lookups(cache), lambda span: span.attributes[f"torch.compile.{cache}_cache.result"]
        )
        used = results["hit"] + results["miss"]
        return Levels({labels(): results["hit"] / used} if used else {})

    def run_counts(self):
        return Exactly({labels(): len(self.runs) + UNSEEN})

    def context_run_counts(self):
        return Exactly({labels(): len(self.context_runs)})

    def run_quantile(self, share):
        """Runs without a span are in the metric alone: what is left of its buckets when those with a span are taken away."""
        counts = figures.bucket_counts(self.emitted, RUN + ".duration")
        for span in self.runs:
            counts[bisect.bisect_left(metrics.SHORT_S, span.duration_s)] -= 1
        assert min(counts) >= 0
        assert sum(counts) == UNSEEN
        return InBucket(share, grouped(self.runs, of()), metrics.SHORT_S, {labels(): counts})

    def context_run_quantile(self, share):
        return InBucket(share, grouped(self.context_runs, of()), metrics.SHORT_S)

    def failed(self, name, key=lambda _span: labels()):
        return Exactly(counted([span for span in named(self.spans, name) if span.is_error], key))

    def sampled_share(self, name, unseen=0):
        spans = len(named(self.spans, name))
        return Levels({labels(): spans / (spans + unseen)})

    def emitted_by_phase(self):
        return Exactly(counted(self.own, of_phase))

    def emitted_by_name(self):
        return Exactly(counted(self.own, lambda span: labels(span_name=span.name)))

    def failures(self):
        """A callback that raises is disabled at the third time."""
        return Exactly({labels(): sum(min(3, len(named(figures.spans_of([each]), COMPILE))) for each in self.emitted)})

    # --- of the Collector ---

    def accepted(self):
        return Exactly({self._instance(): len(self.all_spans)})

    def sent(self):
        spans = sum(map(len, decided(self.all_spans)[True]))
        return Exactly({labels(exporter="otlp_http/backend"): spans})

    def level(self, name, *by):
        """What the Collector says of itself, summed by labels."""
        sums = defaultdict(float)
        for _, pairs, value in self.read(name):
            sums[frozenset(pair for pair in pairs if pair[0] in by)] += value
        return sums

    def queues(self):
        sizes, capacities = (
            self.level(f"otelcol_exporter_queue_{each}", "exporter", "instance") for each in ("size", "capacity")
        )
        return Levels({key: sizes[key] / capacity for key, capacity in capacities.items()})

    def rounds(self, share):
        """Of the rounds of decisions, which the Collector alone sees."""
        below = {
            float(dict(pairs)["le"]): value
            for _, pairs, value in self.read(f"{SAMPLING}_sampling_decision_timer_latency_bucket")
        }
        bounds = sorted(below)
        counts = [below[upper] - below.get(lower, 0) for lower, upper in zip([None, *bounds], bounds, strict=False)]
        return InBucket(share, {}, bounds[:-1], {labels(): counts})

    def read(self, name):
        return [each for each in self._own if each[0] == name]

    def _instance(self):
        (instance,) = {dict(pairs)["instance"] for _, pairs, _ in self._own}
        return labels(instance=instance)

    def decisions(self):
        traces = decided(self.all_spans)
        return Exactly(
            {labels(decision="sampled"): len(traces[True]), labels(decision="not_sampled"): len(traces[False])}
        )

    def policies(self):
        voted = [name for trace in figures.by_trace(self.all_spans) for name in votes(trace)]
        return Exactly(counted(voted, lambda name: labels(policy=name)))


def of(**keys):
    """A function of a span: the labels for attributes of it."""
    return lambda span: labels(**{label: span.attributes.get(key) for label, key in keys.items()})


of_result = of(torch_tensorrt_engine_cache_result="torch_tensorrt.engine_cache.result")
of_error = of(error_type="error.type")
of_frame_phase = of(torch_compile_phase_name="torch.compile.phase.name")


def of_phase(span):
    return labels(torchspan_phase=span.phase)


def added_up_by_phase(spans):
    return Exactly(added_up(spans, of_phase, lambda span: span.duration_s))


def size(span):
    return span.attributes.get("tensorrt.engine.size")


def outcome(span):
    if span.is_error:
        return "failed"
    return "fallback" if "torch_tensorrt.fallback.reason_classes" in span.attributes else "complete"


NONE = Exactly({})

EXPECTED = {
    ("compiles", "Compilations", "A"): Figures.outcomes,
    ("compiles", "Compilations over time", "A"): Figures.outcomes,
    ("compiles", "Compiled while serving", "A"): Figures.while_serving,
    ("compiles", "Builds in progress", "A"): lambda _known: Levels({}),
    ("compiles", "Longest build in progress", "A"): lambda _known: Levels({}),
    ("compiles", "Duration of compilations", "A"): lambda known: known.compile_quantile(0.5),
    ("compiles", "Duration of compilations", "B"): lambda known: known.compile_quantile(0.95),
    ("compiles", "Duration of compilations", "C"): lambda known: known.compile_quantile(0.99),
    ("compiles", "Duration by phase", "A"): lambda known: known.phase_quantile(PERCENTILE),
    ("compiles", "Duration by phase", "B"): lambda known: known.export_quantile(PERCENTILE),
    ("compiles", "Time by phase", "A"): Figures.phase_sums,
    ("compiles", "Time by phase", "B"): Figures.export_sums,
    ("compiles", "Engines", "A"): Figures.engines,
    ("compiles", "Bytes of engines", "A"): Figures.engine_bytes,
    ("compiles", "Size of engines", "A"): lambda known: known.engine_quantile(0.5),
    ("compiles", "Size of engines", "B"): lambda known: known.engine_quantile(0.95),
    ("compiles", "Size of engines", "C"): lambda known: known.engine_quantile(0.99),
    ("compiles", "Cache hit ratio", "A"): Figures.hit_ratio,
    ("compiles", "Cache lookups", "A"): Figures.lookups_by_result,
    ("compiles", "Cost of cache lookups", "A"): Figures.lookup_cost,
    ("compiles", "Duration of conversions by cache result", "A"): lambda known: known.conversion_quantile(PERCENTILE),
    ("compiles", "Operators in PyTorch", "A"): lambda known: known.fallback("operators"),
    ("compiles", "Subgraphs in PyTorch", "A"): lambda known: known.fallback("subgraphs"),
    ("torch-compile", "Frames", "A"): Figures.frame_outcomes,
    ("torch-compile", "Frames over time", "A"): Figures.frame_outcomes,
    ("torch-compile", "Compiled while serving", "A"): Figures.while_serving,
    ("torch-compile", "Recompile limits reached", "A"): lambda known: known.frames_with(
        "torch.compile.recompile.limit"
    ),
    ("torch-compile", "Recompilations", "A"): lambda known: known.frames_with("torch.compile.recompile.class"),
    ("torch-compile", "Recompilations over time", "A"): lambda known: known.frames_with(
        "torch.compile.recompile.class"
    ),
    ("torch-compile", "Graph breaks", "A"): Figures.graph_breaks,
    ("torch-compile", "Graph breaks over time", "A"): Figures.graph_breaks,
    ("torch-compile", "Duration of frames", "A"): lambda known: known.frame_quantile(0.5),
    ("torch-compile", "Duration of frames", "B"): lambda known: known.frame_quantile(0.95),
    ("torch-compile", "Duration of frames", "C"): lambda known: known.frame_quantile(0.99),
    ("torch-compile", "Duration of backward graphs", "A"): lambda known: known.backward_quantile(0.5),
    ("torch-compile", "Duration of backward graphs", "B"): lambda known: known.backward_quantile(0.95),
    ("torch-compile", "Duration of backward graphs", "C"): lambda known: known.backward_quantile(0.99),
    ("torch-compile", "Duration by phase", "A"): lambda known: known.frame_phase_quantile(PERCENTILE),
    ("torch-compile", "Time by phase", "A"): Figures.frame_phase_sums,
    ("torch-compile", "Compilations in progress", "A"): lambda _known: Levels({}),
    ("torch-compile", "Longest compilation in progress", "A"): lambda _known: Levels({}),
    ("torch-compile", "Waits and workers", "A"): Figures.waits_and_workers,
    ("torch-compile", "Cache hit ratio", "A"): lambda known: known.graph_hit_ratio("aotautograd"),
    ("torch-compile", "Cache hit ratio", "B"): lambda known: known.graph_hit_ratio("inductor"),
    ("torch-compile", "Lookups in AOTAutograd's cache", "A"): lambda known: known.graph_lookups_by_result(
        "aotautograd"
    ),
    ("torch-compile", "Lookups in Inductor's cache", "A"): lambda known: known.graph_lookups_by_result("inductor"),
    ("runtime", "Runs", "A"): Figures.run_counts,
    ("runtime", "Runs", "B"): Figures.context_run_counts,
    ("runtime", "Latency of engines", "A"): lambda known: known.run_quantile(0.5),
    ("runtime", "Latency of engines", "B"): lambda known: known.run_quantile(0.95),
    ("runtime", "Latency of engines", "C"): lambda known: known.run_quantile(0.99),
    ("runtime", "Latency of execution contexts", "A"): lambda known: known.context_run_quantile(0.5),
    ("runtime", "Latency of execution contexts", "B"): lambda known: known.context_run_quantile(0.95),
    ("runtime", "Latency of execution contexts", "C"): lambda known: known.context_run_quantile(0.99),
    ("runtime", "Failed runs", "A"): lambda known: known.failed(RUN),
    ("runtime", "Failed runs", "B"): lambda known: known.failed(CONTEXT_RUN),
    ("runtime", "Failed runs by error", "A"): lambda known: known.failed(RUN, of_error),
    ("runtime", "Failed runs by error", "B"): lambda known: known.failed(CONTEXT_RUN, of_error),
    ("runtime", "Sampled share", "A"): lambda known: known.sampled_share(RUN, UNSEEN),
    ("runtime", "Sampled share", "B"): lambda known: known.sampled_share(CONTEXT_RUN),
    ("bridge-health", "Spans emitted", "A"): Figures.emitted_by_phase,
    ("bridge-health", "Spans dropped", "A"): lambda _known: NONE,
    ("bridge-health", "Spans lost by the SDK", "A"): lambda _known: NONE,
    ("bridge-health", "Spans lost by the SDK", "B"): lambda _known: NONE,
    ("bridge-health", "Callback failures", "A"): Figures.failures,
    ("bridge-health", "Spans that reached the Collector", "A"): Figures.emitted_by_name,
    ("bridge-health", "Spans received", "A"): Figures.accepted,
    ("bridge-health", "Spans received", "B"): lambda _known: NONE,
    ("bridge-health", "Spans sent", "A"): Figures.sent,
    ("bridge-health", "Spans sent", "B"): lambda _known: NONE,
    ("bridge-health", "Spans sent", "C"): lambda _known: NONE,
    ("bridge-health", "Queues", "A"): Figures.queues,
    ("bridge-health", "Memory", "A"): lambda known: Levels(known.level("otelcol_process_memory_rss", "instance")),
    ("bridge-health", "Traces decided", "A"): Figures.decisions,
    ("bridge-health", "Traces kept by policy", "A"): Figures.policies,
    ("bridge-health", "Lost decisions", "A"): lambda _known: NONE,
    ("bridge-health", "Lost decisions", "B"): lambda _known: NONE,
    ("bridge-health", "Traces waiting for their decision", "A"): lambda _known: Levels({}),
    ("bridge-health", "Late spans", "A"): lambda _known: NONE,
    ("bridge-health", "Time of decisions", "A"): lambda known: known.rounds(0.5),
    ("bridge-health", "Time of decisions", "B"): lambda known: known.rounds(0.95),
    ("bridge-health", "Time of decisions", "C"): lambda known: known.rounds(0.99),
}
"""(dashboard, panel, query) -> the figures that it must show. A query that is not here fails a test."""

PERCENTILE = 0.9
CHOSEN = {"percentile": str(PERCENTILE), "collector": ".*", "at_least": "0s"}
TARGETS = panels.targets("prometheus")


def ids(targets):
    return [str(target) for target in targets]


def test_the_set_has_what_figures_concern(known):
    spans = known.of("one").spans
    assert {"torchspan.progress", "torchspan.import", RUN, CONTEXT_RUN, LOOKUP, BACKWARD} <= {
        span.name for span in spans
    }
    for cache in ("aotautograd", "inductor"):
        lookups = known.of("one").graph_lookups(cache)
        assert {span.attributes[f"torch.compile.{cache}_cache.result"] for span in lookups} >= {"hit", "miss"}
    for service in SERVICES:
        frames = known.of(service).frames
        assert {span.attributes["torch.compile.outcome"] for span in frames} == FRAME_OUTCOMES
        reasons = {span.attributes["torch.compile.recompile.class"] for span in known.of(service).again()}
        assert reasons == {"size", "value"}
        outcomes = sorted(map(outcome, known.of(service).compilations))
        assert outcomes == ["complete", "complete", "failed", "fallback"]
    assert [len(known.emitted[service]) for service in SERVICES] == [1, 4]


def test_every_query_has_a_figure_that_it_is_held_against():
    assert {target.key for target in TARGETS} == EXPECTED.keys()


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_a_query_shows_what_was_emitted(known, target, service):
    query = panels.filled_in(target.text, **CHOSEN, service=service, __range=known.window, __rate_interval=known.window)
    EXPECTED[target.key](known.of(service)).check(known.prometheus.now(query, known.end))


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("target", [each for each in TARGETS if each.over_time], ids=str)
def test_intervals_side_by_side_add_up_to_what_was_emitted(known, target, service):
    intervals = int((known.end - known.start) / STEP_S) + 1
    query = panels.filled_in(target.text, **CHOSEN, service=service, __rate_interval=f"{STEP_S}s")
    answer = known.prometheus.over_time(query, start=known.end - intervals * STEP_S, end=known.end, step=STEP_S)
    EXPECTED[target.key](known.of(service)).check_added_up(answer)


def test_a_build_is_shown_while_it_runs(known):
    (compilation,) = [span for span in known.of("one").compilations if span.start_s < known.building < span.end_s]

    def shown(title):
        (target,) = [each for each in TARGETS if each.title == title]
        return known.prometheus.now(panels.filled_in(target.text, **CHOSEN, service="one"), known.building)

    assert shown("Builds in progress") == {labels(): 1}
    (longest,) = shown("Longest build in progress").values()
    assert 0 < longest < known.building - compilation.start_s


def test_increase_would_not_count_what_a_series_is_born_with(known):
    compilations = 'torch_tensorrt_compile_duration_seconds_count{job="four"}'
    assert known.prometheus.now(f"sum(increase({compilations}[{known.window}]))", known.end) == {labels(): 0}


@pytest.mark.parametrize(("dashboard", "name"), panels.variables(), ids=str)
def test_a_variable_offers_what_there_is(known, dashboard, name):
    label, series = re.fullmatch(r"label_values\((.+), (\w+)\)", panels.variables()[dashboard, name]).groups()[::-1]
    offered = set(known.prometheus.label_values(label, series))
    assert offered == ({known.instance} if name == "collector" else set(SERVICES))


def test_exemplars_of_a_panel_lead_to_traces_of_compilations(known):
    (target,) = [each for each in TARGETS if each.key == ("compiles", "Duration of compilations", "A")]
    query = panels.filled_in(target.text, **CHOSEN, service="one", __rate_interval=known.window)
    found = known.prometheus.exemplars(query, start=known.start, end=known.end)
    assert found
    assert found <= {span.trace_id for span in known.of("one").compilations}


# --- behind two Collectors ------------------------------------------------------------------------------------------

ABOUT_PROGRAMS = [each for each in TARGETS if "otelcol_" not in each.text]
QUICK = {"TORCHSPAN_METRICS_FLUSH": "200ms"}


@contextlib.contextmanager
def two_tiers():
    """A Collector that hands on to two others, which a Prometheus reads. Yields where to send, and the Prometheus."""
    with contextlib.ExitStack() as held:
        second = [
            held.enter_context(backends.collector("base.yaml", "metrics.yaml", environment=QUICK)) for _ in range(2)
        ]
        hosts = ", ".join(each.grpc for each in second)
        first = held.enter_context(
            backends.collector(
                "gateway/first-tier.yaml",
                environment={"TORCHSPAN_SECOND_TIER": f"{{static: {{hostnames: [{hosts}]}}}}"},
            )
        )
        config = reading({f"second tier {number}": each.metrics for number, each in enumerate(second)})
        yield [first], held.enter_context(backends.prometheus(config))


@contextlib.contextmanager
def two_that_push():
    """Two Collectors side by side, which push to a Prometheus."""
    config = {"storage": {"tsdb": {"out_of_order_time_window": "30m"}}}  # one may be later than the other
    with contextlib.ExitStack() as held:
        prometheus = held.enter_context(backends.prometheus(config, "--web.enable-otlp-receiver"))
        environment = {**QUICK, "TORCHSPAN_METRICS_ENDPOINT": prometheus.otlp}
        layers = ("base.yaml", "metrics.yaml", "push-metrics.yaml")
        yield (
            [held.enter_context(backends.collector(*layers, environment=environment)) for _ in range(2)],
            prometheus,
        )


@pytest.fixture(scope="module", params=[two_tiers, two_that_push], ids=lambda each: each.__name__.replace("_", " "))
def known_behind_two(known, request):
    """What was emitted, sent once more, in turn to the Collectors that programs send to."""
    with request.param() as (collectors, backend):
        again = Known(panels.Prometheus(backend.api), known.instance, known.emitted)
        turns = itertools.cycle(collectors)
        for each in again.processes():
            for message in each.trace_messages():
                otlp.post(next(turns).http, message)
            for message in each.metric_messages():
                otlp.post(next(turns).http, message, path="/v1/metrics")
        spans = all_spans(known)
        own = sum(span.is_torchspan for span in spans)

        def total(series):
            return sum(again.prometheus.now(f"sum({series})", time.time()).values())

        otlp.wait_until(lambda: total("last_over_time(traces_span_metrics_calls_total[1h])") == len(spans))
        otlp.wait_until(lambda: total("last_over_time(torchspan_span_emitted_total[1h])") == own)
        again.start, again.end = known.start, time.time()
        yield again


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("target", ABOUT_PROGRAMS, ids=str)
def test_behind_two_collectors_a_process_counts_once(known_behind_two, target, service):
    known = known_behind_two
    query = panels.filled_in(target.text, **CHOSEN, service=service, __range=known.window, __rate_interval=known.window)
    EXPECTED[target.key](known.of(service)).check(known.prometheus.now(query, known.end))


# --- Tempo ------------------------------------------------------------------------------------------------------------

needs_tempo = pytest.mark.needs("tempo")
SEARCHES = panels.targets("tempo")


def compilations_found(known):
    keys = (
        "torch.model.class",
        "torch_tensorrt.entry_point",
        "torch_tensorrt.engines.count",
        "torch_tensorrt.coverage",
    )
    return shown(known.compilations, *keys)


def failed_runs_found(known):
    failed = [span for span in known.runs if span.is_error]
    return shown(failed, "torch_tensorrt.engine.name", "error.type")


def shown(spans, *keys):
    """As `panels.Tempo.found` gives spans, with these attributes of theirs."""
    return {
        span.span_id: (span.duration_s, {key: span.attributes[key] for key in keys if key in span.attributes})
        for span in spans
    }


def of_engine(known):
    """A function of a span: its labels where the service and the engine are named."""
    return lambda span: frozenset(
        {
            ("resource.service.name", known.service),
            ("span.torch_tensorrt.engine.name", span.attributes["torch_tensorrt.engine.name"]),
        }
    )


OF_CODE = ("code.function.name", "code.file.path", "code.line.number")


def recompiled_frames_found(known):
    keys = ("torch.compile.recompile.class", "torch.compile.recompile.reason", "torch.compile.outcome", *OF_CODE)
    return shown(known.again(), *keys)


def broken_frames_found(known):
    broken = [span for span in known.frames if "torch.compile.graph_break.classes" in span.attributes]
    return shown(broken, "torch.compile.outcome", *OF_CODE)


def frames_found(known):
    return shown(known.frames, "torch.compile.id", "torch.compile.outcome", *OF_CODE)


FOUND = {
    ("compiles", "Slowest compilations", "A"): compilations_found,
    ("torch-compile", "Frames that were compiled again", "A"): recompiled_frames_found,
    ("torch-compile", "Frames whose graph broke", "A"): broken_frames_found,
    ("torch-compile", "Slowest frames", "A"): frames_found,
    ("runtime", "Traces of failed runs", "A"): failed_runs_found,
}
"""(dashboard, panel, query) -> the spans that a search must find."""

MEASURED = {
    ("runtime", "Latency by engine", "A"): lambda known: PowersOfTwo(
        PERCENTILE, grouped(known.runs, quantile_of_engine(known))
    ),
    ("runtime", "Shape changes", "A"): lambda known: Exactly(
        counted(
            [span for span in known.runs if span.attributes.get("torch_tensorrt.execute.shapes_changed")],
            of_engine(known),
        )
    ),
}
"""(dashboard, panel, query) -> the figures that it must show."""


def quantile_of_engine(known):
    """Tempo adds which quantile it is."""
    return lambda span: of_engine(known)(span) | {("p", PERCENTILE)}


@pytest.fixture(scope="module")
def searched(known):
    """A Tempo that has everything that was emitted."""
    with backends.tempo() as backend:
        for each in known.processes():
            for message in each.trace_messages():
                otlp.post(backend.otlp, just_ended(message))
        tempo = panels.Tempo(backend.api)
        runs = len(named(all_spans(known), RUN))

        def has_all():
            count = f'{{ name = "{RUN}" }} | count_over_time()'
            intervals = tempo.over_time(count, **times(known), step=STEP_S).values()  # those that are over
            return sum(map(sum, intervals)) == sum(tempo.measured(count, **times(known)).values()) == runs

        otlp.wait_until(has_all)
        yield tempo


def just_ended(message):
    """A message whose spans end now: Tempo puts spans that come minutes after their end into no interval."""
    now_ns = time.time_ns()
    for span in (each for of in message.resource_spans for scope in of.scope_spans for each in scope.spans):
        duration_ns = span.end_time_unix_nano - span.start_time_unix_nano
        span.start_time_unix_nano, span.end_time_unix_nano = now_ns - duration_ns, now_ns
    return message


def times(known):
    return {"start": known.start - 10, "end": time.time()}


def asked(target, service):
    return panels.filled_in(target.text, **CHOSEN, service=service)


def test_every_search_has_something_that_it_is_held_against():
    assert {target.key for target in SEARCHES} == FOUND.keys() | MEASURED.keys()


@needs_tempo
@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("target", [each for each in SEARCHES if each.key in FOUND], ids=str)
def test_a_search_finds_the_spans_that_were_emitted(known, searched, target, service):
    expected = FOUND[target.key](known.of(service))
    found = searched.found(asked(target, service), **times(known))
    assert found.keys() == expected.keys()
    for span_id, (duration_s, attributes) in expected.items():
        assert found[span_id][0] == pytest.approx(duration_s, rel=1e-6)
        assert attributes.items() <= found[span_id][1].items()


@needs_tempo
@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("target", [each for each in SEARCHES if each.key in MEASURED], ids=str)
def test_a_measured_search_shows_what_was_emitted(known, searched, target, service):
    MEASURED[target.key](known.of(service)).check(searched.measured(asked(target, service), **times(known)))


@needs_tempo
@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("target", [each for each in SEARCHES if each.key in MEASURED], ids=str)
def test_the_intervals_of_a_measured_search_add_up_to_what_was_emitted(known, searched, target, service):
    expected = MEASURED[target.key](known.of(service))
    expected.check_added_up(searched.over_time(asked(target, service), **times(known), step=STEP_S))
