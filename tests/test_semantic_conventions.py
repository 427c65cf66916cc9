# SPDX-License-Identifier: Apache-2.0
"""The attribute table and what was emitted, held against each other both ways."""

import re

import pytest

from support.emitted import COLLECTED, EMITTED
from torchspan import phase, semconv

TABLE = {str(attribute): attribute for attribute in semconv.ATTRIBUTES}
METRICS = {str(metric): metric for metric in semconv.METRICS}
KINDS = {
    "histogram": ("Histogram", None),
    "counter": ("Sum", True),
    "observable_up_down_counter": ("Sum", False),
}
"""Instrument -> what the SDK makes of it, and whether it is monotonic."""


def phase_of(span_name):
    """The row of the span table that a span's name belongs to."""
    (found,) = [
        each
        for each in phase.PHASES
        if span_name == each.name or (each.has_target and span_name.startswith(f"{each.name} "))
    ]
    return found


def test_no_key_stands_twice():
    assert len(TABLE) == len(semconv.ATTRIBUTES)


def test_keys_are_lower_case_words_between_dots():
    assert all(re.fullmatch(r"[a-z][a-z0-9]*(?:[._][a-z0-9]+)+", key) for key in TABLE)


def test_every_row_says_what_it_means():
    assert all(len(attribute.brief) > 10 and attribute.brief.endswith(".") for attribute in semconv.ATTRIBUTES)


def test_no_metric_stands_twice():
    assert len(METRICS) == len(semconv.METRICS)


def test_metrics_have_units_and_attributes_of_the_table_and_histograms_have_bounds():
    for metric in semconv.METRICS:
        assert re.fullmatch(r"s|By|\{[a-z]+\}", metric.unit), metric
        assert all(TABLE[str(key)] is key and not key.type.endswith("[]") for key in metric.attributes), metric
        assert (metric.instrument == "histogram") == bool(metric.bounds), metric
        assert list(metric.bounds) == sorted(metric.bounds), metric


@pytest.mark.last
def test_every_metric_emitted_is_in_the_table_with_its_instrument_unit_bounds_and_attributes():
    for name, kind, is_monotonic, unit, bounds, attributes in sorted(EMITTED.metrics, key=str):
        assert name in METRICS, f"{name} is not in the table"
        row = METRICS[name]
        assert ((kind, is_monotonic), unit, bounds) == (KINDS[row.instrument], row.unit, row.bounds), name
        assert attributes <= {(str(key), key.type) for key in row.attributes}, name


@pytest.mark.last
def test_everything_emitted_is_in_the_table_with_its_type_and_span():
    for span_name, event, key, kind in sorted(EMITTED.rows, key=str):
        where = f"{key} on {span_name}{f' in event {event}' if event else ''}"
        assert key in TABLE, f"{where} is not in the table"
        row = TABLE[key]
        assert kind in {row.type, "empty"}, f"{where} is {kind}, the table says {row.type}"
        assert row.event == event or (row.on and not event), f"{where}: the table says event {row.event}"
        assert event or not row.on or phase_of(span_name) in row.on, f"{where}: the table does not name this span"


@pytest.mark.last
def test_what_is_written_on_the_users_spans_is_in_the_table():
    for key, kind in EMITTED.user_keys:
        if key in TABLE:
            assert TABLE[key].type == kind
            assert "user's spans" in TABLE[key].brief


@pytest.mark.last
def test_every_row_of_the_tables_was_emitted(request):
    if request.config.stash[COLLECTED] < 500:
        pytest.skip("only part of the suite ran, so only part of the table was emitted")
    from torch_tensorrt.dynamo import CompilationSettings

    unknown = {str(row) for name, row in semconv.SETTINGS.items() if not hasattr(CompilationSettings(), name)}
    keys = unknown | {key for _, _, key, _ in EMITTED.rows} | {key for key, _ in EMITTED.user_keys}
    assert {key for key, row in TABLE.items() if not row.metric} - keys == set()
    measured = {(name, key) for name, _, _, _, _, attributes in EMITTED.metrics for key, _ in attributes}
    assert {(str(metric), str(key)) for metric in semconv.METRICS for key in metric.attributes} - measured == set()
    assert set(METRICS) - {name for name, *_ in EMITTED.metrics} == set()
    assert {each.name for each in phase.PHASES} - {phase_of(name).name for name in EMITTED.names} == set()
