# SPDX-License-Identifier: Apache-2.0
"""The sampler and the id generator: present value, and what to set."""

import pytest

from torchspan.cli.doctor._check import State

FOREIGN = "It drops compilations below a parent that is not sampled; they remain in the metrics."
KEPT = "compilations are kept, engine runs and other spans sampled by rules."
OWN = "Only OpenTelemetry's configurator reads it; a program that creates its own provider passes the argument:"


@pytest.mark.parametrize(
    ("value", "argument", "state", "summary"),
    [
        (None, None, State.NOTE, f"OTEL_TRACES_SAMPLER is not set: parentbased_always_on decides. {FOREIGN}"),
        ("always_on", None, State.NOTE, f"OTEL_TRACES_SAMPLER=always_on. {FOREIGN}"),
        ("traceidratio", "1.0", State.NOTE, f"OTEL_TRACES_SAMPLER=traceidratio with 1. {FOREIGN}"),
        (
            "parentbased_traceidratio",
            "0.01",
            State.WARNING,
            (
                "OTEL_TRACES_SAMPLER=parentbased_traceidratio with 0.01 drops 99 of 100 traces, whatever they contain: of the "
                "compilations in these, the metrics alone remain."
            ),
        ),
        (
            "traceidratio",
            None,
            State.FAILED,
            (
                "OTEL_TRACES_SAMPLER=traceidratio with a ratio of 1: OTEL_TRACES_SAMPLER_ARG=, where a number from 0 to 1 is "
                "expected."
            ),
        ),
        (
            "parentbased_traceidratio",
            "ten",
            State.FAILED,
            (
                "OTEL_TRACES_SAMPLER=parentbased_traceidratio with a ratio of 1: OTEL_TRACES_SAMPLER_ARG=ten, where a number "
                "from 0 to 1 is expected."
            ),
        ),
        (
            "always_off",
            None,
            State.WARNING,
            "OTEL_TRACES_SAMPLER=always_off: no trace that begins in the program is recorded.",
        ),
        (
            "parentbased_always_off",
            None,
            State.WARNING,
            "OTEL_TRACES_SAMPLER=parentbased_always_off: no trace that begins in the program is recorded.",
        ),
        (
            "torchspam",
            None,
            State.FAILED,
            "OTEL_TRACES_SAMPLER=torchspam names a sampler that is not installed: parentbased_always_on decides.",
        ),
        ("torchspan", None, State.OK, f"OTEL_TRACES_SAMPLER=torchspan: {KEPT}"),
        (
            "parentbased_torchspan",
            "other=0.5,execute=0.01",
            State.OK,
            f"OTEL_TRACES_SAMPLER=parentbased_torchspan: {KEPT} Rules: other=0.5,execute=0.01.",
        ),
        (
            "torchspan",
            "exceute=0.01,other=2",
            State.FAILED,
            (
                "OTEL_TRACES_SAMPLER=torchspan: the sampler ignores the rule 'exceute=0.01' in OTEL_TRACES_SAMPLER_ARG: there is "
                "no rule 'exceute' (did you mean 'execute'?). It ignores the rule 'other=2' in OTEL_TRACES_SAMPLER_ARG: "
                "expected a number from 0 to 1."
            ),
        ),
    ],
)
def test_the_sampler_is_said_with_its_present_value(rows, value, argument, state, summary):
    variables = {"OTEL_TRACES_SAMPLER": value, "OTEL_TRACES_SAMPLER_ARG": argument}
    row = rows(**{name: text for name, text in variables.items() if text is not None})["sdk.sampler"]

    assert (row.state, row.summary) == (state, summary)


@pytest.mark.parametrize("argument", ["nan", "7", "-1", "a"])
def test_a_ratio_that_is_none_fails(rows, argument):
    row = rows(OTEL_TRACES_SAMPLER="traceidratio", OTEL_TRACES_SAMPLER_ARG=argument)["sdk.sampler"]

    assert row.state is State.FAILED


def test_what_to_set_instead_of_a_ratio_keeps_every_compilation(rows):
    row = rows(OTEL_TRACES_SAMPLER="traceidratio", OTEL_TRACES_SAMPLER_ARG="0.01")["sdk.sampler"]

    assert row.remedy == (
        "To keep every compilation: OTEL_TRACES_SAMPLER=parentbased_torchspan, OTEL_TRACES_SAMPLER_ARG=other=0.01"
    )


def test_what_to_set_for_torchspans_sampler_is_said_where_another_one_decides(rows):
    assert rows()["sdk.sampler"].remedy == (
        "To keep every compilation, and to sample the rest by rules: OTEL_TRACES_SAMPLER=parentbased_torchspan. "
        f"{OWN} TracerProvider(sampler=torchspan.sdk.ParentBasedTorchspanSampler())"
    )


@pytest.mark.parametrize(
    ("value", "state", "start"),
    [
        (None, State.NOTE, "OTEL_PYTHON_ID_GENERATOR is not set. Ids of the program's spans come from Python's global"),
        ("random", State.NOTE, "OTEL_PYTHON_ID_GENERATOR=random. Ids of the program's spans come from Python's global"),
        ("torchspan", State.OK, "OTEL_PYTHON_ID_GENERATOR=torchspan: ids do not repeat after `random.seed()`."),
        ("acme", State.FAILED, "OTEL_PYTHON_ID_GENERATOR=acme names an id generator that is not installed: Open"),
        ("", State.FAILED, "OTEL_PYTHON_ID_GENERATOR= names an id generator that is not installed: Open"),
    ],
)
def test_the_id_generator_is_said_with_its_present_value(rows, value, state, start):
    row = rows(**({} if value is None else {"OTEL_PYTHON_ID_GENERATOR": value}))["sdk.id_generator"]

    assert row.state is state
    assert row.summary.startswith(start)


def test_what_to_set_for_ids_that_do_not_repeat_is_said_for_both_ways_to_a_provider(rows):
    assert rows()["sdk.id_generator"].remedy == (
        f"Set OTEL_PYTHON_ID_GENERATOR=torchspan. {OWN} "
        "TracerProvider(id_generator=torchspan.sdk.TorchspanIdGenerator())"
    )
