# SPDX-License-Identifier: Apache-2.0
"""The diagram of packages: who lies above whom, which lines are drawn, and what the picture may contain."""

import ast
import xml.etree.ElementTree as ET

import pytest

import generate_architecture
from generate_architecture import Drawing, Layers

SMALL = {"app": {"engine", "base"}, "engine": {"base", "types"}, "types": {"base"}, "base": set()}


def test_each_package_lies_above_all_that_it_imports():
    assert Layers(SMALL).rows() == [["app"], ["engine"], ["types"], ["base"]]


def test_a_line_that_others_imply_or_that_goes_to_the_bottom_row_is_not_drawn():
    assert Layers({**SMALL, "app": {"engine", "types", "base"}}).lines() == [("app", "engine"), ("engine", "types")]


def test_two_packages_that_import_each_other_are_named_and_still_have_rows():
    layers = Layers({"one": {"other", "base"}, "other": {"one"}, "base": set()})
    assert layers.mutual == [("one", "other")]
    assert layers.rows() == [["other"], ["one"], ["base"]]


def test_imports_for_type_checkers_alone_do_not_count_at_run_time():
    tree = ast.parse("import a\nif TYPE_CHECKING:\n    import b\ndef f():\n    from torchspan import c\n")
    assert list(generate_architecture.imports(tree)) == ["a", "b", "torchspan.c"]
    assert list(generate_architecture.imports(generate_architecture.without_types(tree))) == ["a", "torchspan.c"]


def test_a_relative_import_is_refused_because_it_hides_the_direction():
    with pytest.raises(ValueError, match="line 2: a relative import hides the direction; name the package"):
        list(generate_architecture.imports(ast.parse("import a\nfrom . import b\n")))


def test_the_picture_has_a_box_for_each_package_and_a_line_for_each_import_that_is_drawn():
    picture = ET.fromstring(Drawing(Layers(SMALL)).svg())
    texts = [each.text for each in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["app", "engine", "types", "base"]
    assert len(list(picture.iter("{http://www.w3.org/2000/svg}path"))) == 2


def test_the_picture_of_the_page_loads_nothing_and_runs_nothing():
    text = generate_architecture.PICTURE.read_text(encoding="utf-8")
    assert text.count("http") == 1  # the name of SVG's own namespace
    assert not any(each in text for each in ("<script", "href", "url(", "@import", "@font-face"))


def test_the_page_and_the_picture_are_what_the_imports_give(capsys):
    assert (generate_architecture.main(["--check"]), capsys.readouterr().err) == (0, "")


def test_the_page_is_one_page():
    assert len(generate_architecture.PAGE.read_text(encoding="utf-8").splitlines()) <= 100
