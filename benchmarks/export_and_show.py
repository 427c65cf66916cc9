# SPDX-License-Identifier: Apache-2.0
"""What it costs to write spans to a file and to draw them: how it compares with OTLP, and how it grows.

Export: processor time of the exporting thread, the file exporter and OpenTelemetry's OTLP exporter (http/protobuf, to a
receiver in this process that answers at once) in turns with the same spans. Show: processor time a span to read a file and
to draw it, of a small file and one four times as large in turns. At once: processor time of the whole process that spans
take whose end `torchspan run` writes before it returns, and what the same spans take with the file exporter in a batch
processor, in turns, without the time that they take with no processor. Of each the fastest round counts.
"""

import contextlib
import gc
import io
import json
import tempfile
import time
from pathlib import Path

from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult

from noise import noise_of
from sink import sink
from table import Row, write
from torchspan.cli._terminal import Terminal
from torchspan.reading.answers.drawing import Drawing
from torchspan.sdk import FileSpanExporter, RunFileProcessor
from torchspan.traces import read
from torchspan.words import semconv

BATCHES, EXPORTS = (64, 512, 2048), 20
MOST_OF_OTLP = 1.0
SIZES, DRAWINGS = {"wide": (10_000, 40_000), "deep": (4_000, 16_000)}, 5
MOST_GROWTH = 1.3
ENDINGS, SPANS, ENGINES = 30, 300, 4
MOST_US, MOST_MS = 100, 5
START_NS = 1_795_257_760_000_000_000


def conversions(count):
    """Ended spans like those of converted engines, below one span each; every eighth has failed."""
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer(semconv.SCOPE_NAME, "1.0")
    made = []
    for number in range(count):
        with tracer.start_as_current_span("torch_tensorrt.compile"):
            span = tracer.start_span("torch_tensorrt.convert")
        span.set_attributes(
            {
                semconv.MODEL_CLASS: "ConvNet",
                semconv.ENGINE_NAME: f"_run_on_acc_{number}",
                semconv.ENGINE_SIZE: 9_255_086 + number,
                semconv.ENGINE_OPERATORS: 29,
                semconv.COVERAGE: 0.95 + number * 1e-9,
                semconv.EXECUTE_FIRST: True,
                semconv.STEP_NAMES: ["deallocate_module", "serialize"],
                semconv.STEP_COUNTS: [1, 2],
                semconv.STEP_DURATIONS: [0.15, 0.25],
            }
        )
        if number % 8 == 0:
            span.add_event("exception", {semconv.EXCEPTION_TYPE: "RuntimeError", semconv.EXCEPTION_MESSAGE: "failed"})
        span.end()
        made.append(span)
    return made


def export_rows(folder):
    """The file exporter's processor time a span over that of OTLP, for each size of a batch."""
    with sink() as address, contextlib.ExitStack() as at_the_end:
        otlp = OTLPSpanExporter(f"{address}/v1/traces", compression=Compression.NoCompression)
        at_the_end.callback(otlp.shutdown)
        file = FileSpanExporter(folder / "spans.jsonl")
        at_the_end.callback(file.shutdown)
        yield from _ratios(otlp, file)


def _ratios(otlp, file):
    for batch in BATCHES:
        spans = conversions(batch)
        rounds = [(export_us(otlp, spans), export_us(file, spans)) for _ in range(EXPORTS)]
        otlp_us, file_us = (min(column) for column in zip(*rounds, strict=True))
        ratio = file_us / otlp_us
        yield Row(
            f"a span to a file, batches of {batch} ({file_us:.1f} µs; OTLP {otlp_us:.1f} µs)",
            f"{ratio:.2f} of OTLP",
            f"≤ {MOST_OF_OTLP:.1f}",
            ratio <= MOST_OF_OTLP,
        )


def export_us(exporter, spans):
    """Microseconds of this thread's processor time that a span takes."""
    start = time.thread_time()
    result = exporter.export(spans)
    took = time.thread_time() - start
    if result is not SpanExportResult.SUCCESS:
        raise SystemExit(f"{type(exporter).__name__} has failed")
    return took / len(spans) * 1e6


def at_once_rows(folder):
    """What it costs to have each span in the file at its end, alongside a batch processor with the same file exporter."""
    providers = {
        "none": TracerProvider(shutdown_on_exit=False),
        "batch": TracerProvider(shutdown_on_exit=False),
        "at once": TracerProvider(shutdown_on_exit=False),
    }
    batch = BatchSpanProcessor(FileSpanExporter(folder / "batch.jsonl"), max_queue_size=10 * SPANS)
    providers["batch"].add_span_processor(batch)
    providers["at once"].add_span_processor(RunFileProcessor(folder / "at-once.jsonl", "0123456789abcdef"))
    compilation_spans = compile_with(providers["none"])
    for what, work, scale, unit, most in (
        ("a span of the program's own", own_spans, SPANS / 1e6, "µs", MOST_US),
        ("a run of an engine, up to 0.1 s later", runs, SPANS / 1e6, "µs", MOST_US),
        (f"a compilation of {compilation_spans} spans, ends and starts", compile_with, 1e-3, "ms", MOST_MS),
    ):
        rounds = [[processor_s(work, each) for each in providers.values()] for _ in range(ENDINGS)]
        none, batched, at_once = (min(column) / scale for column in zip(*rounds, strict=True))
        yield Row(
            f"in the file at once: {what} (in batches {batched - none:.1f} {unit})",
            f"{at_once - none:.1f} {unit}",
            f"≤ {most} {unit}",
            at_once - none <= most,
        )
    for provider in providers.values():
        provider.shutdown()


def processor_s(work, provider):
    """Seconds of the process's processor time for the work and for writing out all that it left."""
    gc.collect()
    start = time.process_time()
    work(provider)
    provider.force_flush()
    return time.process_time() - start


def own_spans(provider):
    tracer = provider.get_tracer("app")
    for _ in range(SPANS):
        tracer.start_span("read", attributes={"rows": 3, "table": "users"}).end()


def runs(provider):
    tracer = provider.get_tracer(semconv.SCOPE_NAME)
    with provider.get_tracer("app").start_as_current_span("request"):
        for _ in range(SPANS):
            tracer.start_span("torch_tensorrt.execute", attributes={semconv.ENGINE_NAME: "_run_on_acc_0"}).end()


def compile_with(provider):
    """Spans like those of a compilation; returns how many."""
    tracer, attributes = provider.get_tracer(semconv.SCOPE_NAME), {semconv.KEEP: True, semconv.MODEL_CLASS: "ConvNet"}
    count = 0

    @contextlib.contextmanager
    def span(name):
        nonlocal count
        with tracer.start_as_current_span(name, attributes=attributes) as opened:
            yield
            opened.set_attributes(
                {semconv.ENGINE_SIZE: 9_255_086, semconv.STEP_NAMES: ["deallocate_module", "serialize"]}
            )
        count += 1

    with span("torch_tensorrt.compile"):
        for stage in ("trace", "lower.pre_export", "decompose", "lower", "partition"):
            with span(f"torch_tensorrt.{stage}"):
                pass
        for _ in range(ENGINES):
            with span("torch_tensorrt.convert"):
                for name in ("construct_network", "build_engine", "deserialize_engine", "setup_engine"):
                    with span(name):
                        pass
    return count


def show_rows(folder):
    """How much more processor time a span takes in a file that is four times as large."""
    for shape, sizes in SIZES.items():
        paths = [written(folder / f"{shape}-{count}.jsonl", shape, count) for count in sizes]
        rounds = [[show_us(path, count) for path, count in zip(paths, sizes, strict=True)] for _ in range(DRAWINGS)]
        columns = list(zip(*rounds, strict=True))
        (small_us, large_us), (small, large) = (min(column) for column in columns), sizes
        growth, noise = large_us / small_us, max(noise_of(column, lambda a, b: abs(a / b - 1)) for column in columns)
        is_noise = growth > MOST_GROWTH >= growth * (1 - noise)
        yield Row(
            f"show, a {shape} trace: a span of {large:,} over one of {small:,} ({small_us:.0f} µs; noise {noise:.0%})",
            f"{growth:.2f}",
            f"≤ {MOST_GROWTH:.1f}",
            None if is_noise else growth <= MOST_GROWTH,
        )


def written(path, shape, count):
    """The path of a new file with one trace: all spans below the first, or each below the one before."""
    spans = []
    for number in range(count):
        parent = 0 if shape == "wide" else number - 1
        spans.append(
            {
                "traceId": "ab" * 16,
                "spanId": f"{number + 1:016x}",
                **({"parentSpanId": f"{parent + 1:016x}"} if number else {}),
                "name": f"work {number % 50}",
                "startTimeUnixNano": str(START_NS + number),
                "endTimeUnixNano": str(START_NS + 2 * count - number),
                "attributes": [
                    {"key": semconv.ENGINE_NAME, "value": {"stringValue": f"engine {number % 50}"}},
                    {"key": semconv.NODES_COUNT, "value": {"intValue": str(number)}},
                    {
                        "key": semconv.FALLBACK_REASON_CLASSES,
                        "value": {"arrayValue": {"values": [{"stringValue": "why"}]}},
                    },
                ],
            }
        )
    with path.open("w") as file:
        for first in range(0, count, 512):
            scopes = [{"scope": {"name": semconv.SCOPE_NAME}, "spans": spans[first : first + 512]}]
            file.write(json.dumps({"resourceSpans": [{"resource": {}, "scopeSpans": scopes}]}) + "\n")
    return path


def show_us(path, count):
    """Microseconds of processor time that a span takes from the file to the drawing."""
    gc.collect()
    start = time.process_time()
    terminal = Terminal(io.StringIO())
    terminal.write(Drawing.of(read(path).records).lines(terminal.width))
    return (time.process_time() - start) / count * 1e6


def main():
    with tempfile.TemporaryDirectory(prefix="torchspan-bench-") as name:
        rows = [*export_rows(Path(name)), *at_once_rows(Path(name)), *show_rows(Path(name))]
    return write("Spans to a file, and a file to a drawing: processor time", rows)


if __name__ == "__main__":
    raise SystemExit(main())
