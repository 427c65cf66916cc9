# SPDX-License-Identifier: Apache-2.0
"""An application for gunicorn (`wsgi`) and uvicorn (`asgi`) that compiles when it is imported and at each request.

It answers with its process and the threads of torchspan's that it had when the request came.
"""

import json
import os
import threading
import time

from opentelemetry import propagate, trace
from opentelemetry.trace import SpanKind

import torchspan
from support.bridge import compiles
from torchspan.observers import observable

compiles("AtImport")
tracer = trace.get_tracer("user")


@observable
def infer():
    compiles("AtRequest")
    time.sleep(0.1)  # of two requests at a time each worker answers one


def answer(headers):
    threads = [thread.name for thread in threading.enumerate() if thread.name.startswith("torchspan")]
    with tracer.start_as_current_span("request", propagate.extract(headers), SpanKind.SERVER):
        infer()
    return json.dumps({"pid": os.getpid(), "threads": sorted(threads)}).encode()


def wsgi(environ, start_response):
    body = answer({"traceparent": environ["HTTP_TRACEPARENT"]})
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


async def asgi(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            event = (await receive())["type"]
            if event == "lifespan.shutdown":
                torchspan.flush()
            await send({"type": f"{event}.complete"})
            if event == "lifespan.shutdown":
                return
    body = answer({key.decode(): value.decode() for key, value in scope["headers"]})
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
