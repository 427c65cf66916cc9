# SPDX-License-Identifier: Apache-2.0
import random
import re
import string

import pytest
from tests._base.messages import pytorch, tensorrt, torch_tensorrt

from torchspan._base.templates import LENGTH_LIMIT, redactor, template, words


@pytest.mark.parametrize(("message", "kept"), [row[:2] for row in pytorch.MESSAGES])
def test_a_message_of_pytorch_stays_understandable(message, kept):
    pytest.importorskip("torch")  # names of operators are looked up in its registry
    assert template(message) == kept


@pytest.mark.parametrize(("message", "kept"), [row[:2] for row in torch_tensorrt.MESSAGES])
def test_a_message_of_torch_tensorrt_stays_understandable(message, kept):
    assert template(message) == kept


@pytest.mark.parametrize(("message", "kept"), [row[:2] for row in tensorrt.MESSAGES])
def test_a_message_of_tensorrt_stays_understandable(message, kept):
    assert template(message) == kept


def test_each_table_has_fifty_messages():
    assert min(len(each.MESSAGES) for each in (pytorch, torch_tensorrt, tensorrt)) >= 50


@pytest.mark.parametrize(
    "message", [kept for each in (pytorch, torch_tensorrt, tensorrt) for _, kept, _ in each.MESSAGES]
)
def test_the_template_of_a_template_is_itself(message):
    assert template(message) == message


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        ("", ""),
        (" \n\t ", ""),
        ("Can't load 'alice canary secret' here", "Can't load '?' here"),
        ("the value o'brien's is invalid", "the value ? is invalid"),
        ("nested \"it's\" done", 'nested "it\'s" done'),
        ("prompt == 'wanda krol'", "? == '?'"),
        ("min_block_size=17 was specified", "min_block_size=? was specified"),
        ("cannot open /srv/wanda krol/model.pt", "cannot open ?"),
        ("cannot open C:\\Users\\wanda\\model.pt", "cannot open ?:?"),
        ("wanda@example.com sk-live-4711 hunter2", "?"),
        ("https://wanda:hunter@example.com/model?token=krol", "https:?:?=?"),
        ("at least seven of twenty-nine", "at least ? of ?"),
        ("at 0x7f0011223344 of SECRET-4711", "at ? of ?"),
        ("[1, 2, 3] and [4, 5]", "[?] and [?]"),
        ("first line\nsecond line of the error", "first line"),
        ("\n\n  the first line that is not empty", "the first line that is not empty"),
        ("size\u00a0of\u2003tensor", "size of tensor"),
        ("Größe of the tensor \u202e\x1b[31m", "? of the tensor ?[?"),
        ("\ud800 tensor \0", "? tensor ?"),
    ],
)  # fmt: skip
def test_only_words_of_the_libraries_stay(message, kept):
    assert template(message) == kept


def test_a_long_message_is_cut_behind_a_word():
    kept = template("tensor " * 1000)
    assert kept == ("tensor " * 36) + "…"
    assert template(kept) == kept


@pytest.mark.parametrize(
    "text",
    [
        "a b " * 2_500_000,
        "'" * 10_000_000,
        " " * 10_000_000,
        "x" * 10_000_000,
        "(" * 10_000_000,
        "a.b:" * 2_500_000,
        "::" * 5_000_000,
        "?" * 10_000_000,
        "\n" * 10_000_000,
    ],
    ids=lambda text: repr(text[:4]),
)
def test_ten_million_characters_become_a_short_template(text):
    assert len(template(text)) <= LENGTH_LIMIT


def test_half_a_word_at_the_end_of_what_is_read_is_not_a_word():
    assert template("x1 " * 300 + "tensors") == "? tensors"
    assert template("x1 " * 340 + "tensors") == "?"


def survivors(kept):
    """Words of a template that are not in the vocabulary, separately or as a whole."""
    reported = (word.strip(".'*+-&^:…") for word in re.split(r"[\s()\[\]{}<>,;=\"|!?`]+", kept))
    parts = (part for word in reported if word and word not in words() for part in re.split(r"-|(?<!:):(?!:)", word))
    return [part for part in (each.strip(".'*+-&^:") for each in parts) if part and part not in words()]


@pytest.mark.parametrize("seed", range(50))
def test_of_random_text_nothing_outside_the_vocabulary_survives(seed):
    made = random.Random(seed)
    for _ in range(100):
        alphabet = made.choice([string.printable, string.ascii_letters + " .:'-", "aeos t.:'-/\"", None])
        letters = [made.choice(alphabet) if alphabet else chr(made.randrange(0x110000)) for _ in range(200)]
        kept = template("".join(letters))
        assert survivors(kept) == []
        assert len(kept) <= LENGTH_LIMIT
        assert template(kept) == kept


@pytest.mark.parametrize("seed", range(10))
def test_of_random_bytes_nothing_outside_the_vocabulary_survives(seed):
    made = random.Random(seed)
    for _ in range(100):
        text = made.randbytes(300).decode(made.choice(["latin-1", "utf-8"]), "surrogateescape")
        assert survivors(template(text)) == []


NAMES = "wanda krol alice bob jane doe smith jones garcia mueller nguyen schmidt amelia oliver acme contoso initech"


@pytest.mark.parametrize("around", ["{}", "'{}'", "({}: bad)", "[{}]", "{}'s", "x={}", "{}.weight", "/{}/model", "{}::forward", "-{}-", "{},"])  # fmt: skip
def test_a_name_does_not_survive_whatever_stands_around_it(around):
    for name in NAMES.split():
        for spelled in (name, name.title(), name.upper()):
            assert name not in template(f"the tensor {around.format(spelled)} is invalid").lower()


def test_with_capture_text_a_message_is_whole_up_to_the_bound():
    assert redactor(capture_text=True)("wanda krol\n" * 1000) == ("wanda krol\n" * 1000)[:2048]
    assert redactor(capture_text=False) is template
