# SPDX-License-Identifier: Apache-2.0
"""Names of layers: what TensorRT and Torch-TensorRT say leaves the process, and what the program has named does not."""

import pytest

from torchspan.words.redaction.kinds_of_text import LayerName

REDUCED = {
    "[CONVOLUTION]-[aten_ops.convolution.default]-[layer1/0/conv1]": "[CONVOLUTION]-[aten_ops.convolution.default]-[?]",
    "[SHUFFLE]-[aten_ops.view.default]-[a] + [SHUFFLE]-[x.y]-[b]": "[SHUFFLE]-[aten_ops.view.default]-[?] + [SHUFFLE]-[x.y]-[?]",
    "__myl_ConvAct_myl0_1": "__myl_ConvAct_myl0_1",
    "(Unnamed Layer* 3) [Convolution]": "(Unnamed Layer* 3) [Convolution]",
    "(Unnamed Layer* 3) [Convolution] + relu": "(Unnamed Layer* 3) [Convolution] + ?",
    "conv1": "?",
    "jane doe + alice@example.com": "? + ?",
    "PWN(sigmoid_1, mul_1)": "?",
    "": "?",
    "naïve": "?",
    "__myl_ConvAct\nsecret": "?",
    " + ".join(["a"] * 1_000): " + ".join(["?"] * 8),
}


@pytest.mark.parametrize("name", REDUCED, ids=lambda name: name[:40] or "empty")
def test_what_leaves_of_a_name_are_the_type_and_the_operator(name):
    assert LayerName().reduced(name) == REDUCED[name]


@pytest.mark.parametrize("name", REDUCED, ids=lambda name: name[:40] or "empty")
def test_the_users_own_file_has_the_whole_name(name):
    assert LayerName.is_local
    assert LayerName().whole(name)[:2_000] == name[:2_000]


def test_a_name_of_a_megabyte_is_cut():
    assert LayerName().reduced("x" * 1_000_000) == "?"
    assert len(LayerName().whole("x" * 1_000_000)) <= 2048
