# SPDX-License-Identifier: Apache-2.0
"""`program.py bare|traced COMPILES TENSORRT RUNS TREES FORKS`: one side of a soak, with the work of a round. A program of its own.

Each line of its input is a round, after which it writes a line: a JSON object of what it takes.
"""

import contextlib
import gc
import json
import os
import statistics
import sys
import threading
import time
import warnings
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
warnings.simplefilter("ignore")

import torchspan.testing  # noqa: E402 - after the folder of the tests is on the path

torchspan.testing.without_gpu()

import torch  # noqa: E402
import torch_tensorrt  # noqa: E402
from opentelemetry.sdk.metrics import MeterProvider  # noqa: E402
from opentelemetry.sdk.metrics.export import InMemoryMetricReader  # noqa: E402
from opentelemetry.sdk.trace import TracerProvider  # noqa: E402
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult  # noqa: E402

from support.hooked import Hooked, recorded  # noqa: E402
from support.patched import bound_names  # noqa: E402
from support.ports import make_ports  # noqa: E402
from torchspan import phase  # noqa: E402
from torchspan.hooks.adapters.engine_runs import wrap_run  # noqa: E402
from torchspan.hooks.probes.torch_tensorrt.runtime import PROBES as RUNTIME  # noqa: E402
from torchspan.observers import observable  # noqa: E402

OPERATOR = next(probe for probe in RUNTIME if probe.target.endswith("execute_engine"))
OPTIONS = {"min_block_size": 1, "immutable_weights": False, "truncate_double": True}


class Dropping(SpanExporter):
    """Takes all spans and keeps none."""

    def export(self, spans):
        return SpanExportResult.SUCCESS


class Engine:
    """Stands for an engine: a run of it takes no time."""


@observable
def leaf(number):
    return number + 1


@observable
def tree(number):
    return leaf(number) + leaf(number)


class Side:
    """The work of one side."""

    def __init__(self, *, is_traced, work):
        self.is_traced, self.work = is_traced, work
        self.model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()).eval()
        self.ones = torch.ones(2, 4)
        self.event = Hooked(recorded(phase.COMPILE), tree)
        self.run = Hooked(self._wrapped, lambda inputs, _engine: inputs)
        self.engines = [Engine() for _ in range(8)]
        self.credit = Counter()
        self.reader = None

    @staticmethod
    def _wrapped(factory, function):
        return wrap_run(factory, make_ports(), OPERATOR.target, OPERATOR.action, function)

    def enable(self):
        """Trace from now on with new providers, as a program does that exchanges them."""
        if self.is_traced:
            torchspan.uninstrument()
            self.reader = InMemoryMetricReader()
            tracers = TracerProvider(shutdown_on_exit=False)
            meters = MeterProvider([self.reader], shutdown_on_exit=False)
            tracers.add_span_processor(SimpleSpanProcessor(Dropping()))
            torchspan.instrument(tracer_provider=tracers, meter_provider=meters)

    def compile(self):
        """Compile by torch.compile."""
        torch._dynamo.reset()
        torch.compile(lambda values: values * 2 + 1, backend="eager")(self.ones)

    def compile_by_tensorrt(self):
        """Compile by Torch-TensorRT, and run."""
        torch._dynamo.reset()
        torch_tensorrt.compile(self.model, ir="dynamo", inputs=[self.ones], **OPTIONS)(self.ones)

    def round(self):
        """Do the work of a round, and collect metrics. Returns seconds of a run, the median over hundreds of them."""
        for _ in self._due("compiles"):
            self.compile()
        for _ in self._due("tensorrt"):
            self.compile_by_tensorrt()
        for number in self._due("trees"):
            self.event(number)
        for _ in self._due("forks"):
            pid = os.fork()
            if pid == 0:
                self.event(1)
                os._exit(0)
            os.waitpid(pid, 0)
        run_s = self._runs(self.work["runs"])
        if self.reader is not None:
            self.reader.get_metrics_data()
        return run_s

    def _due(self, kind):
        """So many pieces of work as a round has; fractions add up."""
        self.credit[kind] += self.work[kind]
        due = int(self.credit[kind])
        self.credit[kind] -= due
        return range(due)

    def _runs(self, number):
        inputs, run, engines, durations = [self.ones], self.run, self.engines, []
        for _ in range(0, int(number), 200):
            begin = time.perf_counter()
            for index in range(200):
                run(inputs, engines[index % 8])
            durations.append((time.perf_counter() - begin) / 200)
        return statistics.median(durations)


def sample(run_s):
    """What the process takes now.

    Objects are those of classes of torchspan and OpenTelemetry. How many the SDK's metrics have depends on when they were collected last.
    """
    gc.collect()
    modules = [str(type(thing).__module__) for thing in gc.get_objects()]
    objects = sum(name.startswith(("torchspan.", "opentelemetry.")) for name in modules)
    of_metrics = sum(name.startswith("opentelemetry.sdk.metrics.") for name in modules)
    return {
        "run_s": run_s,
        "memory": int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"),
        "threads": threading.active_count(),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "objects": objects - of_metrics,
    }


def main(side, *work):
    numbers = dict(zip(("compiles", "tensorrt", "runs", "trees", "forks"), map(float, work), strict=True))
    soaked = Side(is_traced=side == "traced", work=numbers)
    soaked.compile()  # the first compilation replaces names, and starts a thread of tqdm
    soaked.compile_by_tensorrt()
    before = bound_names()
    soaked.enable()
    for line in sys.stdin:
        if line.strip() == "provider":
            soaked.enable()
            continue
        if line.strip() == "names":
            torchspan.uninstrument()
            now = bound_names()
            answer = {
                "names": sorted(".".join(name) for name, value in before.items() if now.get(name, value) != value)
            }
        else:
            with contextlib.redirect_stdout(sys.stderr):
                answer = sample(soaked.round())
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
