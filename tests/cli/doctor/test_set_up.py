# SPDX-License-Identifier: Apache-2.0
"""What OpenTelemetry's set-up says in a process of its own, as `torchspan doctor` shows it; no endpoint is blamed for it."""

import os

import pytest

from support.hostile_endpoints import http
from support.receiver import Receiver
from torchspan.cli.doctor import _endpoints as endpoints
from torchspan.cli.doctor import _printed as report
from torchspan.cli.doctor._check import Context, State

HTTP = {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_EXPORTER_OTLP_TIMEOUT": "60"}
PREFIX = "OTEL_EXPORTER_OTLP"
BATCH = {"OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "100000"}
BATCH_CAUSE = "ValueError: max_export_batch_size must be less than or equal to max_queue_size"
PROPAGATOR = {"OTEL_PROPAGATORS": "b9"}
PROPAGATOR_CAUSE = "ValueError: Propagator b9 not found. It is either misspelled or not installed"


def context(url="http://127.0.0.1:9", **variables):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    return Context({**clean, **HTTP, f"{PREFIX}_ENDPOINT": url, **variables}, send=True)


def row(check, context):
    (found,) = report.rows([check], context)
    return found


def test_a_set_up_that_warns_of_nothing_is_ok():
    found = row(endpoints.set_up, context())
    assert (found.name, found.state, found.summary) == (
        "sdk.set_up",
        State.OK,
        "OpenTelemetry's set-up warns of nothing.",
    )


@pytest.mark.parametrize(
    ("variables", "cause"), [(BATCH, BATCH_CAUSE), (PROPAGATOR, PROPAGATOR_CAUSE)], ids=["batch", "propagator"]
)
def test_a_set_up_that_fails_has_its_cause_and_no_test_trace_is_sent(variables, cause):
    with Receiver() as receiver:
        here = context(receiver.url, **variables)
        found, sent = row(endpoints.set_up, here), row(endpoints.sent, here)
    assert (found.state, found.summary) == (State.FAILED, f"OpenTelemetry's set-up fails: {cause}.")
    assert (sent.state, sent.summary) == (
        State.FAILED,
        f"The test trace was not delivered: {cause}.",
    )
    assert receiver.requests == 0


def test_each_value_that_the_sdk_warns_of_is_shown_and_no_credential():
    found = row(
        endpoints.set_up,
        context(
            OTEL_EXPORTER_OTLP_TIMEOUT="10000",
            OTEL_EXPORTER_OTLP_HEADERS="authorization Bearer t0ken-89",
            OTEL_BSP_SCHEDULE_DELAY="5s",
            OTEL_RESOURCE_ATTRIBUTES="team",
            OTEL_EXPERIMENTAL_RESOURCE_DETECTORS="xyz",
            OTEL_EXPORTER_OTLP_COMPRESSION="zstd",
            OTEL_TRACES_SAMPLER="traceidratio",
            OTEL_TRACES_SAMPLER_ARG="ten",
        ),
    )
    assert found.state is State.WARNING
    for said in (
        "OTEL_EXPORTER_OTLP_TIMEOUT=10000 means seconds here, not milliseconds",
        "Header format invalid!",
        "OTEL_BSP_SCHEDULE_DELAY",
        "Invalid key value resource attribute pair team",
        "Failed to load resource detector 'xyz'",
        "Unsupported compression type: zstd",
        "Could not convert TRACES_SAMPLER_ARG to float",
    ):
        assert said in found.summary
    assert "t0ken-89" not in str(found)


@pytest.mark.parametrize(
    "variables",
    [
        {f"{PREFIX}_COMPRESSION": "zstd"},
        {f"{PREFIX}_TRACES_COMPRESSION": "zstd"},
        {
            f"{PREFIX}_METRICS_TEMPORALITY_PREFERENCE": "detla",
            f"{PREFIX}_METRICS_DEFAULT_HISTOGRAM_AGGREGATION": "expo",
        },
    ],
    ids=["compression", "compression of traces", "metrics"],
)
def test_what_the_sdk_warns_of_is_not_taken_for_an_answer(variables):
    with Receiver() as receiver:
        here = context(receiver.url, **variables)
        answers = [each.facts["answer"] for each in endpoints.reachable(here)]
        sent = row(endpoints.sent, here)
        spans = receiver.spans()
    assert answers == ["accepted"] * 3
    assert (sent.state, [span.trace_id for span in spans]) == (State.OK, [sent.facts["trace_id"]])


@pytest.mark.parametrize(
    ("endpoint", "text"),
    [
        (
            lambda: http("307 Temporary Redirect", Location="http://127.0.0.1:9/v1/traces"),
            "HTTP 307, a redirection, which exporters do not follow",
        ),
        (
            lambda: http("200 OK", b"<html>Sign in</html>", content_type="text/html"),
            "HTTP 200 with text/html, which is no answer of OTLP",
        ),
    ],
    ids=["redirects", "page"],
)
def test_an_answer_that_takes_nothing_is_not_a_delivery(endpoint, text):
    with endpoint() as served:
        here = context(f"http://127.0.0.1:{served.port}", OTEL_METRICS_EXPORTER="none", OTEL_LOGS_EXPORTER="none")
        asked, sent = row(endpoints.reachable, here), row(endpoints.sent, here)
    assert asked.facts["answer"] == text
    assert (sent.state, sent.summary) == (State.FAILED, f"The test trace was not delivered: {text}.")


def test_a_set_up_that_cannot_be_tried_is_a_failure(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import os; os._exit(3)")
    found = row(endpoints.set_up, context(PYTHONPATH=str(tmp_path)))
    assert (found.state, found.summary) == (
        State.FAILED,
        "OpenTelemetry's set-up fails: the process ended with status 3 before it reported a result.",
    )


def test_an_exporter_that_cannot_be_imported_is_a_failure_of_the_set_up_with_its_reason(tmp_path, monkeypatch):
    metadata = tmp_path / "broken-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[opentelemetry_traces_exporter]\nbroken = no_such_module:Exporter\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = row(endpoints.set_up, context(OTEL_TRACES_EXPORTER="broken", PYTHONPATH=str(tmp_path)))
    assert (found.state, found.summary) == (
        State.FAILED,
        "OpenTelemetry's set-up fails: ModuleNotFoundError: No module named 'no_such_module'.",
    )
