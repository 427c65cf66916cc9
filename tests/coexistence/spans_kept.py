# SPDX-License-Identifier: Apache-2.0
"""Spans as lines of JSON in a file to which all processes of a program append, and as trees of names."""

import json
import os
from collections import defaultdict

ATTRIBUTES = ("torch.compile.id", "torch.compile.outcome")
"""Those that are compared with what other tools say."""

PHASE = "torch.compile_phase "
BUILD_PHASE = "tensorrt.build_phase "


class Spans:
    """An exporter of OpenTelemetry's SDK, without its base class: a program may run without the SDK."""

    def __init__(self, path):
        self._path = path

    def export(self, spans):
        """Append each span."""
        for span in spans:
            parent = span.parent and f"{span.parent.span_id:016x}"
            self.add(
                span.name, f"{span.context.span_id:016x}", parent, span.instrumentation_scope.name, span.attributes
            )

    def add(self, name, span_id, parent, scope, attributes=()):
        """Append one span. All of a line is written at once, so that lines of processes do not mix."""
        kept = {key: attributes[key] for key in ATTRIBUTES if key in attributes}
        row = {"name": name, "id": span_id, "parent": parent, "scope": scope, **kept}
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(file, (json.dumps(row) + "\n").encode())
        finally:
            os.close(file)

    def shutdown(self):
        """Nothing is kept open."""

    def force_flush(self, timeout_millis=30_000):
        """Each span is written when it ends."""
        return timeout_millis > 0


def read(path):
    """The rows of such a file; none if there is no file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def rows_of_otlp(spans):
    """The same rows from spans that `support.span_file.read` returns."""
    return [
        {
            "name": span.name,
            "id": span.span_id,
            "parent": span.parent_id or None,
            "scope": span.scope,
            **{key: span.attributes[key] for key in ATTRIBUTES if key in span.attributes},
        }
        for span in spans
    ]


def trees(rows):
    """The spans of torchspan as nested names. Trees, and children of a span, are sorted: others run at the same time.

    A span whose parent is another tool's is a root, and so is one below what `torchspan run` adds: the program, and its imports. TensorRT's build
    phases are left out, because by default only `torchspan run` records them.
    """
    children = defaultdict(list)
    own = _own(rows)
    for row in own.values():
        children[row["parent"] if row["parent"] in own else None].append(row)

    def nested(parent):
        below = sorted((row["name"], nested(row["id"])) for row in children[parent])
        return [(name, inside) for name, inside in below if inside or not is_short(name)]

    return nested(None)


def above_trees(rows):
    """Names of other tools' spans that are parents of such trees; None if a tree has none."""
    own = _own(rows)
    others = {row["id"]: row["name"] for row in rows if not row["scope"].startswith("torchspan")}
    return {others.get(row["parent"]) for row in own.values() if row["parent"] not in own}


def _own(rows):
    return {
        row["id"]: row
        for row in rows
        if row["scope"].startswith("torchspan") and not row["name"].startswith(("torchspan.", BUILD_PHASE))
    }


def is_short(name):
    """Whether there is such a span only if the work took long, as `support.steady_spans` has it."""
    return name == "torch.compile_wait" or (name.startswith(PHASE) and name != f"{PHASE}backend_compile")
