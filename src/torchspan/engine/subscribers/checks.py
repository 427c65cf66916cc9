# SPDX-License-Identifier: Apache-2.0
"""Checks of arguments: each error gives the name, the value and what is expected."""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Collection
from types import UnionType
from typing import Any

from torchspan.engine.subscribers.scope import RecordScope, Scope
from torchspan.words import phase
from torchspan.words.phase import Phase


def check_callable(name: str, value: object, *, optional: bool = False) -> None:
    """Raises TypeError for a `value` that cannot be called.

    Args:
        optional: None is allowed.
    """
    if not (callable(value) or (optional and value is None)):
        raise TypeError(f"{name} must be callable{' or None' if optional else ''}, not {value!r}")


def check_bool(name: str, value: object) -> None:
    """Raises TypeError for a `value` that is neither True nor False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, not {value!r}")


def check_integer(name: str, value: object) -> None:
    """Raises TypeError for a `value` that is not an integer."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int, not {value!r}")


def check_tuple(name: str, value: object) -> None:
    """Raises TypeError for a `value` that is not a tuple."""
    if not isinstance(value, tuple):
        raise TypeError(f"{name} must be a tuple, not {value!r}: write {name}=({value!r},)")


def check_text(name: str, value: object) -> None:
    """Raises TypeError for a `value` that is not a string."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {value!r}")


def check_name(function: str, name: object) -> None:
    """Raises TypeError for a `name` that is not a string."""
    if not isinstance(name, str):
        raise TypeError(f"{function}() takes a name, a str, not {name!r}")


def check_handle(handle: object) -> None:
    """Raises TypeError for a `handle` that is not an integer."""
    if isinstance(handle, bool) or not isinstance(handle, int):
        hint = "; call its remove()" if callable(getattr(handle, "remove", None)) else ""
        raise TypeError(f"handle must be a CallbackHandle, which registering a callback returned, not {handle!r}{hint}")


def check_probability(value: float) -> None:
    """Raises TypeError for a `value` that is not a number, ValueError for one that is not in 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"sampling_prob must be a number from 0 to 1, not {value!r}")
    if math.isnan(value) or not 0 <= value <= 1:
        raise ValueError(f"Invalid sampling probability: {value!r} is not in [0, 1]")


def check_record_scope(scope: object) -> None:
    """Raises TypeError for a `scope` that is not a `RecordScope`."""
    if isinstance(scope, Phase):
        raise TypeError(f"scope must be a RecordScope, not {scope!r} (phases are fired by torchspan itself)")
    if not isinstance(scope, RecordScope):
        raise TypeError(f"scope must be a RecordScope, not {scope!r}{_did_you_mean(scope, of=RecordScope)}")


def checked_scopes(scopes: Any) -> frozenset[Scope]:
    """The scopes of a callback. Raises TypeError for anything but a collection of scopes."""
    if isinstance(scopes, (Phase, RecordScope)):
        raise TypeError(f"scopes must be a collection of RecordScope and Phase: write scopes={{{_written()[scopes]}}}")
    if isinstance(scopes, str) or not isinstance(scopes, Collection):
        hint = _did_you_mean(scopes, "scopes={%s}")
        raise TypeError(f"scopes must be a collection of RecordScope and Phase, not {scopes!r}{hint}")
    for scope in scopes:
        if not isinstance(scope, (RecordScope, Phase)):
            raise TypeError(
                f"scopes contains {scope!r}, which is neither a RecordScope nor a phase{_did_you_mean(scope)}"
            )
    return frozenset(scopes)


def _written() -> dict[Scope, str]:
    """Each scope as a program writes it."""
    written: dict[Scope, str] = {
        value: f"phase.{name}" for name, value in vars(phase).items() if isinstance(value, Phase)
    }
    written.update({scope: f"RecordScope.{scope.name}" for scope in RecordScope})
    return written


def _did_you_mean(value: object, form: str = "%s", of: type[Scope] | UnionType = Scope) -> str:
    """A hint for a text that is close to the name of a scope of these types, or to its last part."""
    if not isinstance(value, str):
        return ""
    written = {scope: name for scope, name in _written().items() if isinstance(scope, of)}
    names = {scope.name.rpartition(".")[2].lower(): scope for scope in written}
    names.update({scope.name.lower(): scope for scope in written})
    close = difflib.get_close_matches(value.lower(), names, 1)
    return f" (did you mean {form % written[names[close[0]]]}?)" if close else ""
