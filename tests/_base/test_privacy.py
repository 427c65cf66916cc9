# SPDX-License-Identifier: Apache-2.0
import pytest

from torchspan._base.privacy import redact, redact_log_line


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("", ""),
        (
            "Conversion of function torch._ops.aten.aten::special_i1e not currently supported!",
            "Conversion of function torch._ops.aten.aten::special_i1e not currently supported!",
        ),
        ("prompt == 'my secret prompt'", "prompt == ?"),
        ('"half open', "?"),
        ("ConstantVariable(str: 'user text tok-123')", "ConstantVariable(str: ?)"),
        ("mat1 and mat2 shapes cannot be multiplied (3x5 and 16x32)", "? and ? shapes cannot be multiplied (? and ?)"),
        ("at 0x7f0011223344 of SECRET-4711 in a name", "at ? of ? in a name"),
        ("first line\nsecond line with SECRET-4711", "first line"),
        ("b'bytes' and `code` and '''three'''", "? and ? and ?"),
        ("min_block_size=17 was specified", "min_block_size=? was specified"),
        ('nested "it\'s" done', "nested ? done"),
    ],
)
def test_values_become_question_marks_and_words_stay(message, told):
    assert redact(message) == told


def test_a_long_line_is_cut():
    assert redact("word " * 1000) == ("word " * 1000)[:255] + "…"


def test_a_message_that_is_one_huge_literal_takes_no_time():
    assert redact("'" + "a" * 1_000_000) == "?"
    assert redact("(" * 100_000) == "(" * 255 + "…"


# --- lines of TensorRT's log ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("", ""),
        (
            ("UNSUPPORTED_STATE: Skipping tactic 33 due to insufficient memory on requested size of 629145600 detected "
            "for tactic 0xa5a46bfbd719d757.\nTry decreasing the workspace size"),
            "? Skipping tactic ? due to insufficient memory on requested size of ? detected for tactic ?.",
        ),
        (
            ("[optimizer.cpp::computeCosts::2011] Error Code 10: Internal Error (Could not find any implementation for "
            "node {ForeignNode[transformer.wte.weight...MatMul_2899]}.)"),
            "? Error Code ?: Internal Error (Could not find any implementation for node ?",
        ),
        ("Requested amount of GPU memory (17 bytes) could not", "Requested amount of GPU memory (? bytes) could not"),
        ("IBuilder::buildSerializedNetwork: Error Code 1: Myelin", "IBuilder::buildSerializedNetwork: Error Code ?: Myelin"),
        ("layer [CONVOLUTION]-[aten_ops.convolution.default]-[/secret] is bad", "layer ? is bad"),
        ("In compileGraph at /_src/optimizer/codeGenerator.cpp:1962)", "In compileGraph at ?)"),
        ("Input secret has no shape", "Input ? has no shape"),
        ("Output type must be INT32 for shape outputs", "Output type must be ? for shape outputs"),
        ("Unused Input: secret", "Unused Input: ?"),
        ("value of 'secret text' and my_secret and a.secret", "value of ? and ? and ?"),
    ],
)  # fmt: skip
def test_of_a_line_of_tensorrts_log_its_words_stay(line, told):
    assert redact_log_line(line) == told


@pytest.mark.parametrize(
    "line",
    [
        "Could not find any implementation for node SECRET.",
        "Could not find any implementation for node SECRET + (Unnamed Layer* 14) [Shuffle] + PWN(SECRET).",
        "node {ForeignNode[a[b].SECRET...c]} SECRET]",
        "{ForeignNode[SECRET] cut before its end SECRET",
        "a name that begins elsewhere SECRET] and more",
        "[CONV]-[aten]-[/a]SECRET[b] done",
        "[conv.cpp: SECRET] at the place of a source",
        "GPU error during getBestTactic: SECRET",
        "SECRET-4711 and SECRET_weight and /SECRET/conv and SECRET.bias and SECRET+x",
        "first line\nSECRET in the second",
        "x" * 5000 + " SECRET",
    ],
)
def test_of_a_line_of_tensorrts_log_no_name_stays(line):
    assert "SECRET" not in redact_log_line(line)


@pytest.mark.parametrize("text", ["[" * 100_000, "a_" * 100_000, "node " * 50_000, "IA" * 50_000, "{" + "]" * 100_000])
def test_a_hostile_line_is_short_and_takes_no_time(text):
    assert len(redact_log_line(text)) <= 256
