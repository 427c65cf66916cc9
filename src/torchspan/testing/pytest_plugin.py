# SPDX-License-Identifier: Apache-2.0
"""The plugin of pytest: the fixtures `torchspan_trace`, with a section in the report of a test that fails, and `torchspan_budget`, and the
options `--torchspan-without-gpu` and `--torchspan-update`.

pytest loads it in every session where torchspan is installed. It imports neither torch nor OpenTelemetry until a fixture or
an option is used.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from torchspan.testing import CapturedTrace


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("torchspan")
    group.addoption(
        "--torchspan-update",
        action="store_true",
        help="Write what the tests with torchspan_budget compile into the files of budgets, instead of comparing it.",
    )
    group.addoption(
        "--torchspan-without-gpu",
        action="store_true",
        help="Run Torch-TensorRT's pipeline without a GPU in this session (torchspan.testing.without_gpu).",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Replace what needs a GPU before any conftest.py may import Torch-TensorRT."""
    if early_config.known_args_namespace.torchspan_without_gpu:
        from torchspan import testing

        try:
            testing.without_gpu()
        except testing.TooLateError as error:
            raise pytest.UsageError(f"--torchspan-without-gpu: {error}") from error


@pytest.fixture
def torchspan_trace() -> Iterator[CapturedTrace]:
    """The spans of the test, as `torchspan.testing.capture()` gives them."""
    from torchspan.testing import capture

    with capture() as trace:
        yield trace


@pytest.fixture
def torchspan_budget(torchspan_trace: CapturedTrace) -> CapturedTrace:
    """The spans of the test, which has to compile what its budget says.

    The budget is in a file next to the test, `test_model.budget.json` for `test_model.py`: operators in TensorRT, fallbacks with their
    reasons, engines, layers, graph breaks and recompiles of each compilation. A test that passed fails where it compiled something else.
    `pytest --torchspan-update` writes the file.
    """
    return torchspan_trace


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Compare what a test has compiled with its budget, or write the budget."""
    yield
    trace = getattr(item, "funcargs", {}).get("torchspan_budget")
    if trace is not None:
        from torchspan.testing import _compile_budget

        file, name = item.path.with_suffix(".budget.json"), item.nodeid.partition("::")[2]
        if item.config.getoption("--torchspan-update"):
            if hasattr(item.config, "workerinput"):
                raise pytest.UsageError("--torchspan-update writes a file for several tests; run it without -n")
            _compile_budget.update(file, name, trace)
        else:
            _compile_budget.check(file, name, trace)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what the trace says to the report of a test that failed and used `torchspan_trace`."""
    report = yield
    trace = getattr(item, "funcargs", {}).get("torchspan_trace")
    if call.when == "call" and report.failed and trace is not None:
        report.sections.append(("torchspan", _said(trace)))
    return report


def _said(trace: CapturedTrace) -> str:
    """What the trace says; never an exception, which would hide the test's own."""
    try:
        if not trace.traces:
            return (
                "No span ended in this test. Spans from before the test are not included: compile in the test, or use "
                "torchspan.testing.capture() in the fixture that compiles."
            )
        return str(trace.answers) or "Nothing failed, fell back to PyTorch, was compiled again or broke a graph."
    except Exception as error:
        return f"The trace cannot be read: {type(error).__name__}. Please report this line."
