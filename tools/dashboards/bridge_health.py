# SPDX-License-Identifier: Apache-2.0
"""Bridge health: whether torchspan's spans arrive, from the program to the backend."""

from dashboards import collector, sdk
from dashboards.frame import collectors, framed, services
from dashboards.panels import BYTES, COUNT, MILLISECONDS, SHARE, Query, Source, bars, figure, in_all, lines
from dashboards.promql import INTERVAL, RANGE, Matches, label, measured
from torchspan.words import semconv

_EMITTED = measured(semconv.METRIC_SPAN_EMITTED)
_DROPPED = measured(semconv.METRIC_SPAN_DROPPED)
_BY_INSTANCE = f"{{{{{collector.INSTANCE}}}}}"


def made():
    """The dashboard."""
    return framed(
        "torchspan-bridge-health",
        "Bridge health",
        "Whether torchspan's spans arrive: in the program, in the Collector, and at its tail sampling.",
        services(_EMITTED.name),
        collectors(collector.UPTIME),
        since="now-6h",
        rows={"Programs": _programs(), "Collector": _collector(), "Tail sampling": _tail_sampling()},
    )


def _programs():
    yield bars(
        "Spans emitted",
        "Spans of torchspan that were sampled and ended in each interval, by the kind of work.",
        Source.TORCHSPAN,
        Query(_EMITTED.counted(INTERVAL, by=[semconv.PHASE]), f"{{{{{label(semconv.PHASE)}}}}}"),
        width=6,
    )
    yield in_all(
        "Spans dropped",
        "Spans of torchspan that were not started, by reason. `docs/how-to/runbook.md` explains each reason and what to do about it.",
        Source.TORCHSPAN,
        COUNT,
        Query(_DROPPED.counted(RANGE, by=[semconv.DROPPED_REASON]), f"{{{{{label(semconv.DROPPED_REASON)}}}}}"),
        width=4,
    )
    yield figure(
        "Spans lost by the SDK",
        "Spans that a full queue dropped, and spans that an exporter failed to send.",
        Source.SDK,
        COUNT,
        Query(sdk.lost(sdk.PROCESSED), "queue full"),
        Query(sdk.lost(sdk.EXPORTED), "not exported"),
        alarming=1,
        nothing="not measured",
        width=4,
    )
    yield figure(
        "Callback failures",
        "Exceptions that torchspan or a callback raised, and that were caught without effect on the program. The program's log has the details.",
        Source.TORCHSPAN,
        COUNT,
        Query(measured(semconv.METRIC_CALLBACK_FAILURES).counted(RANGE), "failures"),
        alarming=1,
        width=4,
    )
    yield bars(
        "Spans that reached the Collector",
        "Spans of torchspan that arrived in each interval, by name. A span that torchspan's sampler picked also counts for the spans "
        "that the sampler did not pick.",
        Source.SPAN_METRICS,
        Query(
            collector.SPANS.counted(
                INTERVAL,
                by=[collector.SPAN_NAME],
                where={collector.SPAN_NAME: Matches(r"(torch|torch_tensorrt|tensorrt|torchspan)[.].+")},
            ),
            f"{{{{{collector.SPAN_NAME}}}}}",
        ),
        width=6,
    )


def _collector():
    yield bars(
        "Spans received",
        "Spans that the receivers accepted, and spans that the memory limiter refused, in each interval. A program keeps a refused span "
        "and tries again.",
        Source.COLLECTOR,
        Query(collector.ACCEPTED.counted(INTERVAL, by=[collector.INSTANCE]), f"accepted {_BY_INSTANCE}"),
        Query(collector.REFUSED.counted(INTERVAL, by=[collector.INSTANCE]), f"refused {_BY_INSTANCE}"),
        width=8,
    )
    exporter = f"{{{{{collector.EXPORTER}}}}}"
    yield bars(
        "Spans sent",
        "Spans that exporters sent, gave up on, and could not queue, in each interval. The last two kinds are lost.",
        Source.COLLECTOR,
        Query(collector.SENT.counted(INTERVAL, by=[collector.EXPORTER]), f"sent {exporter}"),
        Query(collector.SEND_FAILED.counted(INTERVAL, by=[collector.EXPORTER]), f"given up {exporter}"),
        Query(collector.ENQUEUE_FAILED.counted(INTERVAL, by=[collector.EXPORTER]), f"queue full {exporter}"),
        width=8,
    )
    each_queue = [collector.INSTANCE, collector.EXPORTER]
    yield lines(
        "Queues",
        "Fill level of the exporters' queues. At 100 %, new spans are lost.",
        Source.COLLECTOR,
        SHARE,
        Query(
            f"{collector.QUEUE_SIZE.now(by=each_queue)} / {collector.QUEUE_CAPACITY.now(by=each_queue)}",
            f"{exporter} {_BY_INSTANCE}",
        ),
        width=4,
    )
    yield lines(
        "Memory",
        "Physical memory of each Collector. Its limit is TORCHSPAN_MEMORY_MIB.",
        Source.COLLECTOR,
        BYTES,
        Query(collector.MEMORY.now(by=[collector.INSTANCE]), _BY_INSTANCE),
        width=4,
    )


def _tail_sampling():
    yield bars(
        "Traces decided",
        "Traces that were kept and dropped in each interval.",
        Source.COLLECTOR,
        Query(collector.DECIDED.counted(INTERVAL, by=[collector.DECISION]), f"{{{{{collector.DECISION}}}}}"),
        width=8,
    )
    yield in_all(
        "Traces kept by policy",
        "Traces for which each policy voted `sampled`; a trace may have several votes.",
        Source.COLLECTOR,
        COUNT,
        Query(
            collector.DECIDED_BY_POLICY.counted(RANGE, by=[collector.POLICY], where={collector.DECISION: "sampled"}),
            f"{{{{{collector.POLICY}}}}}",
        ),
        width=4,
    )
    yield figure(
        "Lost decisions",
        "Traces that were dropped before their decision because more than `num_traces` were waiting, and votes that failed.",
        Source.COLLECTOR,
        COUNT,
        Query(collector.DROPPED_TOO_EARLY.counted(RANGE), "dropped too early"),
        Query(collector.POLICY_ERRORS.counted(RANGE), "failed votes"),
        alarming=1,
        width=4,
    )
    yield lines(
        "Traces waiting for their decision",
        "Traces in the memory of each Collector. They are lost if the Collector is killed.",
        Source.COLLECTOR,
        COUNT,
        Query(collector.UNDECIDED.now(by=[collector.INSTANCE]), _BY_INSTANCE),
        width=8,
    )
    yield bars(
        "Late spans",
        "Spans that arrived after the decision about their trace and followed it immediately, in each interval. Spans of long compilations do so.",
        Source.COLLECTOR,
        Query(collector.LATE_SPANS.counted(INTERVAL), "late spans"),
    )
    yield lines(
        "Time of decisions",
        "Percentiles of the duration of a round of decisions, in each interval. A round begins every second.",
        Source.COLLECTOR,
        MILLISECONDS,
        *(
            Query(collector.DECISION_MS.quantile(each, INTERVAL), f"p{float(each) * 100:g}")
            for each in ("0.5", "0.95", "0.99")
        ),
    )
