# SPDX-License-Identifier: Apache-2.0
"""The texts in the code of a function: its string constants, and the texts that it puts together from them.

A library raises `ValueError(f"expected {count} inputs, got {len(inputs)}")`. The code of the function has the words of that message as
constants, and around them the instructions that put values between them. So the message is known without a list of messages, in every
version of the library.

Only the constants of the code become part of a text, whatever the instructions do. A text that is read wrongly matches no message.
"""

from __future__ import annotations

import dis
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from types import CodeType

from torchspan.words.redaction.message_table import HOLES, KnownMessage, MessageTable

_Pieces = tuple["str | None", ...]
"""A text in pieces: its constants, and None for each value between them."""

_VALUE: _Pieces = (None,)
_FEWEST_LETTERS = 10
"""Letters in the constants of a text with values. With fewer, it would match texts of programs."""
_FIELD = re.compile(r"\{[^{}]*\}|%(?:\(\w+\))?[-+ #0]*(?:\d+|\*)?(?:\.(?:\d+|\*))?[a-zA-Z]")
"""A value in a constant that is a format, for `str.format` or for `%`."""

_ADDITIONS = frozenset({"+", "+="})


@lru_cache(maxsize=64)
def texts_of(code: CodeType) -> MessageTable:
    """The texts of a function, as rows. Of a value in a text, nothing is kept but the name of a data type."""
    constants = tuple(_constants(code))
    formats = ((piece for text in _FIELD.split(constant) for piece in (None, text)) for constant in constants)
    pieces = (*((text,) for text in constants), *(tuple(text)[1:] for text in formats), *_put_together(code))
    return MessageTable(filter(None, map(_row, dict.fromkeys(pieces))))


def _constants(code: CodeType) -> Iterator[str]:
    """The string constants. Python keeps a list of constants as one tuple, so texts in tuples count."""
    for constant in code.co_consts:
        texts = constant if type(constant) is tuple else (constant,)
        yield from (text for text in texts if type(text) is str)


def _row(pieces: _Pieces) -> KnownMessage | None:
    """A text as a row. Values that touch are one hole. None for a text with values and hardly a word."""
    literals = [""]
    for piece in pieces:
        if piece is not None:
            literals[-1] += piece
        elif literals[-1] or len(literals) == 1:
            literals.append("")
    literals[-1] = literals[-1].rstrip()
    if len(literals) > 1 and sum(map(str.isalpha, "".join(literals))) < _FEWEST_LETTERS:
        return None
    return KnownMessage(tuple(literals), (HOLES["value"],) * (len(literals) - 1))


def _put_together(code: CodeType) -> Iterator[_Pieces]:
    """The texts that the code puts together in f-strings and with `+`.

    The instructions are followed from the first to the last, with what each leaves on the stack. Where they jump, what is on the stack
    may differ from that, and a text is not found.
    """
    stack: list[_Pieces] = []
    for step in dis.get_instructions(code):
        joined = _joined(step)
        if step.opname == "LOAD_CONST" and type(step.argval) is str:
            stack.append((step.argval,))
        elif joined:
            text = tuple(chain.from_iterable(stack[-joined:]))
            stack[-joined:] = [text]
            yield text
        elif step.opname != "EXTENDED_ARG":  # a part of the instruction behind it
            _follow(step, stack)


def _joined(step: dis.Instruction) -> int:
    """How many values on top of the stack an instruction joins to one text; 0 if it does something else."""
    if step.opname == "BUILD_STRING":
        return step.arg or 0
    return 2 if step.argrepr in _ADDITIONS or step.opname in {"BINARY_ADD", "INPLACE_ADD"} else 0


def _follow(step: dis.Instruction, stack: list[_Pieces]) -> None:
    effect = dis.stack_effect(step.opcode, step.arg, jump=False)
    if effect > 0:
        stack += [_VALUE] * effect
        return
    if effect < 0:
        del stack[effect:]
    if stack and "POP" not in step.opname:  # what it computes is on top now
        stack[-1] = _VALUE
