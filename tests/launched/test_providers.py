# SPDX-License-Identifier: Apache-2.0
"""A program that sets a tracer provider: its exporter receives below `run` what it receives without, and so does the file."""

import os
import sys

import pytest

from support.without import python_without

pytestmark = pytest.mark.slow

AT_IMPORT = """
from receiver import *
from opentelemetry.sdk.resources import Resource
early = trace.get_tracer("early")
trace.set_tracer_provider(receiving(resource=Resource({"service.name": "mine", "team": "ml"})))
tracer = trace.get_tracer("app", "1.0")
with tracer.start_as_current_span("request", kind=trace.SpanKind.SERVER, attributes={"a": 1}) as span:
    span.add_event("happened")
    with early.start_as_current_span("taken before"):
        pass
with early.start_as_current_span("second root"):
    pass
"""

LATE = """
from receiver import *
tracer = trace.get_tracer("app")
with tracer.start_as_current_span("before"):
    with tracer.start_as_current_span("inside before"):
        trace.set_tracer_provider(receiving())
        with tracer.start_as_current_span("root"):
            with trace.get_tracer("other").start_as_current_span("child"):
                pass
        late = tracer.start_span("late")
    with tracer.start_as_current_span("second root", links=[trace.Link(late.get_span_context())]):
        pass
    late.end()
"""

ASSIGNED = """
from receiver import *
tracer = trace.get_tracer("app")
with tracer.start_as_current_span("before"):
    pass
trace._TRACER_PROVIDER = receiving()
with tracer.start_as_current_span("root"):
    with trace.get_tracer("other").start_as_current_span("child"):
        pass
"""

TWICE = """
from receiver import *
import logging
logging.basicConfig(format="%(message)s")
trace.set_tracer_provider(receiving())
trace.set_tracer_provider(TracerProvider())
with trace.get_tracer("app").start_as_current_span("root"):
    print(type(trace.get_tracer_provider()).__name__)
"""

LOCAL = """
from receiver import *
provider = receiving()
with provider.get_tracer("app").start_as_current_span("root"):
    pass
import torchspan
torchspan.instrument(tracer_provider=provider)
from torchspan import observers
@observers.observable()
def work():
    with provider.get_tracer("app").start_as_current_span("inside"):
        pass
with provider.get_tracer("app").start_as_current_span("outside"):
    work()
"""

PARTLY = """
from receiver import *
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.sdk.trace.id_generator import IdGenerator
class Counting(IdGenerator):
    number = 0
    def generate_span_id(self):
        Counting.number += 1
        return Counting.number
    def generate_trace_id(self):
        Counting.number += 1
        return Counting.number * 0x9E3779B97F4A7C15 % 2**64 or 1
trace.set_tracer_provider(receiving(sampler=ParentBased(TraceIdRatioBased(0.01)), id_generator=Counting()))
tracer = trace.get_tracer("app")
for number in range(1000):
    with tracer.start_as_current_span(f"root {number}"):
        with tracer.start_as_current_span(f"child {number}"):
            pass
"""


@pytest.mark.parametrize(
    ("text", "filed"),
    [
        (AT_IMPORT, [("request", None), ("second root", None), ("taken before", "request")]),
        (
            LATE,
            [
                ("before", "torchspan.run"),
                ("child", "root"),
                ("inside before", "before"),
                ("late", None),
                ("root", None),
                ("second root", None),
            ],
        ),
        (ASSIGNED, [("before", "torchspan.run"), ("child", "root"), ("root", None)]),
        (TWICE, [("root", None)]),
        (
            LOCAL,
            [("inside", "torchspan.observed work"), ("outside", None), ("torchspan.observed work", "outside")],
        ),
    ],
    ids=["at import", "late", "assigned", "twice", "given to instrument"],
)
def test_the_programs_exporter_receives_what_it_receives_without_run(program, text, filed):
    app = program(text)
    alone, below = app.alone(), app.below_run()

    assert below.received == alone.received
    assert alone.received
    assert (below.status, below.out, below.err) == (alone.status, alone.out, alone.err) == (0, alone.out, alone.err)
    assert below.filed == filed
    assert [(report.provider, report.errors) for report in below.reports] == [("program", [])]


def test_a_parent_based_sampler_of_one_percent_keeps_the_same_share_and_gets_no_foreign_parent(program):
    app = program(PARTLY)
    alone, below = app.alone(), app.below_run()

    assert below.received == alone.received
    assert 2 <= len(alone.received) <= 60
    assert [span["parent"] for span in below.received if span["name"].startswith("root")] == [None] * (
        len(below.received) // 2
    )


def test_a_provider_that_the_programs_variable_names_is_its_own(program):
    app = program(
        "from opentelemetry import trace\n"
        "tracer = trace.get_tracer('app')\n"
        "with tracer.start_as_current_span('root'):\n"
        "    print(type(trace.get_tracer_provider()).__module__)\n"
    )
    alone = app.alone(OTEL_PYTHON_TRACER_PROVIDER="sdk_tracer_provider")
    below = app.below_run(OTEL_PYTHON_TRACER_PROVIDER="sdk_tracer_provider")

    assert (below.status, below.out, below.err) == (alone.status, alone.out, alone.err)
    assert below.filed == [("root", None)]
    assert [report.provider for report in below.reports] == ["program"]


FOREIGN = """
from receiver import *
from opentelemetry.sdk.trace import TracerProvider

class Foreign(trace.TracerProvider):
    # As ddtrace's: the API's methods and no others.
    def __init__(self):
        self._hidden = receiving()

    def get_tracer(self, *args, **kwargs):
        return self._hidden.get_tracer(*args, **kwargs)

trace.set_tracer_provider(Foreign())
from torchspan import observers

@observers.observable()
def inner():
    with trace.get_tracer("app").start_as_current_span("within"):
        pass

@observers.observable()
def outer():
    inner()

with trace.get_tracer("app").start_as_current_span("request"):
    outer()
"""


def test_a_provider_that_takes_no_processor_is_left_alone_and_nothing_is_recorded(program):
    app = program(FOREIGN)
    alone, below = app.alone(), app.below_run()

    assert below.received == alone.received
    assert [(span["name"], span["parent"]) for span in below.received] == [("within", "request"), ("request", None)]
    assert below.filed == []
    assert [(report.provider, report.errors) for report in below.reports] == [("foreign", [])]


PROXIED = """
# As logfire's (5.4, with which the same was seen): a proxy of its own, with another provider after each configuration.
from receiver import *
from opentelemetry.sdk.trace import SpanProcessor

class Proxied(trace.TracerProvider):
    def __init__(self, provider):
        self.provider = provider

    def get_tracer(self, *args, **kwargs):
        return self.provider.get_tracer(*args, **kwargs)

    def add_span_processor(self, processor):
        self.provider.add_span_processor(processor)

tracer = trace.get_tracer("early")
proxied = Proxied(receiving())
trace.set_tracer_provider(proxied)
with tracer.start_as_current_span("root"):
    with trace.get_tracer("app").start_as_current_span("child"):
        pass
proxied.provider = receiving()
import torchspan
torchspan.instrument()
from torchspan import observers
@observers.observable()
def work():
    pass
work()
with trace.get_tracer("later").start_as_current_span("configured again"):
    pass
"""


def test_a_provider_that_stands_for_another_gets_the_file_too(program):
    app = program(PROXIED)
    alone, below = app.alone(), app.below_run()

    assert below.received == alone.received
    assert below.filed == [
        ("child", "root"),
        ("configured again", None),
        ("root", None),
        ("torchspan.observed work", None),
    ]


CONFIGURED = """
from opentelemetry import trace
with trace.get_tracer("app").start_as_current_span("root"):
    with trace.get_tracer("app").start_as_current_span("child"):
        pass
print(type(trace.get_tracer_provider()).__name__)
"""


@pytest.fixture
def configuration(tmp_path):
    """The variables for a package `opentelemetry.configuration`: two functions of the real one's names, which is not
    a dependency. With the real one (0.66b1) the same was seen.
    """
    package = tmp_path / "installed" / "opentelemetry" / "configuration"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        "def load_config_file(path):\n"
        "    with open(path) as file:\n"
        "        return file.read()\n"
        "def configure_sdk(text):\n"
        "    from receiver import receiving, trace\n"
        "    if text != 'valid': raise ValueError(text)\n"
        "    trace.set_tracer_provider(receiving())\n"
    )
    (tmp_path / "valid.yaml").write_text("valid")
    (tmp_path / "broken.yaml").write_text("broken")
    entries = [str(tmp_path / "installed"), str(tmp_path), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, entries))}


def test_a_configuration_file_sets_the_provider_and_the_file_goes_along(program, configuration):
    app = program(CONFIGURED)
    python = app.command
    run = "from opentelemetry.instrumentation.auto_instrumentation import run; run()"
    app.command = [sys.executable, "-c", run, *python]
    alone = app.alone(OTEL_CONFIG_FILE="valid.yaml", **configuration)
    app.command = python
    below = app.below_run(OTEL_CONFIG_FILE="valid.yaml", **configuration)

    assert below.received == alone.received
    assert alone.received
    assert below.out == alone.out == "TracerProvider\n"
    assert below.filed == [("child", "root"), ("root", None)]
    assert [(report.provider, report.errors) for report in below.reports] == [("program", [])]


def test_a_configurator_that_fails_is_reported_and_the_file_is_written(program, configuration):
    below = program(CONFIGURED).below_run(OTEL_CONFIG_FILE="broken.yaml", **configuration)

    assert below.filed == [("child", "root"), ("root", "torchspan.run")]
    assert [report.errors for report in below.reports] == [
        [
            "OTEL_CONFIG_FILE is set, and OpenTelemetry's configurator failed: ValueError; to check the file: torchspan doctor"
        ]
    ]


def test_a_configuration_file_without_its_package_is_reported_and_the_file_is_written(program, tmp_path):
    app = program(CONFIGURED)
    app.command[0] = python_without(tmp_path / "python", "opentelemetry.configuration")
    below = app.below_run(OTEL_CONFIG_FILE="valid.yaml")

    assert (below.out, below.err) == ("ProxyTracerProvider\n", "")
    assert below.filed == [("child", "root"), ("root", "torchspan.run")]
    assert [report.errors for report in below.reports] == [
        [
            "OTEL_CONFIG_FILE is set, but the package opentelemetry-configuration that reads it is not installed; install it with: pip install 'torchspan[auto]'"
        ]
    ]


REFUSES = """
from receiver import *
class Strict(TracerProvider):
    is_complete = False
    def add_span_processor(self, processor):
        if self.is_complete:
            raise RuntimeError("too late")
        super().add_span_processor(processor)
provider = Strict()
provider.add_span_processor(SimpleSpanProcessor(Receiver()))
provider.is_complete = True
trace.set_tracer_provider(provider)
with trace.get_tracer("app").start_as_current_span("root"):
    pass
"""


def test_a_provider_that_raises_when_it_is_given_the_file_is_left_alone(program):
    app = program(REFUSES)
    alone, below = app.alone(), app.below_run()

    assert (below.received, below.out, below.err) == (alone.received, alone.out, alone.err)
    assert [(report.provider, report.errors) for report in below.reports] == [
        ("foreign", ["the program's Strict refused the span processor: RuntimeError('too late')"])
    ]


WITH_CHILDREN = """
import multiprocessing, os, subprocess, sys, threading
from receiver import *
role = sys.argv[1] if len(sys.argv) > 1 else "main"
trace.set_tracer_provider(receiving())
tracer = trace.get_tracer("app")
def work(name):
    with tracer.start_as_current_span(name):
        pass
def spawned():
    work("spawned")
if __name__ == "__main__":
    if role == "child":
        work("child")
    else:
        with tracer.start_as_current_span("main"):
            thread = threading.Thread(target=work, args=("thread",))
            thread.start(); thread.join()
            subprocess.run([sys.executable, "app.py", "child"], check=True)
            process = multiprocessing.get_context("spawn").Process(target=spawned)
            process.start(); process.join()
        print("TRACEPARENT" in os.environ)
"""


def test_threads_and_processes_of_a_program_with_a_provider_keep_their_parents(program):
    app = program(WITH_CHILDREN)
    callers = {
        "TRACEPARENT": "00-11111111111111111111111111111111-2222222222222222-01",
        "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "threading",  # which gives threads parents, with torchspan or without
    }
    alone, below = app.alone(**callers), app.below_run(**callers)

    assert sorted((span["name"], span["parent"]) for span in alone.received) == [
        ("child", None),
        ("main", None),
        ("spawned", None),
        ("thread", None),
    ]
    assert below.received == alone.received
    assert (below.out, below.err) == (alone.out, alone.err)


INSTRUMENT = """
from receiver import *
provider = trace.get_tracer_provider()
provider.add_span_processor(SimpleSpanProcessor(Receiver()))
with trace.get_tracer("app").start_as_current_span("root"):
    with trace.get_tracer("app").start_as_current_span("child"):
        pass
import torchspan
print(type(provider).__module__, torchspan.TorchspanInstrumentor().is_instrumented_by_opentelemetry)
"""


def test_opentelemetry_instrument_inside_run_keeps_its_provider_and_the_file_goes_along(program):
    app = program(INSTRUMENT)
    app.command = [
        sys.executable,
        "-c",
        "from opentelemetry.instrumentation.auto_instrumentation import run; run()",
        sys.executable,
        "app.py",
    ]
    variables = {"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}
    alone, below = app.alone(**variables), app.below_run(**variables)

    assert below.received == alone.received
    assert alone.received
    assert (below.status, below.out, below.err) == (alone.status, alone.out, alone.err)
    assert below.filed == [("child", "root"), ("root", None)]
    assert [report.provider for report in below.reports] == ["program"]
