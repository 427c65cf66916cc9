# SPDX-License-Identifier: Apache-2.0
"""The first spans of a program that begin while another thread makes `run`'s own provider."""

import shutil

import pytest

from torchspan.start.launched.run_report import problems

TOGETHER = """
import sys, threading
{first}
from opentelemetry import trace

tracer = trace.get_tracer("app")
start = threading.Barrier({threads})

def request(number):
    start.wait()
    with tracer.start_as_current_span(f"request {{number}}"):
        with tracer.start_as_current_span("work"):
            pass

threads = [threading.Thread(target=request, args=(number,)) for number in range({threads})]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""

MAKING = """
import sys, threading
from opentelemetry import trace
from torchspan.start.launched import process, provider

tracer = trace.get_tracer("app")
making, may_end = threading.Event(), threading.Event()

def own_provider(*args, original=provider.own_provider):
    making.set()
    assert may_end.wait(60)
    return original(*args)

provider.own_provider = own_provider
first = threading.Thread(target=lambda: tracer.start_span("first").end())
first.start()
assert making.wait(60)

def second(*_):
    with tracer.start_as_current_span("second") as span:
        print(span.is_recording())
"""


@pytest.mark.parametrize("threads", [2, 4, 16])
@pytest.mark.parametrize("first", ["", "import torch"], ids=["alone", "torch was imported"])
def test_every_one_of_the_first_spans_of_threads_that_begin_together_is_in_the_file(program, threads, first):
    app = program(TOGETHER.format(threads=threads, first=first))
    (app.folder / "torch.py").write_text("__version__ = '2.14.0'")  # the name is all that counts here

    expected = [each for n in range(threads) for each in [(f"request {n}", "torchspan.run"), ("work", f"request {n}")]]
    for _ in range(5 if threads == 4 else 1):  # what went wrong was a race
        below = app.below_run()
        assert [span for span in below.filed if span[0] != "torchspan.import"] == sorted(expected)
        assert [report.unready for report in below.reports] == [0]
        (app.folder / "run.jsonl").unlink()
        shutil.rmtree(app.folder / "reports")


def test_a_first_span_waits_for_the_thread_that_makes_the_provider(program):
    below = program(MAKING + "threading.Timer(0.2, may_end.set).start()\nsecond()\nfirst.join()").below_run()

    assert (below.out, below.filed) == ("True\n", [("first", "torchspan.run"), ("second", "torchspan.run")])


def test_a_first_span_that_has_waited_for_the_limit_is_counted_and_reported(program):
    late = "process.LONGEST_WAIT_S = 0.1\nsecond()\nmay_end.set()\nfirst.join()\nsecond()"
    below = program(MAKING + late).below_run()

    assert (below.out, below.filed) == ("False\nTrue\n", [("first", "torchspan.run"), ("second", "torchspan.run")])
    assert problems(below.reports) == [
        "OpenTelemetry's SDK was not started in time: the file lacks 1 span, and what may have run inside"
    ]


def test_no_span_waits_after_one_has_waited_without_success(program):
    """A detector of resources that never returns would otherwise delay each span of the other threads."""
    late = "process.LONGEST_WAIT_S = 0.1\nsecond()\nprocess.LONGEST_WAIT_S = 60\nsecond()\nmay_end.set()\nfirst.join()"
    below = program(MAKING + late).below_run()

    assert (below.out, [report.unready for report in below.reports]) == ("False\nFalse\n", [2])


def test_a_span_that_begins_inside_of_the_making_of_the_provider_does_not_wait(program):
    inside = """
from opentelemetry import trace
from torchspan.start.launched import provider

tracer = trace.get_tracer("app")

def own_provider(*args, original=provider.own_provider):
    print(tracer.start_span("inside").is_recording())
    return original(*args)

provider.own_provider = own_provider
tracer.start_span("around").end()
"""
    below = program(inside).below_run()

    assert (below.out, below.filed) == ("False\n", [("around", "torchspan.run")])
    assert [report.unready for report in below.reports] == [1]


IMPORTS = """
import sys
from opentelemetry import trace
from torchspan.start.launched.process import RunProcess

imported, is_making = [], []

def made(self, original=RunProcess._made):
    is_making.append(True)
    try:
        return original(self)
    finally:
        is_making.clear()

RunProcess._made = made
sys.addaudithook(lambda event, args: event == "import" and is_making and imported.append(args[0]))
trace.get_tracer("app").start_span("first").end()
print(imported)
"""


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"OTEL_TRACES_SAMPLER": "torchspan", "OTEL_PYTHON_ID_GENERATOR": "torchspan"},
        {"OTEL_EXPERIMENTAL_RESOURCE_DETECTORS": "torchspan"},
        {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"},
    ],
    ids=["nothing is set", "sampler and ids", "a detector", "an exporter"],
)
def test_making_the_provider_imports_nothing(program, variables):
    """A thread that imports something may wait for a span, and a span for the provider."""
    below = program(IMPORTS).below_run(exit_s=0.2, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9", **variables)

    assert (below.out, [name for name, _ in below.filed]) == ("[]\n", ["first"])


CHILDREN = """
import multiprocessing, sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from opentelemetry import trace

tracer = trace.get_tracer("app")

def one(name):
    with tracer.start_as_current_span(name) as span:
        return span.is_recording()

def several(number):
    with ThreadPoolExecutor(3) as pool:
        return list(pool.map(one, [f"{number}{letter}" for letter in "abc"]))

if __name__ == "__main__":
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(sys.argv[1])) as pool:
        print(list(pool.map(several, range(4))))
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_the_first_spans_of_threads_in_child_processes_are_in_the_file(program, method):
    below = program(CHILDREN, "app.py", method).below_run()

    assert below.filed == sorted((f"{number}{letter}", "torchspan.run") for number in range(4) for letter in "abc")
