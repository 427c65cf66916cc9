# SPDX-License-Identifier: Apache-2.0
"""The list of phrases to avoid, `tools/check_language.py`: what it finds, and the files it reads."""

import re

import pytest

import check_language


def test_a_phrase_is_found_with_its_line_and_what_to_write():
    assert check_language.findings("One.\nNobody listens.\n") == [
        (2, "'Nobody' -> the actor: a callback, a caller, a backend; or 'nothing', 'no one'")
    ]


def test_a_phrase_is_found_across_the_end_of_a_line():
    assert check_language.findings("The program goes\non without.\n") == [(1, "'goes on' -> continues, runs, lasts")]


def test_a_phrase_is_found_across_the_lines_of_a_comment():
    assert check_language.findings("# The program goes\n# on.\n") == [(1, "'goes on' -> continues, runs, lasts")]


def test_a_phrase_is_found_in_a_name():
    assert check_language.findings("def what_was_told(): ...\n") == [
        (1, "'told' -> reported, received, notified; a text: redacted; 'told from': distinguished from")
    ]


def test_a_phrase_inside_a_longer_word_is_not_found():
    assert check_language.findings("recommended, hours, amend\n") == []


def test_two_phrases_on_a_line_are_two_findings():
    assert len(check_language.findings("Somebody put it back anew; they put back both.\n")) == 3


@pytest.mark.parametrize("text", ["It is no function.", "is_no_function", "They are no callbacks."])
def test_a_noun_that_is_denied_with_no_is_found(text):
    assert [line for line, _ in check_language.findings(text)] == [1]


@pytest.mark.parametrize("text", ["There is no function.", "there_is_no_function", "It is no longer there."])
def test_other_uses_of_no_are_not_found(text):
    assert check_language.findings(text) == []


def test_a_test_name_of_ninety_characters_is_not_found():
    assert check_language.findings(f"def test_{'x' * 85}():\n") == []


def test_a_test_name_of_ninety_one_characters_is_found():
    ((line, what),) = check_language.findings(f"\n    def test_{'x' * 86}(self):\n")
    assert (line, what.split(" ", 1)[1]) == (2, "has 91 characters -> at most 90")


def test_every_phrase_has_what_to_write_and_matches_no_empty_text():
    for phrase in check_language.PHRASES:
        assert phrase.instead
        assert not re.search(phrase.pattern, "")


def test_every_file_that_is_not_read_exists_and_has_a_reason():
    for name, why in check_language.EXCEPTIONS.items():
        assert (check_language.ROOT / name).is_file()
        assert why


def test_the_texts_of_the_repository_are_read():
    read = {str(path.relative_to(check_language.ROOT)) for path in check_language.files()}
    assert {"README.md", "src/torchspan/instrumentor.py", "collector-config/base.yaml", "tests/conftest.py"} <= read
    assert "tools/check_language.py" not in read


def test_a_file_with_a_phrase_is_printed_and_fails(tmp_path, monkeypatch, capsys):
    (tmp_path / "page.md").write_text("It comes along.\n", encoding="utf-8")
    monkeypatch.setattr(check_language, "ROOT", tmp_path)
    monkeypatch.setattr(check_language, "files", lambda: [tmp_path / "page.md"])
    assert check_language.main([]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "page.md:1: 'comes along' -> propagate, pass",
        "Phrases to replace: 1. The list is in tools/check_language.py.",
    ]


def test_files_that_are_not_named_are_not_read(tmp_path, monkeypatch):
    (tmp_path / "page.md").write_text("It comes along.\n", encoding="utf-8")
    monkeypatch.setattr(check_language, "ROOT", tmp_path)
    monkeypatch.setattr(check_language, "files", lambda: [tmp_path / "page.md"])
    assert check_language.main([str(tmp_path / "another")]) == 0
