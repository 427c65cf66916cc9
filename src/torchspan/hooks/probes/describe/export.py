# SPDX-License-Identifier: Apache-2.0
"""From a module to an exported program: the request and the result."""

from __future__ import annotations

from typing import Any

from torchspan.base import reading
from torchspan.base.scratch import Scratch
from torchspan.hooks.probes._call import Call
from torchspan.hooks.probes.describe import dynamic_shapes
from torchspan.hooks.probes.describe.common import inputs, model_class, node_count
from torchspan.words import semconv

Facts = dict[str, Any]


# --- the request -----------------------------------------------------------------------------------------------------
def trace(call: Call) -> Facts:
    """`torch_tensorrt.dynamo.trace(mod, inputs, ...)`, which is non-strict by default (its documentation)."""
    shapes, dtypes = inputs(call.get("inputs"), call.get("arg_inputs"), call.get("kwarg_inputs"))
    return {
        semconv.MODEL_CLASS: model_class(call.get("mod")),
        semconv.STRICT: reading.switch(call.kwargs.get("strict", False)),
        semconv.INPUT_SHAPES: shapes,
        semconv.INPUT_DTYPES: dtypes,
    }


def export(call: Call) -> Facts:
    """`torch.export.export(mod, args, kwargs, dynamic_shapes, strict=)`, and the function that it calls."""
    shapes, dtypes = inputs(call.get("args"), call.get("kwargs"))
    return {
        semconv.MODEL_CLASS: model_class(call.get("mod")),
        semconv.STRICT: reading.switch(call.get("strict")),
        semconv.INPUT_SHAPES: shapes,
        semconv.INPUT_DTYPES: dtypes,
        semconv.DYNAMIC_SHAPES: dynamic_shapes.asked(call.get("mod"), call.get("dynamic_shapes")),
    }


# --- the result ------------------------------------------------------------------------------------------------------
def exported(_call: Call, result: Any, _scratch: Scratch) -> Facts:
    """Size of an exported program."""
    return {semconv.NODES_COUNT: node_count(result)}
