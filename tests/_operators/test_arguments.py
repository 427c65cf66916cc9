# SPDX-License-Identifier: Apache-2.0
"""What `torchspan.operators` refuses: arguments, coroutines and generators."""

import asyncio
import contextlib

import pytest
import torch

import torchspan
from support.operators import BLOCK, recording, table
from torchspan.hooks.operators import _block

pytestmark = pytest.mark.usefixtures("native_library")

ONES = torch.ones(4, 4)
REFUSAL = (
    "torchspan.operators records nothing in the coroutine serve, because other tasks run at each await. Put the synchronous call "
    "into a function, and decorate that with @torchspan.operators()."
)


@pytest.fixture(autouse=True)
def nothing_was_refused(monkeypatch):
    """One line is logged in a process; here each test is one."""
    monkeypatch.setattr(_block._Refusal, "is_logged", False)


# --- arguments ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ({"depth": "2"}, "depth='2', min_duration=1e-06, shapes=False"),
        ({"depth": True}, "depth=True, min_duration=1e-06, shapes=False"),
        ({"depth": 2.0}, "depth=2.0, min_duration=1e-06, shapes=False"),
        ({"min_duration": None}, "depth=2, min_duration=None, shapes=False"),
        ({"min_duration": True}, "depth=2, min_duration=True, shapes=False"),
        ({"shapes": 1}, "depth=2, min_duration=1e-06, shapes=1"),
    ],
)
def test_an_argument_of_another_type_is_a_type_error_that_says_what_is_expected(arguments, shown):
    with pytest.raises(TypeError) as caught:
        torchspan.operators(**arguments)
    assert str(caught.value) == (
        f"torchspan.operators takes depth (an int), min_duration (seconds) and shapes (a bool), not {shown}"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"depth": 0}, "depth must be 1 to 255, not 0"),
        ({"depth": 256}, "depth must be 1 to 255, not 256"),
        ({"depth": -1}, "depth must be 1 to 255, not -1"),
        ({"min_duration": -1e-9}, "min_duration must be 0 or more seconds, not -1e-09"),
        ({"min_duration": float("nan")}, "min_duration must be 0 or more seconds, not nan"),
        ({"min_duration": float("inf")}, "min_duration must be 0 or more seconds, not inf"),
    ],
)
def test_an_argument_out_of_range_is_a_value_error_that_says_the_range(arguments, message):
    with pytest.raises(ValueError, match="must be") as caught:
        torchspan.operators(**arguments)
    assert str(caught.value) == message


@pytest.mark.parametrize("arguments", [{"depth": 1}, {"depth": 255}, {"min_duration": 0}, {"min_duration": 1e300}])
def test_the_ends_of_each_range_are_accepted(arguments):
    with recording() as trace, torchspan.operators(**arguments):
        ONES.sin()
    assert table(trace.one(BLOCK)) == {"aten.sin": 1}


def test_arguments_are_passed_by_name():
    with pytest.raises(TypeError):
        torchspan.operators(2)


# --- coroutines ---------------------------------------------------------------------------------------------------------
async def serve():
    with torchspan.operators():
        return ONES.sin()


async def serve_on_a_stack():
    with contextlib.ExitStack() as stack:
        stack.enter_context(torchspan.operators())
        return ONES.sin()


async def serve_each():
    with torchspan.operators():
        yield ONES.sin()


async def consume():
    return next(iter([each async for each in serve_each()]))


@pytest.mark.parametrize(
    ("coroutine", "name"), [(serve, "serve"), (serve_on_a_stack, "serve_on_a_stack"), (consume, "serve_each")]
)
def test_a_block_in_a_coroutine_is_one_line_in_the_log_and_records_nothing(caplog, coroutine, name):
    with recording() as trace:
        results = [asyncio.run(coroutine()) for _ in range(3)]
    assert all(torch.equal(result, ONES.sin()) for result in results)
    assert caplog.messages == [REFUSAL.replace("serve", name)]
    assert trace.traces == []


def test_a_function_that_a_coroutine_calls_records(caplog):
    def predict():
        with torchspan.operators():
            return ONES.sin()

    async def main():
        return predict()

    with recording() as trace:
        asyncio.run(main())
    assert table(trace.one(BLOCK)) == {"aten.sin": 1}
    assert caplog.messages == []


def test_tasks_that_call_such_functions_have_a_block_each():
    @torchspan.operators()
    def predict(number):
        for _ in range(number):
            ONES.sin()

    async def task(number):
        await asyncio.sleep(0)
        predict(number)
        await asyncio.sleep(0)
        ONES.cos()

    async def main():
        await asyncio.gather(*(task(number) for number in range(1, 6)))

    with recording() as trace:
        asyncio.run(main())
    assert sorted(table(span)["aten.sin"] for span in trace.find(BLOCK)) == [1, 2, 3, 4, 5]
    assert all(set(table(span)) == {"aten.sin"} for span in trace.find(BLOCK))


def test_a_refused_block_raises_what_the_program_raises(caplog):
    error = ValueError("ulterior secret of the program")

    async def serve():
        with torchspan.operators():
            raise error

    with recording(), pytest.raises(ValueError, match="ulterior") as caught:
        asyncio.run(serve())
    assert caught.value is error
    assert caplog.messages == [REFUSAL]


# --- functions that pause -----------------------------------------------------------------------------------------------
def generator():
    yield


async def asynchronous():
    pass


async def asynchronous_generator():
    yield


@pytest.mark.parametrize(
    ("function", "kind"), [(asynchronous, "coroutine"), (asynchronous_generator, "coroutine"), (generator, "generator")]
)
def test_a_function_that_pauses_cannot_be_decorated(function, kind):
    with pytest.raises(TypeError) as caught:
        torchspan.operators()(function)
    assert str(caught.value) == (
        f"torchspan.operators cannot decorate a {kind} function; decorate the function that it calls"
    )
