# SPDX-License-Identifier: Apache-2.0
"""What is reduced stays reduced, whatever a program writes: Hypothesis writes it."""

import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from privacy import words
from torchspan.words import semconv
from torchspan.words.redaction.message_table import HOLES, table
from torchspan.words.redaction.messages import of_text

settings.register_profile("torchspan", deadline=None, database=None, derandomize=True, max_examples=200)
settings.load_profile("torchspan")

NAMES = (*words.FIRST_NAMES, *words.SURNAMES, *words.COMPANIES)
KINDS = list({row.kind.title: row for row in semconv.ATTRIBUTES if row.kind is not None}.values())
"""A row of each kind."""
(KIND_OF_GUARDS,) = (row.kind for row in KINDS if row.kind.title == "guard")

names = st.builds(
    lambda number, spell: spell(NAMES[number]),
    st.integers(0, len(NAMES) - 1),
    st.sampled_from([str, str.lower, str.upper]),
)
values = st.one_of(
    names,
    st.builds("{} {}".format, names, names),
    st.builds("{}.{}@{}.example".format, names, names, names),
    st.builds("sk-live-{}".format, names),
    st.builds("/srv/{}/{}.pt".format, names, names),
    st.builds(r"C:\Users\{}\{}.onnx".format, names, names),
    st.builds("{}={}".format, names, names),
    st.lists(st.sampled_from(words.DIGITS), min_size=2, max_size=6).map(" ".join),
)
glue = st.text(st.sampled_from(" '\"`()[]{}<>.,:;=/\\|-_~@#%$&*+!?…\t\u2019\u201c\u00ab"), max_size=6)
ROWS = table().rows
rows = st.integers(0, len(ROWS) - 1).map(ROWS.__getitem__)
beginnings = rows.map(lambda row: row.literals[0])
library = st.one_of(
    beginnings, st.sampled_from(["Can't load the model: it doesn't have", "torch.ops.aten.add.Tensor: ", ""])
)
messages = st.lists(st.one_of(library, values, glue, st.text(max_size=20)), max_size=8).map("".join)


# --- messages --------------------------------------------------------------------------------------------------
@given(rows, glue, values, glue)
def test_of_a_value_in_a_message_no_word_is_left_whatever_stands_around_it(row, left, value, right):
    in_hole = f"{left}{value}{right}"
    assume(
        HOLES["function"] not in row.holes or HOLES["function"](in_hole) != in_hole
    )  # a name of code, where the library writes one
    reported = str(of_text(in_hole.join(row.literals))).lower()
    assert [name for name in map(str.lower, NAMES) if name in value.lower() and name in reported] == []
    assert value.lower() not in reported


@given(messages)
def test_a_message_leaves_as_a_known_one_or_as_a_question_mark(message):
    reported = of_text(message)
    assert (reported.whole, of_text(reported)) == (message, reported)
    code = r"(?:\[[A-Za-z]{1,64}\.(?:cpp|h|cu)::[A-Za-z_:~<>]{1,128}::[0-9]{1,5}\] )?(?:Error Code [0-9]{1,3}: )?"
    assert (
        re.fullmatch(rf"{code}\?", reported)
        or table().kept(re.sub(rf"^{code}", "", reported))
        or table().kept(reported)
    )


# --- kinds and the gate ----------------------------------------------------------------------------------------
kinds = pytest.mark.parametrize("row", KINDS, ids=lambda row: row.kind.title)


@kinds
@settings(max_examples=60)
@given(text=st.one_of(messages, st.text(), names))
def test_a_kind_accepts_what_it_reduces_a_text_to_and_leaves_it_as_it_is(row, text):
    reported = row.kind.reduced(text)
    assert row.kind.accepts(reported)
    assert row.kind.reduced(reported) == reported
    assert len(row.kind.whole(text).encode()) <= 2048


@kinds
@settings(max_examples=60)
@given(value=values)
def test_a_kind_lets_no_value_through_that_is_not_a_name(row, value):
    reported = row.kind.reduced(value)
    if row.kind.title == "name of the program's span":  # in the file alone, which has the program's spans as well
        return
    allowed = {
        # Of a machine and of a job a name may have hyphens: who runs the program chose it, not the program.
        "name of a host": r"[\w.-]+",
        "id of a run": r"[\w.-]+",
        # Dynamo quotes each text in a guard: what is not quoted is a name or an operator.
        "guard": r"[A-Za-z_.]\w*(?:[-+*/%()\[\],.:=!<>&|~ ]+[A-Za-z_]\w*)*",
    }.get(row.kind.title, r"[\w.<>]+")
    assert reported != value or re.fullmatch(allowed, value)


pieces = st.one_of(
    names,
    st.sampled_from(
        [" and ", " or ", "'", '"', "\\", "(", ")", "[", "]", "{", "}", ".", ", ", " ", "\n", " == ", "#", "f'", "b"]
    ),
    st.sampled_from(["please", "delete", "the", "account", "of", "user", "is", "not", "in", "size"]),
)
texts = st.lists(pieces, min_size=1, max_size=12).map("".join)
literals = st.one_of(texts.map(repr), texts.map(str.encode).map(repr))
guards = st.one_of(
    st.builds("L['t'] == {}".format, literals),
    st.builds("len(L['t']) == 3 and L['t'] == {} or not L['n']".format, literals),
    st.builds("list(dict.keys(L['d']))[0] == {}".format, literals),
    st.builds("tensor 'L['d'][{}]' size mismatch at index 0. expected 3, actual 4".format, literals),
    st.builds("___check_type_id(L['d'][{}], 94), type=<class 'dict'>".format, literals),
    st.builds("L['d'][{}] == {}".format, literals, literals),
)
OF_GUARDS = (
    "L t d n len and or not list dict keys tensor size mismatch at index expected actual type class ___check_type_id"
)


@settings(max_examples=1_000)
@given(guards)
def test_of_the_texts_and_keys_in_a_guard_no_word_is_left(guard):
    reported = KIND_OF_GUARDS.reduced(guard)
    assert sorted(set(re.findall(r"\w*[^\W\d]\w*", reported)) - set(OF_GUARDS.split())) == []


anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.binary(max_size=8), messages),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.tuples(inner), st.dictionaries(st.text(max_size=4), inner)),
    max_leaves=6,
)
keys = st.one_of(st.sampled_from([str(row) for row in semconv.ATTRIBUTES]), st.text(max_size=8))


@settings(max_examples=300)
@given(st.dictionaries(keys, anything, max_size=6))
def test_the_gate_lets_only_rows_through_and_what_passed_it_passes_it_unchanged(attributes):
    rows = {str(row) for row in semconv.ATTRIBUTES}
    gate = semconv.Gate(semconv.ATTRIBUTES)  # one of its own: the contract check reads what the common one has left out
    reported = gate.emitted(attributes)
    assert set(reported) <= set(attributes) & rows
    assert repr(gate.emitted(reported)) == repr(reported)  # a number that is none is not equal to itself


@given(st.one_of(messages, st.builds("torch_tensorrt.pass {}".format, values)))
def test_the_name_of_a_span_is_reduced_once(name):
    reported = semconv.span_name(name)
    assert semconv.span_name(reported) == reported
    assert len(reported) <= 256
