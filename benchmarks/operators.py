# SPDX-License-Identifier: Apache-2.0
"""What recording PyTorch's operators costs: an operator, a root, and a span on its way out.

Each variant runs between two bare loops of its round, and the ratio is taken in the round; the median of all rounds counts. One
thread of PyTorch, no gradients, no garbage collection. `torch.add` adds tensors of 4 elements; the MLP has layers 16-16-4 and
batches of 4. The cost of a root is that of the library; a whole block adds its span, which the SDK makes.
"""

import contextlib
import gc
import os
import statistics
import time

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

import torchspan
from table import NO_TARGET, NOT_MEASURED, Row, write
from torchspan.native import UnavailableError, library

ROUNDS, PROFILES = 200, 40
TITLE = "operators"


class Encoding(SpanExporter):
    """Encodes spans as an OTLP exporter does, and sends nothing."""

    def __init__(self):
        self.spans, self.seconds = 0, 0.0

    def export(self, spans):
        begin = time.process_time()
        encode_spans(spans).SerializePartialToString()
        self.seconds += time.process_time() - begin
        self.spans += len(spans)
        return SpanExportResult.SUCCESS

    def shutdown(self):
        pass


def seconds(run, count):
    """Seconds of one call in a loop."""
    begin = time.perf_counter()
    for _ in range(count):
        run()
    return (time.perf_counter() - begin) / count


def ratio(bare, variant, count, rounds=ROUNDS):
    """Median of variant over bare, each variant between two bare loops."""
    ratios = []
    for _ in range(rounds):
        before, between, after = seconds(bare, count), variant(count), seconds(bare, count)
        ratios.append(2 * between / (before + after))
    return statistics.median(ratios)


@contextlib.contextmanager
def without_stderr():
    """PyTorch's profiler writes two lines for each use."""
    kept, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(null)


def profiles_of(rooted, profiled):
    """Median of a root for each forward over a profile for each forward."""
    with without_stderr():
        return statistics.median(seconds(rooted, 20) / seconds(profiled, 5) for _ in range(PROFILES))


def figure(what, value, target, unit=""):
    """A row whose target is the most that is allowed."""
    return Row(what, f"{value:.3f}{unit}", f"{target:g}{unit}", value <= target)


def main():
    try:
        native = library()
    except UnavailableError as error:
        return write(TITLE, [Row(f"operators ({error})", "", "", NOT_MEASURED)])
    import torch

    torch.set_num_threads(1)
    gc.disable()
    x, batch = torch.randn(4), torch.randn(4, 16)
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))

    def add():
        torch.add(x, x)

    def forward():
        model(batch)

    def below_root(run):
        def sampled(count):
            number = native.begin(2, 1000, False)
            try:
                return seconds(run, count)
            finally:
                native.end(number)
                native.finish(number, bytes(16), 1)

        return sampled

    def rooted():
        number = native.begin(2, 1000, False)
        model(batch)
        native.end(number)
        native.finish(number, bytes(16), 1)

    def profiled():
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
            model(batch)

    with torch.no_grad():
        seconds(forward, 100), below_root(forward)(100)
        rows = [
            figure("armed and unsampled / bare torch.add", ratio(add, lambda n: seconds(add, n), 300), 1.005),
            figure("sampled / bare torch.add", ratio(add, below_root(add), 300), 1.15),
            figure("sampled / bare forward of the MLP", ratio(forward, below_root(forward), 30), 1.25),
            figure(
                "a root for each forward / torch.profiler for each forward",
                profiles_of(rooted, profiled),
                0.5,
            ),
        ]
        rows.append(
            figure("begin and end of a root", statistics.median(pair(native) for _ in range(ROUNDS)) * 1e6, 0.3, " µs")
        )
        rows.append(figure("event to bytes of the file", bytes_of_an_event(native, forward) * 1e6, 0.1, " µs"))
        rows += spans_and_blocks(forward)
    return write(TITLE, rows)


def pair(native):
    """Seconds of the begin and the end of one root."""
    numbers = []
    begin = time.perf_counter()
    for _ in range(300):
        number = native.begin(2, 1000, False)
        native.end(number)
        numbers.append(number)
    each = (time.perf_counter() - begin) / 300
    for number in numbers:
        native.finish(number, bytes(16), 1)
    return each


def bytes_of_an_event(native, run):
    """Seconds of `fill` for one event."""
    number = native.begin(2, 0, False)
    for _ in range(200):
        run()
    native.end(number)
    events, links, *_ = native.finish(number, bytes(16), 1)
    for key in native.missing(events, False):
        native.learn(key, template(key >> 8))
    per_event = [
        seconds(lambda: native.fill(events, links, bytes(16), 0, b""), 5) / (len(events) // 64) for _ in range(ROUNDS)
    ]
    return statistics.median(per_event)


def template(name):
    """A template of the usual length."""
    attributes = f'[{{"key":"torch.operator.name","value":{{"stringValue":"aten.operator.{name}"}}}}]'
    return (
        f'{{"traceId":"\x01","spanId":"\x02","parentSpanId":"\x03","flags":256,"name":"torch.operator aten.operator.{name}",'
        f'"kind":1,"startTimeUnixNano":"\x04","endTimeUnixNano":"\x05","attributes":{attributes},"status":{{}}}}'
    ).encode()


def spans_and_blocks(run):
    """Processor time of a span to an exporter, and of a block with one forward besides the forward."""
    from torchspan.sdk import OperatorSpanProcessor

    exporter, provider = Encoding(), TracerProvider(shutdown_on_exit=False)
    processor = OperatorSpanProcessor(exporter)
    provider.add_span_processor(processor)
    torchspan.instrument(tracer_provider=provider, heartbeat=0)

    def block():
        with torchspan.operators():
            run()

    seconds(block, 20)
    processor.force_flush()
    blocks, exports = [], []
    for _ in range(20):
        bare, whole = seconds(run, 20), seconds(block, 20)
        blocks.append(whole - bare)
        spans, begin = exporter.spans, time.process_time()
        processor.force_flush()
        exports.append((time.process_time() - begin) / max(exporter.spans - spans, 1))
    provider.shutdown()
    torchspan.uninstrument()
    return [
        figure("span to an exporter, encoded", statistics.median(exports) * 1e6, 15, " µs"),
        Row(
            "a block around a forward, with its span and table",
            f"{statistics.median(blocks) * 1e6:.0f} µs",
            "",
            NO_TARGET,
        ),
    ]


raise SystemExit(main())
