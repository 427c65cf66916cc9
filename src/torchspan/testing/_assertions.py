# SPDX-License-Identifier: Apache-2.0
"""What tests most often assert of what was compiled, with the answer in the message."""

from __future__ import annotations

from collections.abc import Iterable

from torchspan.reading.answers import Answer, Report
from torchspan.words import phase

_FROM_BEFORE = "Spans from before the block or the test are not included: compile inside it, or use capture() where the model is compiled."


def assert_all_in_tensorrt(trace: Report) -> None:
    """Assert that every operator of every compilation runs in TensorRT.

        def test_everything_runs_in_tensorrt(torchspan_trace):
            torch_tensorrt.compile(model, ir="dynamo", arg_inputs=[x])
            assert_all_in_tensorrt(torchspan_trace)

    Args:
        trace: What `capture()`, the fixture `torchspan_trace` or `torchspan.answers.read` returns.

    Raises:
        AssertionError: An operator runs in PyTorch; the message has each with its reason and its line. Or there is no compilation by
            Torch-TensorRT.
        TypeError: `trace` is something else.
    """
    __tracebackhide__ = True
    _check(trace)
    if not trace.find(phase.COMPILE.name) and not trace.find(phase.PARTITION.name):
        raise AssertionError(f"Torch-TensorRT compiled nothing in this trace. {_FROM_BEFORE}")
    _assert_none(trace.answers.fallbacks, "operators run in PyTorch instead of TensorRT")


def assert_no_recompiles(trace: Report) -> None:
    """Assert that torch.compile compiled nothing again, and reached no recompile limit. A trace without compilations passes.

    Args:
        trace: What `capture()`, the fixture `torchspan_trace` or `torchspan.answers.read` returns.

    Raises:
        AssertionError: A function was compiled again; the message has each with the guard that failed and what would change it.
        TypeError: `trace` is something else.
    """
    __tracebackhide__ = True
    _check(trace)
    _assert_none(trace.answers.recompiles, "torch.compile compiled functions again")


def assert_no_graph_breaks(trace: Report) -> None:
    """Assert that torch.compile compiled something, and broke no graph.

    Args:
        trace: What `capture()`, the fixture `torchspan_trace` or `torchspan.answers.read` returns.

    Raises:
        AssertionError: A graph broke; the message has each break with its line and its reason. Or torch.compile compiled nothing.
        TypeError: `trace` is something else.
    """
    __tracebackhide__ = True
    _check(trace)
    if not trace.find(phase.COMPILE_FRAME.name):
        raise AssertionError(f"torch.compile compiled nothing in this trace. {_FROM_BEFORE}")
    _assert_none(trace.answers.breaks, "graphs broke")


def _check(trace: Report) -> None:
    if not isinstance(trace, Report):
        raise TypeError(f"trace must be what capture() yields or torchspan.answers.read() returns, not {trace!r}")


def _assert_none(findings: Iterable[Answer], what: str) -> None:
    __tracebackhide__ = True
    lines = [" ".join(finding.paragraph) for finding in findings]
    if lines:
        raise AssertionError("\n  ".join([f"{what}:", *lines]))
