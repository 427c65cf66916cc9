# SPDX-License-Identifier: Apache-2.0
"""Assertions about what was compiled, each with a message that is the answer; and the section in the report of pytest."""

import re

import pytest
import torch
import torch_tensorrt
from torch import nn

from support import compiled
from support.dynamo import clean_dynamo
from support.inner_pytest import run_in_this_process
from torchspan.testing import assert_all_in_tensorrt, assert_no_graph_breaks, assert_no_recompiles, capture

pytest_plugins = ["pytester"]


class Net(nn.Module):
    def __init__(self, bessel=torch.relu):
        super().__init__()
        self.first, self.second, self.bessel = nn.Linear(16, 16), nn.Linear(16, 4), bessel

    def forward(self, x):
        return self.second(self.bessel(self.first(x)) + 1)


def compile_with_tensorrt(model):
    inputs = [torch.randn(2, 16, device="cuda")]
    with capture() as trace, torch.no_grad():
        torch_tensorrt.compile(model.eval().cuda(), ir="dynamo", arg_inputs=inputs, min_block_size=1)
    return trace


def compile_with_dynamo(function, *calls):
    with clean_dynamo(), capture() as trace:
        for call in calls:
            torch.compile(function, backend="eager")(*call)
    return trace


@pytest.fixture(scope="module")
def with_fallback():
    return compile_with_tensorrt(Net(torch.special.i1e))


@pytest.fixture(scope="module")
def again():
    return compile_with_dynamo(compiled.adds, (torch.ones(3), 1), (torch.ones(4), 1))


@pytest.fixture(scope="module")
def broken():
    return compile_with_dynamo(compiled.breaks_twice, (torch.ones(3),))


# --- TensorRT ---------------------------------------------------------------------------------------------------------
def test_a_model_that_runs_in_tensorrt_passes():
    assert_all_in_tensorrt(compile_with_tensorrt(Net()))


def test_an_operator_that_runs_in_pytorch_is_named_with_its_line_and_reason(with_fallback):
    with pytest.raises(AssertionError) as raised:
        assert_all_in_tensorrt(with_fallback)
    assert str(raised.value) == (
        "operators run in PyTorch instead of TensorRT:\n"
        "  aten.special_i1e \N{MULTIPLICATION SIGN}1 at testing/test_assertions.py:25: no converter"
    )


def test_without_a_compilation_by_torch_tensorrt_nothing_passes_for_being_in_tensorrt(again):
    with pytest.raises(
        AssertionError, match=r"Torch-TensorRT compiled nothing in this trace\. Spans from before the block"
    ):
        assert_all_in_tensorrt(again)


# --- torch.compile ----------------------------------------------------------------------------------------------------
def test_a_recompilation_is_named_with_its_guard_and_what_avoids_it(again):
    with pytest.raises(AssertionError) as raised:
        assert_no_recompiles(again)
    assert str(raised.value) == (
        "torch.compile compiled functions again:\n  Recompiled in adds: size of argument x, axis 0 (3, then 4)"
    )


def test_a_first_compilation_passes_and_so_does_a_trace_without_one(broken):
    assert_no_recompiles(broken)
    with capture() as trace:
        pass
    assert_no_recompiles(trace)


def test_each_graph_break_is_named_with_its_line_and_reason(broken):
    with pytest.raises(AssertionError) as raised:
        assert_no_graph_breaks(broken)
    assert re.sub(r"at \S*/", "at ", str(raised.value)) == (
        "graphs broke:\n"
        "  Graph break at compiled.py:17: requested by torch._dynamo.graph_break\n"
        "  Graph break at compiled.py:18: Data-dependent branching"
    )


def test_a_function_without_a_break_passes(again):
    assert_no_graph_breaks(again)


def test_without_a_compilation_the_check_for_graph_breaks_fails():
    with capture() as trace:
        pass
    with pytest.raises(AssertionError, match=r"torch\.compile compiled nothing in this trace\."):
        assert_no_graph_breaks(trace)


@pytest.mark.parametrize("check", [assert_all_in_tensorrt, assert_no_recompiles, assert_no_graph_breaks])
def test_an_argument_of_another_type_is_refused(check):
    with pytest.raises(TypeError, match="trace must be what capture"):
        check("trace.jsonl")


# --- as text ----------------------------------------------------------------------------------------------------------
def test_a_captured_trace_is_printed_with_its_answers_and_its_waterfall(again):
    first, *rest = str(again).splitlines()
    assert first.split() == ["what", "was", "compiled", "times", "time"]
    assert rest[0].startswith("1  adds  ")
    assert rest[1:2] == [
        "   Recompiled: size of argument x, axis 0 (3, then 4)",
    ]
    assert any(line.startswith("torch.compile_frame · adds 0/1") for line in rest)


def test_a_notebook_shows_the_first_screen_with_styles_and_without_references(again):
    html = again._repr_html_()
    text = re.sub(r"<[^>]+>", " ", html)
    assert re.search(r"1\s+adds\s", text)
    assert "Recompiled: size of argument x, axis 0 (3, then 4)" in " ".join(text.split())
    assert re.search(r"torch\.compile_frame\s+· adds 0/1", text)
    assert '<span style="color:#8a5a00">Recompiled:' in html
    assert "http" not in html


# --- pytest -----------------------------------------------------------------------------------------------------------
def run(pytester, **files):
    """pytest with these files."""
    pytester.makepyfile(**files)
    return run_in_this_process(pytester)


PROGRAM = """
import pytest
import torch


def double(x):
    return x * 2


def test_it(torchspan_trace):
    torch._dynamo.reset()
    for size in (3, 4):
        torch.compile(double, backend="eager")(torch.ones(size))
    assert {}


@pytest.fixture(scope="module")
def model():
    torch._dynamo.reset()
    function = torch.compile(double, backend="eager")
    function(torch.ones(3))
    return function


def test_the_fixtures_model(model, torchspan_trace):
    model(torch.ones(3))
    torchspan_trace.one("torch.compile_frame")


def test_without_the_fixture():
    assert False
"""


NO_SPANS = (
    "No span ended in this test. Spans from before the test are not included: compile in the test, or use "
    "torchspan.testing.capture() in the fixture that compiles."
)


def test_a_test_that_fails_has_the_answers_in_its_report_and_no_other(pytester):
    lines = run(pytester, test_it=PROGRAM.format(0)).outlines
    sections = [index for index, line in enumerate(lines) if re.fullmatch("-+ torchspan -+", line)]
    assert [lines[index + 1] for index in sections] == [
        "Recompiled in double: size of argument x, axis 0 (3, then 4)",
        NO_SPANS,
    ]


def test_a_test_that_passes_has_no_section(pytester):
    assert "- torchspan -" not in run(pytester, test_it=PROGRAM.partition("@pytest.fixture")[0].format(1)).stdout.str()


WITH_A_TEXT = """
import pytest
from torchspan.observers import observable


@observable()
def pay():
    raise ValueError("declined for Ada")


def test_it(torchspan_trace):
    with pytest.raises(ValueError):
        pay()
    assert False
"""


def test_the_section_has_the_class_of_an_exception_and_not_its_message(pytester):
    printed = run(pytester, test_it=WITH_A_TEXT).stdout.str()
    section = printed[printed.index("- torchspan -") :]
    assert "Error: ValueError in pay" in section
    assert "Ada" not in section
