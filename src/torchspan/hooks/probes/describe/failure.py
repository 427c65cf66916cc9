# SPDX-License-Identifier: Apache-2.0
"""What failed: the operator, its converter, and the place in the program that it comes from.

Everything is read when an exception passes. A conversion that succeeds costs nothing.
"""

from __future__ import annotations

import re
from types import TracebackType
from typing import Any

from torchspan.base import reading
from torchspan.base.reading import attribute
from torchspan.base.scratch import Scratch
from torchspan.hooks.probes._call import Call, guarded
from torchspan.hooks.probes.describe import place
from torchspan.hooks.probes.describe.common import is_node, meta, nodes_of, operator_name
from torchspan.words import semconv
from torchspan.words.redaction.messages import first_raised

Facts = dict[str, Any]

_INTERPRETER = "torch_tensorrt.dynamo.conversion._TRTInterpreter"
_IDENTIFIER = re.compile(r"[\w.<>]{1,256}")
_NUMBER = re.compile(r"_\d+$")


def conversion(call: Call, error: BaseException, _scratch: Scratch) -> Facts:
    """`_construct_trt_network_def(self)` that raised: the node at which it stopped."""
    interpreter = call.get("self")
    node = attribute(interpreter, "_cur_node")
    done = attribute(interpreter, "env")
    converted = [node for node, _ in reading.pairs(done)] or reading.entries(done) or []
    if not is_node(node) or any(other is node for other in converted):  # it failed before, between or after nodes
        return {}
    nodes = list(nodes_of(node))
    origin = place.of_stack(meta(node, "stack_trace"))
    return {
        semconv.FAILED_OPERATOR: operator_name(node.target) if node.op == "call_function" else node.op,
        semconv.FAILED_NODE_NAME: _generated_name(node),
        semconv.FAILED_NODE_POSITION: next(place for place, other in enumerate(nodes, 1) if other is node),
        semconv.FAILED_NODES: len(nodes),
        semconv.FAILED_CONVERTER: _converter(reading.traceback_of(first_raised(error))),
        **({} if origin is None else origin.facts()),
    }


def _generated_name(node: Any) -> str | None:
    """The node's name if torch.fx made it from the operator: `add`, `add_1`, `add_tensor_1`; otherwise None."""
    if not is_node(node) or node.op != "call_function":
        return None
    words = operator_name(node.target).lower().split(".")
    names = {_plain(words[-1]), _plain("_".join(words[-2:])), _plain(words[-2]) if len(words) > 1 else ""}
    return str(node.name) if _plain(_NUMBER.sub("", node.name)) in names else None


def _plain(name: str) -> str:
    return name.strip("_").lower()


def _converter(entry: TracebackType | None) -> str | None:
    """The converter that the interpreter was calling, from its own frame: a query of the registry would run validators."""
    while entry is not None:
        frame = entry.tb_frame
        if "converter" in frame.f_code.co_varnames and frame.f_globals.get("__name__") == _INTERPRETER:
            return qualified_name(frame.f_locals.get("converter"))
        entry = entry.tb_next
    return None


def qualified_name(function: Any) -> str | None:
    """`module.name` of a function, without its decorators; None if that is not an identifier."""
    if function is None:
        return None
    function = reading.unwrapped(guarded(reading.unwrapped(function)))
    module, qualname = (
        reading.text(attribute(function, attribute_name)) or "" for attribute_name in ("__module__", "__qualname__")
    )
    name = f"{module}.{qualname}"
    return name if _IDENTIFIER.fullmatch(name) and not name.startswith(".") and not name.endswith(".") else None
