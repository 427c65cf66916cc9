# SPDX-License-Identifier: Apache-2.0
"""`in_uvicorn.py PROGRAM PEER ORDER FOLDER`: the work for a request to uvicorn, and again after the program was changed."""

import json
import os
import sys
from pathlib import Path

from serving import Server

HERE = Path(__file__).resolve().parent
STARTED = "Application startup complete"

folder = Path(sys.argv[4])
watched = folder / "watched"
watched.mkdir()
module = watched / "application.py"
module.write_text(f"import sys\nsys.path.insert(0, {str(HERE)!r})\nfrom served import asgi\n", encoding="utf-8")
environment = {**os.environ, "PROGRAM_ARGUMENTS": json.dumps(sys.argv[2:])}
server = Server(
    "uvicorn", "--port", "0", "--reload", "--reload-dir", str(watched), "--app-dir", str(watched), "application:asgi",
    environment=environment,
)  # fmt: skip
server.wait_for(STARTED, 1)
print(server.ask())
module.write_text(module.read_text(encoding="utf-8") + "# changed\n", encoding="utf-8")
server.wait_for(STARTED, 2)
print(server.ask())
status, complaints = server.end()
print("".join(complaints), end="", file=sys.stderr)
sys.exit(status)
