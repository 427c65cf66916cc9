# SPDX-License-Identifier: Apache-2.0
"""`in_gunicorn.py PROGRAM PEER ORDER FOLDER`: the work of the program for a request to gunicorn; prints the body of the response."""

import json
import os
import sys
from pathlib import Path

from serving import Server

HERE = Path(__file__).resolve().parent

environment = {**os.environ, "PROGRAM_ARGUMENTS": json.dumps(sys.argv[2:])}
server = Server(
    "gunicorn",
    "--bind",
    "127.0.0.1:0",
    "--timeout",
    "240",
    "--chdir",
    str(HERE),
    "served:wsgi",
    environment=environment,
)
print(server.ask())
status, complaints = server.end()
print("".join(complaints), end="", file=sys.stderr)
sys.exit(status)
