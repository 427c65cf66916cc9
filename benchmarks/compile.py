# SPDX-License-Identifier: Apache-2.0
"""What tracing adds to a real compilation, by Torch-TensorRT or (`--of torch`) by torch.compile alone.

Processes that live long take turns: each imports what its kind needs, compiles a model once, and then again whenever it is asked
to. They share a hash seed, and addresses are not randomised where `setarch` can see to that, because
both change the time of a compilation by more than tracing does. So does the depth of the stack: CPython (3.11 and later) maps its
data stack in chunks of 16 KiB, and a loop of calls that happens to lie across the end of one maps and unmaps a chunk at each call
(8 µs and a page fault, instead of 0.05). Any frame more, a wrapper's too, moves these places: a bare compilation has 900 to 32,000
page faults for that alone, depending on the depth at which it is called. So each compilation is called from a frame that has
room for all others in its own chunk. The figure of a kind is the median of its ratios to the
other kind, compilation by compilation, of the processor time of the thread that compiles.

The target holds for a traced process over one that has imported the same packages and is not instrumented. Importing them costs
something too, since each collection of garbage visits their objects; that figure is printed alongside it. Noise is what two
bare processes differ by, or what the medians of resampled ratios vary by, whichever is more.
"""

import argparse
import functools
import gc
import importlib
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, fields
from pathlib import Path

from table import NO_TARGET, Row, write

TARGET_RATIO = 1.01
ROUNDS, WARM_UP = 12, 3
STACK_WORDS = (1 << 17) + 1
"""Just above 1 MiB: CPython maps a chunk of 2 MiB for such a frame, of which the frame touches next to nothing."""
BARE, AGAIN, IMPORTS, UNSAMPLED, TRACED = "bare", "bare, again", "imports", "unsampled", "traced"
KINDS = {
    BARE: "bare",
    AGAIN: "bare, a second process",
    IMPORTS: "SDK, exporter and torchspan imported, not instrumented",
    UNSAMPLED: "instrumented, sampler ALWAYS_OFF",
    TRACED: "instrumented, recording into a file",
}


@dataclass(frozen=True)
class Subject:
    """What is compiled.

    what: for the title. module: has `compiler()`. options: what is enabled besides; with some, metrics are read as well.
    """

    what: str
    module: str
    options: dict


SUBJECTS = {
    "tensorrt": Subject("BERT with two layers by Torch-TensorRT", "bert", {}),
    "torch": Subject(
        "a transformer of six blocks by torch.compile, with everything on", "transformer",
        {"graph_runs": True},
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Cost:
    """What one compilation took."""

    wall_s: float
    process_s: float
    thread_s: float
    gc_s: float
    """Inside the garbage collector, of `wall_s`."""
    page_faults: float


class Meter:
    """Measures calls of a function."""

    def __init__(self):
        import resource

        self._usage = lambda: resource.getrusage(resource.RUSAGE_SELF)
        self._collecting_s = self._collection_began = 0.0
        gc.callbacks.append(self._collection)

    def _collection(self, stage, _info):
        now = time.perf_counter()
        if stage == "start":
            self._collection_began = now
        else:
            self._collecting_s += now - self._collection_began

    def cost(self, function):
        gc.collect()
        self._collecting_s = 0.0
        faults, start = self._usage().ru_minflt, (time.perf_counter(), time.process_time(), time.thread_time())
        function()
        end = time.perf_counter(), time.process_time(), time.thread_time()
        return Cost(
            *(b - a for a, b in zip(start, end, strict=True)), self._collecting_s, self._usage().ru_minflt - faults
        )


def call(function):
    """Call the function. With `STACK_WORDS` the calls below it fit into one chunk of the data stack."""
    function()


call.__code__ = call.__code__.replace(co_stacksize=STACK_WORDS)


# --- in a process of one kind ------------------------------------------------------------------------------------------
def work(subject, kind, answers):
    """Compile once for each line of standard input, and write each cost to the file descriptor `answers`."""
    with tempfile.TemporaryDirectory() as folder:
        if kind not in (BARE, AGAIN):
            prepare(subject, kind, Path(folder, "trace.jsonl"))
        compile_once, meter = importlib.import_module(SUBJECTS[subject].module).compiler(), Meter()
        compile_once()  # fills caches
        with os.fdopen(answers, "w") as pipe:
            for _ in sys.stdin:
                cost = meter.cost(functools.partial(call, compile_once))
                print(*(getattr(cost, each.name) for each in fields(Cost)), file=pipe, flush=True)


def prepare(subject, kind, path):
    """Import what a traced program imports; of the kinds that are instrumented, instrument."""
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON

    importlib.import_module("torchspan.start.bridge")  # otherwise imported with the first library that is observed
    from torchspan import TorchspanInstrumentor
    from torchspan.sdk import FileSpanExporter

    provider = TracerProvider(sampler=ALWAYS_OFF if kind == UNSAMPLED else ALWAYS_ON)
    provider.add_span_processor(BatchSpanProcessor(FileSpanExporter(path)))
    if kind != IMPORTS:
        options = SUBJECTS[subject].options
        if options:
            options = {**options, "meter_provider": MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False)}
        TorchspanInstrumentor().instrument(tracer_provider=provider, **options)


# --- in the process that asks them ---------------------------------------------------------------------------------------
class Worker:
    """A process of one kind."""

    def __init__(self, subject, kind):
        read, answers = os.pipe()
        self._process = subprocess.Popen(
            [*_without_randomised_addresses(), sys.executable, __file__, "--of", subject, "--worker", kind,
             "--answers", str(answers)],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, pass_fds=(answers,), text=True,
            env={**os.environ, "PYTHONHASHSEED": "0"},
        )  # fmt: skip
        os.close(answers)
        self._answers = os.fdopen(read)
        self.costs = []

    def compile(self):
        """Have it compile once. Raises SystemExit where it has ended."""
        try:
            print(file=self._process.stdin, flush=True)
            return Cost(*map(float, self._answers.readline().split()))
        except (BrokenPipeError, TypeError):
            raise SystemExit(f"a process that compiles has ended:\n{self._process.communicate()[1]}") from None

    def end(self):
        self._process.stdin.close()
        self._process.stderr.close()
        self._process.wait()
        self._answers.close()


def _without_randomised_addresses():
    setarch = shutil.which("setarch")
    command = [setarch, "-R"]
    return (
        command
        if setarch and subprocess.run([*command, "true"], check=False, stderr=subprocess.DEVNULL).returncode == 0
        else []
    )


def measured(subject, kinds, rounds):
    """The costs of each kind, round by round."""
    workers = {kind: Worker(subject, kind) for kind in kinds}
    try:
        for turn in range(WARM_UP + rounds):
            for worker in [*workers.values()][:: 1 if turn % 2 else -1]:
                cost = worker.compile()
                if turn >= WARM_UP:
                    worker.costs.append(cost)
    finally:
        for worker in workers.values():
            worker.end()
    return {kind: worker.costs for kind, worker in workers.items()}


def ratios(costs, kind, over):
    """Of the thread's time, round by round."""
    return [one.thread_s / other.thread_s for one, other in zip(costs[kind], costs[over], strict=True)]


def spread(values):
    """By how much the median of resampled `values` differs from theirs in nine cases of ten."""
    draw, middle = random.Random(0), statistics.median(values)
    found = [abs(statistics.median(draw.choices(values, k=len(values))) - middle) for _ in range(500)]
    return statistics.quantiles(found, n=10)[-1]


def row(costs, kind, over, target=None):
    values = ratios(costs, kind, over)
    figure = statistics.median(values)
    noise = max(spread(values), abs(statistics.median(ratios(costs, AGAIN, BARE)) - 1))
    what = f"{KINDS[kind]} / {KINDS[over]}"
    if target is None:
        return Row(what, f"{figure:.4f} ± {noise:.4f}", "", NO_TARGET)
    is_noise = (noise > target - 1 and abs(figure - 1) <= noise) or target < figure <= target + noise
    return Row(what, f"{figure:.4f} ± {noise:.4f}", f"≤ {target}", None if is_noise else figure <= target)


def write_costs(costs):
    """Print the medians of everything that was measured."""
    print("\nOne compilation, medians: milliseconds, and page faults")
    width = max(map(len, KINDS.values()))
    print(f"  {'':<{width}}  {'wall':>7}  {'process':>7}  {'thread':>7}  {'GC':>7}  {'faults':>7}")
    for kind, found in costs.items():
        medians = [statistics.median(getattr(each, field.name) for each in found) for field in fields(Cost)]
        cells = [f"{value * 1000:7.1f}" for value in medians[:-1]] + [f"{medians[-1]:7.0f}"]
        print(f"  {KINDS[kind]:<{width}}  {'  '.join(cells)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description="What tracing adds to a compilation.")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="compilations of each kind (default: %(default)s)")
    parser.add_argument("--of", choices=SUBJECTS, default="tensorrt", help="what compiles (default: %(default)s)")
    parser.add_argument("--worker", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--answers", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker is not None:
        return work(options.of, options.worker, options.answers)
    subject = SUBJECTS[options.of]
    costs = measured(options.of, KINDS, options.rounds)
    rows = [
        row(costs, AGAIN, BARE),
        row(costs, IMPORTS, BARE),
        row(costs, UNSAMPLED, IMPORTS, TARGET_RATIO),
        row(costs, TRACED, IMPORTS, TARGET_RATIO),
        row(costs, TRACED, BARE),
    ]
    status = write(f"A compilation of {subject.what}, processor time of its thread, {options.rounds} rounds", rows)
    write_costs(costs)
    return status


if __name__ == "__main__":
    raise SystemExit(main())
