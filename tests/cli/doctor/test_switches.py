# SPDX-License-Identifier: Apache-2.0
"""What switches tracing off."""

import pytest

from torchspan.cli.doctor._check import State


@pytest.mark.parametrize(
    ("variables", "name", "state", "summary"),
    [
        ({}, "sdk.enabled", State.OK, "The SDK is not disabled."),
        (
            {"OTEL_SDK_DISABLED": "True"},
            "sdk.enabled",
            State.WARNING,
            "OTEL_SDK_DISABLED=True: every span and metric is dropped, the program's own included.",
        ),
        ({"OTEL_SDK_DISABLED": "1"}, "sdk.enabled", State.OK, "The SDK is not disabled."),
        (
            {"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "flask, torchspan"},
            "instrumentation.enabled",
            State.WARNING,
            "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS=flask,torchspan disables torchspan.",
        ),
        (
            {"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "*"},
            "instrumentation.enabled",
            State.WARNING,
            "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS=* disables torchspan.",
        ),
        (
            {"OTEL_PYTHON_TRACER_PROVIDER": "acme"},
            "sdk.tracer_provider",
            State.FAILED,
            (
                "OTEL_PYTHON_TRACER_PROVIDER=acme names a provider that is not installed: the first use of "
                "OpenTelemetry raises an exception, unless a provider has been set before."
            ),
        ),
        (
            {"OTEL_PYTHON_METER_PROVIDER": "default_meter_provider"},
            "sdk.meter_provider",
            State.NOTE,
            (
                "OTEL_PYTHON_METER_PROVIDER=default_meter_provider: until something sets another one, the meter provider is "
                "opentelemetry.metrics:NoOpMeterProvider."
            ),
        ),
        (
            {},
            "sdk.configuration",
            State.OK,
            "The SDK is configured by variables: OTEL_CONFIG_FILE is not set.",
        ),
    ],
)
def test_a_switch_is_a_row_with_its_present_value(rows, variables, name, state, summary):
    row = rows(**variables)[name]

    assert (row.state, row.summary) == (state, summary)
    assert bool(row.remedy) is (state is not State.OK)


def test_what_opentelemetry_instrument_enables_is_named(rows, distribution):
    distribution("acme", "1", opentelemetry_instrumentor="acme = acme:Acme")

    row = rows()["instrumentation.enabled"]

    assert row.state is State.OK
    assert "acme" in row.summary
    assert "acme" in row.facts["others"]
