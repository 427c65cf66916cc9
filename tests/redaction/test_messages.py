# SPDX-License-Identifier: Apache-2.0
import random
import re
import string
import sys
from types import ModuleType

import pytest
import torch
from tests.redaction.messages import pytorch, tensorrt

from torchspan.words.redaction import message_table, messages
from torchspan.words.redaction.message_table import FILES, HOLES, MessageTable, read, row_of

TABLES = (pytorch, tensorrt)


@pytest.mark.parametrize(("message", "kept"), [pair for table in TABLES for pair in table.MESSAGES])
def test_a_message_of_a_library_leaves_with_its_reason_and_without_the_values_of_the_program(message, kept):
    assert messages.of_text(message) == kept


@pytest.mark.parametrize("message", [kept for table in TABLES for _, kept in table.MESSAGES])
def test_what_leaves_of_a_message_leaves_unchanged_the_second_time(message):
    assert messages.of_text(message) == message


@pytest.mark.parametrize(
    "message", ["Dynamo does not know how to trace the function `{}`", "Avoid calling `{}` in your code."]
)
def test_what_an_object_of_the_program_calls_itself_does_not_leave(message):
    assert messages.of_text(message.format("wanda")) == message.format("?")


def test_the_table_has_at_least_320_rows():
    assert len(message_table.table().rows) >= 320


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        ("mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)", "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)"),
        ("mat1 and mat2 shapes cannot be multiplied (wanda and krol)", "mat1 and mat2 shapes cannot be multiplied (? and ?)"),
        ("mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5) wanda", "?"),
        ("Wanda: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)", "?"),
        ("index 4711 is out of bounds for dimension 0 with size 3", "index ? is out of bounds for dimension 0 with size 3"),
        ("the patient has pain in the left hand and asks for help with the current loss of function", "?"),
        ("", "?"),
        ("[defaultAllocator.cpp::allocate::31] wanda krol", "?"),
        ("[defaultAllocator.cpp::allocate::31] Error Code 1: wanda", "[defaultAllocator.cpp::allocate::31] Error Code 1: ?"),
        ("[wanda krol::allocate::31] Error Code 1: wanda", "?"),
        ("Error Code 4711: wanda", "?"),
        ("\ud800 tensor \0", "?"),
    ],
)  # fmt: skip
def test_a_text_leaves_only_as_a_whole_message_that_is_known(message, kept):
    assert messages.of_text(message) == kept


@pytest.mark.parametrize(
    "text", ["a b " * 20_000, "'" * 100_000, "x" * 10_000_000, "Error Code 1: " * 10_000, "?" * 65_000]
)
def test_a_long_text_that_is_not_known_is_one_mark(text):
    assert messages.of_text(text) in {"?", "Error Code 1: ?"}


@pytest.mark.parametrize("seed", range(20))
def test_random_text_does_not_leave(seed):
    source = random.Random(seed)
    for _ in range(100):
        alphabet = source.choice([string.printable, string.ascii_letters + " .:'-", None])
        letters = [source.choice(alphabet) if alphabet else chr(source.randrange(0x110000)) for _ in range(200)]
        assert messages.of_text("".join(letters)) == "?"


def raised(work):
    with pytest.raises(Exception) as caught:
        work()
    return caught.value


def test_a_constant_of_the_librarys_code_leaves_with_its_error():
    message = messages.of_error(raised(lambda: torch.nn.Linear(2, 2).register_parameter("", None)))
    assert messages.of_text('parameter name can\'t be empty string ""') == "?"
    assert (message, message.whole) == ('parameter name can\'t be empty string ""',) * 2


@pytest.mark.parametrize("library", ["torch_tensorrt", "tensorrt", "tensorrt_rtx"])
def test_a_constant_of_each_library_leaves(library, tmp_path, monkeypatch):
    module = ModuleType(library)
    module.__file__ = str(tmp_path / "__init__.py")
    monkeypatch.setitem(sys.modules, library, module)
    scope = {"__name__": f"{library}.wanda"}
    exec(compile("def work(): raise RuntimeError('wanda krol')", tmp_path / "wanda.py", "exec"), scope)
    assert messages.of_error(raised(scope["work"])) == "wanda krol"


def test_a_constant_of_the_programs_code_does_not_leave():
    def work():
        raise RuntimeError("the patient has pain in the left hand")

    message = messages.of_error(raised(work))
    assert (message, message.whole) == ("?", "the patient has pain in the left hand")


def test_code_that_claims_to_be_a_library_does_not_make_its_constants_leave():
    scope = {"__name__": "torch.wanda", "__file__": torch.__file__}
    exec("def work(): raise RuntimeError('wanda krol')", scope)
    assert messages.of_error(raised(scope["work"])) == "?"


def test_a_key_of_the_program_in_an_error_of_the_library_does_not_leave():
    key = "the patient has pain in the left hand and asks for help with the current loss of function"
    assert messages.of_error(raised(lambda: torch.nn.ModuleDict({})[key])) == "?"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("backend='inductor' raised:\nTypeError: wanda\n", "backend=? raised:\nTypeError: ?"),
        ("backend='inductor' raised:\nJSONDecodeError: wanda: krol", "backend=? raised:\nJSONDecodeError: ?"),
        ("Data-dependent branching\n  Explanation: wanda", "Data-dependent branching"),
        ("wanda\nkrol", "?"),
    ],
)
def test_a_reason_of_dynamo_leaves_by_its_row_or_its_type_and_its_whole_text_has_all_lines(text, kept):
    reason = messages.of_text(text)
    assert (str(reason), reason.whole) == (kept, text)


def test_no_code_of_an_exception_runs():
    class Hostile(RuntimeError):
        args = property(lambda _self: 1 / 0)

        def __str__(self):
            raise AssertionError("it ran")

    assert messages.of_error(raised(lambda: (_ for _ in ()).throw(Hostile("wanda")))) == "?"


def test_an_argument_that_is_not_exactly_a_text_is_not_a_message():
    class Text(str):  # noqa: SLOT000 - as a program writes it
        def __str__(self):
            raise AssertionError("it ran")

    assert messages.of_error(RuntimeError(Text("wanda"))) is None
    assert messages.of_error(RuntimeError(4711, "mat1 must be a matrix, got 3-D tensor")) is None
    assert messages.of_error(RuntimeError()) is None


def table_of(*texts):
    return MessageTable(map(row_of, texts))


@pytest.mark.parametrize(
    ("hole", "kept", "refused"),
    [
        ("type", ["float", "torch.float16", "c10::Half", "Tensor", "NoneType"], ["wanda", "Exception", "torch.wanda"]),
        (
            "shape",
            ["[2, 3]", "(2, 3)", "2x3", "torch.Size([2, 3])", "[]", "2, 3"],
            ["[wanda]", "[2, wanda]", "two by three"],
        ),
        ("operator", ["aten::add", "aten.add.Tensor", "add"], ["wanda", "aten::wanda"]),
        ("onnx_operator", ["Conv", "Resize"], ["Wanda", "conv"]),
        ("function", ["time.perf_counter", "Net.forward", "f.<locals>.g"], ["wanda said", "3.5", "a-b", "'wanda'"]),
        ("count", ["4711", "-1", "12."], ["4.7", "three", "0x12", " 12", "\N{ARABIC-INDIC DIGIT THREE}"]),
        ("any", [], ["4711", "wanda", "float"]),
        ("value", ["torch.float32", "int8", "c10::Half"], ["long", "half", "unknown", "4711", "torch.wanda"]),
    ],
)
def test_a_hole_keeps_what_is_of_its_type_and_nothing_else(hole, kept, refused):
    table = table_of(f"the value of the argument is {{{hole}}} here")
    for text in kept:
        assert table.kept(f"the value of the argument is {text} here") == f"the value of the argument is {text} here"
    for text in refused:
        assert table.kept(f"the value of the argument is {text} here") == "the value of the argument is ? here"
    assert table.kept("the value of the argument is  here") == "the value of the argument is  here"


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        ("Input 'x' dim 1 is static (size=8) in it, min=2", "Input '?' dim 1 is static (size=8) in it, min=2"),
        ("Input 'x' dim 17 is static (size=17) in it' dim 1 is static (size=8) in it, min=2", "Input '?' dim ? is static (size=?) in it, min=2"),
        ("Input 'x' dim 17' dim 1 is static (size=8) in it, min=2", "Input '?' dim ? is static (size=8) in it, min=2"),
    ],
)  # fmt: skip
def test_of_a_hole_nothing_is_kept_where_a_value_has_the_text_behind_it(message, kept):
    assert table_of("Input '{any}' dim {count} is static (size={count}) in it, min={count}").kept(message) == kept


def test_of_the_first_hole_nothing_is_kept_where_it_may_have_had_two_ends():
    assert table_of("of {count} in {any} all").kept("of 1 in 2 in 3 all") == "of ? in ? all"


def test_of_several_lines_the_first_alone_may_be_known():
    known = "mat1 must be a matrix, got 3-D tensor"
    assert messages.of_text(f"{known}\nwanda\nwanda") == known


def test_the_text_behind_a_hole_may_be_in_the_end_of_the_message_too():
    table = table_of("the sizes are {count} in {count} in all")
    assert table.kept("the sizes are 1 in 2 in all") == "the sizes are 1 in 2 in all"


@pytest.mark.parametrize(
    ("capture_text", "kept"), [(False, "?"), (True, "the model of wanda " * 107 + "the model of wa")]
)
def test_a_line_of_a_log_leaves_as_a_known_message_or_captured_with_2048_characters(capture_text, kept):
    read = messages.line_reader(capture_text=capture_text)
    assert read("the model of wanda " * 200) == kept


def test_of_two_rows_that_match_the_one_with_more_text_decides():
    table = table_of("the argument {any}", "the argument {count} is too large")
    assert table.kept("the argument 12 is too large") == "the argument 12 is too large"


ROWS = [(name, row) for name in FILES for row in read(name)["rows"]]


def test_each_row_of_the_table_has_a_source_and_no_other_row_has_its_message():
    assert [row for _, row in ROWS if not row["source"] or set(row) - {"message", "source", "versions"}] == []
    texts = [row["message"] for _, row in ROWS]
    assert sorted({text for text in texts if texts.count(text) > 1}) == []


@pytest.mark.parametrize("name", FILES)
def test_each_row_of_the_table_can_match_a_message_of_its_library_and_no_other_text(name):
    for text in (row["message"] for file, row in ROWS if file == name):
        literals = row_of(text).literals
        assert text == text.rstrip(), "messages are compared without whitespace at their end"
        assert "" not in literals[1:-1], f"two holes touch: {text}"
        assert sum(map(str.isalpha, "".join(literals))) >= 10, f"it matches other texts, too: {text}"
        assert re.findall(r"\{[a-z_]+\}", "".join(literals)) == [], f"not a hole; there are {list(HOLES)}"
