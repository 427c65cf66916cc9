# SPDX-License-Identifier: Apache-2.0
"""`OTEL_CONFIG_FILE` as the only source: real files, real `opentelemetry-instrument`, a real OTLP receiver."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.receiver import Receiver
from support.without import python_without

FILE = """
file_format: "1.0"
tracer_provider:
  processors:
    - simple: {exporter: {otlp_http: {endpoint: "{url}/v1/traces"}}}
  sampler: {torchspan: {}}
  id_generator: {torchspan: {}}
"""
NODE = """
instrumentation/development:
  python:
    torchspan:
"""
OPTIONS = """
      detail: passes
      propagation: off
      heartbeat: 30
      sample_other: 0
"""
PROGRAM = """
import json, random, sys
from opentelemetry import trace
from torchspan import TorchspanInstrumentor
random.seed(0)
app = trace.get_tracer("app")
for _ in range(20):
    app.start_span("the program's").end()
    app.start_span("compilation", attributes={"torchspan.keep": True}).end()
active = TorchspanInstrumentor._active
names = ("detail", "capture", "propagation", "heartbeat", "sample_other")
print(json.dumps({name: active[name] for name in names if active}))
"""
OPENTELEMETRYS_OWN = "OTEL_CONFIG_FILE is set; ignoring configurator kwargs: ['auto_instrumentation_version']\n"
"""What OpenTelemetry says of itself at every start with a file."""


class Ran:
    """What a program printed, what it and what started it wrote to stderr, and the spans that arrived."""

    def __init__(self, done, receiver):
        assert done.returncode == 0, done.stderr
        self.active, self.err = json.loads(done.stdout), done.stderr.replace(OPENTELEMETRYS_OWN, "")
        self.spans = receiver.spans()
        self.names = sorted({span.name for span in self.spans})
        self.traces = {span.trace_id for span in self.spans}


@pytest.fixture
def started(tmp_path):
    """`started(text)`: the program under `opentelemetry-instrument`, with the file above and `text` after it."""

    def start(text, program=PROGRAM, file=FILE, python=sys.executable, **variables):
        with Receiver() as receiver:
            (tmp_path / "otel.yaml").write_text(file.replace("{url}", receiver.url) + text)
            (tmp_path / "app.py").write_text(program)
            run = "from opentelemetry.instrumentation.auto_instrumentation import run; run()"
            environ = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "TORCHSPAN_", "TRACEPARENT"))}
            done = subprocess.run(
                [python, "-c", run, python, "app.py"],
                cwd=tmp_path,
                env=environ | {"OTEL_CONFIG_FILE": "otel.yaml"} | variables,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            return Ran(done, receiver)

    return start


def test_a_file_sets_sampler_ids_and_options_and_the_variables_set_the_rest_without_a_warning(started):
    ran = started(NODE + OPTIONS, TORCHSPAN_DETAIL="stages", TORCHSPAN_CAPTURE="text", TORCHSPAN_SAMPLE_OTHER="1")

    assert ran.active == {
        "detail": "passes",
        "capture": "text",
        "propagation": "off",
        "heartbeat": 30.0,
        "sample_other": 0.0,
    }
    assert ran.err == ""
    assert ran.names == ["compilation"]  # the sampler's rule: nothing of the program's own
    assert len(ran.traces) == 20
    assert "e3e70682c2094cac629f6fbed82c07cd" not in ran.traces  # the first id of the SDK's generator after seed(0)


def test_a_node_that_is_not_enabled_is_not_instrumented_and_the_rest_of_the_file_holds(started):
    ran = started(NODE + "      enabled: ${TRACE_TORCH:-false}\n" + OPTIONS)

    assert (ran.active, ran.err) == ({}, "")
    assert ran.names == ["compilation", "the program's"]


def test_bad_options_of_a_file_are_named_and_the_good_ones_hold(started):
    ran = started(
        NODE + "      detial: passes\n      detail: all\n      capture: text\n      heartbeat: [5]\n",
        TORCHSPAN_DETAIL="passes",
    )

    assert ran.active == {
        "detail": "passes",
        "capture": "text",
        "propagation": "on",
        "heartbeat": None,
        "sample_other": None,
    }
    assert ran.err.splitlines() == [
        (
            "torchspan: WARNING: Unknown option 'detial' of instrumentation/development.python.torchspan in the configuration file, ignored "
            "(did you mean 'detail'?)"
        ),
        "torchspan: WARNING: Invalid detail='all' in the configuration file, using variable 'passes' (expected one of stages, passes)",
        (
            "torchspan: WARNING: Invalid heartbeat=[5] in the configuration file, using the default (gaps of 5 to 60 s) "
            "(expected 0 for none, or 0.1 to 86400 seconds)"
        ),
    ]


PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "configuration-file.md"


def test_the_file_of_the_page_sets_resource_sampler_ids_and_options(started):
    _, _, block = PAGE.read_text(encoding="utf-8").partition("```yaml file=otel.yaml\n")
    ran = started("", file=block.partition("```")[0].replace("http://127.0.0.1:4318", "{url}", 1))

    assert ran.active["detail"] == "passes"
    assert (ran.active["sample_other"], ran.err) == (0.1, "")
    assert {span.resource["process.runtime.name"] for span in ran.spans} == {"cpython"}
    assert len([span for span in ran.spans if span.name == "compilation"]) == 20
    assert len(ran.spans) < 35  # of the program's own 20 one in ten


def test_a_file_without_its_package_is_reported_and_the_program_runs_on_without_an_sdk(started, tmp_path):
    ran = started(NODE + OPTIONS, python=python_without(tmp_path / "python", "opentelemetry.configuration"))

    assert (ran.active, ran.names) == ({}, [])
    assert "OTEL_CONFIG_FILE is set but opentelemetry-configuration is not installed" in ran.err


AGAIN = """
import json, torchspan
from torchspan import TorchspanInstrumentor
def in_use():
    return [TorchspanInstrumentor._active[name] for name in ("detail", "capture")]
found = [in_use()]
torchspan.instrument(detail="stages")
found.append(in_use())
torchspan.uninstrument()
torchspan.instrument()
found.append(in_use())
print(json.dumps(found))
"""


def test_an_argument_of_the_program_wins_over_the_file_whose_options_hold_for_the_process(started):
    ran = started(NODE + "      detail: passes\n      capture: text\n", AGAIN)

    assert ran.active == [["passes", "text"], ["stages", "text"], ["passes", "text"]]
    assert ran.err == ""
