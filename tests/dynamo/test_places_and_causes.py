# SPDX-License-Identifier: Apache-2.0
"""Graph breaks, failures and modules of libraries: PyTorch's own words, and the line of the user's code."""

import contextlib
import sys
import warnings

import pytest
import torch

from support import breaking
from torchspan.hooks.adapters.dynamo import stance
from torchspan.testing import capture

ONES = torch.ones(3)
FILE = "support/breaking.py"


def line_of(function, after=1):
    """A line of a function by its number after the first."""
    return f"{FILE}:{function.__code__.co_firstlineno + after}"


def said_of(function, *args, **options):
    """What a trace says of the function, which is compiled and called once."""
    with capture() as trace, warnings.catch_warnings(), contextlib.suppress(Exception):
        warnings.simplefilter("ignore")  # of Dynamo's about functions that it does not know
        torch.compile(function, backend=options.pop("backend", "eager"), **options)(*args)
    return trace.answers


def break_of(function, *args):
    return said_of(function, *args).breaks[0]


# --- graph breaks -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("function", "kind", "explanation"),
    [
        (
            breaking.reads_a_clock,
            "Attempted to call function marked as skipped",
            "Dynamo does not know how to trace the builtin `time.perf_counter.`",
        ),
        (
            breaking.makes_a_parameter,
            "Attempted to use `torch.nn.Parameter()` constructor with Dynamo",
            "Dynamo does not support this",
        ),
        (
            breaking.makes_a_generator,
            "An opaque object was created in the middle of the program",
            "Opaque objects cannot be created inside the torch.compile region.",
        ),
        (
            breaking.sorts_by_tensors,
            "sort with non-constant keys",
            "Cannot perform sort whose key comparison is not a compile-time constant.",
        ),
        (
            breaking.runs_an_lstm,
            "Attempted to wrap RNN, GRU, or LSTM",
            "Dynamo does not support RNN, GRU, or LSTM.",
        ),
    ],
)
def test_a_break_is_called_as_pytorch_calls_it_and_explained_in_its_words(function, kind, explanation):
    found = break_of(function, torch.ones(2, 1, 3) if function is breaking.runs_an_lstm else ONES)
    assert f": {kind}" in found.sentence
    assert (found.type.rstrip("."), found.explanation) == (kind, explanation)


def test_a_break_has_the_first_hint_of_pytorchs():
    assert break_of(breaking.makes_a_parameter, ONES).hint == (
        "Try to construct `torch.nn.Parameter()` outside the compiled region."
    )


@pytest.mark.parametrize(
    ("function", "after", "inside"),
    [
        (breaking.copies_deeply, 1, " in copy.py:"),
        (breaking.encodes, 1, " in "),
        (breaking.sets_a_variable, 1, " in <frozen os>:"),
        (breaking.counts_references, 2, ""),
    ],
)
def test_the_place_of_a_break_is_the_users_line_with_that_of_the_library_behind_it(function, after, inside):
    found = break_of(function, ONES)
    assert found.place == line_of(function, after)
    assert f"Graph break at {found.place}{inside}" in found.sentence


def test_a_function_that_dynamo_skips_is_named():
    assert "`sys.getrefcount.`" in break_of(breaking.counts_references, ONES).explanation


def test_a_step_of_an_optimizer_breaks_at_the_line_that_calls_it_and_asks_for_nothing():
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    step = torch.compile(optimizer.step, backend="eager")
    model(ONES).sum().backward()
    with capture() as trace, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step()
        line = step_line()
    breaks = trace.answers.breaks
    assert {found.place for found in breaks} == {f"dynamo/test_places_and_causes.py:{line - 1}"}
    assert [found.sentence for found in breaks if "requested" in found.sentence] == []
    assert {found.reason for found in breaks} <= {"other", "skipped_function"}


def step_line():
    return sys._getframe(1).f_lineno


def test_a_break_in_a_function_that_is_called_is_at_its_line_there():
    assert break_of(breaking.prints_deeper, ONES).place == line_of(breaking._prints)


# --- generators -------------------------------------------------------------------------------------------------------
def test_a_generator_that_dynamo_refuses_has_a_row_with_the_reason():
    with capture() as trace:
        list(torch.compile(breaking.chunks, backend="eager")(ONES))
    (row,) = trace.answers.compiled
    assert (row.name, row.place, row.outcome) == ("chunks", line_of(breaking.chunks, 0), "runs eagerly")
    (found,) = trace.answers.breaks
    assert (found.type, found.explanation) == (
        "Attempt to trace generator",
        "Generators cannot be compiled directly with `torch.compile`.",
    )


def test_where_dynamo_converts_nothing_the_stance_is_known_and_that_torch_compile_was_called():
    assert stance() == ""
    with torch.compiler.set_stance("force_eager"):
        torch.compile(breaking.misfits_deeper, backend="eager")(torch.ones(5, 5))
        assert stance() == "force_eager"
    assert stance() == "default"


# --- failures ---------------------------------------------------------------------------------------------------------
def details_of(failure):
    return [" ".join(paragraph) for paragraph in failure.details]


def test_a_failed_frame_has_the_line_of_the_failure_and_not_of_the_function():
    (failure,) = said_of(breaking.prints_deeper, ONES, fullgraph=True).errors
    assert f"at {line_of(breaking._prints)}" in details_of(failure)


def test_an_error_of_the_users_operator_has_its_line():
    (failure,) = said_of(breaking.misfits_deeper, torch.ones(3, 3)).errors
    assert details_of(failure)[-1] == f"at {line_of(breaking.misfits_deeper, 2)}"


def test_a_backend_that_fails_has_its_line_and_the_class_of_what_it_raised():
    (failure,) = said_of(breaking.prints_deeper, ONES, backend=breaking.refuses).errors
    assert details_of(failure)[:2] == ["NotImplementedError: ?", f"at {line_of(breaking.refuses)}"]


def test_a_backend_that_fails_in_a_library_has_the_line_that_called_the_library():
    (failure,) = said_of(breaking.misfits_deeper, torch.ones(5, 5), backend=breaking.refuses_in_a_library).errors
    assert f"at {line_of(breaking.refuses_in_a_library)}" in details_of(failure)


def test_a_violated_constraint_has_the_line_that_pytorch_names():
    marked = torch.ones(2, 16, 4)
    torch._dynamo.mark_dynamic(marked, 1)
    (failure,) = said_of(breaking.Rope(), marked).errors
    assert details_of(failure)[-1] == f"at {line_of(breaking.Rope.forward, 2)}"


def test_a_suppressed_error_says_its_cause(dynamo):
    with dynamo.config.patch(suppress_errors=True):
        failures = said_of(breaking.misfits_deeper, torch.ones(5, 5), backend=breaking.refuses).errors
    assert [failure.is_caught for failure in failures] == [False, True]
    assert details_of(failures[0])[:2] == ["NotImplementedError: ?", f"at {line_of(breaking.refuses)}"]


# --- what PyTorch's own code calls ------------------------------------------------------------------------------------
def rows_of(work):
    """Name, place and count of what was compiled."""
    with capture() as trace:
        work()
    return {(row.name, row.place, row.count) for row in trace.answers.compiled if row.is_compilation}


def test_modules_of_a_library_are_rows_by_their_class_and_the_line_that_called_torch_compile():
    sequential = torch.compile(torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU()), backend="eager")
    first = step_line() - 1
    linear = torch.nn.Linear(3, 3)
    linear.compile(backend="eager")

    def work():
        for compiled, size in ((sequential, 2), (linear, 2), (linear, 4)):
            compiled(torch.ones(size, 3))

    assert rows_of(work) == {
        ("Sequential", f"dynamo/test_places_and_causes.py:{first}", 1),
        ("Linear", f"dynamo/test_places_and_causes.py:{first + 3}", 2),
    }


def test_a_module_that_was_compiled_unobserved_has_the_line_of_its_first_call(instrument):
    instrument().uninstrument()
    linear = torch.compile(torch.nn.Linear(3, 3), backend="eager")
    instrument()

    def work():
        linear(ONES)

    first = step_line() - 2
    assert rows_of(work) == {("Linear", f"dynamo/test_places_and_causes.py:{first}", 1)}
