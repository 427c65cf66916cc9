# SPDX-License-Identifier: Apache-2.0
"""New weights for built engines."""

from __future__ import annotations

from typing import Any

from torchspan import semconv
from torchspan._base import reading
from torchspan._base.reading import attribute
from torchspan._base.scratch import Scratch
from torchspan.probes._call import Call
from torchspan.probes.describe import fallback
from torchspan.probes.describe.common import children, model_class, without_none
from torchspan.probes.describe.compilation import ENGINE_PREFIX, skipped

Facts = dict[str, Any]


def refit_module_weights(call: Call) -> Facts:
    """`torch_tensorrt.dynamo.refit_module_weights(compiled_module, new_weight_module, in_place=)`."""
    return without_none(
        {
            semconv.ENTRY_POINT: "torch_tensorrt.dynamo.refit_module_weights",
            semconv.MODEL_CLASS: model_class(call.get("new_weight_module")),
            semconv.REFIT_IN_PLACE: reading.switch(call.get("in_place")),
        }
    )


def mutable_refit(call: Call) -> Facts:
    """`MutableTorchTensorRTModule.refit_gm(self)`: the module noticed at a call that its weights were changed."""
    return without_none(
        {
            semconv.ENTRY_POINT: "torch_tensorrt.MutableTorchTensorRTModule",
            semconv.MODEL_CLASS: model_class(attribute(call.get("self"), "original_model")),
            semconv.REFIT_IN_PLACE: True,
        }
    )


def refitted(_call: Call, result: Any, scratch: Scratch) -> Facts:
    """The module with the new weights. Without an engine, it is a model that was skipped and runs in PyTorch."""
    names = [
        *(name for name, _ in children(result)),
        *reading.instance_dict(result),
    ]  # the others of an inlined program
    engines = {name for name in names if name.startswith(ENGINE_PREFIX)}
    if engines:
        plan: Facts = scratch.get(fallback.PLAN, {})
        return {**plan, semconv.ENGINE_COUNT: len(engines)}
    facts = skipped(result, scratch)
    return {key: facts[key] for key in facts if key != semconv.ENGINES_SIZE}


def outputs_match(_call: Call, result: Any, _scratch: Scratch) -> Facts:
    """`check_module_output` returns whether the refitted module computes what the model does. A difference is only logged."""
    return without_none({semconv.REFIT_OUTPUTS_MATCH: reading.switch(result)})
