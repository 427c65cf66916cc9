# SPDX-License-Identifier: Apache-2.0
"""The tables of attributes and metrics by themselves; `tools/contract.py` compares them with what the tests emitted."""

import re

from torchspan import semconv

TABLE = {str(attribute): attribute for attribute in semconv.ATTRIBUTES}
METRICS = {str(metric): metric for metric in semconv.METRICS}


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
