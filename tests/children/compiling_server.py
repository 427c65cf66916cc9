# SPDX-License-Identifier: Apache-2.0
"""An application for gunicorn that imports Torch-TensorRT before the fork, and compiles at each request."""

import json
import os

import torch
import torch_tensorrt
from opentelemetry import propagate, trace
from opentelemetry.trace import SpanKind

tracer = trace.get_tracer("user")
model = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.ReLU()).eval()
rows = torch.ones(2, 16)


def wsgi(environ, start_response):
    caller = propagate.extract({"traceparent": environ["HTTP_TRACEPARENT"]})
    with tracer.start_as_current_span("request", caller, SpanKind.SERVER):
        torch_tensorrt.compile(model, ir="dynamo", inputs=[rows], min_block_size=1)(rows)
    body = json.dumps({"pid": os.getpid()}).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
