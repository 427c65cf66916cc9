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
from support.tree import SECONDS, named, outline, without_clocks

INPUT = torch.ones(2, 16)


def compiled(program, **settings):
    return torch_tensorrt.dynamo.compile(program, arg_inputs=[INPUT], min_block_size=1, **settings)


def linked(span):
    return [link.context for link in span.links]


@pytest.mark.parametrize("strict", [False, True], ids=["non-strict", "strict"])
def test_an_export_by_the_program_is_a_span(instrument, exporter, strict):
    instrument()
    torch.export.export(models.seeded(models.Mlp), (INPUT,), strict=strict)
    assert without_clocks(named(exporter.get_finished_spans(), "torch.export").attributes) == {
        "torchspan.keep": True,
        "torch.model.class": "Mlp",
        "torch.export.strict": strict,
        "torch.inputs.shapes": ("[2, 16]",),
        "torch.inputs.dtypes": ("float32",),
        "torch.graph.nodes.count": 9,
        "code.file.path": "pipeline/test_export.py",
        "code.line.number": 32,
        "code.function.name": "test_an_export_by_the_program_is_a_span",
    }


def test_a_non_strict_export_traces_the_module_itself(instrument, exporter):
    instrument()
    torch.export.export(models.seeded(models.Mlp), (INPUT,), strict=False)
    assert outline(exporter.get_finished_spans()) == ["torch.export\n  torch.export.trace"]


def test_a_strict_export_captures_a_graph_with_dynamo_and_traces_that(instrument, exporter):
    instrument()
    torch.export.export(models.seeded(models.Mlp), (INPUT,), strict=True)
    spans = exporter.get_finished_spans()
    assert outline(spans) == ["torch.export\n  torch.export.capture\n  torch.export.trace"]
    assert without_clocks(named(spans, "torch.export.capture").attributes) == {
        "torchspan.keep": True,
        "torch.graph.nodes.after": 9,
    }


# --- what was asked, and what came out ---------------------------------------------------------------------------------
@pytest.mark.parametrize("strict", [False, True], ids=["non-strict", "strict"])
def test_the_inputs_of_a_trace_are_there_as_they_were_asked_for(instrument, exporter, strict):
    class Scales(torch.nn.Module):
        def forward(self, x, scale):
            return x * scale

    instrument()
    torch_tensorrt.dynamo.trace(
        Scales(),
        arg_inputs=[torch_tensorrt.Input(min_shape=(1, 16), opt_shape=(4, 16), max_shape=(8, 16), name="x")],
        kwarg_inputs={"scale": torch_tensorrt.Input((16,), name="SECRET")},
        strict=strict,
    )
    spans = exporter.get_finished_spans()
    trace, export = named(spans, "torch_tensorrt.trace"), named(spans, "torch.export")
    assert trace.attributes["torch.export.strict"] is export.attributes["torch.export.strict"] is strict
    assert trace.attributes["torch.inputs.shapes"] == ("[1..4..8, 16]", "[16]")
    assert export.attributes["torch.inputs.shapes"] == ("[4, 16]", "[16]")
    assert export.attributes["torch.export.dynamic_shapes"] == ("inputs[0].shape[0]: [1, 8]",)


def test_a_named_dimension_is_reported_by_where_it_is(instrument, exporter):
    class Joins(torch.nn.Module):
        def forward(self, x, y, pair, free):
            return torch.cat([x, x]) + y, pair[0] + 1, free * 2

    dimension = torch.export.Dim("SECRET", min=2, max=8)
    shapes = {
        "y": {0: 2 * dimension, 1: None},
        "x": [dimension, torch.export.Dim.STATIC],
        "pair": [{0: torch.export.Dim.AUTO}],
        "free": {0: torch.export.Dim.DYNAMIC(min=2), 1: torch.export.Dim("other")},
    }
    instrument()
    torch.export.export(
        Joins(), (INPUT, torch.ones(4, 16), [torch.ones(4, 16)], torch.ones(3, 5)), dynamic_shapes=shapes
    )
    assert named(exporter.get_finished_spans(), "torch.export").attributes["torch.export.dynamic_shapes"] == (
        "inputs[1].shape[0]: [4, 16]",
        "inputs[0].shape[0]: [2, 8]",
        "inputs[0].shape[1]: static",
        "inputs[2][0].shape[0]: auto",
        "inputs[3].shape[0]: dynamic [2, int_oo]",
        "inputs[3].shape[1]: [0, int_oo]",
    )


def test_a_decomposition_by_the_program_is_a_span(instrument, exporter):
    instrument()
    program = torch.export.export(models.seeded(models.Mlp), (INPUT,))
    program.run_decompositions()
    program.run_decompositions({})
    spans = [each for each in exporter.get_finished_spans() if each.name == "torch.export.decompose"]
    unlifted = {
        "torchspan.steps.names": ("ExportedProgram.module",),
        "torchspan.steps.counts": (1,),
        "torchspan.steps.durations": SECONDS,
    }
    assert [without_clocks(each.attributes) for each in spans] == [
        {
            **unlifted,
            "torchspan.keep": True,
            "torch.graph.nodes.before": 9,
            "torch.graph.nodes.after": 11,
        },
        {
            **unlifted,
            "torchspan.keep": True,
            "torch.graph.nodes.before": 9,
            "torch.graph.nodes.after": 9,
        },
    ]


def test_within_a_compilation_it_is_the_compilers_decomposition(recorded):
    names = {span.name for span in recorded(work.mlp).spans}
    assert "torch_tensorrt.decompose" in names and "torch.export.decompose" not in names


# --- the tracer is imported late --------------------------------------------------------------------------------------
@pytest.fixture
def _without_tracer(monkeypatch):
    """PyTorch's tracer has not been imported, as in a program without Torch-TensorRT."""
    monkeypatch.delitem(sys.modules, "torch.export._trace", raising=False)
    monkeypatch.delattr(torch.export, "_trace", raising=False)


@pytest.mark.usefixtures("_without_tracer")
def test_the_export_that_imports_pytorchs_tracer_is_a_span(instrument, exporter):
    instrument()
    assert "torch.export._trace" not in sys.modules
    torch.export.export(models.seeded(models.Mlp), (INPUT,))
    assert outline(exporter.get_finished_spans()) == ["torch.export\n  torch.export.trace"]


# --- exports that fail -------------------------------------------------------------------------------------------------
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
    """What the span of an export that fails says about the cause, without the place of this call where that is all it knows."""
    with pytest.raises(RuntimeError):
        torch.export.export(model.eval(), inputs, **options)
    attributes = named(exporter.get_finished_spans(), "torch.export").attributes
    place = () if attributes["code.function.name"] == "failed_export" else ("code.",)
    told = ("torch.export.failed.", "torch.export.violated", *place)
    return {key: value for key, value in attributes.items() if key.startswith(told)}


@pytest.mark.parametrize("strict", [False, True], ids=["non-strict", "strict"])
def test_an_export_that_fails_for_a_condition_on_data_names_the_place_in_the_model(instrument, exporter, strict):
    instrument()
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    line = 1 + next(number for number, line in enumerate(lines) if "# the condition" in line)
    where = f"at pipeline/test_export.py:{line} in forward"
    # Dynamo, in strict mode, has no operator that makes a number of the data.
    cause = {
        False: {
            "torch.export.failed.operator": "torch.ops.aten.item.default",
            "torch.export.failed.reason": f"a condition depends on the result of torch.ops.aten.item.default, {where}",
        },
        True: {"torch.export.failed.reason": f"Dynamo cannot trace: Data-dependent branching, {where}"},
    }
    assert failed_export(exporter, Branches(), (INPUT,), strict=strict) == {
        **cause[strict],
        "code.file.path": "pipeline/test_export.py",
        "code.line.number": line,
        "code.function.name": "forward",
    }


@pytest.mark.parametrize("strict", [False, True], ids=["non-strict", "strict"])
@pytest.mark.parametrize("shape", [dict, list])
def test_an_export_that_fails_for_a_dynamic_dimension_names_it(instrument, exporter, shape, strict):
    instrument()
    dimension = torch.export.Dim("SECRET")
    shapes = {"x": {0: dimension}, "other": None} if shape is dict else [None, [dimension, None]]
    assert failed_export(exporter, Reshapes(), (INPUT, INPUT), dynamic_shapes=shapes, strict=strict) == {
        "torch.export.violated_constraints": ("inputs[1].shape[0]: specialized to a constant",),
        "torch.export.failed.reason": "constraint violated: inputs[1].shape[0]: specialized to a constant",
    }


@pytest.mark.parametrize("strict", [False, True], ids=["non-strict", "strict"])
def test_an_export_that_fails_for_a_dimension_without_a_name_tells_where_it_is(instrument, exporter, strict):
    class Doubles(torch.nn.Module):
        def forward(self, pair, y):
            return torch.cat([y, y]) + pair[0]

    dimension = torch.export.Dim("SECRET")
    shapes = {"y": {0: dimension}, "pair": [{0: torch.export.Dim.DYNAMIC}]}
    instrument()
    assert failed_export(exporter, Doubles(), ([torch.ones(4, 16)], INPUT), dynamic_shapes=shapes, strict=strict) == {
        "torch.export.violated_constraints": ("inputs[0][0].shape[0]: always related to inputs[1].shape[0]",),
        "torch.export.failed.reason": "constraint violated: inputs[0][0].shape[0]: always related to inputs[1].shape[0]",
    }


class OwnError(RuntimeError):
    """An exception of a model's own, with what torch's exceptions have."""

    @property
    def func(self):
        raise ValueError("SECRET")


def test_an_exception_of_the_models_own_is_asked_for_only_its_place(instrument, exporter, caplog):
    class Fails(torch.nn.Module):
        def forward(self, x):
            raise OwnError

    instrument()
    found = failed_export(exporter, Fails(), (INPUT,), strict=False)
    line = found.pop("code.line.number")
    assert line > 0
    assert found == {
        "code.file.path": "pipeline/test_export.py",
        "code.function.name": "forward",
        "torch.export.failed.reason": f"{__name__}.OwnError was raised, at pipeline/test_export.py:{line} in forward",
    }
    assert not [record for record in caplog.records if record.name == "torchspan"]


def test_an_export_that_fails_for_dimensions_that_must_be_equal_names_both(instrument, exporter):
    class Adds(torch.nn.Module):
        def forward(self, x, y):
            return x + y

    instrument()
    shapes = {"x": {0: torch.export.Dim("one")}, "y": {0: torch.export.Dim("two")}}
    assert failed_export(exporter, Adds(), (INPUT, INPUT + 1), dynamic_shapes=shapes) == {
        "torch.export.violated_constraints": ("inputs[1].shape[0]: always equal to inputs[0].shape[0]",),
        "torch.export.failed.reason": "constraint violated: inputs[1].shape[0]: always equal to inputs[0].shape[0]",
    }


def test_a_trace_that_fails_has_the_reason_of_its_export(instrument, exporter):
    instrument()
    with pytest.raises(RuntimeError):
        torch_tensorrt.dynamo.trace(Branches().eval(), arg_inputs=(INPUT,))
    spans = exporter.get_finished_spans()
    reason = named(spans, "torch_tensorrt.trace").attributes["torch.export.failed.reason"]
    assert reason.startswith(
        "a condition depends on the result of torch.ops.aten.item.default, at pipeline/test_export"
    )
    assert named(spans, "torch.export").attributes["torch.export.failed.reason"] == reason


def test_an_export_that_is_refused_says_for_which_of_pytorchs_reasons(instrument, exporter):
    instrument()
    shapes = {"SECRET": {0: torch.export.Dim("SECRET")}}
    found = failed_export(exporter, models.seeded(models.Mlp), (INPUT,), dynamic_shapes=shapes)
    assert found["torch.export.failed.reason"].startswith("refused: invalid_input")
    assert "SECRET" not in str(found)


def test_an_export_that_fails_for_an_operator_without_a_kernel_for_fake_tensors_names_it(instrument, exporter):
    with torch.library._scoped_library("torchspan_tests_export", "FRAGMENT") as library:
        library.define("unfaked(Tensor x) -> Tensor")
        library.impl("unfaked", torch.clone, "CPU")

        class Uses(torch.nn.Module):
            def forward(self, x):
                return torch.ops.torchspan_tests_export.unfaked(x)

        instrument()
        found = failed_export(exporter, Uses(), (INPUT,))
    reason = (
        "no kernel for tensors without data: torch.ops.torchspan_tests_export.unfaked.default, at pipeline/test_export"
    )
    assert found["torch.export.failed.reason"].startswith(reason)


# --- links -------------------------------------------------------------------------------------------------------------
def test_the_compilation_of_an_exported_program_links_to_the_export(instrument, exporter):
    instrument()
    compiled(torch.export.export(models.seeded(models.Mlp), (INPUT,)))
    spans = exporter.get_finished_spans()
    assert [line.partition("\n")[0] for line in outline(spans)] == ["torch.export", "torch_tensorrt.compile"]
    export, compilation = named(spans, "torch.export"), named(spans, "torch_tensorrt.compile")
    assert export.context.trace_id != compilation.context.trace_id
    assert linked(compilation) == [export.get_span_context()]
    assert compilation.attributes["torch.model.class"] == "Mlp"


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


def test_what_is_not_an_exported_program_is_not_looked_up(instrument, exporter, caplog):
    instrument()
    with pytest.raises(Exception) as caught:
        torch_tensorrt.dynamo.compile(Hostile(), arg_inputs=[INPUT])
    assert "compared" not in str(caught.value)
    assert not [message for message in caplog.messages if "less telemetry" in message]
    assert named(exporter.get_finished_spans(), "torch_tensorrt.compile").links == ()


def test_a_name_that_the_program_took_before_is_replaced_and_restored(instrument, exporter, monkeypatch):
    original = torch.export.export
    program = types.ModuleType("program_of_the_user")
    program.export_it = torch.export.export
    monkeypatch.setitem(sys.modules, program.__name__, program)
    instrumentor = instrument()
    program.export_it(models.seeded(models.Mlp), (INPUT,))
    assert outline(exporter.get_finished_spans()) == ["torch.export\n  torch.export.trace"]
    instrumentor.uninstrument()
    holders = (torch.export.export, program.export_it, torch_tensorrt.dynamo._tracer.export)
    assert all(each is original for each in holders)
