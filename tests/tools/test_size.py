# SPDX-License-Identifier: Apache-2.0
"""The figures of `tools/size.py`, and that they are kept."""

import pytest

import size

TEXT = '''
"""A module."""
import os  # a comment

LIMIT = 3
"""What it is."""


class Outer:
    """A class."""

    class Inner:
        pass

    def made_path(self, item):
        """A function."""

        for each in item:
            yield os.path.join(
                each,
                "x",
            )
'''


def test_lines_of_code_are_without_docstrings_comments_and_blank_lines():
    assert size.measure(TEXT).code == 11


def test_functions_and_classes_are_counted():
    measured = size.measure(TEXT)
    assert measured.functions == [(6, "made_path")]
    assert measured.classes == ["Outer", "Inner"]


def test_the_package_keeps_its_limits(capsys):
    assert size.main(["--check"]) == 0
    assert "ABOVE THE LIMIT" not in capsys.readouterr().out


@pytest.mark.parametrize("name", size.LIMITS)
def test_a_figure_above_its_limit_is_named_and_fails(monkeypatch, capsys, tmp_path, name):
    (tmp_path / "module.py").write_text(TEXT, encoding="utf-8")
    monkeypatch.setattr(size, "SOURCE", tmp_path)
    monkeypatch.setattr(size, "LIMITS", {**dict.fromkeys(size.LIMITS, 1_000), name: -1})
    assert size.main(["--check"]) == 1
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "ABOVE THE LIMIT" in line]
    assert line.startswith(f"{name}: ")
