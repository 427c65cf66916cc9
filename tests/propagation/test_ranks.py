# SPDX-License-Identifier: Apache-2.0
"""Two ranks of a job as `opentelemetry-instrument` starts them, with what the environment says and nothing else."""

import random
import subprocess
import sys

import pytest

from support import installed
from support.emitted import EMITTED

RANK = """
import random
random.seed(0)
from opentelemetry import trace
from torchspan import observers

@observers.observable()
def prepare():
    pass

with trace.get_tracer("app").start_as_current_span("step"):
    prepare()
print(random.random())
"""


FILE = """
file_format: "1.0"
resource:
  detection/development:
    detectors:
      - torchspan: {{}}
tracer_provider:
  processors:
    - simple: {{exporter: {{otlp_http: {{endpoint: {url}/v1/traces}}}}}}
instrumentation/development:
  python:
    torchspan:
      ranks: 1
"""
OF_THE_FILE = "OTEL_CONFIG_FILE is set; ignoring configurator kwargs: ['auto_instrumentation_version']\n"
"""What OpenTelemetry says of itself at every start with a file."""


@pytest.fixture
def run_ranks(instrumented, receiver, tmp_path):
    """`run_ranks(**variables)`: two ranks that seed alike, at the same time. Returns what each printed."""

    def run(**variables):
        environment = {**instrumented, "OTEL_METRICS_EXPORTER": "otlp", **installed.environment(tmp_path), **variables}
        started = [
            subprocess.Popen(
                ["opentelemetry-instrument", sys.executable, "-c", RANK],
                env={**environment, "RANK": str(rank), "WORLD_SIZE": "2"},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(2)
        ]
        ended = [process.communicate(timeout=120) for process in started]
        assert [process.returncode for process in started] == [0, 0], ended
        assert [warned.replace(OF_THE_FILE, "") for _, warned in ended] == ["", ""]
        return [printed for printed, _ in ended]

    return run


def ranks_of(spans):
    return sorted((span.resource["torch.distributed.rank"], span.name) for span in spans)


def dropped(receiver):
    """(rank, reason) -> how many."""
    found = {}
    for request in receiver.metrics():
        for of_resource in request.resource_metrics:
            resource = {each.key: each.value.int_value for each in of_resource.resource.attributes}
            for of_scope in of_resource.scope_metrics:
                for metric in of_scope.metrics:
                    for point in metric.sum.data_points if metric.name == "torchspan.span.dropped" else ():
                        (reason,) = [each.value.string_value for each in point.attributes]
                        found[resource["torch.distributed.rank"], reason] = point.as_int
    return found


@pytest.mark.fault(
    "processes", "a rank that is left out", lost="its spans, as asked", counted="torchspan.span.dropped, reason rank"
)
def test_the_rank_that_is_named_sends_spans_and_the_other_counts_what_it_left_out(run_ranks, receiver):
    run_ranks(TORCHSPAN_RANKS="0", OTEL_EXPERIMENTAL_RESOURCE_DETECTORS="torchspan")
    spans = receiver.spans()
    assert ranks_of(spans) == [(0, "step"), (0, "torchspan.observed prepare"), (1, "step")]
    assert dropped(receiver) == {(1, "rank"): 1}
    for span in spans:
        EMITTED.add_resource(span.resource)
        assert span.resource["torch.distributed.world_size"] == 2


def test_ranks_that_seed_alike_share_no_id_and_draw_the_numbers_that_they_would_have_drawn(run_ranks, receiver):
    printed = run_ranks(OTEL_PYTHON_ID_GENERATOR="torchspan")
    random.seed(0)
    assert printed == [f"{random.random()}\n"] * 2
    spans = receiver.spans()
    assert sorted(span.name for span in spans) == ["step"] * 2 + ["torchspan.observed prepare"] * 2
    assert len({span.span_id for span in spans}) == 4
    assert len({span.trace_id for span in spans}) == 2


def test_a_configuration_file_names_the_ranks_and_the_detector(run_ranks, receiver, tmp_path):
    pytest.importorskip("opentelemetry.configuration", reason="opentelemetry-configuration is not installed")
    file = tmp_path / "otel.yaml"
    file.write_text(FILE.format(url=receiver.url))
    run_ranks(OTEL_CONFIG_FILE=str(file))
    assert ranks_of(receiver.spans()) == [(0, "step"), (1, "step"), (1, "torchspan.observed prepare")]
