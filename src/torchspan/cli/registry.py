# SPDX-License-Identifier: Apache-2.0
"""`torchspan registry`."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import torchspan
from torchspan.cli import _stderr_lines as streams
from torchspan.cli._command import CommandError
from torchspan.reading.answers.lines import printable


class RegistryCommand:
    """Write the registry of torchspan's names, in OpenTelemetry's format, into a new folder.

    It has the names of all spans, events, attributes and metrics of torch.compile, Torch-TensorRT and TensorRT.
    Weaver reads it: `weaver registry check --v2 -r FOLDER` checks it, and `weaver registry live-check --v2 -r FOLDER` compares telemetry
    with it. The names are those of this version of torchspan.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """The folder."""
        parser.add_argument("path", metavar="FOLDER", help="a folder that does not exist yet")

    def run(self, arguments: argparse.Namespace) -> int:
        """Copy the files. Raises CommandError if something of that name exists, or the folder cannot be written."""
        target = Path(arguments.path)
        try:
            shutil.copytree(_source(), target)
        except FileExistsError:
            raise CommandError(f"{printable(str(target))} exists; name a folder that does not exist yet", 2) from None
        except (OSError, shutil.Error) as error:
            reason = printable(str(getattr(error, "strerror", None) or error))
            raise CommandError(f"cannot write {printable(str(target))}: {reason}; name another folder", 2) from None
        streams.say(f"torchspan registry: wrote {printable(str(target))}")
        return 0


def _source() -> Path:
    """The folder of the registry: in the package, or in the clone if torchspan is installed from one as editable."""
    package = Path(torchspan.__file__).parent
    installed = package / "registry"
    return installed if installed.is_dir() else package.parents[1] / "registry"
