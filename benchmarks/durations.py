# SPDX-License-Identifier: Apache-2.0
"""What tracing adds to a real compilation, and whether our durations agree with the library's own.

One process compiles one model, a BERT of two layers, again and again.

Bare (torchspan uninstrumented) and traced (default settings, the SDK's batch processor, spans into a file) take turns, so
that both see the same machine; the ratio is that of the fastest compilation of each kind. The same ratio between halves
of the bare ones says what the machine's noise is; a ratio that is no further from 1 decides nothing.

Our share is measured beside it, below the noise: time inside the wrappers less time inside what they wrap, describing,
starting and ending spans included, over the rest of the compilation.

Torch-TensorRT logs two durations per engine. `TRT INetwork construction elapsed time` is held against the span
`torch_tensorrt.construct_network` (less, without a GPU, the copy of the graph that the stand-in makes at the end of it).
`Build TRT engine elapsed time` goes from filling the builder's configuration to the deserialized engine, so it is held
against the spans `tensorrt.build_engine` and `tensorrt.deserialize_engine` below that conversion plus the steps
`_populate_trt_builder_config` and `_create_timing_cache`. The smallest difference, positive or negative, of five
compilations counts.
"""

import contextlib
import functools
import gc
import logging
import re
import statistics
import tempfile
import time
import warnings
from pathlib import Path

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import torchspan.testing
from noise import noise_of
from table import Row, write
from torchspan import TorchspanInstrumentor, phase, semconv
from torchspan.adapters import torch_tensorrt as adapter
from torchspan.sdk import FileSpanExporter

TARGET_RATIO = 1.01
PAIRS, COMPILATIONS = 12, 5
LOGGER = "torch_tensorrt.dynamo.conversion._TRTInterpreter"
LOGGED = re.compile(r"(TRT INetwork construction|Build TRT engine) elapsed time: (\d+):(\d+):(\d+(?:\.\d+)?)")
STEPS = ("TRTInterpreter._populate_trt_builder_config", "TRTInterpreter._create_timing_cache")


def prepare():
    """A function that compiles the model once."""
    import torch

    if not torch.cuda.is_available():
        torchspan.testing.without_gpu()
    # What the libraries would like to be installed beside them, and what they say of BERT's constants, each time.
    logging.getLogger("torch_tensorrt").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    import torch_tensorrt
    import transformers

    logging.getLogger("py.warnings").setLevel(logging.ERROR)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=1000, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256,
        attn_implementation="eager",
    )  # fmt: skip
    model = transformers.BertModel(config).eval().cuda()
    inputs = (torch.arange(16, device="cuda").unsqueeze(0), torch.ones(1, 16, dtype=torch.int64, device="cuda"))

    def compile_once():
        with torch.no_grad():
            program = torch_tensorrt.dynamo.trace(model, arg_inputs=inputs)
            torch_tensorrt.dynamo.compile(program, arg_inputs=inputs, min_block_size=1)

    return compile_once


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


def seconds(function):
    """How long one call takes, and how much processor time."""
    gc.collect()
    start, start_cpu = time.perf_counter(), time.process_time()
    function()
    return time.perf_counter() - start, time.process_time() - start_cpu


def ratio(compile_once):
    """The rows for traced / bare."""
    bare, with_tracing = [], []
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(PAIRS):
            for kind in ("bare", "traced") if turn % 2 else ("traced", "bare"):
                if kind == "bare":
                    bare.append(seconds(compile_once))
                else:
                    with traced(BatchSpanProcessor(FileSpanExporter(Path(folder, "trace.jsonl")))):
                        with_tracing.append(seconds(compile_once))
    for index, what in enumerate(("time", "processor time")):
        bare_s, traced_s = [t[index] for t in bare], [t[index] for t in with_tracing]
        figure = min(traced_s) / min(bare_s)
        noise = noise_of(bare_s, lambda one, other: one / other - 1)
        is_noise = noise > TARGET_RATIO - 1 and abs(figure - 1) <= noise
        verdict = None if is_noise else figure <= TARGET_RATIO
        yield Row(
            f"traced / bare, {what} (bare / bare: 1 ± {noise:.3f})", f"{figure:.3f}", f"≤ {TARGET_RATIO}", verdict
        )


class OwnTime:
    """Seconds spent in torchspan's wrappers, less those in what they wrap."""

    def __init__(self):
        self.seconds = 0.0

    def _counting(self, function, sign):
        @functools.wraps(function)
        def timed(*args, **kwargs):
            start = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds += sign * (time.perf_counter() - start)

        return timed

    @contextlib.contextmanager
    def counted(self):
        """What is instrumented inside is counted."""
        makers = adapter._makers

        def counted(maker):
            return lambda probe, original: self._counting(maker(probe, self._counting(original, -1)), +1)

        adapter._makers = lambda *args, **kwargs: {
            action: counted(maker) for action, maker in makers(*args, **kwargs).items()
        }
        try:
            yield
        finally:
            adapter._makers = makers


def share(compile_once):
    """The row for our own time."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(COMPILATIONS):
            own = OwnTime()
            with own.counted(), traced(BatchSpanProcessor(FileSpanExporter(Path(folder, "trace.jsonl")))):
                took, _ = seconds(compile_once)
            if own.seconds <= 0:
                raise SystemExit("no wrapper was counted: the figure would be meaningless")
            found.append((took / (took - own.seconds), own.seconds))
    figure, own_s = statistics.median(found)
    what = f"compilation with / without our {own_s * 1000:.1f} ms"
    return Row(what, f"{figure:.4f}", f"≤ {TARGET_RATIO}", figure <= TARGET_RATIO)


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
        from torchspan.testing._reference import Reference

        original = vars(Reference)["of_interpreter"]

        def of_interpreter(cls, interpreter):
            start = time.perf_counter()
            reference = original.__func__(cls, interpreter)
            self.copies.append(time.perf_counter() - start)
            return reference

        Reference.of_interpreter = classmethod(of_interpreter)
        try:
            yield
        finally:
            Reference.of_interpreter = original


def ours(spans, copies):
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
        found.append((lines.durations, ours(exporter.get_finished_spans(), stand_in.copies)))
    for what in ("TRT INetwork construction", "Build TRT engine"):
        pairs = [(t, o) for theirs, own in found for t, o in zip(theirs[what], own[what], strict=True)]
        if len(pairs) < COMPILATIONS:
            raise SystemExit(f"the library logged {what!r} {len(pairs)} times in {COMPILATIONS} compilations")
        theirs_s, ours_s = min(pairs, key=lambda pair: abs(pair[1] - pair[0]))
        difference_s, allowed_s = ours_s - theirs_s, max(0.010, 0.02 * theirs_s)
        yield Row(
            f"our duration over log line {what!r} ({theirs_s * 1000:.0f} ms)",
            f"{difference_s * 1000:+.2f} ms",
            f"≤ {allowed_s * 1000:.0f} ms",
            abs(difference_s) <= allowed_s,
        )


def main():
    compile_once = prepare()
    compile_once()  # fills caches that the first compilation alone would pay for
    status = write("A compilation of BERT with two layers", [share(compile_once), *ratio(compile_once)])
    return write("Durations against the library's own", list(agreement(compile_once))) or status


if __name__ == "__main__":
    raise SystemExit(main())
