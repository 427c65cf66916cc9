# SPDX-License-Identifier: Apache-2.0
"""Literals of the spans of torch.compile."""

from support.tree import S

FILE = "support/compiled.py"


def P(name, *children, **more):
    """A phase."""
    return S(
        f"torch.compile_phase {name}", {"torchspan.keep": True, "torch.compile.phase.name": name, **more}, *children
    )


def frame(compile_id, function, line, *children, **more):
    """A frame of `support/compiled.py`; further attributes below `torch.compile.`, with `_` for a dot."""
    facts = {
        "torchspan.keep": True,
        "torch.compile.id": compile_id,
        "code.function.name": function,
        "code.file.path": FILE,
        "code.line.number": line,
        "torch.compile.outcome": "compiled",
    }
    return S(
        "torch.compile_frame", {**facts, **{f"torch.compile.{key}": value for key, value in more.items()}}, *children
    )


def graph(guards, operators):
    """What is known of a frame that has a graph."""
    return {"guards.count": guards, "graph.operators": operators}


COMPILED = (
    P("bytecode_tracing"),
    P("insert_deferred_runtime_asserts"),
    P("backend_compile"),
    P("build_guards"),
    P("gc"),
)
"""The phases of a frame whose backend does nothing that PyTorch reports."""
