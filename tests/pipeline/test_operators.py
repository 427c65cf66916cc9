# SPDX-License-Identifier: Apache-2.0
"""PyTorch's operators and Torch-TensorRT: below runs of engines, not below compilations, and nothing else changes."""

import hashlib

import pytest
import torch
import torch_tensorrt

import torchspan
from support import models
from support.operators import BLOCK, children, operators, recording, table
from torchspan.start import instrumentor

pytestmark = pytest.mark.usefixtures("native_library")

EXECUTE = "torch_tensorrt.execute"


def compiled(model_class, x):
    return torch_tensorrt.compile(models.seeded(model_class), ir="dynamo", inputs=[x], min_block_size=1)


def engines(module):
    """sha256 of each engine, by the name of its subgraph."""
    return {
        name: hashlib.sha256(child.serialized_engine).hexdigest()
        for name, child in module.named_children()
        if hasattr(child, "serialized_engine")
    }


def request():
    return instrumentor.tracer_provider().get_tracer("user").start_as_current_span("request")


# --- runs of engines ----------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def runs(native_library):
    """A net with an operator that stays in PyTorch, compiled, and run twice in a request, by the setting: what was captured."""
    recorded = {}
    x = models.image()
    for mode in ("off", "sampled", "on"):
        with torch.no_grad(), recording(operators=mode) as trace:
            module = compiled(models.Fallback, x)
            module(x)  # outside every span
            with request():
                module(x)
        recorded[mode] = trace, engines(module), module(x)
    return recorded


def by_start(trace, name):
    return sorted(trace.find(name), key=lambda span: span.start_ns)


@pytest.mark.parametrize("mode", ["off", "sampled", "on"])
def test_no_operator_is_below_a_compilation_or_below_the_request(runs, mode):
    trace = runs[mode][0]
    roots = {span.span_id for span in trace.find(EXECUTE)}
    spans = {span.span_id: span for span in operators(trace)}
    assert {span.parent_id for span in spans.values() if span.parent_id not in spans} <= roots
    assert "torch.operators.names" not in trace.one("request").attributes
    assert "torch.operators.names" not in trace.one("torch_tensorrt.compile").attributes


def test_off_records_no_operator(runs):
    assert operators(runs["off"][0]) == []


@pytest.mark.parametrize("mode", ["sampled", "on"])
def test_runs_of_engines_in_a_request_are_roots(runs, mode):
    trace = runs[mode][0]
    inside = [span for span in trace.below(trace.one("request")) if span.name == EXECUTE]
    assert len(inside) == 2
    assert all(table(span) for span in inside)


@pytest.mark.parametrize(("mode", "is_root"), [("sampled", False), ("on", True)])
def test_a_first_run_outside_every_span_is_a_root_of_on_alone(runs, mode, is_root):
    trace = runs[mode][0]
    first = [span for span in by_start(trace, EXECUTE) if span.attributes["torch_tensorrt.execute.first"]]
    assert [bool(table(span)) for span in first] == [is_root] * 2


def test_engines_and_results_are_the_same_in_each_mode(runs):
    _, bytes_off, result_off = runs["off"]
    assert bytes_off
    for mode in ("sampled", "on"):
        assert runs[mode][1] == bytes_off
        assert torch.equal(runs[mode][2], result_off)


# --- blocks -------------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def block(native_library):
    """The same net, compiled and run in one block."""
    x = models.image()
    with torch.no_grad(), recording() as trace, torchspan.operators(depth=2, min_duration=0, shapes=True):
        module = compiled(models.Fallback, x)
        compiling = len(operators(trace))
        result = module(x)
    return trace, compiling, engines(module), result


def test_what_a_compilation_runs_in_a_block_is_counted_alone(block):
    trace, compiling, _, _ = block
    compilation = trace.one("torch_tensorrt.compile")
    inside = [
        span.name
        for span in operators(trace)
        if compilation.start_ns <= span.start_ns and span.end_ns <= compilation.end_ns
    ]
    assert (compiling, inside) == (0, [])
    assert trace.one(BLOCK).attributes["torch.operators.suppressed"] > 100


def test_the_operator_that_stays_in_pytorch_is_below_the_block(block):
    trace = block[0]
    assert "aten.special_i1e" in children(trace, trace.one(BLOCK))


def test_engines_that_are_built_in_a_block_are_the_same_bytes(block, runs):
    assert block[2] == runs["off"][1]
    assert torch.equal(block[3], runs["off"][2])


def test_a_converter_that_raises_in_a_block_leaves_the_recording_on(converter):
    converter(models.raises(ValueError("ulterior secret of the program")))
    with recording() as trace, torchspan.operators(depth=1, min_duration=0):
        with pytest.raises(Exception, match="ulterior"):
            compiled(models.Fallback, models.image())
        torch.ones(3).tan()
    assert "aten.tan" in children(trace, trace.one(BLOCK))
