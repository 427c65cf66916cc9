# SPDX-License-Identifier: Apache-2.0
"""Which part of which model an engine is: on its conversion and on its runs."""

import pytest
import torch
import torch_tensorrt

from pipeline.expected import converts_methods, since_2_13
from support import models
from support import recorded as work
from support.tree import named

pytestmark = pytest.mark.slow

MODEL, MODULES, ENGINE = "torch.model.class", "torch_tensorrt.engine.modules", "torch_tensorrt.engine.name"
CONVERT, EXECUTE = "torch_tensorrt.convert", "torch_tensorrt.execute"
STAGES_BY_ENGINE = {
    "_run_on_acc_0": ("Stages", ("layer1.0", "layer1.1")),
    "_run_on_acc_2": ("Stages", ("layer2.0", "head")),
}


def names(spans, name):
    """Engine -> model and modules, on the spans of this name."""
    found = [span.attributes for span in spans if span.name == name]
    return {attributes[ENGINE]: (attributes.get(MODEL), attributes.get(MODULES)) for attributes in found}


def converted(model, inputs=None, **settings):
    """Compile the model with one engine that is built and run."""
    inputs = [models.image()] if inputs is None else inputs
    module = torch_tensorrt.compile(model.eval(), ir="dynamo", inputs=inputs, min_block_size=1, **settings)
    module(*inputs)
    return module


class Keys(torch.nn.Module):
    """Modules under keys: of a ModuleDict, of an OrderedDict, with a space. Takes (batch, 16)."""

    def __init__(self):
        super().__init__()
        self.of_customers = torch.nn.ModuleDict({"alice_doe": torch.nn.Linear(16, 16)})
        self.add_module("bob doe", torch.nn.Linear(16, 16))

    def forward(self, x):
        return self.get_submodule("bob doe")(torch.relu(self.of_customers["alice_doe"](x)))


class Trainer:
    """Has a model, and is none."""

    def __init__(self, model):
        self.model = model

    def step(self, x):
        return self.model(x) * 2


def test_a_conversion_and_a_run_name_the_model_and_the_modules_of_their_engine(recorded):
    spans = recorded(work.stages).spans
    assert names(spans, CONVERT) == STAGES_BY_ENGINE
    assert names(spans, EXECUTE) == STAGES_BY_ENGINE


def test_a_run_in_a_later_trace_has_the_names_of_its_engine(instrument, tracer, exporter):
    instrument()
    module = converted(models.seeded(models.Stages))
    exporter.clear()
    with tracer.start_as_current_span("another request"):
        module(models.image())
    spans = exporter.get_finished_spans()
    assert names(spans, EXECUTE) == STAGES_BY_ENGINE


def test_one_module_is_one_entry(recorded):
    assert names(recorded(work.fallback).spans, EXECUTE) == {
        "_run_on_acc_0": ("Fallback", ("conv",)),
        "_run_on_acc_2": ("Fallback", ("linear",)),
    }


def test_engines_that_are_set_up_after_all_conversions_have_their_names(instrument, exporter):
    instrument()
    converted(models.seeded(models.Stages), lazy_engine_init=True)
    assert names(exporter.get_finished_spans(), EXECUTE) == STAGES_BY_ENGINE


def test_keys_of_dictionaries_and_other_names_than_identifiers_are_left_out(instrument, exporter):
    instrument()
    converted(Keys(), [torch.ones(2, 16)])
    assert names(exporter.get_finished_spans(), CONVERT) == {"_run_on_acc_0": ("Keys", ("of_customers.?", "?"))}


@pytest.mark.parametrize("strict", [False, True])
def test_an_exported_program_names_its_modules(instrument, exporter, strict):
    instrument()
    program = torch.export.export(models.seeded(models.Stages), (models.image(),), strict=strict)
    torch_tensorrt.dynamo.compile(program, arg_inputs=[models.image()], min_block_size=1)
    assert names(exporter.get_finished_spans(), CONVERT) == STAGES_BY_ENGINE


def test_a_graph_of_torch_compile_has_a_model_and_no_modules(instrument, exporter):
    instrument()
    model = torch.compile(models.seeded(models.Stages), backend="tensorrt", options={"min_block_size": 1})
    model(models.image())
    spans = exporter.get_finished_spans()
    expected = {"_run_on_acc_0": ("Stages", None), "_run_on_acc_2": ("Stages", None)}
    assert names(spans, CONVERT) == expected
    assert names(spans, EXECUTE) == expected
    assert named(spans, "torch_tensorrt.compile").attributes[MODEL] == "Stages"


def test_a_distributed_trace_of_torch_compile_has_modules(instrument, exporter):
    instrument()
    options = {"min_block_size": 1, "use_distributed_mode_trace": True}
    torch.compile(models.seeded(models.Stages), backend="tensorrt", options=options)(models.image())
    assert names(exporter.get_finished_spans(), CONVERT) == {
        "_run_on_acc_0": (
            "Stages",
            ("layer1.0", "head"),
        ),  # the weights of the last layer are transposed in the first engine
        "_run_on_acc_2": ("Stages", ("layer2.0", "head")),
    }


def test_a_function_has_no_model(instrument, exporter):
    instrument()
    torch.compile(lambda x: torch.relu(x) * 2, backend="tensorrt", options={"min_block_size": 1})(models.image())
    assert names(exporter.get_finished_spans(), EXECUTE) == {"_run_on_acc_0": (None, None)}


def test_a_method_of_another_class_than_a_module_has_no_model(instrument, exporter):
    instrument()
    trainer = Trainer(models.seeded(models.Stages))
    torch.compile(trainer.step, backend="tensorrt", options={"min_block_size": 1})(models.image())
    assert set(names(exporter.get_finished_spans(), EXECUTE).values()) == {(None, None)}


@converts_methods
def test_the_bytes_of_one_engine_name_their_modules(instrument, exporter):
    instrument()
    torch_tensorrt.convert_method_to_trt_engine(
        models.seeded(models.ConvNet), "forward", ir="dynamo", inputs=[models.image()], min_block_size=1
    )
    span = named(exporter.get_finished_spans(), "torch_tensorrt.convert_to_engine")
    assert (span.attributes[MODEL], span.attributes[MODULES]) == ("ConvNet", ("conv", "linear"))


@since_2_13
def test_a_run_of_an_engine_from_a_file_has_neither(instrument, exporter, tmp_path):
    instrument()
    file, x = str(tmp_path / "model.ep"), models.image()
    torch_tensorrt.save(converted(models.seeded(models.Stages)), file, arg_inputs=[x])
    exporter.clear()
    torch_tensorrt.load(file).module()(x)
    found = [span.attributes for span in exporter.get_finished_spans() if span.name == EXECUTE]
    assert [(attributes.get(MODEL), attributes.get(MODULES)) for attributes in found] == [(None, None)] * 2
