# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF001
# The multiplication sign is part of the expected output.
"""What runs in PyTorch instead of TensorRT, from which lines of the model, why, and what would change it."""

import pytest

from torchspan.words import semconv as s
from torchspan.words.semconv import FallbackReason


@pytest.fixture
def lines(recording, findings):
    """The lines about operators that fell back: `lines(reason, {operator: count}, …)`."""

    def lines(reason, operators, more=None):
        attributes = {
            s.FALLBACK_REASON_CLASSES: [reason],
            s.FALLBACK_OPERATOR_NAMES: [f"torch.ops.aten.{name}" for name in operators],
            s.FALLBACK_OPERATOR_COUNTS: list(operators.values()),
            s.FALLBACK_OPERATOR_REASONS: [reason] * len(operators),
        }
        recording.span("torch_tensorrt.compile", 0, 100, {**attributes, **(more or {})})
        return findings()

    return lines


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("no_converter", "no converter"),
        ("validator_refused", "refused by its converter"),
        ("user_excluded", "excluded by you"),
        ("complex_dtype", "complex numbers"),
        ("data_dependent", "data-dependent shape"),
        ("min_block_size", "group smaller than min_block_size"),
        ("no_supported_operators", "nothing in the graph has a converter"),
        ("compile_failed", "conversion or build failed"),
        ("a_reason_of_a_later_version", "a_reason_of_a_later_version"),
    ],
)
def test_each_reason_is_said_with_what_would_change_it(lines, reason, expected):
    assert lines(reason, {"sort.default": 2}) == [f"in PyTorch: aten.sort ×2: {expected}"]


def test_every_reason_has_its_line_those_of_most_operators_first(recording, findings):
    reasons = [value for name, value in vars(FallbackReason).items() if name.isupper()]
    reasons.remove(FallbackReason.CACHE_ENTRY_REJECTED)  # on lookups alone
    attributes = {
        s.FALLBACK_REASON_CLASSES: reasons,
        s.FALLBACK_OPERATOR_NAMES: [f"torch.ops.aten.op{number}.default" for number in range(len(reasons))],
        s.FALLBACK_OPERATOR_COUNTS: list(range(1, len(reasons) + 1)),
        s.FALLBACK_OPERATOR_REASONS: reasons,
    }
    root = recording.span("torch_tensorrt.compile", 0, 100, attributes)
    recording.span("torch_tensorrt.partition", 0, 50, attributes, parent=root)
    assert [line.split()[2:4] for line in findings()] == [
        [f"aten.op{number}", f"×{number + 1}:"] for number in reversed(range(len(reasons)))
    ]


def test_operators_of_one_reason_share_a_line_and_more_kinds_than_five_are_counted(lines):
    operators = {f"op{number}.default": 9 - number for number in range(7)}
    assert lines(FallbackReason.COMPLEX_DTYPE, operators) == [
        "in PyTorch: aten.op0 ×9, aten.op1 ×8, aten.op2 ×7, aten.op3 ×6, aten.op4 ×5, 2 more kinds: complex numbers"
    ]


def test_the_lines_of_the_model_are_named_the_first_and_how_many_more(lines):
    operators = {"sort.default": 3, "topk.default": 1, "cumsum.default": 1}
    places = {
        s.FALLBACK_OPERATOR_PLACES: ["model.py:20", "model.py:31", "?"],
        s.FALLBACK_OPERATOR_PLACE_COUNTS: [2, 1, 0],
    }
    assert lines(FallbackReason.NO_CONVERTER, operators, places) == [
        "in PyTorch: aten.sort ×3 at model.py:20 and 1 more line, aten.topk ×1 at model.py:31, aten.cumsum ×1: no converter"
    ]


def test_places_of_another_number_than_the_names_are_left_out(lines):
    assert lines(
        FallbackReason.COMPLEX_DTYPE, {"sort.default": 3}, {s.FALLBACK_OPERATOR_PLACES: ["a.py:1", "b.py:2"]}
    ) == ["in PyTorch: aten.sort ×3: complex numbers"]


def test_a_size_of_block_is_said_where_the_settings_have_it(lines):
    setting = {s.SETTINGS["min_block_size"]: 7}
    assert lines(FallbackReason.MIN_BLOCK_SIZE, {"mul.Tensor": 2}, setting) == [
        "in PyTorch: aten.mul.Tensor ×2: group smaller than min_block_size=7; min_block_size=1 takes it into TensorRT"
    ]


def test_what_validators_refused_is_named_with_its_arguments(lines):
    library = "torch_tensorrt.dynamo.conversion.aten_ops_converters."
    refused = {
        s.REFUSED_OPERATORS: ["torch.ops.aten.bitwise_and.Tensor", "torch.ops.aten.sort.default"],
        s.REFUSED_VALIDATORS: [library + "bitwise_type_validator", f"{library}sort_validator, app.ops.small_enough"],
        s.REFUSED_ARGUMENTS: ["self: int32, other: int32", "self: float32 dynamic, dim"],
    }
    assert lines(FallbackReason.VALIDATOR_REFUSED, {"bitwise_and.Tensor": 2, "sort.default": 1}, refused) == [
        "in PyTorch: aten.bitwise_and.Tensor ×2, aten.sort ×1: refused by its converter",
        "aten.bitwise_and.Tensor: bitwise_type_validator for self: int32, other: int32",
        "aten.sort: sort_validator, app.ops.small_enough for self: float32 dynamic, dim",
    ]


def test_a_fallback_that_the_stand_in_for_a_gpu_causes_is_marked(lines):
    stand_in = {s.FALLBACK_OPERATORS_STAND_IN: ["torch.ops.aten.mkldnn_rnn_layer.default"]}
    assert lines(FallbackReason.NO_CONVERTER, {"mkldnn_rnn_layer.default": 2, "special_i1e.default": 1}, stand_in) == [
        "in PyTorch: aten.mkldnn_rnn_layer (of the CPU, by the stand-in) ×2, aten.special_i1e ×1: no converter"
    ]


def test_a_failed_build_that_was_swallowed_says_what_to_do(lines):
    assert lines(FallbackReason.COMPILE_FAILED, {}) == ["in PyTorch: conversion or build failed"]
