# SPDX-License-Identifier: Apache-2.0
"""One engine, one id: in the job that builds it, in the cache, and in the process that loads it."""

import sys

import pytest
import torch
import torch_tensorrt

from pipeline.expected import VERSION
from support import models
from support import recorded as work
from support.tree import named
from torchspan.hooks.probes.describe.common import engine_id

pytestmark = pytest.mark.slow

INPUT = torch.ones(2, 16)
ID = "tensorrt.engine.id"


def compiled(model=None, **settings):
    program = torch.export.export(model or models.seeded(models.Mlp), (INPUT,))
    return torch_tensorrt.dynamo.compile(program, arg_inputs=[INPUT], min_block_size=1, **settings)


def ids(spans, name):
    return {span.attributes.get(ID) for span in spans if span.name == name}


def engine_of(module):
    (engine,) = [child for _, child in module.named_children() if hasattr(child, "serialized_engine")]
    return engine


def test_every_span_that_has_to_do_with_the_engine_names_it(instrument, exporter):
    instrument()
    module = compiled()
    module(INPUT)
    expected = {engine_id(engine_of(module).serialized_engine)}
    spans = exporter.get_finished_spans()
    for name in (
        "tensorrt.build_engine",
        "torch_tensorrt.convert",
        "tensorrt.deserialize_engine",
        "torch_tensorrt.setup_engine",
        "torch_tensorrt.execute",
    ):
        assert ids(spans, name) == expected, name


def test_two_builds_of_the_same_model_have_one_id_and_another_model_another(instrument, exporter):
    instrument()
    for model in (models.seeded(models.Mlp), models.seeded(models.Mlp), models.Mlp().eval()):
        compiled(model)
    first, second, other = [
        span.attributes[ID] for span in exporter.get_finished_spans() if span.name == "tensorrt.build_engine"
    ]
    assert first == second != other


def test_each_engine_of_a_module_runs_under_its_own_id(recorded):
    spans = recorded(work.fallback).spans
    by_name = {
        name: {s.attributes["torch_tensorrt.engine.name"]: s.attributes[ID] for s in spans if s.name == name}
        for name in ("torch_tensorrt.convert", "torch_tensorrt.execute")
    }
    assert by_name["torch_tensorrt.convert"] == by_name["torch_tensorrt.execute"]
    assert len(set(by_name["torch_tensorrt.execute"].values())) == 2


def test_the_cache_names_what_is_stored_and_what_is_handed_back(instrument, exporter, tmp_path):
    cache = {"cache_built_engines": True, "reuse_cached_engines": True, "immutable_weights": False}
    instrument()
    compiled(engine_cache_dir=str(tmp_path), **cache)
    spans = exporter.get_finished_spans()
    stored = named(spans, "torch_tensorrt.engine_cache.insert").attributes[ID]
    assert {stored} == ids(spans, "tensorrt.build_engine")  # without a GPU weights are not stripped
    exporter.clear()
    module = compiled(engine_cache_dir=str(tmp_path), **cache)
    spans = exporter.get_finished_spans()
    lookup = named(spans, "torch_tensorrt.engine_cache.lookup")
    (reading,) = [each for each in spans if each.parent and each.parent.span_id == lookup.context.span_id and each.name == "tensorrt.deserialize_engine"]  # fmt: skip
    assert reading.attributes[ID] == stored
    assert lookup.attributes[ID] == engine_id(engine_of(module).serialized_engine)
    assert ids(spans, "torch_tensorrt.convert") == {lookup.attributes[ID]}


def refit(module, model, **options):
    program = torch.export.export(model, (INPUT,))
    return torch_tensorrt.dynamo.refit_module_weights(module, program, arg_inputs=[INPUT], **options)


def last_run(exporter, tracer, module):
    exporter.clear()
    with tracer.start_as_current_span("request"):
        result = module(INPUT)
    return named(exporter.get_finished_spans(), "torch_tensorrt.execute").attributes.get(ID), result


@pytest.mark.skipif(VERSION < (2, 13), reason="to 2.12 a refit without a GPU needs use_python_runtime")
@pytest.mark.parametrize("in_place", [True, False], ids=["in place", "a copy"])
def test_after_a_refit_a_run_names_the_engine_with_the_new_weights(instrument, exporter, tracer, in_place):
    instrument()
    module = compiled(immutable_weights=False)
    before, _ = last_run(exporter, tracer, module)
    other = models.Mlp().eval()
    refitted = refit(module, other, in_place=in_place)
    after, result = last_run(exporter, tracer, refitted)
    assert torch.allclose(result, other(INPUT))
    assert after == engine_id(engine_of(refitted).serialized_engine) != before


@pytest.mark.skipif(VERSION < (2, 13), reason="to 2.12 a refit without a GPU needs use_python_runtime")
def test_a_refit_that_failed_leaves_the_engine_without_an_id(instrument, exporter, tracer, monkeypatch):
    instrument()
    module = compiled(immutable_weights=False)
    before, _ = last_run(exporter, tracer, module)
    assert before
    monkeypatch.setattr(sys.modules["tensorrt"].Refitter, "refit_cuda_engine", lambda self: False)
    with pytest.raises(AssertionError, match="Refitting failed"):
        refit(module, models.Mlp().eval(), in_place=True)
    assert last_run(exporter, tracer, module)[0] is None
