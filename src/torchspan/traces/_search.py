# SPDX-License-Identifier: Apache-2.0
"""Questions about spans by name: `find`, `one`, `below`, `self_time`, `outline`."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from torchspan.traces._file_spans import Span
from torchspan.traces._tree import Node, Trace

_NAMES_SHOWN = 20
"""Names of spans that an error lists."""


class SpanNotFoundError(LookupError):
    """No span matches, or several do where one is expected."""


class Searchable:
    """Spans that can be found by name. A subclass has `traces`."""

    @property
    def traces(self) -> list[Trace]:
        """The spans as trees, one entry for each trace id, in the order of their start."""
        raise NotImplementedError

    def find(self, name: str) -> list[Span]:
        """The spans of a name.

        Args:
            name: The whole name, such as `tensorrt.build_engine`.

        Returns:
            The spans: trace by trace, parents before their children, siblings by start. Empty if there is none.

        Raises:
            TypeError: `name` is not a string.
        """
        if not isinstance(name, str):
            raise TypeError(f"name must be a str, the name of a span, not {name!r}")
        return [node.span for node in self._nodes() if node.span.name == name]

    def one(self, name: str) -> Span:
        """The only span of a name.

        Args:
            name: The whole name, such as `torch_tensorrt.compile`.

        Returns:
            The span.

        Raises:
            SpanNotFoundError: No span has the name, or several have. It is a LookupError.
            TypeError: `name` is not a string.
        """
        found = self.find(name)
        if len(found) == 1:
            return found[0]
        raise SpanNotFoundError(self._not_one(name, len(found)))

    def below(self, span: Span) -> list[Span]:
        """The spans below a span, at any depth. The span itself is not one of them.

        Args:
            span: A span from `find`, `one` or `traces`.

        Returns:
            The spans, parents before their children.

        Raises:
            SpanNotFoundError: The span is not one of these.
        """
        return [node.span for node in self._node(span).below()][1:]

    def self_time(self, span: Span) -> int:
        """The time in which a span ran and none of its children did.

        Args:
            span: A span from `find`, `one` or `traces`.

        Returns:
            Nanoseconds.

        Raises:
            SpanNotFoundError: The span is not one of these.
        """
        return self._node(span).self_ns()

    def outline(self) -> str:
        """The names of all spans as an indented list.

        Returns:
            One name a line, indented by two spaces for each span around it.
        """
        lines, pending = [], [(0, root) for trace in reversed(self.traces) for root in reversed(trace.roots)]
        while pending:
            depth, node = pending.pop()
            lines.append("  " * depth + node.span.name)
            pending.extend((depth + 1, child) for child in reversed(node.children))
        return "\n".join(lines)

    def _nodes(self) -> Iterable[Node]:
        return (node for trace in self.traces for node in trace.nodes())

    def _node(self, span: Span) -> Node:
        for trace in self.traces:
            node = trace._by_span.get(id(span))
            if node is not None:
                return node
        name = getattr(span, "name", span)
        raise SpanNotFoundError(f"{name!r} is not a span of this trace. Pass a span that its find() or one() returned.")

    def _not_one(self, name: str, number: int) -> str:
        if number:
            return f"{number} spans are named {name!r}, but one() expects exactly one. Use find() for all of them."
        names = sorted({node.span.name for node in self._nodes()})
        if not names:
            return f"No span is named {name!r}, because there are no spans at all."
        close = difflib.get_close_matches(name, names, 1)
        meant = f" Did you mean {close[0]!r}?" if close else ""
        more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
        return f"No span is named {name!r}.{meant} There are: {', '.join(names[:_NAMES_SHOWN])}{more}."
