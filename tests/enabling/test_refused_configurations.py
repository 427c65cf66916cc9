# SPDX-License-Identifier: Apache-2.0
"""Programs that call `torchspan.instrument()` where OpenTelemetry or its SDK refuses a variable of the environment."""

import subprocess
import sys

import pytest

from support.child import unmeasured

PROGRAM = """
import torchspan

torchspan.instrument()
torchspan.instrument()
torchspan.flush()
torchspan.uninstrument()
print("ends")
"""


REFUSED = (
    "torchspan is not enabled, because OpenTelemetry refuses its configuration: Propagator b3 not found. It is either misspelled or "
    "not installed."
)


def ran(text, **variables):
    done = subprocess.run(
        [sys.executable, "-c", text], env=unmeasured() | variables, capture_output=True, text=True, check=False
    )
    return done.stdout, done.stderr.splitlines()[:1]


def test_a_program_starts_where_a_propagator_is_not_installed_and_the_line_names_it():
    assert ran(PROGRAM, OTEL_PROPAGATORS="b3") == ("ends\n", [REFUSED])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "many"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "-3"),
        ("OTEL_TRACES_SAMPLER", "nosuch"),
        ("OTEL_PYTHON_ID_GENERATOR", "nosuch"),
    ],
)
def test_a_program_without_the_sdk_starts_whatever_the_sdk_would_refuse(name, value):
    assert ran(PROGRAM, **{name: value}) == ("ends\n", [])
