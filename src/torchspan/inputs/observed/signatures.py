# SPDX-License-Identifier: Apache-2.0
"""Calls by the signature: one and the same call, whether its arguments came by position or by keyword."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torchspan.inputs.observed.leaves import NotWrittenError


class UnfitCallError(TypeError):
    """The arguments do not fit the signature: the method itself raises as well."""


class WithheldName(str):
    """The name of an argument that `**kwargs` takes, where it is known by a digest alone."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class BoundCall:
    """The arguments of a call by the names that `CallSignature` gives them.

    Args:
        by_keyword: The names of those that came by keyword.
    """

    arguments: dict[str, Any]
    by_keyword: frozenset[str]


class CallSignature:
    """The parameters of a method.

    An argument is known by the name of its parameter; all positional arguments that no parameter takes, by the name of
    `*args`; a keyword argument that no parameter takes, by `kwargs.NAME`.
    """

    def __init__(self, signature: inspect.Signature) -> None:
        parameters = signature.parameters.values()
        kinds = inspect.Parameter
        self.names = [parameter.name for parameter in parameters]
        """Of all parameters, `*args` and `**kwargs` included."""
        self.defaults = {
            parameter.name: parameter.default for parameter in parameters if parameter.default is not kinds.empty
        }
        by_position = (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
        self.positional = tuple(parameter.name for parameter in parameters if parameter.kind in by_position)
        self.positional_only = frozenset(
            parameter.name for parameter in parameters if parameter.kind is kinds.POSITIONAL_ONLY
        )
        self.keywords = frozenset(
            parameter.name
            for parameter in parameters
            if parameter.kind in {kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY}
        )
        self.var_positional = next(
            (parameter.name for parameter in parameters if parameter.kind is kinds.VAR_POSITIONAL), None
        )
        self.var_keyword = next(
            (parameter.name for parameter in parameters if parameter.kind is kinds.VAR_KEYWORD), None
        )

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> BoundCall:
        """The call by names. Raises UnfitCallError."""
        arguments = dict(zip(self.positional, args, strict=False))
        rest = args[len(self.positional) :]
        if rest:
            if self.var_positional is None:
                raise UnfitCallError
            arguments[self.var_positional] = tuple(rest)
        by_keyword = []
        for key, value in kwargs.items():
            name = key if key in self.keywords else f"{self.var_keyword}.{key}"
            if name in arguments or (name != key and self.var_keyword is None):
                raise UnfitCallError
            arguments[name] = value
            by_keyword.append(name)
        return BoundCall(arguments, frozenset(by_keyword))

    def is_extra(self, name: str) -> bool:
        """Whether it is an argument that `**kwargs` takes."""
        return self.var_keyword is not None and name.startswith(f"{self.var_keyword}.")

    def keyword_of(self, name: str) -> str:
        """The keyword under which an argument is passed. Raises NotWrittenError for one that is not known."""
        if isinstance(name, WithheldName):
            raise NotWrittenError(
                f"The calls have a keyword argument that `**{self.var_keyword}` takes, and its name was not written to the file. "
                f"Remove it with remove_inputs([{str(name)!r}]), or write the file with values."
            )
        return name.partition(".")[2] if self.is_extra(name) else name

    def in_order(self, names: set[str]) -> list[str]:
        """As the signature has them; those that `**kwargs` takes last, by name."""
        kept_names = [name for name in self.names if name in names]
        return kept_names + sorted(names.difference(kept_names))

    def accepts(self, name: str) -> bool:
        """Whether a call may have an argument of this name."""
        return name in self.names or self.var_keyword is not None

    def find(self, name_or_position: str | int, what: str) -> str:
        """The name of an argument that a user gave as a name or as a position. Raises TypeError, ValueError.

        Args:
            what: Which argument of torchspan's it was given in, for the message.
        """
        accepted = ", ".join(self.names)
        if isinstance(name_or_position, bool) or not isinstance(name_or_position, (str, int)):
            raise TypeError(f"{what} takes names (str) and positions (int) of arguments, not {name_or_position!r}")
        if isinstance(name_or_position, int):
            if not 0 <= name_or_position < len(self.positional):
                raise ValueError(f"{what}: no argument has position {name_or_position}; the signature has ({accepted})")
            return self.positional[name_or_position]
        if name_or_position in self.names or self.is_extra(name_or_position):
            return name_or_position
        if self.accepts(name_or_position):
            return f"{self.var_keyword}.{name_or_position}"
        raise ValueError(f"{what}: there is no argument {name_or_position!r}; the signature has ({accepted})")


def signature_of(method: Any) -> CallSignature:
    """The signature of a bound method; `(*args, **kwargs)` where Python knows none."""
    try:
        return CallSignature(inspect.signature(method))
    except (TypeError, ValueError):
        return any_call()


def any_call() -> CallSignature:
    """A signature that every call fits: positional arguments are the parts of `args`."""
    return CallSignature(inspect.signature(_anything))


def _anything(*args: Any, **kwargs: Any) -> None:
    """A signature that every call fits."""
