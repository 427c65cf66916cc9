# SPDX-License-Identifier: Apache-2.0
"""Whether torchspan's durations agree with the library's own.

One process compiles a BERT of two layers. Torch-TensorRT logs two durations per engine. `TRT INetwork construction elapsed time`
is held against the span `torch_tensorrt.construct_network` (less, without a GPU, the copy of the graph that the stand-in makes
at the end of it). `Build TRT engine elapsed time` goes from filling the builder's configuration to the deserialized engine, so
it is held against the spans `tensorrt.build_engine` and `tensorrt.deserialize_engine` below that conversion plus the steps
`_create_timing_cache`; filling the configuration has no step, and takes less than a millisecond. The smallest difference, positive
or negative, of five compilations counts.
"""

import contextlib
import logging
import re
import time

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import torchspan.testing
from bert import compiler
from table import Row, write
from torchspan import TorchspanInstrumentor, phase
from torchspan.words import semconv

COMPILATIONS = 5
LOGGER = "torch_tensorrt.dynamo.conversion._TRTInterpreter"
LOGGED = re.compile(r"(TRT INetwork construction|Build TRT engine) elapsed time: (\d+):(\d+):(\d+(?:\.\d+)?)")
STEPS = ("TRTInterpreter._create_timing_cache",)


@contextlib.contextmanager
def traced(processor):
    """Inside, torchspan writes to a provider with this processor."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor)
    TorchspanInstrumentor().instrument(tracer_provider=provider)
    try:
        yield
    finally:
        TorchspanInstrumentor().uninstrument()
        provider.shutdown()


class LogLines(logging.Handler):
    """The durations, in seconds, that the library logs."""

    def __init__(self):
        super().__init__(logging.INFO)
        self.durations = {"TRT INetwork construction": [], "Build TRT engine": []}

    def emit(self, record):
        found = LOGGED.match(record.getMessage())
        if found:
            hours, minutes, rest = found.group(2, 3, 4)
            self.durations[found[1]].append(int(hours) * 3600 + int(minutes) * 60 + float(rest))


class StandIn:
    """Seconds that the stand-in spends in each copy of a graph, inside `torch_tensorrt.construct_network`."""

    def __init__(self):
        self.copies = []

    @contextlib.contextmanager
    def counted(self):
        """Copies made inside are counted; with a GPU there are none."""
        if not torchspan.testing.is_without_gpu():
            yield
            return
        from torchspan.hooks.without_gpu._reference import Reference

        original = vars(Reference)["of_interpreter"]

        def of_interpreter(cls, *args):
            start = time.perf_counter()
            reference = original.__func__(cls, *args)
            self.copies.append(time.perf_counter() - start)
            return reference

        Reference.of_interpreter = classmethod(of_interpreter)
        try:
            yield
        finally:
            Reference.of_interpreter = original


def torchspans(spans, copies):
    """The same durations from our spans, in seconds; `copies`: seconds of the stand-in in each network."""
    named = {each: [s for s in spans if s.name == each.name] for each in phase.PHASES}
    construct = [_length(span) for span in named[phase.CONSTRUCT_NETWORK]]
    if copies:
        construct = [length - copy for length, copy in zip(construct, copies, strict=True)]
    build = []
    for convert in named[phase.CONVERT]:
        inside = [*named[phase.BUILD_ENGINE], *named[phase.DESERIALIZE_ENGINE]]
        spans_s = sum(
            _length(span) for span in inside if span.parent and span.parent.span_id == convert.context.span_id
        )
        rows = zip(convert.attributes[semconv.STEP_NAMES], convert.attributes[semconv.STEP_DURATIONS], strict=True)
        build.append(spans_s + sum(duration for name, duration in rows if name in STEPS))
    return {"TRT INetwork construction": construct, "Build TRT engine": build}


def _length(span):
    return (span.end_time - span.start_time) / 1e9


def agreement(compile_once):
    """One row for each of the library's log lines."""
    logger, found = logging.getLogger(LOGGER), []
    level, propagate = logger.level, logger.propagate
    for _ in range(COMPILATIONS):
        lines, exporter, stand_in = LogLines(), InMemorySpanExporter(), StandIn()
        logger.addHandler(lines)
        logger.setLevel(logging.INFO)
        logger.propagate = False
        try:
            with stand_in.counted(), traced(SimpleSpanProcessor(exporter)):
                compile_once()
        finally:
            logger.removeHandler(lines)
            logger.setLevel(level)
            logger.propagate = propagate
        found.append((lines.durations, torchspans(exporter.get_finished_spans(), stand_in.copies)))
    for what in ("TRT INetwork construction", "Build TRT engine"):
        pairs = [(t, o) for theirs, own in found for t, o in zip(theirs[what], own[what], strict=True)]
        if len(pairs) < COMPILATIONS:
            raise SystemExit(f"the library logged {what!r} {len(pairs)} times in {COMPILATIONS} compilations")
        library_s, torchspan_s = min(pairs, key=lambda pair: abs(pair[1] - pair[0]))
        difference_s, allowed_s = torchspan_s - library_s, max(0.010, 0.02 * library_s)
        yield Row(
            f"our duration over log line {what!r} ({library_s * 1000:.0f} ms)",
            f"{difference_s * 1000:+.2f} ms",
            f"≤ {allowed_s * 1000:.0f} ms",
            abs(difference_s) <= allowed_s,
        )


def main():
    compile_once = compiler()
    compile_once()  # fills caches that the first compilation alone would pay for
    return write("Durations against the library's own", list(agreement(compile_once)))


if __name__ == "__main__":
    raise SystemExit(main())
