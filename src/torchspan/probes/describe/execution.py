# SPDX-License-Identifier: Apache-2.0
"""Runs of an engine."""

from __future__ import annotations

from typing import Any

from torchspan import semconv
from torchspan.probes.describe._values import inputs, known, stand_in

Facts = dict[str, Any]


def execute(engine: Any, tensors: Any) -> Facts:
    """`engine` is the object that runs (of either runtime), `tensors` its inputs.

    The module adds `_engine` to the subgraph's name (`TorchTensorRTModule`); without it the name is the same as on
    the span of the conversion.
    """
    shapes, dtypes = inputs(tensors)
    name = getattr(engine, "name", None)
    return known(
        {
            semconv.ENGINE_NAME: name.removesuffix("_engine") if isinstance(name, str) and name else None,
            semconv.INPUT_SHAPES: shapes,
            semconv.INPUT_DTYPES: dtypes,
            **stand_in(getattr(engine, "cuda_engine", None) or getattr(engine, "engine", None)),
        }
    )
