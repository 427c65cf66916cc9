# SPDX-License-Identifier: Apache-2.0
"""The comparison of what a run emitted with the tables: what makes it fail, and what it says of a part of a run."""

from types import SimpleNamespace
from typing import NamedTuple

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

import contract
from suite_run import SuiteRun
from support import run_log
from support.emitted import Emitted

LONG = "Seconds that it took."


def attribute(key, kind="string", *, on=(), event=None, metric=False, resource=False, stable=False, brief=LONG):
    """A row of the attribute table, as far as it is compared."""
    return SimpleNamespace(
        key=key,
        type=kind,
        on=on,
        events=() if event is None else (event,),
        metric=metric,
        resource=resource,
        stable=stable,
        brief=brief,
    )


class Metric(SimpleNamespace):
    def __str__(self):
        return self.name


class Key(str):
    __slots__ = ()
    type = "string"


class Phase(NamedTuple):
    name: str
    has_target: bool
    stable: bool = False


COMPILE = Phase("lib.compile", has_target=False)
BUILD = Phase("lib.build", has_target=True, stable=True)


@pytest.fixture
def tables():
    """Two spans, two attributes, one of a resource, one metric with one attribute."""
    tables = contract.Tables()
    tables.phases = (COMPILE, BUILD)
    tables.attributes = {
        each.key: each
        for each in (
            attribute("a.text", on=(COMPILE,), stable=True),
            attribute("a.count", "int", on=(BUILD,)),
            attribute("a.kind", metric=True, stable=True),
            attribute("a.process", "int", resource=True),
        )
    }
    tables.metrics = {
        "a.duration": Metric(
            name="a.duration",
            instrument="histogram",
            unit="s",
            bounds=(1.0, 2.0),
            attributes=(Key("a.kind"),),
            stable=True,
        )
    }
    return tables


@pytest.fixture
def run():
    """A whole run that emitted every row of the tables."""
    run = SuiteRun()
    run.rows.update(
        {
            "asked": [{"whole": True}],
            "ended": [{"status": 0}],
            "span": [{"name": "lib.compile"}, {"name": "lib.build of something"}],
            "attribute": [
                {"span": "lib.compile", "event": None, "key": "a.text", "type": "string"},
                {"span": "lib.build of something", "event": None, "key": "a.count", "type": "int"},
            ],
            "resource_attribute": [{"key": "a.process", "type": "int"}],
            "metric": [
                {
                    "name": "a.duration",
                    "instrument": "Histogram",
                    "is_monotonic": None,
                    "unit": "s",
                    "bounds": [1.0, 2.0],
                    "attributes": [["a.kind", "string"]],
                }
            ],
        }
    )
    return run


def verdict(run, tables):
    return contract.judge(run, contract.undocumented(run, tables), contract.never_emitted(run, tables))


def test_a_run_that_emitted_exactly_the_rows_passes(run, tables, capsys):
    assert verdict(run, tables) == 0
    assert capsys.readouterr().out == (
        "contract: everything emitted is in the tables, every row of the tables was emitted, every hook fired.\n"
    )


def test_an_attribute_that_was_never_emitted_fails_the_check_by_name(run, tables, capsys):
    run.rows["attribute"].pop()
    assert verdict(run, tables) == 1
    assert "  attribute a.count\n" in capsys.readouterr().out


def test_a_metric_that_was_never_emitted_fails_the_check_by_name(run, tables, capsys):
    run.rows["metric"].clear()
    assert verdict(run, tables) == 1
    assert "  metric a.duration\n" in capsys.readouterr().out


def test_an_attribute_that_a_metric_never_had_fails_the_check_by_name(run, tables, capsys):
    run.rows["metric"][0]["attributes"] = []
    assert verdict(run, tables) == 1
    assert "  attribute a.kind of metric a.duration\n" in capsys.readouterr().out


def test_a_span_that_was_never_emitted_fails_the_check_by_name(run, tables, capsys):
    run.rows["span"].pop()
    assert verdict(run, tables) == 1
    assert "  span lib.build\n" in capsys.readouterr().out


def test_the_stable_names_that_were_emitted_are_counted(run, tables):
    assert list(contract.stable_names(run, tables)) == ["4 of 4 stable names were emitted"]
    run.rows["span"].pop()
    run.rows["metric"].clear()
    assert list(contract.stable_names(run, tables)) == ["1 of 4 stable names were emitted"]


def test_a_name_that_is_not_emitted_for_a_good_reason_is_listed_with_it(run, tables):
    tables.unknown_settings = {"a.count"}
    assert list(contract.stable_names(run, tables))[1:] == [
        "a.count was not emitted: this version of Torch-TensorRT has no such setting"
    ]


def test_without_weaver_the_check_says_that_it_did_not_judge(run, monkeypatch, capsys):
    monkeypatch.setenv("PATH", "")
    assert list(contract.violations(run)) == []
    assert capsys.readouterr().out == (
        "contract: not judged by Weaver: put it on PATH, or TORCHSPAN_TEST_WEAVER=/path/to/weaver\n"
    )


def test_a_sample_has_the_values_and_stands_once_for_the_same_keys(tmp_path, monkeypatch, exporter):
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("torchspan")
    for number in (1, 2):
        with tracer.start_as_current_span("torch.compile_frame", attributes={"a.number": number}) as span:
            span.add_event("exception", {"exception.type": "ValueError"})
    monkeypatch.setenv(run_log.VARIABLE, str(tmp_path))
    Emitted().export(exporter.get_finished_spans())
    assert SuiteRun.read(tmp_path)["sample"] == [
        {
            "signal": "span",
            "name": "torch.compile_frame",
            "attributes": {"a.number": 1},
            "events": [["exception", {"exception.type": "ValueError"}]],
        }
    ]


def test_a_setting_that_the_installed_version_lacks_need_not_be_emitted(run, tables):
    run.rows["attribute"].pop()
    tables.unknown_settings = {"a.count"}
    assert verdict(run, tables) == 0


def test_a_row_written_on_the_users_span_counts_as_emitted(run, tables):
    run.rows["attribute"].pop()
    run.rows["user_attribute"] = [{"key": "a.count", "type": "int"}]
    tables.attributes["a.count"] = attribute("a.count", "int", on=(BUILD,), brief="Written on the user's spans too.")
    assert verdict(run, tables) == 0


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"asked": [{"whole": False}]}, "only some files were asked for"),
        ({"ended": []}, "it did not run to its end"),
        ({"ended": [{"status": 2}]}, "it did not run to its end"),
        ({"deselected": [{"test": "tests/a.py::b"}, {"test": "tests/a.py::b"}]}, "1 tests were left out"),
        (
            {"asked": [{"whole": False}], "ended": []},
            "it did not run to its end; only some files were asked for",
        ),
    ],
)
def test_a_part_of_a_run_neither_passes_nor_fails_on_a_missing_row(run, tables, capsys, changes, parts):
    run.rows.update(changes)
    run.rows["attribute"].pop()
    assert verdict(run, tables) == contract.ONLY_A_PART
    out = capsys.readouterr().out
    assert f"contract: only a part of the suite ran ({parts}).\n" in out
    assert "  attribute a.count\n" in out
    assert "it is not known whether these rows are emitted" in out


def test_a_part_of_a_run_fails_on_what_is_not_in_the_tables(run, tables):
    run.rows["asked"] = [{"whole": False}]
    run.rows["span"].append({"name": "lib.other"})
    assert verdict(run, tables) == 1


def test_a_run_in_which_tests_failed_is_held_against_the_tables_all_the_same(run, tables):
    run.rows["ended"] = [{"status": 1}]
    run.rows["attribute"].pop()
    assert verdict(run, tables) == 1


def emitted(**changes):
    return {"span": "lib.compile", "event": None, "key": "a.text", "type": "string", **changes}


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (emitted(key="a.other"), "a.other on lib.compile is not in the table"),
        (emitted(type="int"), "a.text on lib.compile is int, the table says string"),
        (
            emitted(type="string that its kind refuses"),
            "a.text on lib.compile is string that its kind refuses, the table says string",
        ),
        (emitted(span="lib.build x"), "a.text on lib.build x: the table does not name this span"),
        (emitted(event="e"), "a.text on lib.compile in event e: the table says event None"),
        (emitted(key="a.kind"), None),
        (emitted(type="empty"), None),
    ],
)
def test_an_attribute_that_is_not_as_its_row_says_is_named(run, tables, row, sentence):
    run.rows["attribute"].append(row)
    expected = [sentence] if sentence else []
    assert list(contract.undocumented(run, tables)) == expected


def operators(**changes):
    row = {"span": "lib.compile", "left": 3, "counted": [["no_converter", 3]], "named": [["no_converter", 3]]}
    return {**row, "omitted": 0, **changes}


@pytest.mark.parametrize(
    ("row", "sentences"),
    [
        (operators(), []),
        (operators(left=0, counted=[], named=[]), []),
        (operators(named=[["no_converter", 2]], omitted=1), []),
        (operators(counted=[["no_converter", 1], ["compile_failed", 2]], named=[["no_converter", 1]]), []),
        (operators(left=4), ["lib.compile leaves 4 operators to PyTorch and counts {'no_converter': 3} as fallback"]),
        (
            operators(named=[["no_converter", 2]]),
            ["lib.compile counts {'no_converter': 3} as fallback and names {'no_converter': 2}"],
        ),
    ],
)
def test_operators_that_stay_in_pytorch_must_all_be_counted_and_named(run, tables, row, sentences):
    run.rows["operators"] = [row, row]
    assert list(contract.undocumented(run, tables)) == sentences


def test_an_attribute_that_was_left_out_for_want_of_a_row_is_named(run, tables):
    run.rows["left_out"] = [{"key": "a.forgotten"}, {"key": "a.forgotten"}]
    assert list(contract.undocumented(run, tables)) == ["a.forgotten was to be emitted and is not in the table"]


def test_an_attribute_of_the_table_on_the_users_span_must_be_said_there(run, tables):
    run.rows["user_attribute"] = [{"key": "a.count", "type": "string"}, {"key": "of.the.user", "type": "int"}]
    assert list(contract.undocumented(run, tables)) == [
        "a.count on a user's span is string, the table says int",
        "a.count is on a user's span, which the table does not say",
    ]


@pytest.mark.parametrize(
    ("changes", "start"),
    [
        ({"name": "a.other"}, "a.other is not in the table"),
        ({"instrument": "Sum"}, "a.duration is (('Sum', None), 's', (1.0, 2.0)), the table says"),
        ({"unit": "ms"}, "a.duration is (('Histogram', None), 'ms', (1.0, 2.0)), the table says"),
        ({"bounds": [3.0]}, "a.duration is (('Histogram', None), 's', (3.0,)), the table says"),
        ({"attributes": [["a.kind", "int"]]}, "a.duration has the attributes [('a.kind', 'int')]"),
    ],
)
def test_a_metric_that_is_not_as_its_row_says_is_named(run, tables, changes, start):
    run.rows["metric"] = [{**run.rows["metric"][0], **changes}]
    (sentence,) = contract.undocumented(run, tables)
    assert sentence.startswith(start)


HOOKS = {"first": ("one", "two"), "second": ("three",), "absent": ("four",)}
RESOLVED = {"one", "three"}


def test_a_hook_that_fired_on_no_route_is_named():
    assert list(contract.never_fired({"route": {"first"}}, HOOKS, RESOLVED)) == ["hook second"]
    assert list(contract.never_fired({"route": {"first"}, "other": {"second"}}, HOOKS, RESOLVED)) == []


def test_a_hook_that_cannot_fire_must_not():
    fired = {"route": {"first", "second"}}
    assert list(contract.never_fired({"route": {"first"}}, HOOKS, RESOLVED, cannot={"second"})) == []
    assert list(contract.never_fired({"route": {"first"}}, HOOKS, RESOLVED, need_not={"second"})) == []
    assert list(contract.never_fired(fired, HOOKS, RESOLVED, need_not={"second"})) == []
    assert list(contract.never_fired(fired, HOOKS, RESOLVED, cannot={"second"})) == [
        "hook second is listed as one that cannot fire here"
    ]


def test_without_a_run_the_check_fails_and_says_how_to_make_one(monkeypatch, capsys):
    monkeypatch.setattr(contract, "FOLDER", contract.ROOT / "not there")
    assert contract.main() == 1
    assert "no run of the tests" in capsys.readouterr().out


def test_an_attribute_of_a_resource_must_be_of_its_type_and_on_no_span(run, tables):
    run.rows["resource_attribute"] = [{"key": "a.process", "type": "string"}]
    run.rows["attribute"].append({"span": "lib.compile", "event": None, "key": "a.process", "type": "int"})
    assert list(contract.undocumented(run, tables)) == [
        "a.process on lib.compile: the table says that it is on resources alone",
        "a.process of a resource is string, the table says int",
    ]


def test_an_attribute_of_a_resource_that_was_never_emitted_is_named(run, tables):
    run.rows["resource_attribute"] = []
    assert list(contract.never_emitted(run, tables)) == ["attribute a.process"]


def test_torchspans_events_on_a_users_span_are_compared_and_the_users_own_are_not(
    tmp_path, monkeypatch, exporter, tracer
):
    with tracer.start_as_current_span("request") as span:
        span.add_event("torchspan.input", {"torchspan.input.count": 3})
        span.add_event("checkout", {"cart.size": 2})
    monkeypatch.setenv(run_log.VARIABLE, str(tmp_path))
    Emitted().export(exporter.get_finished_spans())
    run = SuiteRun.read(tmp_path)
    assert run["attribute"] == [
        {"span": "a user's span", "event": "torchspan.input", "key": "torchspan.input.count", "type": "int"}
    ]


@pytest.mark.parametrize(
    ("name", "span", "event"),
    [
        ("torch.compile.graph_break", "a log record", "torch.compile.graph_break"),
        ("torch_tensorrt.convert.exception", "torch_tensorrt.convert", "exception"),
    ],
)
def test_log_records_are_compared_as_the_events_that_they_are(tmp_path, monkeypatch, name, span, event):
    monkeypatch.setenv(run_log.VARIABLE, str(tmp_path))
    Emitted().add_log_record(SimpleNamespace(event_name=name, attributes={"code.line.number": 7}))
    run = SuiteRun.read(tmp_path)
    assert run["attribute"] == [{"span": span, "event": event, "key": "code.line.number", "type": "int"}]


def test_an_attribute_of_a_log_record_that_is_not_one_of_its_event_is_named():
    row = {"span": "a log record", "event": "tensorrt.log", "key": "code.line.number", "type": "int"}
    assert list(contract._undocumented_attributes({"attribute": [row]}, contract.Tables())) == [
        (
            "code.line.number on a log record in event tensorrt.log: the table says event exception or "
            "torch.compile.graph_break or torch.compile.declaration"
        )
    ]
