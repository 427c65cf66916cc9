# SPDX-License-Identifier: Apache-2.0
"""What `torchspan doctor` says of the exporters that variables and configuration files name."""

import pytest

from torchspan.cli.doctor import _endpoints as endpoints
from torchspan.cli.doctor import _exporters as exporters
from torchspan.cli.doctor._check import Context, State
from torchspan.cli.doctor._packages import plugins

OTHERS_NONE = {"OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}


def traces(**environment):
    (found, *_) = exporters.installed(Context({**OTHERS_NONE, **environment}))
    return found


def names(**environment):
    return [each.name for each in exporters.exporters("traces", Context(environment))]


@pytest.fixture
def no_distro(monkeypatch):
    """As if no distro were installed."""
    monkeypatch.setattr(
        exporters, "plugins", lambda group, *name: [] if group == "opentelemetry_distro" else plugins(group, *name)
    )


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, ["otlp_proto_grpc"]),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, ["otlp_proto_grpc"]),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, ["otlp_proto_http"]),
        (
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"},
            ["otlp_proto_http"],
        ),
        ({"OTEL_TRACES_EXPORTER": " console , torchspan_file "}, ["console", "torchspan_file"]),
        ({"OTEL_TRACES_EXPORTER": "None"}, []),
    ],
)
def test_exporters_are_those_that_the_configurator_chooses(environment, expected):
    assert names(**environment) == expected


def test_the_configurator_itself_chooses_the_same(monkeypatch):
    from opentelemetry.sdk._configuration import _get_exporter_names

    for environment in (
        {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"},
        {"OTEL_TRACES_EXPORTER": "otlp_proto_http,console", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
        {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"},
    ):
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            assert names(**environment) == _get_exporter_names("traces")


def test_without_a_distro_nothing_is_exported_that_no_variable_names(no_distro):
    found = traces()

    assert (found.state, found.summary) == (
        State.NOTE,
        "No exporter of traces. OTEL_TRACES_EXPORTER: not set.",
    )
    assert found.remedy == "To export traces: OTEL_TRACES_EXPORTER=otlp."


def test_an_exporter_that_can_be_loaded_is_a_row_with_its_source():
    found = traces(OTEL_TRACES_EXPORTER="torchspan_file,otlp")

    assert (found.name, found.state) == ("exporters.traces", State.OK)
    assert found.summary == "torchspan_file, otlp_proto_grpc (OTEL_TRACES_EXPORTER)."
    assert found.facts == {"exporters": ["torchspan_file", "otlp_proto_grpc"]}


def test_an_exporter_that_is_not_installed_fails_and_names_its_package():
    found = traces(OTEL_TRACES_EXPORTER="zipkin")

    assert found.state is State.FAILED
    assert found.summary == (
        "OTEL_TRACES_EXPORTER names zipkin, which is not installed; OpenTelemetry then sets up no signal at all."
    )
    assert found.remedy == "Install it: pip install opentelemetry-exporter-zipkin."


def test_a_misspelled_exporter_fails_and_those_that_are_there_are_named():
    found = traces(OTEL_TRACES_EXPORTER="otpl")

    assert found.state is State.FAILED
    assert "console" in found.remedy
    assert "torchspan_file" in found.remedy


def test_a_protocol_that_pythons_sdk_does_not_have_fails():
    found = traces(OTEL_TRACES_EXPORTER="otlp", OTEL_EXPORTER_OTLP_PROTOCOL="http/json")

    assert found.state is State.FAILED
    assert found.summary == (
        "OTEL_TRACES_EXPORTER names otlp (http/json), which is not installed; OpenTelemetry then sets up no signal at all."
    )


def test_the_exporters_of_a_configuration_file_are_left_to_the_test_trace(tmp_path):
    context = Context({"OTEL_CONFIG_FILE": str(tmp_path / "otel.yaml"), "OTEL_TRACES_EXPORTER": "otpl"})
    (row,) = exporters.installed(context)

    assert row[:4] == (
        "exporters.traces",
        State.NOTE,
        "Not checked: the configuration file has the exporters.",
        "To test them: torchspan doctor --send",
    )
    assert list(endpoints.reachable(context)) == []
    assert list(exporters.writable(context)) == []
