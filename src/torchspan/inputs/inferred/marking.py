# SPDX-License-Identifier: Apache-2.0
"""Marks the tensors of a call for `torch.compile` with the ranges of a profile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torchspan.inputs.observed.leaves import Path, label
from torchspan.inputs.profiled.profiles import InputProfile


def mark_dynamic(profile: InputProfile, tensors: Mapping[Path, Any]) -> int:
    """Mark the dimensions that vary, and return how many. tensors: of one call. Raises ValueError, and marks nothing then."""
    import torch

    found = []
    for each in profile:
        tensor = tensors.get(each.path)
        if tensor is None:
            continue
        where = label(each.path)
        if tensor.dim() != len(each.dimensions):
            raise ValueError(
                f"mark_dynamic: {where} has {tensor.dim()} dimensions, but {len(each.dimensions)} in the profile. Mark a call with as many dimensions as the observed ones."
            )
        for axis, known in enumerate(each.dimensions):
            size = tensor.shape[axis]
            if not known.is_dynamic:
                continue
            if size < 2:
                raise ValueError(
                    f"mark_dynamic: dimension {axis} of {where} has the size {size}, which torch.compile treats as a constant. "
                    "Compile with a call whose size is at least 2 there."
                )
            if not known.min <= size <= known.max:
                raise ValueError(
                    f"mark_dynamic: dimension {axis} of {where} has the size {size}, but the profile has {known.min} to "
                    f"{known.max}. Compile with a call within this range, or call infer_profile with headroom."
                )
            found.append((tensor, axis, known))
    for tensor, axis, known in found:
        torch._dynamo.mark_dynamic(tensor, axis, min=known.min, max=known.max, hint_override=known.opt)
    return len(found)
