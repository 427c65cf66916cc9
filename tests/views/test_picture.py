# SPDX-License-Identifier: Apache-2.0
"""`torchspan show --svg`: the drawing of the terminal as a picture for documents."""

import os
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from torchspan.reading.answers.lines import Style
from torchspan.reading.views import Picture, _picture

SVG = "{http://www.w3.org/2000/svg}"


def drawn(*lines, width=40):
    """The shapes of a picture, without its background."""
    picture = Picture(width)
    picture.write([*lines])
    root = ET.fromstring(picture.svg())
    return [each for each in root if each.tag in {f"{SVG}text", f"{SVG}rect", f"{SVG}path"}][1:]


@pytest.fixture
def file(recording):
    main = recording.span("main", 0, 2000, scope="app")
    recording.span("prepare <&> load", 100, 1900, parent=main, scope="app")
    return recording.path


def test_every_word_of_the_waterfall_is_in_the_picture(file, torchspan, tmp_path):
    _, shown, _ = torchspan("show", file)
    assert torchspan("show", file, "--svg", tmp_path / "a.svg") == (0, "", "")

    root = ET.fromstring((tmp_path / "a.svg").read_text(encoding="utf-8"))
    words = " ".join(each.text for each in root.iter(f"{SVG}text")).split()
    assert words == [word for word in shown.split() if not set(word) <= set("├└─│█▏░")]
    assert "<&>" in words


def test_text_is_stretched_to_its_columns():
    (text,) = drawn([("  name", Style.STRONG)])
    assert text.attrib == {
        "class": "strong",
        "x": "30",
        "y": "27",
        "textLength": "32",
        "lengthAdjust": "spacingAndGlyphs",
    }


def test_characters_of_two_columns_take_two():
    wide, next_to_it = drawn([("模型", Style.PLAIN), ("x", Style.PLAIN)])
    assert (wide.attrib["textLength"], next_to_it.attrib["x"]) == ("32", "46")


def test_a_bar_is_a_rectangle_as_long_as_its_columns():
    (bar,) = drawn([("    ", Style.PLAIN), ("███ ", Style.BAR)])
    assert bar.attrib == {"class": "bar", "x": "46", "y": "17", "width": "24", "height": "12"}


def test_a_bar_of_less_than_a_column_is_a_thin_line():
    (bar,) = drawn([("▏", Style.STAND_IN)])
    assert (bar.attrib["class"], bar.attrib["width"]) == ("stand_in", "2")


def test_the_lines_of_the_tree_meet():
    trunk, branch, last = drawn([("│  ", Style.DIM)], [("├─ ", Style.DIM)], [("└─ ", Style.DIM)])
    assert trunk.attrib["d"] == "M18,14V32"
    assert branch.attrib["d"] == "M18,32V50M18,41H30"
    assert last.attrib["d"] == "M18,50V59H30"


def test_the_picture_refers_to_nothing_outside_of_it(file, torchspan, tmp_path):
    torchspan("show", file, "--svg", tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    text = text.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert [
        word for word in ("http", "url(", "@import", "@font-face", "href", "<script", "<image") if word in text
    ] == []


def luminance(color):
    """Relative luminance, as https://www.w3.org/TR/WCAG22/#dfn-relative-luminance defines it."""
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("palette", [_picture.LIGHT, _picture.DARK], ids=["light", "dark"])
@pytest.mark.parametrize("role", ["plain", "dim", "bar", "fallback", "error"])
def test_texts_are_readable_on_the_background(palette, role):
    dark, light = sorted([luminance(palette[role]), luminance(palette["background"])])
    assert (light + 0.05) / (dark + 0.05) >= 4.5


def test_strings_cannot_be_listed_in_a_picture(file, torchspan, tmp_path):
    status, _, err = torchspan("show", file, "--what-leaves", "--svg", tmp_path / "a.svg")
    assert status == 2
    assert "--svg draws traces and --what-leaves lists strings; leave out one of them" in err
    assert not (tmp_path / "a.svg").exists()


def test_a_file_that_cannot_be_written_is_named(file, torchspan, tmp_path):
    status, _, err = torchspan("show", file, "--svg", tmp_path)
    assert status == 2
    assert f"cannot write {tmp_path}: Is a directory; name another file" in err


@pytest.fixture
def picture(file, torchspan, tmp_path):
    """A picture of an earlier trace."""
    torchspan("show", file, "--svg", tmp_path / "a.svg")
    (tmp_path / "a.svg").write_text((tmp_path / "a.svg").read_text().replace("load", "earlier"))
    return tmp_path / "a.svg"


def refused(torchspan, name, *files):
    """Why a picture is not written, and whether the file that has its name is what it was."""
    before = name.read_bytes()
    status, out, err = torchspan("show", *files, "--svg", name)
    assert (status, out, name.read_bytes() == before) == (2, "", True)
    assert err.endswith("; name another file: --svg <file>.svg\n")
    return err.removeprefix(f"torchspan show: cannot write {name}: ").partition(";")[0]


NO_PICTURE = "it is not a page, a picture or a Perfetto file that torchspan wrote, and torchspan replaces no other file"


def test_a_picture_replaces_an_earlier_picture_and_an_empty_file(file, torchspan, tmp_path, picture):
    (tmp_path / "empty").touch()
    for target in (picture, tmp_path / "empty"):
        assert torchspan("show", file, "--svg", target) == (0, "", "")
        assert "prepare &lt;&amp;&gt; load" in target.read_text(encoding="utf-8")


def test_a_trace_is_never_replaced_by_a_picture(file, torchspan, tmp_path):
    """`show --svg a.jsonl b.jsonl` replaced a.jsonl."""
    other = tmp_path / "other.jsonl"
    other.write_bytes(Path(file).read_bytes())
    assert refused(torchspan, other, file) == NO_PICTURE


def test_a_file_that_is_drawn_is_never_replaced_by_its_picture(file, torchspan, tmp_path, picture):
    assert refused(torchspan, Path(file), file) == "it is one of the files that are read"
    assert refused(torchspan, picture, file, picture) == "it is one of the files that are read"
    (tmp_path / "folder").symlink_to(tmp_path)
    assert refused(torchspan, tmp_path / "folder" / "trace.jsonl", file) == "it is one of the files that are read"


def test_a_picture_of_another_program_a_link_and_a_second_name_are_never_replaced(file, torchspan, tmp_path, picture):
    (tmp_path / "other.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'><title>mine</title></svg>")
    (tmp_path / "link.svg").symlink_to(picture)
    assert refused(torchspan, tmp_path / "other.svg", file) == NO_PICTURE
    assert refused(torchspan, tmp_path / "link.svg", file) == "it is a link, which torchspan does not follow"
    os.link(picture, tmp_path / "second.svg")
    assert refused(torchspan, picture, file) == "it has a second name (a hard link)"


def test_a_picture_does_not_go_to_standard_output(file, torchspan):
    status, out, err = torchspan("show", file, "--svg", "/dev/stdout")
    assert (status, out) == (2, "")
    assert "cannot write /dev/stdout: it is a link, which torchspan does not follow" in err
