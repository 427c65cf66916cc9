# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF001
# The multiplication sign is part of the expected output.
"""The document says what the screen says: findings belong to what was compiled, each with the settings of its own compilation."""

import pytest

from torchspan.words import semconv as s


def fallen(recording, model, block, places, start=0, parent=None):
    """A model of which one operator for each place fell back, because its group was smaller than `block`."""
    reasons = ["min_block_size"] * len(places)
    attributes = {
        s.MODEL_CLASS: model,
        s.SETTINGS["min_block_size"]: block,
        s.FALLBACK_REASON_CLASSES: ["min_block_size"],
        s.FALLBACK_OPERATOR_NAMES: ["torch.ops.aten.mul.Tensor"] * len(places),
        s.FALLBACK_OPERATOR_COUNTS: [1] * len(places),
        s.FALLBACK_OPERATOR_REASONS: reasons,
        s.FALLBACK_OPERATOR_PLACES: [place for place, _ in places],
        s.FALLBACK_OPERATOR_PLACE_COUNTS: [lines for _, lines in places],
    }
    return recording.span("torch_tensorrt.compile", start, start + 100, attributes, parent=parent)


def test_two_models_with_different_settings_keep_their_own_reasons_in_the_document(recording, said):
    fallen(recording, "A", 5, [("two.py:3", 1)])
    fallen(recording, "B", 3, [("two.py:5", 1)], start=200)
    assert [finding.sentence for finding in said().fallbacks] == [
        "aten.mul.Tensor ×1 at two.py:3: group smaller than min_block_size=5",
        "aten.mul.Tensor ×1 at two.py:5: group smaller than min_block_size=3",
    ]


def test_one_model_compiled_with_two_settings_has_a_reason_for_each(recording, said, findings):
    fallen(recording, "A", 5, [("two.py:3", 1)])
    fallen(recording, "A", 3, [("two.py:3", 1)], start=200)
    expected = [
        "aten.mul.Tensor ×1 at two.py:3: group smaller than min_block_size=5",
        "aten.mul.Tensor ×1 at two.py:3: group smaller than min_block_size=3",
    ]
    assert [finding.sentence for finding in said().fallbacks] == expected
    assert [line.partition("; ")[0] for line in findings()] == [f"in PyTorch: {sentence}" for sentence in expected]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([("two.py:3", 1)], [("two.py:5", 1)], "at two.py:3 and 1 more line"),
        ([("two.py:3", 1)], [("two.py:3", 1)], "at two.py:3"),
        ([("two.py:3", 2)], [("two.py:3", 2)], "at two.py:3 and 1 more line"),
    ],
)
def test_different_lines_of_two_compilations_are_counted(recording, said, first, second, expected):
    fallen(recording, "A", 5, first)
    fallen(recording, "A", 5, second, start=200)
    assert [finding.sentence for finding in said().fallbacks] == [
        f"aten.mul.Tensor ×2 {expected}: group smaller than min_block_size=5"
    ]


def test_a_request_that_failed_later_does_not_repeat_what_its_compilation_found(recording, said):
    request = recording.span("request", 0, 300)
    fallen(recording, "A", 5, [("two.py:3", 1)], start=10, parent=request)
    recording.span("answer", 200, 210, parent=request, error=("ValueError", "no answer"))
    answers = said()
    assert [failure.sentence for failure in answers.errors] == ["ValueError in answer: no answer"]
    assert [finding.count for finding in answers.fallbacks] == [1]
