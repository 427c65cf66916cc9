# SPDX-License-Identifier: Apache-2.0
"""The tables of attributes and metrics by themselves; `tools/contract.py` compares them with what the tests emitted."""

import re
from pathlib import Path

from support.standard_keys import standard_keys
from torchspan.words import phase, semconv
from torchspan.words.semconv.measures import Duration, RunDuration

TABLE = {str(attribute): attribute for attribute in semconv.ATTRIBUTES}
METRICS = {str(metric): metric for metric in semconv.METRICS}


def test_no_key_stands_twice():
    assert len(TABLE) == len(semconv.ATTRIBUTES)


def test_no_name_stands_for_two_rows():
    """The last one would win: `semconv` has the names of all modules."""
    modules = [
        value
        for name, value in vars(semconv).items()
        if name in {"_opentelemetry", "_tensorrt", "_torch", "_torch_tensorrt", "_torchspan"}
    ]
    assert len(modules) == 5
    named = [
        (name, row) for module in modules for name, row in vars(module).items() if isinstance(row, semconv.Attribute)
    ]
    assert [name for name, row in named if getattr(semconv, name, row) is not row] == []


def test_keys_are_lower_case_words_between_dots():
    assert all(re.fullmatch(r"[a-z][a-z0-9]*(?:[._][a-z0-9]+)+", key) for key in TABLE)


def test_every_row_says_what_it_means():
    assert all(len(attribute.brief) > 10 and attribute.brief.endswith(".") for attribute in semconv.ATTRIBUTES)


def test_no_brief_refers_to_another_row():
    """The generated page sorts the rows by span: what another row says may be on another page."""
    refers_back = r"^(?:Those|These|They|Them|Its?|This|Why, for)\b|\beach of them\b|\bof them\b|\bthe same condition\b|\bfree on it\b"
    rows = (*semconv.ATTRIBUTES, *semconv.METRICS)
    assert [str(row) for row in rows if re.search(refers_back, row.brief)] == []


def test_the_tables_keep_to_the_line_length():
    files = [Path(phase.__file__), *Path(semconv.__file__).parent.glob("*.py")]
    assert len(files) > 5
    assert [f"{file.name}: {line}" for file in files for line in file.read_text().splitlines() if len(line) > 120] == []


def test_every_module_of_the_tables_holds_the_keys_of_one_library():
    for name in ("torchspan", "torch", "torch_tensorrt", "tensorrt"):
        keys = [row for row in vars(getattr(semconv, f"_{name}")).values() if isinstance(row, semconv.Attribute)]
        assert keys
        assert [key for key in keys if not key.startswith(f"{name}.")] == []


def test_what_the_conventions_have_a_key_for_has_that_key():
    own = ("torchspan", "torch", "torch_tensorrt", "tensorrt")
    keys = standard_keys()
    assert "file.size" in keys
    assert [key for key in TABLE if key.partition(".")[0] not in own and key not in keys] == []
    assert [key for key in TABLE if key.partition(".")[0] in own and key.partition(".")[2] in keys] == []


def test_the_span_of_a_run_has_the_standard_keys_of_the_program_that_it_started():
    assert {key for key in TABLE if phase.RUN in TABLE[key].on} == {
        "process.pid",
        "process.exit.code",
        "torchspan.run.signal",
        "torchspan.run.engines.runs",
        "torchspan.run.engines.time",
    }


def test_no_metric_has_the_unit_of_ratios():
    assert [name for name, metric in METRICS.items() if metric.unit == "1"] == []


def test_every_rate_limited_phase_declares_the_keys_under_which_its_work_is_folded():
    limited = {each.name for each in phase.PHASES if not each.keep} - {
        phase.BATCH.name,
        phase.OPERATORS.name,
    }  # the program asks for each
    assert {each.name for each in phase.PHASES if each.folded} == limited
    assert all(key in TABLE for each in phase.PHASES if each.folded for key in each.folded)


def test_every_phase_worth_keeping_and_every_kind_of_run_has_one_metric_of_its_durations():
    for each in phase.PHASES:
        timed = [
            metric
            for metric in semconv.METRICS
            if isinstance(metric.measure, (Duration, RunDuration)) and each in metric.measure.of
        ]
        assert len(timed) == (each.keep or each in phase.RUNS), each.name


def test_a_metric_is_measured_on_events_of_phases_that_carry_what_it_reads():
    for metric in semconv.METRICS:
        read = [key for pair in getattr(metric.measure, "lists", ()) for key in pair]
        for key in (*read, *([metric.measure.key] if hasattr(metric.measure, "key") else [])):
            assert set(metric.measure.of) & set(key.on), metric


def namespaces(names):
    """Every part of the names that stands before a dot: `a` and `a.b` for `a.b.c`."""
    return {name.rsplit(".", count)[0] for name in names for count in range(1, name.count(".") + 1)}


def test_no_attribute_key_is_also_a_namespace():
    assert set(TABLE) & namespaces([*TABLE, *METRICS]) == set()


def test_no_metric_is_also_a_namespace_but_the_count_of_operators_left_in_pytorch():
    assert set(METRICS) & namespaces([*TABLE, *METRICS]) == {"torch_tensorrt.fallback.operators"}


def test_the_defaults_of_settings_are_those_of_the_library():
    from torch_tensorrt.dynamo import CompilationSettings  # seconds, for this test alone

    settings = CompilationSettings()
    values = {name: getattr(settings, name) for name in semconv.SETTINGS if hasattr(settings, name)}
    plain = {name: value for name, value in values.items() if type(value) in {bool, int}}
    assert {name: value for name, value in semconv.SETTING_DEFAULTS.items() if name in values} == plain


def test_the_text_of_an_event_has_a_key_of_its_own():
    assert semconv.event_text_key(2, "exception.message") == "events.2.exception.message"


def test_no_namespace_of_a_metric_is_plural():
    assert "torchspan.gpu_time" in namespaces(METRICS)
    assert [name for name in namespaces(METRICS) if name.endswith("s")] == []


def test_no_name_is_both_an_attribute_and_a_metric():
    assert set(TABLE) & set(METRICS) == set()


def test_keys_of_lists_are_plural():
    lists = {key for key, row in TABLE.items() if row.type.endswith("[]")}
    assert len(lists) > 20
    assert [key for key in lists if not key.rpartition(".")[2].endswith("s")] == []


def test_no_metric_stands_twice():
    assert len(METRICS) == len(semconv.METRICS)


def test_metrics_have_units_and_attributes_of_the_table_and_histograms_have_bounds():
    for metric in semconv.METRICS:
        assert re.fullmatch(r"s|By|1|\{[a-z]+\}", metric.unit), metric
        assert all(TABLE[str(key)] is key and not key.type.endswith("[]") for key in metric.attributes), metric
        assert (metric.instrument == "histogram") == bool(metric.bounds), metric
        assert list(metric.bounds) == sorted(metric.bounds), metric
