# SPDX-License-Identifier: Apache-2.0
"""What recording PyTorch's operators costs: operators that run, blocks, and operators that become JSON and OTLP.

All figures are processor time of the thread. A loop with a root is compared with the mean of the bare loops before and after it,
and the median of all rounds counts. Bare loops are compared in the same way: what they differ by decides nothing. Of roots and of
what leaves, the fastest round counts.

The library is built first, if none fits. `start_up.py` and `hot_path.py` have the rows for programs that record no operators.
"""

import contextlib
import gc
import os
import statistics
import sys
import threading
import time
import timeit
from functools import partial

import torch
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from torch.profiler import ProfilerActivity, profile

import torchspan
from table import NO_TARGET, NOT_MEASURED, Row, write
from torchspan import TorchspanInstrumentor
from torchspan.hooks import native
from torchspan.output import withheld
from torchspan.output.sdk._operator_spans import spans
from torchspan.output.sdk._operator_texts import encoded
from torchspan.output.sdk._otlp_json import Encoder

UNSAMPLED_RATIO, ADD_RATIO, FORWARD_RATIO, PROFILER_RATIO = 1.005, 1.15, 1.25, 0.5
ROOT_US, WRITE_US, EXPORT_US = 0.3, 0.1, 15
DEPTH, MIN_NS = 2, 1_000
"""The defaults."""

ROUNDS, ADDS, FORWARDS = 400, 300, 30
"""Short rounds: one in many then falls between two interruptions."""
PROFILES = 40
PROFILED = ((1, 10), (100, 1))
"""Forwards in one block and in one profile, and how many blocks follow each other."""
EMPTY_ROOTS = 500
"""Of 1,024 that the library has place for."""
TRACE_ID = bytes(range(16))

X, BATCH = torch.ones(4), torch.ones(4, 16)
MLP = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))


class Kept(SpanProcessor):
    """The last root and its operators."""

    def on_end(self, span):
        self.root, self.operators = span, withheld.of(span.context.trace_id, span.context.span_id).operators
        if self.operators is not None:
            self.operators.is_read = True


@contextlib.contextmanager
def root(library):
    """A root of this thread."""
    number = library.begin(DEPTH, MIN_NS, False)
    try:
        yield
    finally:
        library.end(number)
        library.finish(number, TRACE_ID, 1)


@contextlib.contextmanager
def root_elsewhere(library):
    """A root of another thread: the operators of this one are not sampled."""
    is_open, may_end = threading.Event(), threading.Event()

    def hold():
        with root(library):
            is_open.set()
            may_end.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    is_open.wait()
    try:
        yield
    finally:
        may_end.set()
        thread.join()


def seconds(function, count):
    """Seconds of a loop, after a few calls that fill the processor's caches again."""
    timer = timeit.Timer(function, timer=time.thread_time)
    timer.timeit(count // 3)
    return timer.timeit(count)


def ratios(function, count, surroundings):
    """The median ratio of the loop below each of the surroundings and the bare loops before and after it."""
    found = [[] for _ in surroundings]
    for _ in range(ROUNDS):
        before = seconds(function, count)
        for column, around in zip(found, surroundings, strict=True):
            with around():
                inside = seconds(function, count)
            after = seconds(function, count)
            column.append(2 * inside / (before + after))
            before = after
    return [statistics.median(column) for column in found], before / count * 1e6


def operator_rows(library):
    """Rows: operators that run below a root, and those that run while another thread has one."""
    here, elsewhere = lambda: root(library), lambda: root_elsewhere(library)
    for what, function, count, most in (
        ("torch.add of 4 elements", partial(torch.add, X, X), ADDS, ADD_RATIO),
        ("forward of an MLP", partial(MLP, BATCH), FORWARDS, FORWARD_RATIO),
    ):
        (control, unsampled, sampled), bare_us = ratios(function, count, (contextlib.nullcontext, elsewhere, here))
        yield Row(f"{what} ({bare_us:.2f} us): bare / bare", f"{control:.4f}", "", NO_TARGET)
        yield at_most(f"{what}: not sampled / bare", unsampled, UNSAMPLED_RATIO, abs(control - 1))
        yield at_most(f"{what}: sampled / bare", sampled, most, abs(control - 1))


def at_most(what, ratio, most, noise):
    is_noise = most < ratio <= most + noise
    return Row(what, f"{ratio:.4f}", f"≤ {most}", None if is_noise else ratio <= most)


def block_rows():
    """Rows: forwards in a block, over those in a profile and over those in neither."""
    for count, repeats in PROFILED:
        loops = [
            partial(forwards, around, count) for around in (contextlib.nullcontext, torchspan.operators, cpu_profile)
        ]
        rounds = [[seconds(loop, repeats) / repeats * 1e6 for loop in loops] for _ in range(PROFILES)]
        ratio = statistics.median(block / profiled for _, block, profiled in rounds)
        profile_us = statistics.median(profiled for *_, profiled in rounds)
        what = f"forwards of the MLP in one block / in one profile: {count} ({profile_us:,.0f} us)"
        yield Row(what, f"{ratio:.4f}", f"≤ {PROFILER_RATIO}", ratio <= PROFILER_RATIO)
        added_us = statistics.median(block - bare for bare, block, _ in rounds)
        yield Row(
            f"what the block adds to them, span and table included: {count}", f"{added_us:,.0f} us", "", NO_TARGET
        )


def forwards(around, count):
    with around():
        for _ in range(count):
            MLP(BATCH)


def cpu_profile():
    return profile(activities=[ProfilerActivity.CPU])


def best_us(function, count):
    """Microseconds a call in the fastest round."""
    return min(seconds(function, count) for _ in range(PROFILES)) / count * 1e6


def empty_roots_us(library):
    """Microseconds in which a root begins and ends."""
    begun, begin, end = [], library.begin, library.end
    start = time.thread_time()
    for _ in range(EMPTY_ROOTS):
        number = begin(DEPTH, MIN_NS, False)
        end(number)
        begun.append(number)
    took_s = time.thread_time() - start
    for number in begun:
        library.finish(number, TRACE_ID, 1)
    return took_s / EMPTY_ROOTS * 1e6


def leaving_rows(library, kept):
    """Rows: a root alone, and the operators of a block on their way to a file and to an exporter."""
    root_us = min(empty_roots_us(library) for _ in range(PROFILES))
    with torchspan.operators(min_duration=0):
        for _ in range(100):
            MLP(BATCH)
    operators = kept.operators
    encoded(operators, kept.root, Encoder(), with_texts=False)  # the library learns the templates
    arguments = operators.events, operators.links, TRACE_ID, operators.offset_ns, b""
    write_us = best_us(lambda: library.fill(*arguments), 10) / operators.count
    export_us = (
        best_us(lambda: encode_spans(list(spans(operators, kept.root))).SerializeToString(), 1) / operators.count
    )
    for what, figure, most in (
        ("a root begins and ends", root_us, ROOT_US),
        (f"an operator becomes JSON of the file ({operators.count} in the block)", write_us, WRITE_US),
        ("an operator becomes a span and OTLP, without the network", export_us, EXPORT_US),
    ):
        yield Row(what, f"{figure:.3f} us", f"≤ {most} us", figure <= most)


def main():
    os.environ["TORCHSPAN_NATIVE_BUILD"] = "on"
    os.environ["KINETO_LOG_LEVEL"] = "99"  # the profiler says on stderr that it starts and stops
    title = f"PyTorch's operators, Python {sys.version.split()[0]}, torch {torch.__version__}"
    try:
        library = native.library()
    except native.UnavailableError as error:
        return write(title, [Row("operators", str(error), "", NOT_MEASURED)])
    kept, provider = Kept(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(kept)
    TorchspanInstrumentor().instrument(tracer_provider=provider, heartbeat="0")
    torch.set_num_threads(1)
    gc.disable()
    with torch.no_grad():
        rows = [*operator_rows(library), *block_rows(), *leaving_rows(library, kept)]
    TorchspanInstrumentor().uninstrument()
    return write(title, rows)


if __name__ == "__main__":
    raise SystemExit(main())
