# SPDX-License-Identifier: Apache-2.0
"""What validators refused, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torchspan import semconv
from torchspan.cli.waterfall import _labels
from torchspan.cli.waterfall._answer import words
from torchspan.traces import Attributes

_MOST = 3
"""Operators whose refusal is shown."""

_LIBRARY = "torch_tensorrt.dynamo.conversion.aten_ops_converters."


def refusals(of: Iterable[Attributes]) -> Iterator[tuple[str, ...]]:
    """A paragraph for each of the first operators: its validators, and the arguments that they were asked about."""
    found: dict[str, tuple[str, str]] = {}
    for attributes in of:
        names, validators, arguments = (
            _labels.strings(attributes, key)
            for key in (semconv.REFUSED_OPERATORS, semconv.REFUSED_VALIDATORS, semconv.REFUSED_ARGUMENTS)
        )
        if len(names) == len(validators) == len(arguments):
            for name, asked, given in zip(names, validators, arguments, strict=True):
                found.setdefault(name, (asked, given))
    for name, (asked, given) in list(found.items())[:_MOST]:
        yield words(f"{_labels.operator(name)}: {asked.replace(_LIBRARY, '')} for {given or 'no argument'}")
