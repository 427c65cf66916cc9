# SPDX-License-Identifier: Apache-2.0
"""The Collector's series that the dashboards use: its own metrics as base.yaml shows them, and span metrics.

Its own metrics have no `_total` there. Their labels and those of span metrics are all in LABELS.
"""

from dashboards.promql import SERVICES, Counter, Histogram, Level

COLLECTORS = 'instance=~"$collector"'
"""The chosen Collectors."""

UPTIME = "otelcol_process_uptime"
"""A series that every Collector has."""
MEMORY = Level("otelcol_process_memory_rss", COLLECTORS)
ACCEPTED = Counter("otelcol_receiver_accepted_spans", COLLECTORS)
REFUSED = Counter("otelcol_receiver_refused_spans", COLLECTORS)
SENT = Counter("otelcol_exporter_sent_spans", COLLECTORS)
SEND_FAILED = Counter("otelcol_exporter_send_failed_spans", COLLECTORS)
ENQUEUE_FAILED = Counter("otelcol_exporter_enqueue_failed_spans", COLLECTORS)
QUEUE_SIZE = Level("otelcol_exporter_queue_size", COLLECTORS)
QUEUE_CAPACITY = Level("otelcol_exporter_queue_capacity", COLLECTORS)

_SAMPLING = "otelcol_processor_tail_sampling"
DECIDED = Counter(f"{_SAMPLING}_global_count_traces_sampled", COLLECTORS)
DECIDED_BY_POLICY = Counter(f"{_SAMPLING}_count_traces_sampled", COLLECTORS)
DROPPED_TOO_EARLY = Counter(f"{_SAMPLING}_sampling_trace_dropped_too_early", COLLECTORS)
POLICY_ERRORS = Counter(f"{_SAMPLING}_sampling_policy_evaluation_error", COLLECTORS)
UNDECIDED = Level(f"{_SAMPLING}_sampling_traces_on_memory", COLLECTORS)
DECISION_MS = Histogram(f"{_SAMPLING}_sampling_decision_timer_latency", COLLECTORS)
LATE_SPANS = Counter(f"{_SAMPLING}_early_releases_from_cache_decision", COLLECTORS)

SPANS = Counter("traces_span_metrics_calls_total", SERVICES)
"""Of span metrics (metrics.yaml)."""

INSTANCE, EXPORTER, DECISION, POLICY, SPAN_NAME = "instance", "exporter", "decision", "policy", "span_name"
LABELS = frozenset({INSTANCE, EXPORTER, DECISION, POLICY, SPAN_NAME, "data_type", "job", "le"})
"""All labels that no row of torchspan's tables stands for."""
