# SPDX-License-Identifier: Apache-2.0
"""The gate: what of a mapping of attributes leaves the process."""

import pytest

from torchspan.words import semconv
from torchspan.words.redaction.kinds_of_text import Identifier, ProgramsSpanName, Text
from torchspan.words.semconv import _table
from torchspan.words.semconv._emitted import EmissionGate

ROWS = (
    _table.Attribute("a.text", Text(), "A text.", event="a.event"),
    _table.Attribute("a.name", Identifier(), "A name."),
    _table.Attribute("a.names", [Identifier()], "Names."),
    _table.Attribute("a.spans", [ProgramsSpanName()], "Names of spans."),
    _table.Attribute("a.number", "int", "A number."),
    _table.Attribute("a.numbers", "int[]", "Numbers."),
    _table.Attribute("a.duration", "double", "Seconds."),
    _table.Attribute("a.durations", "double[]", "Seconds."),
    _table.Attribute("a.flag", "boolean", "Yes or no."),
)


@pytest.fixture
def gate():
    return EmissionGate(ROWS)


def test_each_value_is_reduced_by_the_kind_of_its_row(gate):
    assert gate.emitted({"a.name": "alice@example.com", "a.names": ["f", "jane doe"]}) == {
        "a.name": "?",
        "a.names": ("f", "?"),
    }


def test_what_has_passed_the_gate_passes_it_again_unchanged():
    value = [None, "alice@example.com", "hit", 7]
    rows = [row for row in semconv.ATTRIBUTES if row.type == "string[]"]
    once = semconv.emitted(dict.fromkeys(rows, value))
    assert once.keys() == {str(row) for row in rows}
    assert semconv.emitted(once) == once


def test_a_key_without_a_row_is_left_out_and_noted(gate):
    assert gate.emitted({"b.unknown": 1, "a.number": 2}) == {"a.number": 2}
    assert gate.left_out == {"b.unknown"}


def test_at_most_a_hundred_keys_are_noted(gate):
    gate.emitted({f"b.{number}": 1 for number in range(100_000)})
    assert len(gate.left_out) == 100


def test_keys_are_plain_text(gate):
    (key,) = gate.emitted({ROWS[1]: "name"})
    assert type(key) is str


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("a.name", 7),
        ("a.name", ["name"]),
        ("a.name", object()),
        ("a.name", None),
        ("a.names", "name"),
        ("a.names", {"name": 1}),
        ("a.number", "4711"),
        ("a.number", 1.5),
        ("a.number", True),
        ("a.numbers", [1, "alice"]),
        ("a.numbers", [1, None]),
        ("a.duration", "alice"),
        ("a.flag", 1),
        ("a.flag", "alice"),
    ],
)
def test_a_value_of_another_type_than_its_rows_is_left_out(gate, key, value):
    assert gate.emitted({key: value}) == {}


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63), 0])
def test_an_integer_of_64_bits_stays(gate, number):
    assert gate.emitted({"a.number": number, "a.numbers": [number]}) == {"a.number": number, "a.numbers": (number,)}


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**4000])
def test_an_integer_that_otlp_cannot_hold_is_left_out(gate, number):
    assert gate.emitted({"a.number": number, "a.numbers": [1, number], "a.duration": number}) == {}


def test_a_whole_number_of_seconds_is_a_double(gate):
    (reported,) = gate.emitted({"a.duration": 3}).values()
    assert type(reported) is float


def test_no_method_of_the_programs_own_classes_is_called(gate):
    def refuse(*_args, **_kwargs):
        raise SystemExit

    methods = dict.fromkeys(
        [
            "__str__",
            "__repr__",
            "__len__",
            "__iter__",
            "__eq__",
            "__int__",
            "__float__",
            "__index__",
            "__getitem__",
            "encode",
        ],
        refuse,
    )
    methods["__hash__"] = None
    of = {kind: type("Hostile", (kind,), methods) for kind in (str, int, float, list, tuple)}
    reported = gate.emitted(
        {
            "a.name": of[str]("name"),
            "a.number": of[int](7),
            "a.duration": of[float](0.5),
            "a.names": of[list](["f"]),
            "a.numbers": of[tuple]([1]),
        }
    )
    assert reported == {"a.name": "name", "a.number": 7, "a.duration": 0.5, "a.names": ("f",), "a.numbers": (1,)}
    assert {type(each) for each in reported.values()} == {str, int, float, tuple}


def test_an_object_that_claims_to_be_a_string_is_left_out(gate):
    class Pretends:
        @property
        def __class__(self):
            raise SystemExit

    assert (
        gate.emitted({"a.name": Pretends(), "a.number": Pretends(), "a.names": Pretends(), "a.flag": Pretends()}) == {}
    )


# --- sizes ---------------------------------------------------------------------------------------------------------
def size(value):
    """Bytes: text as UTF-8, numbers eight each."""
    if isinstance(value, str):
        return len(value.encode())
    return sum(map(size, value)) if isinstance(value, (list, tuple)) else 8


@pytest.mark.parametrize(
    ("value", "reported"),
    [
        ("x" * 2048, "x" * 2048),
        ("𝄞" * 512, "𝄞" * 512),
        ("x" * 2049, "x" * 2045 + "…"),
        ("é" * 1025, "é" * 1022 + "…"),
        ("𝄞" * 513, "𝄞" * 511 + "…"),
        ("x" + "𝄞" * 512, "x" + "𝄞" * 511 + "…"),
        ("x" * 2044 + "𝄞𝄞", "x" * 2044 + "…"),
        ("x" * 10_000_000, "x" * 2045 + "…"),
        ("a\ud800b", "a?b"),
    ],
    ids=[
        "fits",
        "fits, four bytes each",
        "one byte each",
        "two bytes each",
        "four bytes each",
        "uneven",
        "across",
        "10 MB",
        "surrogate",
    ],
)
def test_a_text_that_is_captured_is_cut_at_2048_bytes_between_characters(gate, value, reported):
    assert gate.emitted({"a.text": value}, capture_text=True) == {"a.text": reported}
    assert size(reported) <= 2048


def test_a_list_of_names_that_fits_as_a_whole_keeps_its_long_entries(gate):
    names = ["n" * 128, *["m" * 20] * 19]
    assert gate.emitted({"a.names": names}) == {"a.names": tuple(names)}


def test_of_a_list_of_names_that_is_too_long_the_long_ones_are_question_marks(gate):
    names = ["n" * 128] * 15 + ["m" * 100] * 5
    assert gate.emitted({"a.names": names}) == {"a.names": ("?",) * 15 + ("m" * 100,) * 5}


@pytest.mark.parametrize("length", [9, 20, 256, 5000])
@pytest.mark.parametrize("entry", ["x" * 500, "é" * 250, "𝄞" * 125], ids=["ascii", "two bytes", "four bytes"])
def test_a_list_of_texts_that_is_too_long_is_cut_as_a_whole(gate, entry, length):
    (reported,) = gate.emitted({"a.spans": [entry] * length}).values()
    assert size(reported) <= 2048
    assert len(reported) == min(length, 256)
    assert all(each.endswith("…") for each in reported)


@pytest.mark.parametrize(("key", "number"), [("a.numbers", 1), ("a.durations", 0.5)])
def test_a_list_of_numbers_is_cut(gate, key, number):
    assert gate.emitted({key: [number] * 257}) == {key: (number,) * 256}
    assert gate.emitted({key: (number,) * 257}) == {key: (number,) * 256}


def test_parallel_lists_stay_parallel(gate):
    reported = gate.emitted({"a.names": ["n" * 100] * 300, "a.numbers": [1] * 300, "a.durations": [0.5] * 300})
    assert {key: len(value) for key, value in reported.items()} == {
        "a.names": 256,
        "a.numbers": 256,
        "a.durations": 256,
    }


# --- names of events, and the table --------------------------------------------------------------------------------
def test_an_event_that_no_row_names_is_a_question_mark(gate):
    assert (gate.event_name("a.event"), gate.event_name("alice")) == ("a.event", "?")


def test_every_row_of_strings_has_a_kind_and_no_other_row_has():
    assert [row for row in semconv.ATTRIBUTES if (row.kind is not None) != row.type.startswith("string")] == []


def test_every_value_that_a_table_of_values_names_passes_the_gate():
    def constants(holder):
        return [value for name, value in vars(holder).items() if name.isupper()]

    for row, values in (
        (semconv.FALLBACK_REASON_CLASS, constants(semconv.FallbackReason)),
        (semconv.CACHE_REASON, constants(semconv.CacheReason)),
        (semconv.DROPPED_REASON, constants(semconv.DroppedReason)),
        (semconv.ERROR_TYPE, [semconv.OTHER]),
    ):
        assert values
        assert [value for value in values if semconv.emitted({row: value}) != {row: value}] == []


def test_the_class_of_an_exception_is_read_without_code_of_its_metaclass():
    class Meta(type):
        def __getattribute__(cls, name):
            raise SystemExit

    class Hostile(Exception, metaclass=Meta):
        pass

    reported = semconv.class_name(Hostile)
    assert reported.endswith("<locals>.Hostile")


def test_a_class_whose_module_is_not_text_has_a_question_mark_for_it():
    assert semconv.class_name(type("Odd", (Exception,), {"__module__": 7})) == "?.Odd"
