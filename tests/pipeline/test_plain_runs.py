# SPDX-License-Identifier: Apache-2.0
"""Execution contexts that a program makes and runs itself. The stand-in's classes take the place of TensorRT's here."""

import types

import pytest
import tensorrt_rtx as trt
import torch
import torch_tensorrt
from opentelemetry import trace

from support import models
from support.tree import S, assert_trees, named

pytestmark = pytest.mark.stand_in_only("addresses are the host's, and handles of streams are invented")

INPUT = torch.linspace(-1, 1, 32).reshape(2, 16)
OUTPUT = torch.zeros(2, 4)
STAND_IN = {"torchspan.stand_in": True}


@pytest.fixture(scope="module")
def engine():
    """A model's engine as TensorRT gives it to a program, and what the model computes."""
    with torch.no_grad():
        model = models.seeded(models.Mlp)
        module = torch_tensorrt.compile(model, ir="dynamo", inputs=[INPUT], min_block_size=1)
        (plan,) = [each.serialized_engine for each in module.modules() if hasattr(each, "serialized_engine")]
        return trt.Runtime(trt.Logger(trt.Logger.ERROR)).deserialize_cuda_engine(plan), model(INPUT), module


def bound_context(engine, output=OUTPUT):
    """A context of the engine; it is given addresses, so both tensors have to live as long."""
    context = engine.create_execution_context()
    for index, tensor in enumerate((INPUT, output)):
        context.set_tensor_address(engine.get_tensor_name(index), tensor.data_ptr())
    return context


def test_making_and_running_a_context_is_reported_with_shapes_and_the_link_to_its_making(
    instrument, exporter, tracer, engine
):
    instrument()
    output = torch.zeros(2, 4)
    with tracer.start_as_current_span("request"):
        context = bound_context(engine[0], output)
        for _ in range(2):
            assert context.execute_async_v3(7) is True
    assert torch.equal(output, engine[1])
    run = {
        "tensorrt.package": "tensorrt_rtx",
        "tensorrt.version": trt.__version__,
        "tensorrt.inputs.shapes": ("[2, 16]",),
        "tensorrt.inputs.dtypes": ("float32",),
        **STAND_IN,
    }
    spans = exporter.get_finished_spans()
    assert_trees(
        spans,
        [
            S(
                "request",
                {},
                S(
                    "tensorrt.create_context",
                    {
                        "tensorrt.package": "tensorrt_rtx",
                        "tensorrt.version": trt.__version__,
                        "tensorrt.engine.device_memory_size": 0,
                        "torchspan.keep": True,
                        **STAND_IN,
                    },
                ),
                S("tensorrt.execute", {**run, "tensorrt.execute.first": True}),
                S("tensorrt.execute", {**run, "tensorrt.execute.first": False}),
            )
        ],
    )
    made = named(spans, "tensorrt.create_context").get_span_context()
    runs = [span for span in spans if span.name == "tensorrt.execute"]
    assert [[link.context for link in span.links] for span in runs] == [[made], [made]]


@pytest.mark.parametrize("how", ["by position", "by name", "with bindings"])
def test_arguments_may_be_passed_as_tensorrt_takes_them(instrument, exporter, engine, how):
    instrument()
    output = torch.zeros(2, 4)
    context = bound_context(engine[0], output)
    runs = {
        "by position": lambda: context.execute_async_v3(7),
        "by name": lambda: context.execute_async_v3(stream_handle=7),
        "with bindings": lambda: context.execute_v2(bindings=[INPUT.data_ptr(), output.data_ptr()]),
    }
    assert runs[how]() is True
    assert runs[how]() is True  # the first run is watched for, this one passes
    assert torch.equal(output, engine[1])
    assert [span.name for span in exporter.get_finished_spans()] == ["tensorrt.create_context", "tensorrt.execute"]


def test_a_wrong_call_is_a_type_error_that_names_the_argument(instrument, engine):
    instrument()
    context = bound_context(engine[0])
    with pytest.raises(TypeError, match="stream_handle"):
        context.execute_async_v3()


def test_below_a_recording_span_runs_beyond_the_rate_are_folded_into_it(
    instrument, exporter, tracer, engine, monkeypatch
):
    now = [1000.0]
    monkeypatch.setattr("torchspan.engine.rate_limits.time", types.SimpleNamespace(perf_counter=lambda: now[0]))
    instrument()
    context = bound_context(engine[0])
    with tracer.start_as_current_span("request"):
        for _ in range(25):
            context.execute_async_v3(0)
    spans = exporter.get_finished_spans()
    request = named(spans, "request").attributes
    assert len([span for span in spans if span.name == "tensorrt.execute"]) == 11
    assert request["tensorrt.execute.folded.count"] == 14
    assert 0 < request["tensorrt.execute.folded.duration.max"] < request["tensorrt.execute.folded.duration.sum"]
    assert "torch_tensorrt.execute.folded.count" not in request


def test_torch_tensorrts_own_runs_stay_one_span_each_while_the_program_runs_contexts_too(
    instrument, exporter, tracer, engine
):
    instrument()
    unused = bound_context(engine[0])  # its first run is still to come: every run is looked at
    context = bound_context(engine[0])
    exporter.clear()
    with torch.no_grad(), tracer.start_as_current_span("request"):
        engine[2](INPUT)
        context.execute_async_v3(0)
        engine[2](INPUT)
    names = [span.name for span in exporter.get_finished_spans()]
    assert names == ["torch_tensorrt.execute", "tensorrt.execute", "torch_tensorrt.execute", "request"]
    del unused


def test_a_run_that_fails_is_an_error_without_an_exception(instrument, exporter, tracer, engine, monkeypatch):
    monkeypatch.setattr(trt.IExecutionContext, "execute_async_v3", lambda _self, _stream_handle: False)
    instrument()
    with tracer.start_as_current_span("request"):
        assert bound_context(engine[0]).execute_async_v3(0) is False
    assert named(exporter.get_finished_spans(), "tensorrt.execute").attributes["error.type"] == "execution_failed"


def test_a_context_that_cannot_be_made_is_an_error_without_an_exception(instrument, exporter, engine, monkeypatch):
    monkeypatch.setattr(trt.ICudaEngine, "create_execution_context", lambda *_args: None)
    instrument()
    assert engine[0].create_execution_context() is None
    (span,) = exporter.get_finished_spans()
    assert (span.name, span.attributes["error.type"]) == ("tensorrt.create_context", "context_creation_failed")


def test_an_exception_in_a_run_is_the_users_and_the_users_span_stays_current(
    instrument, exporter, tracer, engine, monkeypatch
):
    error = KeyboardInterrupt()

    def interrupted(_self, _stream_handle):
        assert trace.get_current_span() is not request
        raise error

    monkeypatch.setattr(trt.IExecutionContext, "execute_async_v3", interrupted)
    instrument()
    with tracer.start_as_current_span("request") as request:
        with pytest.raises(KeyboardInterrupt) as caught:
            bound_context(engine[0]).execute_async_v3(0)
        assert trace.get_current_span() is request
    assert caught.value is error
    assert named(exporter.get_finished_spans(), "tensorrt.execute").attributes["error.type"] == "KeyboardInterrupt"


def test_a_failure_of_torchspan_costs_the_description_and_not_the_run(
    instrument, exporter, engine, monkeypatch, caplog
):
    monkeypatch.setattr(trt.ICudaEngine, "get_tensor_mode", lambda *_args: 1 / 0)
    instrument()
    context = bound_context(engine[0])
    assert context.execute_async_v3(0) is not None
    assert any("describing a run failed" in message for message in caplog.messages)
