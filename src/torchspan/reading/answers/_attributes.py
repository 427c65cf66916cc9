# SPDX-License-Identifier: Apache-2.0
"""Attributes of spans with the types that their readers expect; a file may contain anything."""

from __future__ import annotations

from typing import Any

from torchspan.reading.traces import Attributes
from torchspan.words import semconv


def strings(attributes: Attributes, key: str) -> list[str]:
    """The attribute as a list of texts; empty where it is something else."""
    value = attributes.get(key)
    return [str(item) for item in value] if isinstance(value, list) else []


def numbers(attributes: Attributes, key: str) -> list[float]:
    """The attribute as a list of numbers from 0 to 2**64; empty where it is something else."""
    value = attributes.get(key)
    if not isinstance(value, list) or not all(_is_number(item) for item in value):
        return []
    return list(value)


def number(attributes: Attributes, key: str) -> float | None:
    """The attribute as a number from 0 to 2**64; None where it is something else."""
    value = attributes.get(key)
    return value if _is_number(value) else None


def process_id(resource: Attributes) -> int | None:
    """The number of the process that has this resource; None where it is not known."""
    pid = resource.get(semconv.PROCESS_PID)
    return pid if isinstance(pid, int) else None


def operator(name: str) -> str:
    """`aten.special_i1e` of `torch.ops.aten.special_i1e.default`."""
    return name.removeprefix("torch.ops.").removesuffix(".default")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 2**64
