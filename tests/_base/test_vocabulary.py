# SPDX-License-Identifier: Apache-2.0
"""The vocabulary, held to the lists in the program that makes it."""

import importlib.util
import re
from pathlib import Path

import pytest

from torchspan._base.templates import words

ROOT = Path(__file__).parents[2]
FILE = ROOT / "src" / "torchspan" / "_base" / "vocabulary.txt"


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("generate_vocabulary", ROOT / "tools" / "generate_vocabulary.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_file_has_one_word_a_line_sorted_and_once():
    lines = FILE.read_text("utf-8").splitlines()
    assert lines == sorted(set(lines))
    assert set(lines) == set(words())


def test_words_are_ascii_without_what_a_path_or_an_address_has():
    assert [word for word in words() if not re.fullmatch(r"[A-Za-z_][\w.:'/-]*", word, re.ASCII)] == []
    assert [word for word in words() if re.search(r"\d{4}", word)] == []


def test_a_slash_stands_between_two_words_only():
    slashed = [word for word in words() if "/" in word]
    assert [word for word in slashed if not re.fullmatch(r"[A-Za-z'-]+(/[A-Za-z'-]+)+", word)] == []


@pytest.mark.parametrize("kind", ["NUMBERS", "DATES", "AFFAIRS", "COMPANIES"])
def test_no_number_date_company_or_word_about_people_is_in_it(tool, kind):
    allowed = tool.KEPT | tool.NEEDED_PRODUCTS | tool.TERMS
    plain = {word for word in words() if word.isalpha()}
    assert {word for word in plain if word.lower() in getattr(tool, kind)} - allowed == set()


FIRST_NAMES = """
    james john robert michael william david richard joseph thomas charles christopher daniel matthew anthony donald steven
    paul andrew joshua kenneth kevin brian george edward ronald timothy jason jeffrey ryan jacob gary nicholas eric
    jonathan stephen justin scott brandon benjamin samuel gregory alexander patrick jack dennis jerry tyler aaron jose adam
    nathan henry douglas zachary peter kyle noah ethan jeremy walter christian keith roger terry austin sean gerald carl
    harold dylan arthur lawrence jordan jesse bryan billy bruce gabriel joe logan alan juan albert willie elijah wayne
    randy vincent mason roy ralph bobby russell philip eugene mary patricia jennifer linda elizabeth barbara susan jessica
    sarah karen lisa nancy betty sandra margaret ashley kimberly emily donna michelle carol amanda melissa deborah
    stephanie rebecca sharon laura cynthia dorothy amy kathleen angela shirley emma brenda pamela nicole anna samantha
    katherine christine debra rachel carolyn janet maria olivia heather helen catherine diane julie victoria joyce lauren
    kelly christina ruth joan virginia judith evelyn hannah andrea megan cheryl jacqueline madison teresa abigail sophia
    martha sara gloria janice kathryn ann isabella judy charlotte julia grace amber alice jean denise frances danielle
    marilyn natalie beverly diana brittany theresa kayla alexis doris lori tiffany rose mark max will bill grant frank
    drew pat art chase hope faith joy may june april dawn ivy lily violet daisy iris pearl ruby jade crystal sky
"""
SURNAMES = """
    smith johnson williams brown jones garcia miller davis rodriguez martinez hernandez lopez gonzalez wilson anderson
    thomas taylor moore jackson martin lee perez thompson white harris sanchez clark ramirez lewis robinson walker young
    allen king wright scott torres nguyen hill flores green adams nelson baker hall rivera campbell mitchell carter
    roberts gomez phillips evans turner diaz parker cruz edwards collins reyes stewart morris morales murphy cook rogers
    gutierrez ortiz morgan cooper peterson bailey reed kelly howard ramos kim cox ward richardson watson brooks chavez wood
    james bennett gray mendoza ruiz hughes price alvarez castillo sanders patel myers ross foster jimenez schmidt muller
    schneider fischer weber meyer wagner becker schulz hoffmann tanaka suzuki sato wang zhang chen ivanov novak kowalski
"""
KEPT_NAMES = {"may", "will", "max"}
"""Given names that are also words without which a message cannot be read; in lower case alone."""


@pytest.mark.parametrize("names", [FIRST_NAMES, SURNAMES], ids=["first names", "surnames"])
def test_no_frequent_name_of_a_person_is_in_it(names):
    for name in set(names.split()):
        assert {name, name.title(), name.upper()} & words().keys() <= {name} & KEPT_NAMES
