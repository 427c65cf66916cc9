# SPDX-License-Identifier: Apache-2.0
"""Checks of arguments: each error gives the name, the value and what is expected."""

from __future__ import annotations

import difflib
from typing import Any

from torchspan.base.errors import ErrorPolicy

SCOPES = ("context", "process")


def checked_policy(policy: Any) -> ErrorPolicy | None:
    """`policy`. Raises TypeError for anything but an `ErrorPolicy` or None."""
    if policy is not None and not isinstance(policy, ErrorPolicy):
        hint = " (did you mean ErrorPolicy(rethrow=True)?)" if policy == "rethrow" else ""
        raise TypeError(f"policy must be an ErrorPolicy, not {policy!r}{hint}")
    return policy


def checked_scope(scope: Any) -> Any:
    """`scope`. Raises ValueError for one that does not exist."""
    if scope not in SCOPES:
        close = difflib.get_close_matches(scope, SCOPES, 1) if isinstance(scope, str) else ()
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise ValueError(
            f"scope must be 'context' (the execution context of the callback) or 'process', not {scope!r}{hint}"
        )
    return scope
