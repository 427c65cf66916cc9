# SPDX-License-Identifier: Apache-2.0
"""`torchspan demo`."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys

from torchspan.cli import _child
from torchspan.cli import _stderr_lines as streams
from torchspan.cli._command import CommandError
from torchspan.cli._options import add_options, variables
from torchspan.cli._output import Output, named
from torchspan.cli._run_folder import scratch_folder
from torchspan.cli.run import run_program
from torchspan.sdk import _path


class DemoCommand:
    """Compile two small models with Torch-TensorRT and show the trace.

    For a trace of torch.compile alone, run a program of yours: torchspan run -- python app.py

    A small transformer, and a convolutional net with one operator that has no converter, so that a fallback shows.
    Uses the GPU if there is one. Without a GPU, the pipeline is real up to the finished engines, and a stand-in runs
    them.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--output", metavar="FILE", help="write the traces to FILE (default: they are not kept)")
        add_options(parser)

    def run(self, arguments: argparse.Namespace) -> int:
        missing = [name for name in ("torch", "torch_tensorrt") if importlib.util.find_spec(name) is None]
        if missing:
            raise CommandError(f"needs {' and '.join(missing)}; install with: pip install 'torchspan[demo]'")
        if arguments.output:
            return _child.exit_like(self._run(arguments, named(arguments.output, "--output")))
        with scratch_folder() as folder:
            status = self._run(arguments, Output(f"{_path.escape(folder.path)}{os.sep}demo.jsonl"))
        streams.say("torchspan: to keep the traces: torchspan demo --output demo.jsonl")
        return _child.exit_like(status)

    def _run(self, arguments: argparse.Namespace, output: Output) -> int:
        return run_program(
            [sys.executable, "-m", "torchspan.cli._demo_program"],
            output=output,
            names_file=bool(arguments.output),
            draws=True,
            variables=variables(arguments),
        )
