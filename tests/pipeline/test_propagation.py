# SPDX-License-Identifier: Apache-2.0
"""Real compilations in pools and in processes of their own."""

import multiprocessing
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch_tensorrt
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor

from support import models
from support.receiver import Receiver
from support.tree import outline
from torchspan import TorchspanInstrumentor

COMPILE = """\
  torch_tensorrt.compile
    torch_tensorrt.lower.pre_export
    torch_tensorrt.decompose
    torch_tensorrt.lower
    torch_tensorrt.partition
    torch_tensorrt.convert
      torch_tensorrt.construct_network
      tensorrt.build_engine
      tensorrt.deserialize_engine
      torch_tensorrt.setup_engine
        tensorrt.deserialize_engine"""


def exported(*sizes):
    """A model of each batch size, exported outside of what is tested."""
    return [
        (torch.export.export(models.seeded(models.Mlp), (torch.ones(size, 16),)), [torch.ones(size, 16)])
        for size in sizes
    ]


def test_several_models_compiled_by_one_worker_are_one_trace_below_the_request(instrument, exporter, tracer):
    programs = exported(2, 3, 4)
    instrument()
    with ThreadPoolExecutor(1) as pool, tracer.start_as_current_span("request"):
        compiled = [
            pool.submit(torch_tensorrt.dynamo.compile, program, arg_inputs=inputs, min_block_size=1)
            for program, inputs in programs
        ]
        results = [future.result() for future in compiled]

    assert [isinstance(result, torch.fx.GraphModule) for result in results] == [True] * 3
    spans = exporter.get_finished_spans()
    assert outline(spans) == ["request\n" + "\n".join([COMPILE] * 3)]
    assert len({span.context.span_id for span in spans}) == len(spans)


def test_several_models_compiled_by_threads_that_take_turns_are_one_trace_too(instrument, exporter, tracer):
    programs = exported(2, 3)
    instrument()
    turn = threading.Lock()  # upstream cannot compile twice at a time

    def compile_in_turn(program, inputs):
        with turn:
            return torch_tensorrt.dynamo.compile(program, arg_inputs=inputs, min_block_size=1)

    with ThreadPoolExecutor(2) as pool, tracer.start_as_current_span("request"):
        for future in [pool.submit(compile_in_turn, *each) for each in programs]:
            future.result()

    assert outline(exporter.get_finished_spans()) == ["request\n" + "\n".join([COMPILE] * 2)]


def compile_in_a_process(endpoint):
    """What a program's worker does that sets up its own exporter; it does not instrument."""
    provider = TracerProvider()
    provider.add_span_processor(
        BatchSpanProcessor(OTLPSpanExporter(f"{endpoint}/v1/traces"), schedule_delay_millis=3_600_000)
    )
    trace.set_tracer_provider(provider)
    ((program, inputs),) = exported(2)
    torch_tensorrt.dynamo.compile(program, arg_inputs=inputs, min_block_size=1)


@pytest.mark.slow
def test_a_spawned_process_compiles_below_the_request_with_its_parents_settings():
    with Receiver() as receiver:
        own = TracerProvider(shutdown_on_exit=False)
        own.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{receiver.endpoint}/v1/traces")))
        instrumentor = TorchspanInstrumentor()
        instrumentor.instrument(tracer_provider=own, detail="passes", without_gpu=True)
        try:
            with own.get_tracer("user").start_as_current_span("request"):
                process = multiprocessing.get_context("spawn").Process(
                    target=compile_in_a_process, args=(receiver.endpoint,)
                )
                process.start()
                process.join()
        finally:
            instrumentor.uninstrument()
        assert process.exitcode == 0
        spans = receiver.spans()

    (request,) = [span for span in spans if span.name == "request"]
    (compilation,) = [span for span in spans if span.name == "torch_tensorrt.compile"]
    assert (compilation.trace_id, compilation.parent_id) == (request.trace_id, request.span_id)
    assert compilation.resource["service.instance.id"] != request.resource["service.instance.id"]
    assert {span.trace_id for span in spans} == {request.trace_id}
    assert len([span for span in spans if span.name.startswith("torch_tensorrt.pass ")]) > 10
    assert not [name for name in os.environ if name.startswith("TORCHSPAN_")]
