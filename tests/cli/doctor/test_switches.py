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


def test_torch_compile_that_is_disabled_is_a_warning(rows):
    row = rows(TORCH_COMPILE_DISABLE="1")["compile.enabled"]

    assert row.state is State.WARNING
    assert row.summary == "TORCH_COMPILE_DISABLE=1: torch.compile compiles nothing, and a trace has no frames."
    assert "compile.enabled" not in rows(TORCH_COMPILE_DISABLE="true")
