# SPDX-License-Identifier: Apache-2.0
"""`make mutants`: the interval, and what of a folder is recorded."""

import json

import pytest

import mutants


@pytest.mark.parametrize(
    ("killed", "tried", "interval"),
    [(200, 200, (0.981, 1.0)), (196, 200, (0.950, 0.992)), (0, 200, (0.0, 0.019)), (0, 0, (0.0, 1.0))],
)
def test_the_interval_is_wilsons(killed, tried, interval):
    assert mutants.interval(killed, tried) == pytest.approx(interval, abs=0.0005)


def mutant(outcome, after="b"):
    return {"file": "src/torchspan/engine/event.py", "line": 3, "before": "a", "after": after, "outcome": outcome}


def test_a_survivor_has_the_reason_that_stands_for_its_line(tmp_path, monkeypatch):
    reasons = tmp_path / "reasons.json"
    entry = {"file": "src/torchspan/engine/event.py", "before": "a", "after": "b", "reason": "it cannot matter"}
    reasons.write_text(json.dumps([entry]))
    monkeypatch.setattr(mutants, "SURVIVORS", reasons)
    record = mutants.summary_of("engine", [mutant("killed"), mutant("survived"), mutant("survived", after="c")])
    assert (record["tried"], record["killed"]) == (3, 1)
    assert [survivor["reason"] for survivor in record["survivors"]] == ["it cannot matter", None]


def test_a_mutant_whose_tests_do_not_end_is_noticed_and_counted_apart():
    record = mutants.summary_of("engine", [mutant("killed"), mutant("timed out")])
    assert (record["tried"], record["killed"], record["timed_out"], record["survivors"]) == (2, 2, 1, [])


def test_a_folder_that_is_not_known_is_refused(capsys):
    with pytest.raises(SystemExit):
        mutants.main(["pipeline"])
    assert "no folder pipeline; there are words/redaction, words/semconv, engine" in capsys.readouterr().err


def test_the_results_of_a_folder_replace_its_own_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(mutants, "FILE", tmp_path / "results.json")
    for folder, outcome in (("engine", "killed"), ("words/redaction", "killed"), ("engine", "survived")):
        mutants.keep(mutants.summary_of(folder, [mutant(outcome)]), "0123abc", minutes=1.4)
    assert [
        (name, record["killed"], record["commit"], record["minutes"]) for name, record in mutants.read().items()
    ] == [
        ("words/redaction", 1, "0123abc", 1),
        ("engine", 0, "0123abc", 1),
    ]


def test_a_change_that_survived_in_one_of_two_places_is_tried_again_in_both(tmp_path, monkeypatch):
    log = tmp_path / "log.jsonl"
    rows = [mutant("killed"), mutant("survived"), mutant("killed", after="c"), mutant("timed out", after="d")]
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr(mutants, "log_of", lambda _folder: log)
    assert mutants.noticed_before("engine") == {
        ("src/torchspan/engine/event.py", "a", "c"): "killed",
        ("src/torchspan/engine/event.py", "a", "d"): "timed out",
    }


def test_without_an_earlier_run_its_survivors_are_refused_before_any_test_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(mutants, "FILE", tmp_path / "results.json")
    with pytest.raises(SystemExit):
        mutants.main(["--survivors", "engine", "words/redaction"])
    assert "--survivors needs an earlier run of engine, words/redaction; run it without" in capsys.readouterr().err
