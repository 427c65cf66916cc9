# SPDX-License-Identifier: Apache-2.0
"""`torchspan doctor --send`: a process as `opentelemetry-instrument` would start it, and real endpoints."""

import json
import os
import re
from pathlib import Path

import pytest
from opentelemetry.instrumentation import auto_instrumentation

from support import hostile_endpoints as hostile
from support.emitted import EMITTED
from support.hostile_endpoints import Authority, Endpoint, GrpcEndpoint, http
from support.receiver import GrpcReceiver, Receiver
from support.span_file import read
from torchspan import cli
from torchspan.cli.doctor import _endpoints as endpoints
from torchspan.cli.doctor._check import Context, State

HTTP = {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}
GRPC = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
TO = "OTEL_EXPORTER_OTLP_ENDPOINT"
QUICK = {"OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none", "OTEL_EXPORTER_OTLP_TIMEOUT": "1"}
PATIENT = {"OTEL_EXPORTER_OTLP_TIMEOUT": "60"}
"""For what is to arrive: on a busy machine a handshake of TLS takes longer than a second."""

PLACE = "tracer_provider.processors.0.batch.exporter.otlp_http.headers_list"


def row(*settings, limit_s=120.0, port=None):
    environment = {**os.environ, **QUICK}
    for each in settings:
        environment.update(each)
    if port is not None:
        environment[TO] = f"http://127.0.0.1:{port}"
    (found,) = endpoints.sent(Context(environment, send=True), limit_s)
    return found


def test_without_the_option_nothing_is_sent():
    assert list(endpoints.sent(Context({}))) == []


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (
            "tracer_provider: {processors: [{batch: {exporter: {otlp_http: {headers_list: [s3cret]}}}}]}",
            f"{PLACE} does not match OpenTelemetry's schema (rule `type`)",
        ),
        ("headers: Bearer s3cret: x", "line 2, column 23 is not YAML (ScannerError)"),
    ],
    ids=["type", "syntax"],
)
def test_of_a_bad_configuration_file_the_place_is_said_and_no_value(tmp_path, text, where):
    """The message of OpenTelemetry's set-up repeats the value, which may be a credential."""
    (tmp_path / "otel.yaml").write_text(f'file_format: "1.0"\n{text}\n')
    found = row({"OTEL_CONFIG_FILE": str(tmp_path / "otel.yaml")})
    assert found.state is State.FAILED
    assert found.summary == f"The test trace was not delivered: ConfigurationError: {where}."
    assert "s3cret" not in str(found)


@pytest.mark.parametrize("protocol", [HTTP, GRPC], ids=["http", "grpc"])
def test_one_span_arrives_and_the_row_has_its_trace_id(protocol):
    with Receiver() if protocol is HTTP else GrpcReceiver() as receiver:
        found = row(protocol, PATIENT, {TO: receiver.url, "OTEL_SERVICE_NAME": "checkout"})
        (span,) = receiver.spans()
    EMITTED.add_file([span])

    assert found.state is State.OK
    assert found.name == "send"
    assert found.summary == "A test trace was sent, and every exporter reports success."
    assert found.remedy == f"Look for trace {span.trace_id} of service checkout in your tracing backend."
    assert (span.name, span.parent_id, span.scope) == ("torchspan.doctor", "", "torchspan")
    assert span.attributes == {"torchspan.keep": True}
    assert found.facts["trace_id"] == span.trace_id


def test_the_command_sends_with_the_variables_of_the_process(monkeypatch, capfd):
    with Receiver() as receiver:
        for name, value in {**QUICK, **PATIENT, **HTTP, TO: receiver.url}.items():
            monkeypatch.setenv(name, value)
        status = cli.main(["doctor", "--send", "--json"])
        document = json.loads(capfd.readouterr().out)

    (sent,) = (each for each in document["checks"] if each["name"] == "send")
    assert (status, sent["state"]) == (0, "ok")
    assert sent["facts"]["trace_id"] == receiver.spans()[0].trace_id


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [HTTP, GRPC], ids=["http", "grpc"])
def test_a_refusal_is_said_as_the_exporter_says_it_without_a_credential(protocol):
    headers = {"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20t0ken-89"}
    refusing = http("401 no key t0ken-89") if protocol is HTTP else GrpcEndpoint("UNAUTHENTICATED", "no key t0ken-89")
    with refusing as endpoint:
        found = row(protocol, headers, port=endpoint.port)

    assert found.state is State.FAILED
    assert ("401" if protocol is HTTP else "UNAUTHENTICATED") in found.summary
    assert "no key ***" in found.summary
    assert "t0ken-89" not in str(found)


@pytest.mark.slow
@pytest.mark.parametrize("exporter", ["otlp_http", "otlp_grpc"])
def test_no_credential_of_a_configuration_file_is_shown_where_the_exporter_repeats_it(exporter, tmp_path):
    address = f"127.0.0.1:{hostile.closed_port()}"
    headers = 'headers: [{name: authorization, value: "s3cret\\nof the file"}]'
    made = f'{exporter}: {{endpoint: "http://jane:passw0rd@{address}", {headers}}}'
    text = f'file_format: "1.0"\ntracer_provider: {{processors: [{{simple: {{exporter: {{{made}}}}}}}]}}\n'
    (tmp_path / "otel.yaml").write_text(text)
    found = row({"OTEL_CONFIG_FILE": str(tmp_path / "otel.yaml")})

    assert found.state is State.FAILED
    assert re.search("header value|metadata", found.summary)
    assert [part for part in ("jane", "passw0rd", "s3cret", "of the file") if part in str(found)] == []


def test_one_exporter_that_delivers_does_not_hide_another_one_that_does_not(tmp_path):
    file, port = tmp_path / "otel.yaml", hostile.closed_port()
    with Receiver() as receiver:
        first, second = (
            f'{{batch: {{exporter: {{otlp_http: {{endpoint: "{url}/v1/traces", timeout: 5000}}}}}}}}'
            for url in (f"http://127.0.0.1:{port}", receiver.url)
        )
        file.write_text(f'file_format: "1.0"\ntracer_provider: {{processors: [{first}, {second}]}}\n')
        found = row({"OTEL_CONFIG_FILE": str(file)})

    assert found.state is State.FAILED
    assert re.search("was not delivered: .*Connection refused", found.summary)


@pytest.mark.slow
def test_a_closed_port_is_reported_as_such():
    found = row(HTTP, {"OTEL_EXPORTER_OTLP_TIMEOUT": "3"}, port=hostile.closed_port())

    assert found.state is State.FAILED
    assert re.search("was not delivered: .*Connection refused", found.summary)


@pytest.mark.slow
@pytest.mark.parametrize("answer", [hostile.CLOSE, b"\x00\xffgarbage\r\n\r\n"], ids=["nothing", "bytes"])
@pytest.mark.parametrize("protocol", [HTTP, GRPC], ids=["http", "grpc"])
def test_what_is_not_an_endpoint_at_all_is_not_a_delivery(protocol, answer):
    with Endpoint(answer) as endpoint:
        found = row(protocol, port=endpoint.port)

    assert found.state is State.FAILED
    assert "was not delivered" in found.summary


@pytest.mark.slow
def test_an_exporter_without_time_for_a_second_attempt_has_not_delivered():
    with Endpoint(hostile.CLOSE) as endpoint:
        found = row(HTTP, {"OTEL_EXPORTER_OTLP_TIMEOUT": "0.5"}, port=endpoint.port)

    assert found.state is State.FAILED
    assert "was not delivered: " in found.summary


@pytest.mark.slow
def test_an_endpoint_that_hangs_is_given_up_at_the_limit():
    with Endpoint(hangs=True) as endpoint:
        found = row(HTTP, {"OTEL_EXPORTER_OTLP_TIMEOUT": "600"}, port=endpoint.port, limit_s=3.0)

    assert (found.state, found.summary) == (State.FAILED, "The test trace was not delivered: no result within 3 s.")


def test_a_configuration_file_is_the_configuration(tmp_path):
    file = tmp_path / "otel.yaml"
    with Receiver() as receiver:
        file.write_text(
            f"""
file_format: "1.0"
resource: {{attributes: [{{name: service.name, value: from-the-file}}]}}
tracer_provider:
  processors:
    - batch: {{exporter: {{otlp_http: {{endpoint: "{receiver.url}/v1/traces"}}}}}}
    - simple: {{exporter: {{torchspan_file: {{path: "{tmp_path}/trace.jsonl"}}}}}}
"""
        )
        found = row({"OTEL_CONFIG_FILE": str(file), "OTEL_TRACES_EXPORTER": "console"})
        (span,) = receiver.spans()

    assert found.state is State.OK
    assert span.resource["service.name"] == "from-the-file"
    assert [each.trace_id for each in read(tmp_path / "trace.jsonl")] == [span.trace_id]


@pytest.mark.slow
def test_a_sampler_that_drops_everything_is_reported():
    with Receiver() as receiver:
        found = row(HTTP, {TO: receiver.url, "OTEL_TRACES_SAMPLER": "always_off"})

    assert (found.state, found.summary) == (
        State.FAILED,
        "The test trace was not delivered: the sampler dropped 10000 of 10000.",
    )
    assert receiver.requests == 0


@pytest.mark.slow
def test_a_disabled_sdk_is_reported():
    found = row({"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "console"})

    assert found.summary == "The test trace was not delivered: the tracer for torchspan is disabled."


@pytest.mark.slow
def test_a_ratio_is_asked_until_it_lets_one_pass():
    ratio = {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.02"}
    with Receiver() as receiver:
        found = row(HTTP, PATIENT, ratio, {TO: receiver.url})

    assert found.state is State.OK
    assert len(receiver.spans()) == 1


def test_a_set_up_that_fails_is_reported_with_its_reason():
    found = row({"OTEL_TRACES_EXPORTER": "otpl"})

    assert found.state is State.FAILED
    assert found.summary == (
        "The test trace was not delivered: "
        "RuntimeError: Requested component 'otpl' not found in entry point 'opentelemetry_traces_exporter'."
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "no exporter got it"),
        ("log_level: info", "nothing sets a tracer provider"),
    ],
    ids=["variables", "file"],
)
def test_without_an_exporter_of_traces_nothing_is_delivered(text, why, tmp_path):
    (tmp_path / "otel.yaml").write_text(f'file_format: "1.0"\n{text}\n')
    found = row({"OTEL_TRACES_EXPORTER": "none"} if text is None else {"OTEL_CONFIG_FILE": str(tmp_path / "otel.yaml")})

    assert (found.state, found.summary) == (State.FAILED, f"The test trace was not delivered: {why}.")


def test_a_plug_in_of_a_configuration_file_that_no_package_brings_is_reported(tmp_path):
    processors = "processors: [{batch: {exporter: {console: }}}]"
    text = f'file_format: "1.0"\ntracer_provider: {{{processors}, sampler: {{acme: }}}}\n'
    (tmp_path / "otel.yaml").write_text(text)
    found = row({"OTEL_CONFIG_FILE": str(tmp_path / "otel.yaml")})

    assert found.state is State.FAILED
    assert "Plugin 'acme' not found" in found.summary


@pytest.mark.slow
def test_below_opentelemetry_instrument_and_run_it_is_set_up_once(tmp_path):
    site = str(Path(auto_instrumentation.__file__).parent)
    python_path = os.pathsep.join([site, os.environ.get("PYTHONPATH", "")])
    with Receiver() as receiver:
        found = row(HTTP, PATIENT, {TO: receiver.url, "PYTHONPATH": python_path, "TORCHSPAN_RUN": "{}"})

    assert found.state is State.OK
    assert len(receiver.spans()) == 1


@pytest.mark.slow
def test_a_console_exporter_is_kept_out_of_the_output(capfd):
    found = row({"OTEL_TRACES_EXPORTER": "console"})

    assert found.state is State.OK
    assert capfd.readouterr().out == ""


@pytest.mark.slow
def test_a_private_authority_is_trusted_where_the_variable_names_it(tmp_path, monkeypatch):
    for variable in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):  # they win over the exporter's
        monkeypatch.delenv(variable, raising=False)
    authority = Authority(tmp_path)
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    with Endpoint(answer, tls=authority.server) as endpoint:
        to = {TO: f"https://127.0.0.1:{endpoint.port}"}
        trusted = row(HTTP, PATIENT, to, {"OTEL_EXPORTER_OTLP_CERTIFICATE": authority.file})
        unknown = row(HTTP, to)

    assert (trusted.state, unknown.state) == (State.OK, State.FAILED), trusted.summary


def test_a_process_that_dies_before_it_says_anything_is_reported(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import os; os._exit(3)")
    found = row({"PYTHONPATH": str(tmp_path)})

    assert found.state is State.FAILED
    why = "the process ended with status 3 before it reported a result"
    assert found.summary == f"The test trace was not delivered: {why}."
