# SPDX-License-Identifier: Apache-2.0
"""A program that starts processes of `multiprocessing` in spans, by the method named as its argument.

Its provider sends nothing before it is flushed, so whatever arrives of a child was flushed at the child's end. What the
children cannot say in spans the program prints, as JSON.
"""

import json
import multiprocessing
import os
import random
import sys
from concurrent.futures import ProcessPoolExecutor

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from support import work
from torchspan import TorchspanInstrumentor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(), schedule_delay_millis=3_600_000))
trace.set_tracer_provider(provider)
tracer = trace.get_tracer("user")


class Subclass(multiprocessing.Process):
    """Overrides run; of the default start method."""

    def __init__(self, label):
        super().__init__()
        self.label = label

    def run(self):
        work.both(self.label)


def several(label):
    """Ids in a child whose parent has seeded Python's generator."""
    for number in range(3):
        work.torchspans(f"{label} {number}")


def of_one(label, _other):
    return work.both(label)


def serve(queue, answers):
    while (label := queue.get()) is not None:
        answers.put(work.both(label))


def fails(label):
    work.both(label)
    raise RuntimeError("the program's own")


def leaves(label):
    work.both(label)
    sys.exit(7)


def is_instrumented(answers):
    answers.put(TorchspanInstrumentor().is_instrumented_by_opentelemetry)


def run(process):
    process.start()
    left = "torchspan" in process._config, sorted(name for name in vars(process) if "span" in name)
    process.join()
    return process.exitcode, left


def scenarios(method):
    starts = multiprocessing.get_context(method)
    multiprocessing.set_start_method(method)
    reported = {"own": os.getpid()}

    with tracer.start_as_current_span("request process"):
        reported["process"] = run(starts.Process(target=work.both, args=("process",)))
        reported["subclass"] = run(Subclass("subclass"))
        reported["fails"] = run(starts.Process(target=fails, args=("fails",)))
        reported["leaves"] = run(starts.Process(target=leaves, args=("leaves",)))
    reported["alone"] = run(starts.Process(target=work.both, args=("alone",)))

    with ProcessPoolExecutor(1, mp_context=starts) as pool:
        pids = []
        for label in ("item 1", "item 2"):
            with tracer.start_as_current_span(f"request {label}"):
                pids.append(pool.submit(work.both, label).result())
        pids.append(pool.submit(work.both, "item alone").result())
        with tracer.start_as_current_span("request executor map"):
            pids += pool.map(work.both, ["executor map 1", "executor map 2"])
    reported["executor"] = pids

    with starts.Pool(1) as pool:
        for call, argument in (
            (pool.apply, ("apply",)),
            (lambda label: pool.apply_async(work.both, (label,)).get(), "apply_async"),
            (pool.map, ["map"]),
            (lambda label: list(pool.imap(work.both, [label])), "imap"),
            (lambda label: list(pool.imap_unordered(work.both, [label])), "imap_unordered"),
            (lambda label: pool.starmap(of_one, [(label, 0)]), "starmap"),
        ):
            label = argument if isinstance(argument, str) else argument[0]
            with tracer.start_as_current_span(f"request pool {label}"):
                call(argument) if isinstance(argument, str) else call(work.both, argument)
        pool.apply(work.both, ("pool alone",))
        pool.close()
        pool.join()

    queue, answers = starts.SimpleQueue(), starts.SimpleQueue()
    worker = starts.Process(target=serve, args=(queue, answers))
    with tracer.start_as_current_span("request of the worker's start") as kept:
        worker.start()
        queue.put("worker during")
        answers.get()
    with tracer.start_as_current_span("another request"):
        queue.put("worker after")
        answers.get()
    queue.put(None)
    worker.join()
    del kept

    random.seed(0)
    for number in range(2):
        run(starts.Process(target=several, args=(f"ids {number}",)))

    if method == "fork":
        with tracer.start_as_current_span("request forked"):
            child = os.fork()
            if child == 0:  # what happens to its spans is up to the program, which ends it as it likes
                work.both("forked")
                provider.force_flush()
                os._exit(0)
        os.waitpid(child, 0)

    run(starts.Process(target=is_instrumented, args=(answers,)))
    reported["child is instrumented"] = answers.get()
    return reported


if __name__ == "__main__":
    TorchspanInstrumentor().instrument()
    before = dict(os.environ)
    reported = scenarios(sys.argv[1])
    reported["environment changed"] = dict(os.environ) != before
    print(json.dumps(reported))
