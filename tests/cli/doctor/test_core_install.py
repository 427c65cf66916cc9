# SPDX-License-Identifier: Apache-2.0
"""What works where `pip install torchspan` was all that was done: no SDK, no exporter, no rich, no torch."""

import json

import torchspan
from support.core_install import Environment, core


def states(result):
    return {row["name"]: row["state"] for row in json.loads(result.stdout)["checks"]}


def test_the_environment_holds_only_the_core_install(core_install):
    program = """
import importlib.util
for name in ("opentelemetry.sdk", "opentelemetry.exporter", "opentelemetry.distro", "rich", "torch", "torch_tensorrt"):
    try:
        print(name, importlib.util.find_spec(name))
    except ModuleNotFoundError:
        print(name, None)
print(importlib.util.find_spec("torchspan").origin)
"""
    result = core_install.run("python", "-c", program)

    assert result.stderr == ""
    assert result.stdout.splitlines() == [
        "opentelemetry.sdk None",
        "opentelemetry.exporter None",
        "opentelemetry.distro None",
        "rich None",
        "torch None",
        "torch_tensorrt None",
        torchspan.__file__,
    ]


def test_the_version_is_printed_without_the_sdk(core_install):
    result = core_install.run("torchspan", "--version")

    assert (result.returncode, result.stdout, result.stderr) == (0, "torchspan 0.1.0\n", "")


def test_help_is_printed_without_the_sdk(core_install):
    program = """
import contextlib, io
from torchspan import cli
for words in ([], *([word] for word in cli.COMMANDS)):
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        cli.main([*words, "--help"])
    print(said.getvalue().splitlines()[0])
"""
    result = core_install.run("python", "-c", program)

    assert result.stderr == ""
    assert [line.partition(" [")[0] for line in result.stdout.splitlines()] == [
        "usage: torchspan",
        "usage: torchspan run",
        "usage: torchspan watch",
        "usage: torchspan show",
        "usage: torchspan compare",
        "usage: torchspan demo",
        "usage: torchspan doctor",
        "usage: torchspan probes",
        "usage: torchspan inputs",
        "usage: torchspan registry",
    ]


def test_probes_says_what_to_install_where_nothing_is_observed(core_install):
    result = core_install.run("torchspan", "probes")

    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        "torchspan probes: none of torch_tensorrt, tensorrt and tensorrt_rtx is installed in this Python; "
        "install one of them, for example with: pip install 'torchspan[rtx]'\n"
    )


def test_the_first_answer_of_doctor_is_the_missing_sdk_and_the_extra_that_brings_it(core_install):
    result = core_install.run("torchspan", "doctor")

    assert (result.returncode, result.stderr) == (1, "")
    assert result.stdout.splitlines()[1:5] == [
        "failed   sdk.installed",
        "         OpenTelemetry's SDK is not installed: spans and metrics go nowhere.",
        "         Install the SDK, exporters and what configures them: pip install",
        "         'torchspan[auto]'",
    ]


def test_doctor_says_that_nothing_configures_the_sdk_and_names_the_extra(core_install):
    result = core_install.run("torchspan", "doctor", "--json")

    (row,) = (each for each in json.loads(result.stdout)["checks"] if each["name"] == "sdk.configurator")
    assert row == {
        "name": "sdk.configurator",
        "state": "warning",
        "summary": "No configurator is installed: under `opentelemetry-instrument`, the program has to configure the SDK.",
        "remedy": "Install OpenTelemetry's own: pip install 'torchspan[auto]'",
        "facts": {},
    }


def test_what_is_asked_for_and_cannot_work_without_an_extra_fails(core_install):
    result = core_install.run("torchspan", "doctor", "--json", OTEL_TRACES_EXPORTER="otlp", OTEL_CONFIG_FILE="o.yaml")

    found = {row["name"]: row for row in json.loads(result.stdout)["checks"]}
    assert (found["sdk.configurator"]["state"], found["sdk.configurator"]["summary"]) == (
        "failed",
        (
            "No configurator is installed: under `opentelemetry-instrument`, the program has to configure the SDK, and "
            "nothing reads OTEL_CONFIG_FILE, OTEL_TRACES_EXPORTER."
        ),
    )
    assert (found["sdk.configuration"]["state"], found["sdk.configuration"]["summary"]) == (
        "failed",
        (
            "OTEL_CONFIG_FILE is set, but the package opentelemetry-configuration that reads it is not installed: "
            "OpenTelemetry's set-up fails, and no span leaves the program."
        ),
    )
    assert found["sdk.configuration"]["remedy"] == "Install it: pip install 'torchspan[auto]'"


def test_with_the_sdk_alongside_the_core_install_its_row_is_ok(tmp_path):
    environment = Environment(tmp_path / "sdk", *core(), "opentelemetry-sdk")

    assert states(environment.run("torchspan", "doctor", "--json"))["sdk.installed"] == "ok"


def test_without_an_exporter_nothing_is_asked_and_no_test_trace_is_sent(core_install):
    result = core_install.run("torchspan", "doctor", "--json", "--send", OTEL_TRACES_EXPORTER="otlp")

    said = {row["name"]: (row["state"], row["summary"]) for row in json.loads(result.stdout)["checks"]}
    assert result.stderr == ""
    assert said["exporters.traces"] == (
        "failed",
        "OTEL_TRACES_EXPORTER names otlp_proto_grpc, which is not installed; OpenTelemetry then sets up no signal at all.",
    )
    assert "endpoints.traces" not in said
    assert said["send"] == ("failed", "The test trace was not delivered: nothing sets a tracer provider.")
