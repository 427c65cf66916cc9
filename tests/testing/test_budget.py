# SPDX-License-Identifier: Apache-2.0
"""`torchspan_budget`: what a test compiles, in a file next to it."""

import json
import re
import warnings

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what the libraries warn of while they are imported is theirs
    import torch
    import torch_tensorrt

from privacy.sentences import SENTENCES
from support import models
from support.inner_pytest import run_in_this_process
from support.operator_tables import table
from support.recording import Recording
from torchspan import answers
from torchspan.testing._compile_budget import update
from torchspan.words import semconv as s

pytest_plugins = ["pytester"]

MODEL = """
import pytest
import torch
import torch_tensorrt


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3)

    def forward(self, x):
        return torch.special.i1e(torch.relu(self.conv(x))).sum()


def test_net(torchspan_budget):
    torch.manual_seed(0)
    with torch.no_grad():
        model, x = Net().eval().cuda(), torch.ones(1, 3, 8, 8, device="cuda")
        torch_tensorrt.compile(model, ir="dynamo", inputs=[x], min_block_size=1)
"""
FUNCTION = """
import pytest
import torch


def function(x):
    return x.sin()


def test_function(torchspan_budget):
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="eager")
    compiled(torch.ones(3))
"""


@pytest.fixture(scope="module", autouse=True)
def imported():
    """Everything that a compilation imports: pytester's sessions forget what they import, and torch cannot be imported twice."""
    torch.compile(torch.sin, backend="eager")(torch.ones(1))
    with torch.no_grad():
        model, x = models.seeded(models.Fallback).cuda(), models.image().cuda()
        torch_tensorrt.compile(model, ir="dynamo", inputs=[x], min_block_size=1)


@pytest.fixture
def run(pytester, request):
    """`run(text, *options)`: the lines that pytest prints of a file of tests, and how the tests ended."""
    filters = request.config.getini("filterwarnings")  # older libraries warn of themselves
    pytester.makeini("\n    ".join(["[pytest]\nfilterwarnings =", *filters]))

    def with_text(text, *options):
        pytester.path.joinpath("test_it.py").write_text(text, encoding="utf-8")
        result = run_in_this_process(pytester, *options)
        errors = [re.sub("^E {1,15}", "", line) for line in result.outlines if line.startswith("E ")]
        return result.parseoutcomes(), errors

    return with_text


@pytest.fixture
def budgets(pytester):
    """`budgets()`: what the file of budgets has; with a document, it is written first."""
    file = pytester.path / "test_it.budget.json"

    def document(new=None):
        if new is not None:
            file.write_text(json.dumps(new), encoding="utf-8")
        return json.loads(file.read_text(encoding="utf-8"))

    return document


def test_the_file_has_what_was_compiled_sorted_and_without_times_bytes_and_places(run, pytester):
    assert run(MODEL, "--torchspan-update")[0] == {"passed": 1}
    assert (
        pytester.path.joinpath("test_it.budget.json").read_text(encoding="utf-8")
        == """\
{
  "format": "torchspan.budget/1",
  "tests": {
    "test_net": {
      "compile Net [1, 3, 8, 8]": {
        "aten.special_i1e in PyTorch": "\N{MULTIPLICATION SIGN}1 no_converter",
        "engine of 1 op [1, 8, 6, 6]": "\N{MULTIPLICATION SIGN}1",
        "engine of 2 ops [1, 3, 8, 8]": "\N{MULTIPLICATION SIGN}1",
        "layers": "3",
        "operators in TensorRT": "3 of 4"
      }
    }
  }
}
"""
    )


def test_a_test_that_compiles_what_its_budget_says_passes(run):
    run(MODEL, "--torchspan-update")
    assert run(MODEL) == ({"passed": 1}, [])


def test_an_operator_that_falls_back_is_named_with_its_line_and_the_change(run):
    run(MODEL, "--torchspan-update")
    excluded = MODEL.replace("min_block_size=1", 'min_block_size=1, torch_executed_ops={"torch.ops.aten.relu.default"}')
    outcomes, errors = run(excluded)
    assert outcomes == {"failed": 1}
    assert errors == [
        "AssertionError: other than its budget in test_it.budget.json; if it is meant, run pytest --torchspan-update:",
        (
            "  compile Net [1, 3, 8, 8]: aten.relu in PyTorch: "
            "budget none → now \N{MULTIPLICATION SIGN}1 user_excluded (excluded by you at test_it.py:13)"
        ),
        "  compile Net [1, 3, 8, 8]: engine of 1 op [1, 3, 8, 8]: budget none → now \N{MULTIPLICATION SIGN}1 (conv)",
        "  compile Net [1, 3, 8, 8]: engine of 2 ops [1, 3, 8, 8]: budget \N{MULTIPLICATION SIGN}1 → now none",
        "  compile Net [1, 3, 8, 8]: layers: budget 3 → now 2",
        "  compile Net [1, 3, 8, 8]: operators in TensorRT: budget 3 of 4 → now 2 of 4",
    ]


def test_a_budget_holds_when_lines_are_added_above_the_function(run):
    run(FUNCTION, "--torchspan-update")
    assert run("\n\n" + FUNCTION)[0] == {"passed": 1}


def test_a_recompile_and_a_graph_break_are_named(run):
    run(FUNCTION, "--torchspan-update")
    more = (
        FUNCTION.replace("return x.sin()", "print()\n    return x.sin()")
        + "    compiled(torch.ones(3, dtype=torch.int))\n"
    )
    outcomes, errors = run(more)
    assert outcomes == {"failed": 1}
    assert errors == [
        "AssertionError: other than its budget in test_it.budget.json; if it is meant, run pytest --torchspan-update:",
        "  compile function: graph breaks of function, builtin: budget none → now \N{MULTIPLICATION SIGN}1 (test_it.py:7)",
        (
            "  compile function: recompiles of function: budget none → now \N{MULTIPLICATION SIGN}1 dtype "
            "(Recompiled in function from line 7: data type of x (Float, then Int))"
        ),
    ]


def test_a_test_without_a_budget_fails_and_says_how_to_write_one(run):
    outcomes, errors = run(FUNCTION)
    assert outcomes == {"failed": 1}
    assert errors == [
        "AssertionError: test_function has no budget in test_it.budget.json; run pytest --torchspan-update to write it"
    ]


def test_an_update_leaves_the_budgets_of_other_tests(run, budgets):
    run(FUNCTION, "--torchspan-update")
    budgets({"format": "torchspan.budget/1", "tests": {"test_other": {"compile f": {}}}})
    run(FUNCTION, "--torchspan-update")
    assert list(budgets()["tests"]) == ["test_function", "test_other"]


def test_a_test_that_fails_itself_keeps_its_own_error_and_writes_nothing(run, pytester):
    outcomes, errors = run(FUNCTION + "    assert 1 == 2\n", "--torchspan-update")
    assert (outcomes, errors) == ({"failed": 1}, ["assert 1 == 2"])
    assert not pytester.path.joinpath("test_it.budget.json").exists()


def test_a_test_that_compiles_nothing_has_no_budget(run):
    outcomes, errors = run("def test_it(torchspan_budget):\n    pass\n", "--torchspan-update")
    assert outcomes == {"failed": 1}
    assert errors == [
        "AssertionError: nothing was compiled in this test, so it has no budget; compile in the test itself"
    ]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": "torchspan.budget/9", "tests": {}}', '{"format": 1}', "\x00"]
)
def test_a_file_that_is_not_a_file_of_budgets_is_neither_read_nor_replaced(run, pytester, text):
    file = pytester.path / "test_it.budget.json"
    file.write_text(text, encoding="utf-8")
    for options in ((), ("--torchspan-update",)):
        outcomes, errors = run(FUNCTION, *options)
        assert outcomes == {"failed": 1}
        assert errors == [
            f"AssertionError: {file} is not a file of budgets, torchspan.budget/1; remove it, and run pytest --torchspan-update"
        ]
    assert file.read_text(encoding="utf-8") == text


def test_no_budget_has_a_sentence_of_the_program(run, pytester):
    """The sentences are the reasons of graph breaks, as the program gives them."""
    some = SENTENCES[::50]
    text = FUNCTION.replace(
        "def test_function",
        f"@pytest.mark.parametrize('sentence', {some!r}, ids=range({len(some)}))\ndef test_function",
    )
    text = text.replace("(torchspan_budget)", "(torchspan_budget, sentence)").replace(
        "return x.sin()", "torch._dynamo.graph_break(WORDS[0])\n    return x.sin()"
    )
    text = text.replace("    compiled(", "    WORDS[:] = [sentence]\n    compiled(").replace(
        "def function", "WORDS = []\n\n\ndef function"
    )
    assert run(text, "--torchspan-update")[0] == {"passed": len(some)}
    budget = pytester.path.joinpath("test_it.budget.json").read_text(encoding="utf-8")
    assert budget.count("graph breaks of function") == len(some)
    assert [sentence for sentence in some if sentence in budget] == []


def test_a_block_of_operators_is_in_no_budget(tmp_path):
    recording, file = Recording(tmp_path / "trace.jsonl"), tmp_path / "test_it.budget.json"
    recording.span("torchspan.operators", 0, 100, table(("aten.relu", 24, 12, 12, 1)))
    with pytest.raises(AssertionError, match="nothing was compiled in this test"):
        update(file, "test_it", answers.read(recording.path))
    recording.span("torch.compile_frame", 200, 300, {s.CODE_FUNCTION: "forward"})
    update(file, "test_it", answers.read(recording.path))
    assert json.loads(file.read_text(encoding="utf-8"))["tests"] == {"test_it": {"compile forward": {}}}
