# SPDX-License-Identifier: Apache-2.0
"""`python -m torchspan.native build`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from torchspan.hooks.native._manifest import TorchBuild, UnavailableError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns the exit status: 1 if the library cannot be built, with the reason on stderr."""
    parser = argparse.ArgumentParser(
        prog="python -m torchspan.native",
        description="Build the C++ library with which torchspan records PyTorch's operators, for the PyTorch of this Python, "
        "into this user's folder for caches. Needs a C++ compiler (CXX, or the first of c++, g++ and clang++) and Python's "
        "headers, and takes 10 to 30 seconds.",
    )
    parser.add_argument("command", choices=["build"], help="build the library, unless one that fits is there")
    parser.add_argument(
        "--wheel",
        metavar="FOLDER",
        type=Path,
        help="also write it as a wheel into FOLDER, to be installed where there is the same PyTorch and no compiler",
    )
    folder: Path | None = parser.parse_args(arguments).wheel
    try:
        target = TorchBuild.imported()
        from torchspan.hooks.native._build import build  # it needs more than Windows has

        library = build(target, _print)
        if folder is not None:
            from torchspan.hooks.native._wheel import write_wheel

            _print(f"Wheel: {write_wheel(library, target, folder)}")
    except UnavailableError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)  # noqa: T201 - a command line prints
        return 1
    return 0


def _print(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - as above


if __name__ == "__main__":
    sys.exit(main())
