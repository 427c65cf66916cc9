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
from torchspan.cli.run import PAGE_HELP, run_program
from torchspan.output.sdk import _path


class DemoCommand:
    """Compile small models with torch.compile or Torch-TensorRT and show the trace.

    With Torch-TensorRT: a small transformer, and a convolutional net with one operator that has no converter, so that a
    fallback shows. Uses the GPU if there is one. Without a GPU, the pipeline is real up to the finished engines, and a
    stand-in runs them. Without Torch-TensorRT, or with --torch-compile: a short training with torch.compile on the CPU,
    with a graph break and a recompilation.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--output", metavar="FILE", help="write the traces to FILE (default: they are not kept)")
        parser.add_argument(
            "--torch-compile",
            action="store_true",
            help="compile with torch.compile alone, as where Torch-TensorRT is not installed",
        )
        parser.add_argument("--html", metavar="FILE", help=PAGE_HELP)
        add_options(parser)

    def run(self, arguments: argparse.Namespace) -> int:
        if not _is_installed("torch"):
            raise CommandError(
                "needs torch; install with: pip install torch, or with Torch-TensorRT: pip install 'torchspan[demo]'"
            )
        if arguments.output:
            return _child.exit_like(self._run(arguments, named(arguments.output, "--output")))
        with scratch_folder() as folder:
            status = self._run(arguments, Output(f"{_path.escape(folder.path)}{os.sep}demo.jsonl"))
        streams.say("torchspan: to keep the traces: torchspan demo --output demo.jsonl")
        return _child.exit_like(status)

    def _run(self, arguments: argparse.Namespace, output: Output) -> int:
        return run_program(
            [sys.executable, "-m", f"torchspan.cli.{_program(arguments)}"],
            output=output,
            names_file=bool(arguments.output),
            draws=True,
            variables=variables(arguments),
            page=arguments.html,
        )


def _program(arguments: argparse.Namespace) -> str:
    """The module that compiles, and what is said of it where the installation decides."""
    if arguments.torch_compile:
        return "_torch_demo_program"
    if _is_installed("torch_tensorrt"):
        return "_demo_program"
    streams.say("torchspan: torch_tensorrt is not installed: a demo of torch.compile alone")
    return "_torch_demo_program"


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ValueError:  # a module that is None in sys.modules has no spec
        return False
