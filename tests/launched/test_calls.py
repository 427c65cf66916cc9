# SPDX-License-Identifier: Apache-2.0
"""`instrument()` called by `run`, by `opentelemetry-instrument` and by the program."""

import sys

import pytest

OBSERVED = """
from torchspan import observers
@observers.observable()
def work():
    pass
"""

IN_CODE = (
    """
from receiver import *
import logging
logging.basicConfig(format="%(message)s")
import torchspan
provider = receiving()
torchspan.instrument(tracer_provider=provider, detail="passes")
"""
    + OBSERVED
    + """
work()
torchspan.instrument(tracer_provider=provider, detail="stages")
work()
print(torchspan.TorchspanInstrumentor()._active["detail"])
"""
)

SECOND_CALL = (
    "torchspan is already instrumented; ignoring detail='stages' (in use: 'passes'). "
    "Call torchspan.uninstrument() first to change it.\n"
)


def test_the_programs_call_wins_over_that_of_run_and_its_second_call_changes_nothing(program):
    app = program(IN_CODE)
    alone, below = app.alone(), app.below_run()

    assert below.received == alone.received
    assert below.names() == ["torchspan.observed work", "torchspan.observed work"]
    assert (below.out, below.err) == (alone.out, alone.err) == ("passes\n", SECOND_CALL)
    assert below.filed == [("torchspan.observed work", None), ("torchspan.observed work", None)]
    assert [(report.provider, report.errors) for report in below.reports] == [("program", [])]


@pytest.mark.parametrize("is_below", [False, True])
def test_the_programs_call_wins_over_that_of_opentelemetry_instrument(program, is_below):
    app = program(IN_CODE)
    run = "from opentelemetry.instrumentation.auto_instrumentation import run; run()"
    app.command = [sys.executable, "-c", run, sys.executable, "app.py"]
    variables = {"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}
    ran = (app.below_run if is_below else app.alone)(**variables)

    assert ran.names() == ["torchspan.observed work", "torchspan.observed work"]
    assert (ran.out, ran.err) == ("passes\n", SECOND_CALL)


def test_a_call_after_work_has_been_recorded_continues_with_its_provider(program):
    text = (
        "from receiver import *\nimport torchspan\n"
        + OBSERVED
        + "work()\ntorchspan.instrument(tracer_provider=receiving())\nwork()\n"
    )
    below = program(text).below_run()

    assert (below.status, below.err) == (0, "")
    assert below.names() == ["torchspan.observed work"]
    assert below.filed == [("torchspan.observed work", None), ("torchspan.observed work", "torchspan.run")]
    assert [report.spans for report in below.reports] == [2]


def test_an_invalid_call_leaves_that_of_run_as_it_is(program):
    text = (
        "import torchspan\n"
        "try:\n"
        "    torchspan.instrument(detail='all')\n"
        "except torchspan.exceptions.ConfigurationError as error:\n"
        "    print(error)\n"
    )
    text = "import torchspan.exceptions\n" + text + OBSERVED + "work()\n"
    below = program(text).below_run()

    assert below.out == "invalid value for detail: 'all' (expected one of stages, passes)\n"
    assert below.filed == [("torchspan.observed work", "torchspan.run")]


def test_a_call_without_arguments_is_the_programs_too(program):
    text = (
        "import logging, torchspan\nlogging.basicConfig(format='%(message)s')\n"
        "torchspan.instrument()\ntorchspan.instrument(detail='passes')\n"
    )
    assert program(text).below_run().err == (
        "torchspan is already instrumented; ignoring detail='passes' (in use: 'stages'). "
        "Call torchspan.uninstrument() first to change it.\n"
    )


def test_uninstrument_ends_torchspans_spans_and_not_those_of_the_program(program):
    text = (
        "from opentelemetry import trace\nimport torchspan\n"
        + OBSERVED
        + "torchspan.uninstrument()\nwork()\n"
        + "with trace.get_tracer('app').start_as_current_span('mine'):\n    pass\n"
    )
    assert program(text).below_run().filed == [("mine", "torchspan.run")]


TEST_APP = """
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
import torchspan
from torchspan import observers

@pytest.fixture
def spans():
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    torchspan.instrument(tracer_provider=provider)
    yield exporter
    torchspan.uninstrument()

@observers.observable()
def work():
    pass

@pytest.mark.parametrize("number", [1, 2])
def test_work(spans, number):
    work()
    (span,) = spans.get_finished_spans()
    assert span.name == "torchspan.observed work"
"""


def test_a_test_suite_that_enables_torchspan_for_each_test_passes(program):
    app = program("", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_app.py")
    (app.folder / "test_app.py").write_text(TEST_APP)
    below = app.below_run()

    assert below.status == 0, below.out
    assert "2 passed" in below.out
    assert below.filed == [("torchspan.observed work", None), ("torchspan.observed work", None)]
