# SPDX-License-Identifier: Apache-2.0
"""`instrument()` in one thread while another is in the middle of importing Torch-TensorRT."""

import json

import pytest

PROGRAM = """
import json, sys, threading, time, warnings
warnings.simplefilter("ignore")
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
import torchspan.testing

torchspan.testing.without_gpu()
exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
was_in_the_middle = []

def work():
    while "torch_tensorrt" not in sys.modules:
        time.sleep(0.001)
    torchspan.instrument()
    was_in_the_middle.append(sys.modules["torch_tensorrt"].__spec__._initializing)

thread = threading.Thread(target=work)
thread.start()
import torch
import torch_tensorrt
thread.join()
model = torch.nn.Sequential(torch.nn.Linear(16, 4), torch.nn.ReLU()).eval()
x = torch.ones(2, 16)
with torch.no_grad():
    torch_tensorrt.compile(model, ir="dynamo", inputs=[x], min_block_size=1)(x)
print(json.dumps([was_in_the_middle, [span.name for span in exporter.get_finished_spans()]]))
"""


@pytest.mark.slow
def test_the_first_compilation_after_it_is_traced_whole(ran):
    done = ran(PROGRAM)
    assert done.status == 0, done.err
    was_in_the_middle, names = json.loads(done.out)
    assert was_in_the_middle == [True]
    assert {
        "torch_tensorrt.compile",
        "torch_tensorrt.convert",
        "tensorrt.build_engine",
        "torch_tensorrt.execute",
    } <= set(names)
