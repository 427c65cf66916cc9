# SPDX-License-Identifier: Apache-2.0
"""`python benchmarks`, which is `make bench`: every benchmark in a process of its own. Status 1: a target was missed."""

import os
import platform
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
SCRIPTS = (
    "hot_path.py",
    "sampling.py",
    "engine/subscribers/callbacks.py",
    "operators.py",
    "messages.py",
    "start_up.py",
    "export_and_show.py",
    "reading/views.py",
    "compared.py",
    "exits.py",
    "late.py",
    "compile.py",
    "compile.py --of torch",
    "compile_instructions.py",
    "compile_instructions.py --of tensorrt",
    "durations.py",
    "followed_inputs.py",
    "hooks/device.py",
)

print(f"Python {platform.python_version()}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
statuses = [
    subprocess.run([sys.executable, FOLDER / script, *options], check=False).returncode
    for script, *options in map(str.split, SCRIPTS)
]
raise SystemExit(max(statuses))
