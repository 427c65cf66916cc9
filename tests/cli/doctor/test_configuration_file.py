# SPDX-License-Identifier: Apache-2.0
"""OTEL_CONFIG_FILE: a file that cannot be used, and what a file says instead of the variables."""

import pytest

from torchspan.cli.doctor._check import State

WHOLE = """
file_format: "1.0"
tracer_provider:
  processors:
    - batch:
        exporter:
          otlp_http:
            endpoint: http://me:pass@localhost:4318/v1/traces
            headers:
              - name: authorization
                value: s3cret
  sampler:
    parentbased_torchspan:
  id_generator:
    torchspan:
resource:
  detection/development:
    detectors:
      - host: {}
      - torchspan:
instrumentation/development:
  python:
    torchspan:
      detail: passes
"""


@pytest.fixture
def asked(rows, tmp_path):
    """The rows with a configuration file of this text."""

    def ask(text, suffix=".yaml", **variables):
        path = tmp_path / f"otel{suffix}"
        path.write_text(text, encoding="utf-8")
        return rows(OTEL_CONFIG_FILE=str(path), **variables)

    ask.path = tmp_path / "otel.yaml"
    return ask


def test_a_file_takes_the_place_of_the_variables(asked):
    found = asked(WHOLE, OTEL_TRACES_SAMPLER="always_of", OTEL_PYTHON_ID_GENERATOR="acme")

    assert found["sdk.configuration"][1:3] == (
        State.OK,
        f"The SDK is configured by the file {asked.path}, and reads the variables that the file refers to alone.",
    )
    assert {"sdk.sampler", "sdk.id_generator"} & {*found} == set()


def test_an_option_of_the_file_is_a_setting_and_wins_over_its_variable(asked):
    row = asked(WHOLE, TORCHSPAN_DETAIL="stages")["settings.detail"]

    assert (row.state, row.summary) == (State.OK, "detail: 'passes' (the configuration file).")
    assert row.facts == {"value": "passes", "source": "configuration file", "variable": "TORCHSPAN_DETAIL"}


def test_an_option_that_torchspan_does_not_have_fails_with_the_one_that_was_meant(asked):
    row = asked(WHOLE.replace("detail:", "detial:"))["settings.unknown"]

    assert row.state is State.FAILED
    assert row.summary == "torchspan ignores names that are not its settings: detial (did you mean detail?)."


@pytest.mark.parametrize(
    ("text", "name", "summary"),
    [
        (
            'file_format: "1.0"\ndisabled: true\n',
            "sdk.enabled",
            (
                "`disabled: true` in the configuration file: every span and metric is dropped, the program's own "
                "included."
            ),
        ),
        (
            WHOLE.replace("detail: passes", "enabled: false"),
            "instrumentation.enabled",
            (
                "`enabled: false` in instrumentation/development.python.torchspan of the configuration file disables torchspan."
            ),
        ),
    ],
)
def test_a_file_that_switches_tracing_off_is_a_warning(asked, text, name, summary):
    assert asked(text)[name][1:3] == (State.WARNING, summary)


REASONS = [
    ("", ".yaml", "Configuration file is empty"),
    ("- s3cret", ".yaml", "Configuration must be a mapping/object, got list"),
    ("a: [s3cret", ".yaml", "line 1, column 11 is not YAML"),
    ('{"s3cret"', ".json", "line 1, column 10 is not JSON"),
    (
        'file_format: "1.0"\nlog_level: s3cret\n',
        ".yaml",
        "log_level does not match OpenTelemetry's schema (rule `enum`)",
    ),
    ("a: s3cret", ".yaml", "its top level does not match OpenTelemetry's schema (rule `required`)"),
    ('file_format: "7.0"', ".yaml", "Unsupported file_format"),
    (WHOLE, ".txt", "Unsupported file format: .txt. Use .yaml, .yml, or .json"),
]


@pytest.mark.parametrize(("text", "suffix", "reason"), REASONS, ids=[reason for *_, reason in REASONS])
def test_a_file_that_cannot_be_used_fails_with_the_reason_and_no_value_of_it(asked, text, suffix, reason):
    found = asked(text, suffix)
    row = found["sdk.configuration"]

    assert row.state is State.FAILED
    assert reason in row.summary
    assert row.summary.endswith("OpenTelemetry's set-up fails, and no span leaves the program.")
    assert "s3cret" not in str(found)


def test_a_file_that_is_missing_fails(rows, tmp_path):
    row = rows(OTEL_CONFIG_FILE=str(tmp_path / "none.yaml"))["sdk.configuration"]

    assert row.state is State.FAILED
    assert f"Configuration file not found: {tmp_path / 'none.yaml'}" in row.summary


def test_headers_of_the_file_are_hidden_wherever_they_stand(asked):
    found = asked(WHOLE.replace("detail: passes", "detail: s3cret"))

    assert found["settings.detail"].state is State.FAILED
    assert found["settings.detail"].summary.startswith("Invalid detail='***' in the configuration file")
    assert "s3cret" not in str(found)


PLUG_IN = """
        exporter:
          acme:
            headers: &same {key: s3cret-of-a-plug-in}
            other: *same
    - batch:
        exporter:
          otlp_grpc:
            endpoint: http://localhost:4317
            headers_list: authorization=s3cret-of-a-list,more=s3cret"""


def test_headers_of_plug_ins_and_lists_are_hidden_too(asked):
    text = WHOLE.replace(WHOLE[WHOLE.index("\n        exporter:") : WHOLE.index("\n  sampler:")], PLUG_IN)

    found = asked(text.replace("detail: passes", "capture: s3cret-of-a-list\n      heartbeat: s3cret-of-a-plug-in"))

    assert found["sdk.configuration"].state is State.OK
    assert found["settings.capture"].summary.startswith("Invalid capture='***' in the configuration file")
    assert found["settings.heartbeat"].summary.startswith("Invalid heartbeat='***' in the configuration file")
    assert "s3cret" not in str(found)


def test_a_node_that_holds_itself_is_read_once(asked):
    found = asked(WHOLE.replace("detail: passes", "detail: passes\n    acme: &acme {again: *acme}"))

    assert found["sdk.configuration"].state is State.OK
    assert found["settings.detail"].summary == "detail: 'passes' (the configuration file)."


def test_an_option_that_holds_itself_is_an_invalid_value(asked):
    found = asked(WHOLE.replace("detail: passes", "detail: &detail [*detail]"))

    assert found["settings.detail"].summary == (
        "Invalid detail=[[...]] in the configuration file, using default 'stages' (expected one of stages, passes)."
    )
