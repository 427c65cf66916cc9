# SPDX-License-Identifier: Apache-2.0
"""An exception of the program's is described without asking it anything."""

import pytest

from torchspan.output.writer._event_signals import exception_attributes
from torchspan.words import semconv

HOSTILE = [f"__{name}__" for name in ("str", "repr", "format", "bytes", "len", "iter", "bool", "eq", "hash")]


def ends(*_args):
    raise SystemExit("a method of the program's ran")


class Ends(Exception):
    """Whatever is asked of it ends the process."""

    @property
    def args(self):
        raise SystemExit("a property of the program's was read")


for name in HOSTILE:
    setattr(Ends, name, ends)


class Text(str):
    """A message that is a text of the program's own kind."""

    __slots__ = ()
    __str__ = __repr__ = __len__ = __iter__ = __eq__ = __add__ = ends
    __hash__ = str.__hash__


def raised(error, cause=None):
    try:
        raise error from cause
    except BaseException as caught:
        return caught


@pytest.mark.parametrize("capture_text", [False, True])
@pytest.mark.parametrize(
    "make", [lambda: raised(Ends("x")), lambda: raised(ValueError(Text("x"))), lambda: raised(ValueError(), Ends("x"))]
)
def test_no_method_or_property_of_an_exception_runs(make, capture_text):
    described = semconv.emitted(exception_attributes(make()), capture_text=capture_text)
    assert described["exception.type"].rpartition(".")[2] in {"Ends", "ValueError"}
