# SPDX-License-Identifier: Apache-2.0
"""`MutableTorchTensorRTModule.compile(self)`: the reason why a compiled module is compiled again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torchspan.base.reading import attribute, is_a, loaded
from torchspan.hooks.adapters.machinery.around import around
from torchspan.hooks.adapters.machinery.wrap import WrapperFactory
from torchspan.hooks.probes import Call, Record, Target, signature_of
from torchspan.hooks.probes.describe import conversion


def wrap_recompilation(factory: WrapperFactory, target: Target, action: Record, original: Any) -> Any:
    """The compilation as an event, with the dimensions of the call for which the module's current engines were not built."""
    describe = action.start
    guard = factory.engine.guard

    def start(call: Call) -> Mapping[str, Any]:
        described = {} if describe is None else describe(call)
        return {
            **described,
            **(guard.call("comparing a call with the engines that it does not fit", _outside, call) or {}),
        }

    return factory.record(target, replace(action, start=start), original)


def _outside(call: Call) -> dict[str, Any]:
    """The attributes for a call. The module has stored the call's arguments already, and still has its last compiled graph."""
    module = call.get("self")
    graph, args, kwargs = (attribute(module, name) for name in ("gm", "arg_inputs", "kwarg_inputs"))
    if not is_a(graph, loaded("torch.fx.graph_module", "GraphModule")):
        return {}  # the first compilation
    from torchspan.hooks.adapters.input_limits import outside_facts  # imported late: most processes recompile nothing
    from torchspan.inputs.port import limits_of, shapes_of, signature_of

    signature = signature_of(graph.forward)
    limits = limits_of(graph, signature)
    if limits is None:
        return {}
    return outside_facts(limits.fit(shapes_of(signature, tuple(args or ()), kwargs or {})).outside)


# --- Engines that are made while nothing is recorded ----------------------------------------------------------------
def tap_engine(factory: WrapperFactory, target: Target, original: Any) -> Any:
    """`TRTEngine._setup_engine(self)`, which remembers the engine and its bytes, inside an event or not."""
    signature, engine = signature_of(original), factory.engine

    def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
        return Call(signature, args, kwargs) if engine.active else None

    def end(call: Call, _result: Any) -> None:
        factory.provenance.created(conversion.module_itself(call), call, engine.current)

    return around(engine.guard, f"remembering {target}", original, begin, end)
