# SPDX-License-Identifier: Apache-2.0
"""The base class of what torchspan's registrations return."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self


class Removable:
    """Something that is registered until `remove` is called, or until the end of a `with` statement."""

    __slots__ = ()

    def remove(self) -> None:
        """End the registration. A second call does nothing."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.remove()
