# SPDX-License-Identifier: Apache-2.0
"""What of OpenTelemetry is installed, and which of it `opentelemetry-instrument` takes."""

from torchspan.cli.doctor._check import State


def test_the_configurator_of_opentelemetry_is_found(rows):
    found = rows()

    assert found["sdk.configurator"][1:4] == (
        State.OK,
        "`opentelemetry-instrument` configures the SDK with opentelemetry.distro:OpenTelemetryConfigurator.",
        "",
    )


def test_ddtrace_is_a_warning_where_it_takes_the_spans(rows, distribution):
    assert "conflicts.ddtrace" not in rows(DD_TRACE_OTEL_ENABLED="true")
    distribution("ddtrace", "4.16.0")

    assert "conflicts.ddtrace" not in rows()
    assert rows(DD_TRACE_OTEL_ENABLED="true")["conflicts.ddtrace"].state is State.WARNING
