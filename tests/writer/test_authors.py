# SPDX-License-Identifier: Apache-2.0
"""Whose words an exception's message is, and that reading it runs no code of the program's."""

import pytest

torch = pytest.importorskip("torch")

from torchspan.writer._exception_signals import exception_attributes  # noqa: E402


def message(function, *, capture_text=False):
    try:
        function()
    except BaseException as error:
        return exception_attributes(error, capture_text=capture_text).get("exception.message")
    raise AssertionError("nothing was raised")


WORDS = "the tensor is not supported"
"""Words that a template keeps: only its author decides whether they are recorded."""


@pytest.mark.parametrize(
    "function",
    [
        lambda: torch._check(False, lambda: WORDS),
        lambda: torch._check_value(False, lambda: WORDS),
        lambda: torch._check_with(ValueError, False, lambda: WORDS),
        lambda: torch._assert(False, WORDS),
        lambda: torch.testing.assert_close(torch.ones(1), torch.zeros(1), msg=WORDS),
        lambda: torch.ops.aten._assert_async.msg(torch.tensor(False), WORDS),
        lambda: torch.ops.aten._assert_async(torch.tensor(False), WORDS),
        lambda: torch.ops.aten._assert_scalar(False, WORDS),
    ],
    ids=["check", "check_value", "check_with", "assert", "testing", "overload", "packet", "assert_scalar"],
)
def test_a_text_that_the_program_hands_to_a_library_is_the_programs(function):
    assert message(function) is None


def test_a_text_that_a_library_hands_to_torch_check_is_the_librarys():
    def fail():
        torch._prims_common.check_same_dtype(torch.ones(1), torch.ones(1, dtype=torch.int32))

    assert message(fail) == "Tensor with dtype torch.int32 is not the expected dtype of torch.float32!"


def test_the_message_of_an_operator_of_pytorchs_is_the_librarys():
    mm = torch.ops.aten.mm.default
    assert (
        message(lambda: mm(torch.ones(2, 3), torch.ones(2, 3))) == "mat1 and mat2 shapes cannot be multiplied (? and ?)"
    )


def test_the_message_of_an_operator_of_the_programs_is_the_programs():
    library = torch.library.Library("wanda_authors", "DEF")
    library.define("krol(Tensor x) -> Tensor")  # without a kernel: PyTorch raises from the frame that would call it
    assert message(lambda: torch.ops.wanda_authors.krol(torch.ones(1))) is None


def test_a_message_is_dropped_where_any_exception_of_its_chain_is_the_programs():
    def fail():
        try:
            raise KeyError(WORDS)
        except KeyError:
            torch.nn.Linear(2, 3).nosuch  # noqa: B018

    assert message(fail) is None


def test_a_message_is_dropped_where_cause_and_context_differ_and_one_is_the_programs():
    def fail():
        try:
            raise KeyError(WORDS)
        except KeyError as error:
            context = error
        try:
            torch.nn.Linear(2, 3).nosuch  # noqa: B018
        except AttributeError as error:
            error.__cause__, error.__context__ = error.__context__, context
            raise

    assert message(fail) is None


class Hostile(Exception):
    """Runs code wherever it is asked for something."""

    ran: list[str] = []

    def __getattribute__(self, name):
        Hostile.ran.append(name)
        raise SystemExit

    def __str__(self):
        raise SystemExit

    __repr__ = __str__


class HostileArgument:
    def __str__(self):
        raise SystemExit

    __repr__ = __len__ = __bool__ = __iter__ = __eq__ = __hash__ = __str__


@pytest.mark.parametrize("capture_text", [False, True])
def test_no_code_of_an_exception_of_the_programs_runs(capture_text):
    try:
        raise Hostile(HostileArgument(), "a text")
    except Hostile as error:
        before = list(Hostile.ran)
        reported = exception_attributes(error, capture_text=capture_text)
        assert Hostile.ran == before
    assert reported.get("exception.message") == ("a text" if capture_text else None)


class Text(str):
    __slots__ = ()

    def __str__(self):
        raise SystemExit


def test_a_text_of_a_class_of_the_programs_is_not_read():
    def fail():
        raise ValueError(Text("a text"))

    assert message(fail, capture_text=True) is None
