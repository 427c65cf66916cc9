# SPDX-License-Identifier: Apache-2.0
"""The sampler and the id generator: present value, and what to set."""

import pytest

from torchspan.cli.doctor._check import State

FOREIGN = "It drops compilations below a parent that is not sampled; they remain in the metrics."
RARELY = "it keeps compilations no more often than other traces."
KEPT = "compilations are kept, other spans sampled by rules"
TO_KEEP = "To keep every compilation, and sample the rest by rules: OTEL_TRACES_SAMPLER=parentbased_torchspan."


@pytest.mark.parametrize(
    ("value", "argument", "state", "summary"),
    [
        (None, None, State.NOTE, f" is not set: parentbased_always_on decides. {FOREIGN}"),
        ("always_on", None, State.NOTE, f"=always_on. {FOREIGN}"),
        ("traceidratio", "1.0", State.NOTE, f"=traceidratio. {FOREIGN}"),
        ("TraceIdRatio", "0.01", State.WARNING, f"=TraceIdRatio, OTEL_TRACES_SAMPLER_ARG=0.01: {RARELY}"),
        ("traceidratio", None, State.WARNING, f"=traceidratio, OTEL_TRACES_SAMPLER_ARG=: {RARELY}"),
        ("always_off", None, State.WARNING, f"=always_off, OTEL_TRACES_SAMPLER_ARG=: {RARELY}"),
        (
            "torchspam",
            None,
            State.FAILED,
            "=torchspam names a sampler that is not installed: parentbased_always_on decides.",
        ),
        ("torchspan", None, State.OK, f"=torchspan: {KEPT} (none)."),
        (
            "parentbased_torchspan",
            "other=0.5,execute=0.01",
            State.OK,
            f"=parentbased_torchspan: {KEPT} (other=0.5,execute=0.01).",
        ),
        (
            "torchspan",
            "exceute=0.01,other=2",
            State.FAILED,
            (
                "=torchspan: the sampler ignores the rule 'exceute=0.01' in OTEL_TRACES_SAMPLER_ARG: there is "
                "no rule 'exceute' (did you mean 'execute'?). It ignores the rule 'other=2' in OTEL_TRACES_SAMPLER_ARG: "
                "expected a number from 0 to 1."
            ),
        ),
    ],
)
def test_the_sampler_is_said_with_its_present_value(rows, value, argument, state, summary):
    variables = {"OTEL_TRACES_SAMPLER": value, "OTEL_TRACES_SAMPLER_ARG": argument}
    row = rows(**{name: text for name, text in variables.items() if text is not None})["sdk.sampler"]

    assert (row.state, row.summary) == (state, f"OTEL_TRACES_SAMPLER{summary}")
    if row.state in (State.NOTE, State.WARNING):
        assert row.remedy == TO_KEEP


@pytest.mark.parametrize(
    ("value", "state", "said"),
    [
        (None, State.NOTE, "not set"),
        ("random", State.NOTE, "random"),
        ("acme", State.NOTE, "acme"),  # OpenTelemetry's set-up fails with it
        ("torchspan", State.OK, "torchspan"),
    ],
)
def test_the_id_generator_is_said_with_its_present_value(rows, value, state, said):
    row = rows(**({} if value is None else {"OTEL_PYTHON_ID_GENERATOR": value}))["sdk.id_generator"]

    assert (row.state, row.summary) == (state, f"OTEL_PYTHON_ID_GENERATOR: {said}.")
    assert ("OTEL_PYTHON_ID_GENERATOR=torchspan" in row.remedy) is (state is State.NOTE)
