# SPDX-License-Identifier: Apache-2.0
"""What `torchspan run` says of a run of which nothing, or not all, arrived: the true reason."""

import os
import subprocess
import sys

import pytest

from support.without import python_without

OBSERVED = "from torchspan import observers\n@observers.observable()\ndef work():\n    pass\nwork()\n"
UNSAMPLED = {"TRACEPARENT": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"}
LOST = "torchspan: nothing was recorded: "
UNKNOWN = "Requested component 'nosuch' not found in entry point 'opentelemetry_traces_exporter'"
NOT_THERE = "the package opentelemetry-configuration that reads it is not installed"


@pytest.fixture
def said(tmp_path):
    """`said(**variables)`: what `torchspan run` writes to stderr, without what it draws."""

    def call(text=OBSERVED, python=sys.executable, **variables):
        (tmp_path / "app.py").write_text(text)
        run = "import sys; from torchspan.cli import main; sys.exit(main())"
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "TORCHSPAN_", "TRACEPARENT"))}
        done = subprocess.run(
            [python, "-c", run, "run", "--quiet", "--output", "x.jsonl", "--", python, "app.py"],
            cwd=tmp_path,
            env=environ | variables,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0
        return done.stderr

    return call


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, ""),
        ({"OTEL_SDK_DISABLED": "true"}, f"{LOST}OTEL_SDK_DISABLED=true disables OpenTelemetry\n"),
        (
            UNSAMPLED,
            f"{LOST}TRACEPARENT marks its trace as not sampled (flags 00), and the sampler follows it\n",
        ),
        (
            {"TORCHSPAN_RANKS": "0", "RANK": "1"},
            f"{LOST}TORCHSPAN_RANKS selects no rank that did anything (spans left out: 1)\n",
        ),
        (
            {"OTEL_TRACES_SAMPLER": "always_off"},
            f"{LOST}the sampler dropped all 1 (OTEL_TRACES_SAMPLER=always_off)\n",
        ),
        (
            {"OTEL_TRACES_EXPORTER": "nosuch"},
            f"torchspan: OTEL_TRACES_EXPORTER=nosuch: {UNKNOWN}; to check the exporters: torchspan doctor\n",
        ),
        (
            {"TORCHSPAN_RUN_EXIT_TIMEOUT": "soon"},
            "torchspan: Invalid TORCHSPAN_RUN_EXIT_TIMEOUT='soon', using default 2 (expected 0 to 86400 seconds)\n",
        ),
        (
            {"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "torchspan"},
            f"{LOST}OTEL_PYTHON_DISABLED_INSTRUMENTATIONS disables torchspan\n",
        ),
    ],
    ids=["none", "sdk disabled", "unsampled parent", "rank", "sampler", "exporter", "exit timeout", "disabled"],
)
def test_the_reason_is_the_true_one(said, variables, expected):
    assert said(**variables) == expected


def test_a_configuration_file_without_the_package_that_reads_it_is_named(said, tmp_path):
    python = python_without(tmp_path / "python", "opentelemetry.configuration")
    expected = f"torchspan: OTEL_CONFIG_FILE is set, but {NOT_THERE}; install it with: pip install 'torchspan[auto]'\n"
    assert said(python=python, OTEL_CONFIG_FILE="otel.yaml") == expected


def test_a_configuration_file_that_disables_torchspan_is_the_reason(said, tmp_path):
    (tmp_path / "otel.json").write_text(
        '{"file_format": "1.0", "instrumentation/development": {"python": {"torchspan": {"enabled": false}}}}'
    )
    assert said(OTEL_CONFIG_FILE="otel.json").splitlines()[-1] == (
        f"{LOST}the file of OTEL_CONFIG_FILE disables torchspan "
        "(enabled: false in instrumentation/development.python.torchspan)"
    )


def test_a_sampler_of_the_programs_provider_is_named_as_its(said):
    text = (
        "from opentelemetry import trace\nfrom opentelemetry.sdk.trace import TracerProvider, sampling\n"
        "trace.set_tracer_provider(TracerProvider(sampler=sampling.ALWAYS_OFF))\n" + OBSERVED
    )
    assert said(text) == f"{LOST}the sampler of the program's own tracer provider dropped all 1\n"


def test_a_file_that_was_taken_away_while_the_program_ran_is_the_reason(said, tmp_path):
    text = "import os\nos.path.exists('x.jsonl') and os.remove('x.jsonl')\nos.mkdir('x.jsonl')\n" + OBSERVED
    file = tmp_path / "x.jsonl"
    assert said(text) == (
        f"torchspan: {file} cannot be written: Is a directory. Spans are missing from the file of torchspan run.\n"
        f"torchspan: cannot read {file}: Is a directory\n"
        f"{LOST}the file was not written: {file} cannot be written: Is a directory; 1 lost\n"
    )
