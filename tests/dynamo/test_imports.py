# SPDX-License-Identifier: Apache-2.0
"""Imports that a backend makes while it compiles, with a stub in place of a library."""

import importlib
import sys

import pytest
import torch
from torch._dynamo.utils import dynamo_timed

X = torch.ones(3)


@pytest.fixture(autouse=True)
def lazy(dynamo, instrument, exporter, tmp_path, monkeypatch):
    """A stub of a library, whose import takes long enough for a span."""
    (tmp_path / "transformers.py").write_text("import time; time.sleep(0.11)")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "transformers", raising=False)
    exporter.with_imports = ("transformers",)
    yield
    sys.modules.pop("transformers", None)


def compiled(backend):
    torch.compile(lambda x: x + 1, backend=backend)(X)


def parent_of(exporter, span):
    (parent,) = [each for each in exporter.get_finished_spans() if each.context.span_id == span.parent.span_id]
    assert parent.start_time <= span.start_time <= span.end_time <= parent.end_time
    return parent.name


def test_an_import_in_the_backend_is_below_the_backends_phase(spans, exporter):
    def backend(graph, _inputs):
        importlib.import_module("transformers")
        return graph

    compiled(backend)
    (imported,) = spans("torchspan.import")
    assert parent_of(exporter, imported) == "torch.compile_phase backend_compile"
    assert imported.attributes["torchspan.import.module"] == "transformers"


@pytest.mark.usefixtures("every_phase")
@pytest.mark.parametrize("then", ["nothing", "a phase", "an observed call"])
def test_an_import_in_a_phase_that_has_no_span_yet_is_below_it(spans, exporter, then):
    from torchspan import observers

    def backend(graph, _inputs):
        with dynamo_timed("outer"), dynamo_timed("inner"):
            importlib.import_module("transformers")
            if then == "a phase":
                with dynamo_timed("innermost"):
                    pass
            elif then == "an observed call":
                observers.observable()(lambda: None)()
        return graph

    compiled(backend)
    (imported,) = spans("torchspan.import")
    assert parent_of(exporter, imported) == "torch.compile_phase inner"


def test_an_import_in_a_call_inside_a_phase_is_below_the_call(spans, exporter):
    from torchspan import observers

    @observers.observable()
    def call():
        importlib.import_module("transformers")

    def backend(graph, _inputs):
        with dynamo_timed("outer"):
            call()
        return graph

    compiled(backend)
    (imported,) = spans("torchspan.import")
    assert parent_of(exporter, imported).startswith("torchspan.observed")
