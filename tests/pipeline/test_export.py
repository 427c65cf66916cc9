# SPDX-License-Identifier: Apache-2.0
"""Exports by the program itself, and the compilations that link to them."""

import gc
import sys
import types
import weakref
from pathlib import Path

import pytest
import torch
import torch_tensorrt

from support import models
from support import recorded as work
from support.tree import named, outline

INPUT = torch.ones(2, 16)


def compiled(program, **settings):
    return torch_tensorrt.dynamo.compile(program, arg_inputs=[INPUT], min_block_size=1, **settings)


def linked(span):
    return [link.context for link in span.links]


@pytest.mark.parametrize("strict", [False, True], ids=["non-strict", "strict"])
def test_an_export_by_the_program_is_a_span(instrument, exporter, strict):
    instrument()
    torch.export.export(models.seeded(models.Mlp), (INPUT,), strict=strict)
    (export,) = exporter.get_finished_spans()
    assert export.name == "torch.export"
    assert dict(export.attributes) == {
        "torchspan.keep": True,
        "torch_tensorrt.model.class": "Mlp",
        "torch.export.strict": strict,
        "torch_tensorrt.graph.nodes.count": 9,
    }


class Branches(torch.nn.Module):
    """Its result depends on a condition on data."""

    def forward(self, x):
        if x.sum() > 0:  # the condition
            return x + 1
        return x - 1


class Reshapes(torch.nn.Module):
    """Works for one size of its first dimension alone."""

    def forward(self, other, x):
        return other, x.reshape(2, 16)


def failed_export(exporter, model, inputs, **options):
    """What the span of an export that fails says about the cause."""
    with pytest.raises(RuntimeError):
        torch.export.export(model.eval(), inputs, **options)
    (export,) = exporter.get_finished_spans()
    return {
        key: value
        for key, value in export.attributes.items()
        if key.startswith(("code.", "torch.export.failed.", "torch.export.violated"))
    }


@pytest.mark.parametrize("strict", [False, True], ids=["non-strict", "strict"])
def test_an_export_that_fails_for_a_condition_on_data_names_the_place_in_the_model(instrument, exporter, strict):
    instrument()
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    # Dynamo, in strict mode, has no operator that makes a number of the data.
    operator = {} if strict else {"torch.export.failed.operator": "torch.ops.aten.item.default"}
    assert failed_export(exporter, Branches(), (INPUT,), strict=strict) == {
        **operator,
        "code.file.path": "pipeline/test_export.py",
        "code.line.number": 1 + next(number for number, line in enumerate(lines) if "# the condition" in line),
        "code.function.name": "forward",
    }


@pytest.mark.parametrize("strict", [False, True], ids=["non-strict", "strict"])
@pytest.mark.parametrize("shape", [dict, list])
def test_an_export_that_fails_for_a_dynamic_dimension_names_it(instrument, exporter, shape, strict):
    instrument()
    dimension = torch.export.Dim("SECRET")
    shapes = {"x": {0: dimension}, "other": None} if shape is dict else [None, [dimension, None]]
    assert failed_export(exporter, Reshapes(), (INPUT, INPUT), dynamic_shapes=shapes, strict=strict) == {
        "torch.export.violated_constraints": ("inputs[1].shape[0]: specialized to a constant",)
    }


class OwnError(RuntimeError):
    """An exception of a model's own, with what torch's exceptions have."""

    @property
    def func(self):
        raise ValueError("SECRET")


def test_an_exception_of_the_models_own_is_asked_for_nothing_but_its_place(instrument, exporter, caplog):
    class Fails(torch.nn.Module):
        def forward(self, x):
            raise OwnError

    instrument()
    found = failed_export(exporter, Fails(), (INPUT,), strict=False)
    assert found.pop("code.line.number") > 0
    assert found == {"code.file.path": "pipeline/test_export.py", "code.function.name": "forward"}
    assert not [record for record in caplog.records if record.name == "torchspan"]


def test_an_export_that_fails_for_dimensions_that_must_be_equal_names_both(instrument, exporter):
    class Adds(torch.nn.Module):
        def forward(self, x, y):
            return x + y

    instrument()
    shapes = {"x": {0: torch.export.Dim("one")}, "y": {0: torch.export.Dim("two")}}
    assert failed_export(exporter, Adds(), (INPUT, INPUT + 1), dynamic_shapes=shapes) == {
        "torch.export.violated_constraints": ("inputs[1].shape[0]: always equal to inputs[0].shape[0]",)
    }


def test_the_compilation_of_an_exported_program_links_to_the_export(instrument, exporter):
    instrument()
    compiled(torch.export.export(models.seeded(models.Mlp), (INPUT,)))
    spans = exporter.get_finished_spans()
    assert [line.partition("\n")[0] for line in outline(spans)] == ["torch.export", "torch_tensorrt.compile"]
    export, compilation = named(spans, "torch.export"), named(spans, "torch_tensorrt.compile")
    assert export.context.trace_id != compilation.context.trace_id
    assert linked(compilation) == [export.get_span_context()]


def test_of_a_program_that_was_traced_it_links_to_the_trace(recorded):
    spans = recorded(work.traced_mlp).spans
    trace = named(spans, "torch_tensorrt.trace")
    assert linked(named(spans, "torch_tensorrt.compile")) == [trace.get_span_context()]


def test_the_entry_point_that_most_programs_call_links_as_well(instrument, exporter):
    instrument()
    program = torch.export.export(models.seeded(models.Mlp), (INPUT,))
    torch_tensorrt.compile(program, ir="dynamo", inputs=[INPUT], min_block_size=1)
    spans = exporter.get_finished_spans()
    assert linked(named(spans, "torch_tensorrt.compile")) == [named(spans, "torch.export").get_span_context()]


def test_two_compilations_of_one_program_link_to_one_export(instrument, exporter):
    instrument()
    program = torch.export.export(models.seeded(models.Mlp), (INPUT,))
    for _ in range(2):
        compiled(program)
    spans = exporter.get_finished_spans()
    links = [linked(span) for span in spans if span.name == "torch_tensorrt.compile"]
    assert links == [[named(spans, "torch.export").get_span_context()]] * 2


def test_inside_one_compilation_nothing_links(recorded):
    spans = recorded(work.mlp).spans
    assert "torch.export" in {span.name for span in spans}
    assert [span.name for span in spans if span.links] == []


@pytest.mark.filterwarnings("ignore:The given buffer is not writable:UserWarning")  # torch 2.12, of its own buffer
def test_a_program_that_was_loaded_has_no_export_to_link_to(instrument, exporter, tmp_path):
    path = tmp_path / "program.pt2"
    torch.export.save(torch.export.export(models.seeded(models.Mlp), (INPUT,)), path)
    instrument()
    compiled(torch.export.load(path))
    assert named(exporter.get_finished_spans(), "torch_tensorrt.compile").links == ()


def test_a_program_exported_before_we_were_on_has_none_either(instrument, exporter):
    program = torch.export.export(models.seeded(models.Mlp), (INPUT,))
    instrument()
    compiled(program)
    assert named(exporter.get_finished_spans(), "torch_tensorrt.compile").links == ()


def test_nothing_is_stored_on_the_program_and_it_is_not_kept_alive(instrument):
    bare = sorted(vars(torch.export.export(models.seeded(models.Mlp), (INPUT,))))
    instrument()
    program = torch.export.export(models.seeded(models.Mlp), (INPUT,))
    assert sorted(vars(program)) == bare
    gone = weakref.ref(program)
    del program
    gc.collect()
    assert gone() is None


def test_an_export_that_fails_is_an_error_with_the_users_exception(instrument, exporter):
    class Broken(torch.nn.Module):
        def forward(self, x):
            raise error

    error = LookupError("mine")
    instrument()
    with pytest.raises(LookupError) as caught:
        torch.export.export(Broken(), (INPUT,))
    assert caught.value is error
    assert named(exporter.get_finished_spans(), "torch.export").attributes["error.type"] == "LookupError"


class Hostile(torch.nn.Module):
    """Cannot be hashed, and says it equals everything."""

    __hash__ = None

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(16, 4)

    def __eq__(self, other):
        raise RuntimeError("compared")

    def forward(self, x):
        return torch.relu(x)


def test_what_is_no_exported_program_is_not_looked_up(instrument, exporter, caplog):
    instrument()
    with pytest.raises(Exception) as caught:
        torch_tensorrt.dynamo.compile(Hostile(), arg_inputs=[INPUT])
    assert "compared" not in str(caught.value)
    assert not [message for message in caplog.messages if "less telemetry" in message]
    assert named(exporter.get_finished_spans(), "torch_tensorrt.compile").links == ()


def test_a_name_that_the_program_took_before_is_replaced_and_put_back(instrument, exporter, monkeypatch):
    original = torch.export.export
    program = types.ModuleType("program_of_the_user")
    program.export_it = torch.export.export
    monkeypatch.setitem(sys.modules, program.__name__, program)
    instrumentor = instrument()
    program.export_it(models.seeded(models.Mlp), (INPUT,))
    assert outline(exporter.get_finished_spans()) == ["torch.export"]
    instrumentor.uninstrument()
    holders = (torch.export.export, program.export_it, torch_tensorrt.dynamo._tracer.export)
    assert all(each is original for each in holders)
