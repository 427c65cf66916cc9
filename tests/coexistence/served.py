# SPDX-License-Identifier: Apache-2.0
"""The program as an application: it works for each request. `wsgi` and `asgi` are what servers look for."""

import asyncio
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from program import Run

PROGRAM = Run(*json.loads(os.environ["PROGRAM_ARGUMENTS"]))


def wsgi(_environ, start_response):
    """The application for gunicorn."""
    body = json.dumps(PROGRAM.work()).encode()
    start_response("200 OK", [("Content-Type", "application/json")])
    return [body]


async def asgi(scope, receive, send):
    """The application for uvicorn."""
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    body = json.dumps(await asyncio.to_thread(PROGRAM.work)).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": body})
