# SPDX-License-Identifier: Apache-2.0
"""What `torchspan doctor` says of others that observe or export the same."""

import pytest

from torchspan.cli.doctor import _conflicts as conflicts
from torchspan.cli.doctor._check import Context, State


def rows(**environment):
    return {each.name: each for each in conflicts.conflicts(Context(environment))}


@pytest.fixture
def packages(monkeypatch):
    """Installs packages by their names and versions, as far as metadata goes."""
    versions = {}
    monkeypatch.setattr(conflicts, "installed", versions.get)
    return versions


def test_an_environment_without_conflicts_is_reported_as_such(packages):
    assert rows()["conflicts.none"].state is State.OK


def test_a_second_installation_of_torchspan_is_a_warning_with_both_places(distribution):
    distribution("torchspan", "0.0.1")
    found = rows()["conflicts.torchspan"]

    assert found.state is State.WARNING
    assert found.summary.startswith("torchspan is installed more than once: ")
    assert "0.0.1 in " in found.summary


def test_ddtrace_is_a_warning_where_it_takes_the_spans(packages):
    packages["ddtrace"] = "4.16.0"

    assert "conflicts.ddtrace" not in rows()
    assert rows(DD_TRACE_OTEL_ENABLED="true")["conflicts.ddtrace"].state is State.WARNING


def test_a_ratio_of_another_sampler_is_a_warning_with_what_it_drops():
    found = rows(OTEL_TRACES_SAMPLER="parentbased_traceidratio", OTEL_TRACES_SAMPLER_ARG="0.01")["conflicts.sampler"]

    assert found.state is State.WARNING
    assert found.summary == (
        "OTEL_TRACES_SAMPLER=parentbased_traceidratio with 0.01 drops 99 of 100 traces, whatever they contain: of the "
        "compilations in these, the metrics alone remain."
    )
    assert found.remedy == (
        "To keep every compilation: OTEL_TRACES_SAMPLER=parentbased_torchspan, OTEL_TRACES_SAMPLER_ARG=other=0.01"
    )


@pytest.mark.parametrize("argument", ["1", "1.0", "", "a", "nan", "7"])
def test_a_ratio_that_drops_nothing_or_is_none_is_not_a_conflict(argument):
    assert "conflicts.sampler" not in rows(OTEL_TRACES_SAMPLER="traceidratio", OTEL_TRACES_SAMPLER_ARG=argument)
