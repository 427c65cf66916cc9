# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys

import pytest

from torchspan.words.redaction.operator_registry import is_operator

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(
    "name",
    [
        "aten::add",
        "aten::add.Tensor",
        "aten.add.Tensor",
        "aten.relu.default",
        "torch.ops.aten.add",
        "torch.ops.aten.add.Tensor",
        "torch.ops.higher_order.cond",
        "prim::data",
        "aten::special_i1e",
    ],
)
def test_an_operator_of_the_registry_is_one_however_it_is_spelled(name):
    assert is_operator(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "add",
        "aten::janedoe",
        "aten::add.janedoe",
        "aten.add.__class__",
        "aten::4711471147114711.SECRET",
        "torch.ops.sk4711.alice9000",
        "prims::alice9example",
        "torch.nn",
        "aten::add\0Tensor",
        "aten::\u00e9",
        "aten::" + "a" * 1_000_000,
        "aten::add::add",
        "higher_order.cond.wanda",
    ],
)
def test_what_only_looks_like_an_operator_is_none(name):
    assert not is_operator(name)


def test_an_operator_of_the_programs_is_one_once_it_is_registered():
    assert not is_operator("wanda_operators::krol")
    library = torch.library.Library("wanda_operators", "DEF")
    library.define("krol.first(Tensor x) -> Tensor")
    for name in ("wanda_operators::krol", "torch.ops.wanda_operators.krol", "wanda_operators.krol.first"):
        assert is_operator(name)
    assert not is_operator("wanda_operators.krol.second")


def test_without_pytorch_there_is_none_and_it_is_not_imported():
    code = "import sys; from torchspan.words.redaction.operator_registry import is_operator as f; print(f('aten::add'), 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"
