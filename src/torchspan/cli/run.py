# SPDX-License-Identifier: Apache-2.0
"""`torchspan run`."""

from __future__ import annotations

import argparse
import importlib.util
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from torchspan.cli import _child
from torchspan.cli import _output as _output_file
from torchspan.cli._command import CommandError
from torchspan.cli._conclusion import Conclusion, say
from torchspan.cli._options import add_options, variables
from torchspan.cli._output import Output
from torchspan.cli._redacted_copy import HELP
from torchspan.cli._run_folder import scratch_folder
from torchspan.start import launched
from torchspan.start.launched.run_settings import RunSettings, new_span
from torchspan.words.environment_variables import (
    TORCHSPAN_CAPTURE,
    TORCHSPAN_FILE,
    TORCHSPAN_RUN,
    TORCHSPAN_RUN_EXIT_TIMEOUT,
)
from torchspan.words.settings import resolved_variable

# --- the environment of the program ---------------------------------------------------------------------------------
SITE = str(Path(launched.__file__).parent / "site")
"""The folder of the `sitecustomize` that starts torchspan in each Python process."""


def environment(base: Mapping[str, str], settings: RunSettings, variables: Mapping[str, str]) -> dict[str, str]:
    """The program's environment: the user's own, plus what starts torchspan in each Python process.

    Args:
        variables: Those of the settings that the command line gives; they win over the user's own.
    """
    added = {"PYTHONPATH": _python_path(base.get("PYTHONPATH", "")), TORCHSPAN_RUN: settings.to_text()}
    return {**base, **added, **variables}


def _python_path(users: str) -> str:
    """The folder of `run` first, then exactly the user's entries (an empty one means the current folder)."""
    entries = [entry for entry in users.split(os.pathsep) if entry != SITE] if users else []
    return os.pathsep.join([SITE, *entries])


# ------------------------------------------------------------------------------------------------------------------
PAGE_HELP = "also write a page for the browser to FILE, as `torchspan show --html` does"
_NEEDED = ("opentelemetry.sdk", "opentelemetry.instrumentation")


class RunCommand:
    """Run a program and show what torch.compile, Torch-TensorRT and TensorRT did in it.

    torchspan run [options] -- python app.py arguments...

    The program runs as it would alone: its output, its exit status and its signals pass through. Its traces are
    written to a file, and sent to the exporters that OTEL_TRACES_EXPORTER names. At the end, they are drawn on stderr
    as a waterfall. Python processes that the program starts are traced too.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.usage = "torchspan run [options] -- program arguments..."
        parser.add_argument(
            "--output",
            metavar="FILE",
            help="append the traces to FILE (%%p: process id, %%t: time); "
            f"default: {TORCHSPAN_FILE} if it can be written, else torchspan-<time>-<pid>.jsonl in the current folder, or in the temporary "
            "folder if the current one cannot be written",
        )
        parser.add_argument(
            "--observe-inputs",
            metavar="MODULE:CLASS",
            action="append",
            default=[],
            type=_class,
            help="observe what every object of this class is called with, and write that to a file next to the traces; may be "
            "given several times; to read the file: torchspan inputs FILE",
        )
        parser.add_argument("--html", metavar="FILE", help=PAGE_HELP)
        add_options(parser)
        texts = parser.add_mutually_exclusive_group()
        texts.add_argument("--text", action="store_true", help=HELP)
        texts.add_argument(
            "--redact", action="store_true", help=f"keep the whole texts of messages nowhere ({TORCHSPAN_CAPTURE}=none)"
        )
        parser.add_argument("--quiet", action="store_true", help="write the file, but draw no waterfall")
        parser.add_argument("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)

    def run(self, arguments: argparse.Namespace) -> int:
        command = [*arguments.program, *(arguments.rest or ())]
        if not command:
            raise CommandError("no program to run; usage: torchspan run [options] -- program arguments...", 2)
        status = run_program(
            command,
            output=_output(arguments.output),
            names_file=not arguments.output,
            draws=not arguments.quiet,
            variables={**variables(arguments), **({TORCHSPAN_CAPTURE: "none"} if arguments.redact else {})},
            shows_texts=arguments.text,
            inputs=tuple(dict.fromkeys(arguments.observe_inputs)),
            page=arguments.html,
        )
        return _child.exit_like(status)


def run_program(
    command: Sequence[str],
    *,
    output: Output,
    names_file: bool,
    draws: bool,
    variables: Mapping[str, str],
    shows_texts: bool = False,
    inputs: tuple[str, ...] = (),
    page: str | None = None,
) -> int:
    """Run a program traced, draw what it did on stderr, and return its status (negative: the signal it died of).

    Raises CommandError when it cannot be started. After that the status is the program's, whatever fails here.

    Args:
        output: Where the traces go.
        names_file: Say on stderr which file that is.
        variables: The settings that the command line gives, as environment variables.
        shows_texts: Show the whole texts of messages also where stderr is not a terminal.
        inputs: The classes whose calls are observed.
        page: The file for the page, which is written when the program has ended.
    """
    if not hasattr(os, "fork"):
        raise CommandError(
            "`torchspan run` needs Linux or macOS; on Windows, instrument the program: opentelemetry-instrument"
        )
    program = _child.find(command[0])
    _require_opentelemetry()
    if page:
        from torchspan.cli import _view_files

        _view_files.check(page, "--html")
    sizes = _output_file.sizes(output)
    with scratch_folder() as reports:
        span = new_span(os.environ.get("TRACEPARENT"))
        settings = RunSettings(
            secrets.token_hex(8), output.template, reports.path, span, time.time_ns(), _exit_seconds(), inputs
        )
        environ = environment(os.environ, settings, variables)
        conclude = Conclusion(
            settings, reports, output, command, program, environ, draws, names_file, sizes, shows_texts, page
        )
        return _child.run(command, environ, conclude)


def _class(path: str) -> str:
    """The name of a class, for argparse. Raises ArgumentTypeError."""
    from torchspan.inputs.port import parsed_class

    try:
        return parsed_class(path)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _output(file: str | None) -> Output:
    if file:
        return _output_file.named(file, "--output")
    variable = os.environ.get(TORCHSPAN_FILE)
    return _output_file.from_environment(variable) if variable else _output_file.default()


def _require_opentelemetry() -> None:
    """Raises CommandError when parts of OpenTelemetry are missing."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise CommandError(f"needs {', '.join(missing)}; install with: pip install 'torchspan[cli]'")


def _exit_seconds() -> float:
    limit = resolved_variable(TORCHSPAN_RUN_EXIT_TIMEOUT)
    if limit.refused is not None:
        say(limit.refused)
    return float(limit.value)
