# SPDX-License-Identifier: Apache-2.0
"""What of OpenTelemetry is installed, and which of it `opentelemetry-instrument` takes."""

import importlib.metadata

import pytest

from torchspan.cli.doctor._check import State


def test_the_distro_and_the_configurator_of_opentelemetry_are_found(rows):
    found = rows()

    assert found["sdk.distro"][1:4] == (State.OK, "The distro is opentelemetry.distro:OpenTelemetryDistro.", "")
    assert found["sdk.configurator"][1:4] == (
        State.OK,
        "`opentelemetry-instrument` configures the SDK with opentelemetry.distro:OpenTelemetryConfigurator.",
        "",
    )


@pytest.mark.parametrize("kind", ["distro", "configurator"])
def test_a_distro_or_configurator_that_is_not_installed_fails(rows, kind):
    row = rows(**{f"OTEL_PYTHON_{kind.upper()}": "acme"})[f"sdk.{kind}"]

    assert row.state is State.FAILED
    assert f"OTEL_PYTHON_{kind.upper()}=acme names a {kind} that is not installed" in row.summary
    assert row.remedy == f"Unset OTEL_PYTHON_{kind.upper()}, or install the package that provides acme."


def test_an_empty_name_of_a_configurator_is_a_name_to_opentelemetry_and_fails(rows):
    assert rows(OTEL_PYTHON_CONFIGURATOR="")["sdk.configurator"].state is State.FAILED


def test_versions_of_opentelemetrys_packages_that_fit_are_named(rows):
    row = rows()["sdk.versions"]

    assert row.state is State.OK
    assert row.summary.startswith("OpenTelemetry's packages are compatible: opentelemetry-api ")


def test_versions_that_do_not_fit_are_a_warning_with_what_is_asked_for(rows, distribution):
    installed = importlib.metadata.version("opentelemetry-api")
    wanted = "opentelemetry-api==1.2.0", 'opentelemetry-sdk<1; extra == "sdk"', "numpy<0.1", "opentelemetry-none>7"
    distribution("opentelemetry-acme", "0.66b2", *wanted)

    row = rows()["sdk.versions"]

    assert row.state is State.WARNING
    assert row.summary == (
        "Packages of OpenTelemetry are incompatible: opentelemetry-acme 0.66b2 requires opentelemetry-api==1.2.0, not "
        f"{installed}."
    )
