# SPDX-License-Identifier: Apache-2.0
"""What the program declared about a region with torch.compiler's fine-grained APIs, as far as a compilation reaches it.

A region that Dynamo leaves out is a graph break or a skipped frame. Its text names the API and contains the program's
reason (torch/_dynamo/graph_break_registry.json, the same sentences in 2.11 to 2.14). A region that Dynamo keeps as a black box is
one node of the graph. `assume_constant_result`, `substitute_in_graph`, `is_compiling` and `is_dynamo_compiling` cause neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import FunctionType
from typing import Any, NamedTuple

from torchspan.base import reading
from torchspan.hooks.probes.describe import place
from torchspan.hooks.probes.describe.common import LIST_LIMIT, calls, meta, without_none
from torchspan.words import semconv
from torchspan.words.redaction.messages import of_program
from torchspan.words.semconv.torch import Declared

_READ = 2_000
"""Characters of a text that are read."""


class Declaration(NamedTuple):
    """One use of an API.

    Attributes:
        api: Its name (`semconv.Declared`).
        function: The qualified name of what it was applied to.
        reason: The program's own words.
        where: The place in the program that reached it.
    """

    api: str
    function: str | None = None
    reason: str | None = None
    where: place.StackPlace | None = None

    def facts(self) -> dict[str, Any]:
        """The attributes of the event for it."""
        return without_none(
            {
                semconv.DECLARED_API: self.api,
                semconv.DECLARED_FUNCTION: self.function,
                semconv.DECLARED_REASON: None if self.reason is None else of_program(self.reason),
                **({} if self.where is None else self.where.facts()),
            }
        )


# --- regions that are left out ---------------------------------------------------------------------------------------
_DISABLED = re.compile(
    r"(?:function `?<function (?P<function>[^`\s]+) at 0x[0-9a-f]+>`? since it was|(?:is|was)) wrapped with "
    r"`torch\.compiler\.disable` \(reason: (?P<reason>.*)\)$",
    re.MULTILINE,
)
_MESSAGE = re.compile(
    r"^  Explanation: User-inserted (?:graph break|skip frame)\. Message: (?P<reason>.*)$", re.MULTILINE
)
_POSITIONAL = re.compile(r"` with args `\[ConstantVariable\(str: (?P<quote>['\"])(?P<reason>.*?)(?P=quote)\)\]`")
"""Where PyTorch shows a message that was not passed by its name."""
_SKIPPED = re.compile(
    r"^  Developer debug context: module: (?P<module>[\w.]+), qualname: (?P<qualname>[\w.]+),", re.MULTILINE
)
_NO_REASON = ("", "None")
"""What the texts contain if no reason was given."""


def of_break(text: str) -> Declaration | None:
    """The declaration that asked for a graph break or a skipped frame; None for a break that nothing asked for.

    Args:
        text: The whole reason of the break, as in an exception, a `GraphCompileReason` and `CompilationMetrics`.
    """
    text = text[:_READ]
    first = text.partition("\n")[0]
    if first == "Call to `torch._dynamo.graph_break()`":
        return Declaration(Declared.GRAPH_BREAK, reason=_message(text))
    if first == "Call to `torch._dynamo.skip_frame()`":
        return Declaration(Declared.SKIP_FRAME, reason=_message(text))
    disabled = _DISABLED.search(text)
    if disabled is not None:
        return Declaration(Declared.DISABLE, disabled["function"], _reason(disabled))
    if first == "Attempted to call function marked as skipped":
        return _disallowed(_SKIPPED.search(text))
    return None


def _message(text: str) -> str | None:
    return _reason(_MESSAGE.search(text)) or _reason(_POSITIONAL.search(text))


def _reason(match: re.Match[str] | None) -> str | None:
    reason = None if match is None else match["reason"].strip()
    return None if reason in _NO_REASON else reason


def _disallowed(match: re.Match[str] | None) -> Declaration | None:
    """A disallowed function reads like one that Dynamo does not know. Dynamo's list distinguishes them."""
    if match is None:
        return None
    function = reading.loaded(match["module"], match["qualname"].rpartition(".")[2])
    ids = _ids("_disallowed_callable_ids")
    if function is None or ids is None or id(function) not in ids:
        return None
    return Declaration(Declared.DISALLOW_IN_GRAPH, f"{match['module']}.{match['qualname'].rpartition('.')[2]}")


# --- regions that are kept -------------------------------------------------------------------------------------------
_BLACK_BOXES = {
    "flat_apply": Declared.NONSTRICT_TRACE,
    "flat_apply_capture": Declared.NONSTRICT_TRACE,
    "invoke_leaf_function": Declared.LEAF_FUNCTION,
}
"""PyTorch's functions that represent, in a graph, a function that Dynamo did not trace."""


def kept(graph_module: Any) -> list[Declaration]:
    """The first `LIST_LIMIT` functions, in the graph that Dynamo hands to a backend, that are kept as black boxes."""
    return list(dict.fromkeys(_kept(graph_module)))[:LIST_LIMIT]


def _kept(graph_module: Any) -> Iterator[Declaration]:
    allowed = _ids("_allowed_callable_ids") or set()
    for node in calls(graph_module):
        target = node.target
        is_allowed = id(target) in allowed
        api = Declared.ALLOW_IN_GRAPH if is_allowed else _black_box(target)
        if api is not None:  # a place takes longer to find than all the rest
            name = reading.function_name(target) if is_allowed else None
            yield Declaration(api, name, where=place.of_stack(meta(node, "stack_trace")))


def _black_box(target: Any) -> str | None:
    """The API that a function of PyTorch represents in the graph; None for any other function."""
    if not (type(target) is FunctionType or reading.is_of_library(type(target))):
        return None
    api = _BLACK_BOXES.get(reading.text(reading.attribute(target, "__name__")) or "")
    module = reading.text(reading.attribute(target, "__module__")) or ""
    return api if module.startswith("torch.") else None


def _ids(name: str) -> set[int] | None:
    """The ids of the functions in one of Dynamo's lists (torch/_dynamo/trace_rules.py); None if it has not been used."""
    ids = reading.attribute(reading.loaded("torch._dynamo.trace_rules", name), "function_ids")
    return ids if type(ids) is set else None


# --- the stance ------------------------------------------------------------------------------------------------------
def stance() -> dict[str, Any]:
    """The attribute of the stance that `torch.compiler.set_stance` has set; none for the default."""
    text = stance_name()
    return {} if text in {None, "default"} else {semconv.COMPILE_STANCE: text}


def stance_name() -> str | None:
    """The stance of torch.compiler; None without torch.compile."""
    return reading.text(reading.attribute(reading.loaded("torch._dynamo.eval_frame", "_stance"), "stance"))
