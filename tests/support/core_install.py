# SPDX-License-Identifier: Apache-2.0
"""An environment that holds torchspan's core install and nothing else: what `pip install torchspan` leaves behind."""

import importlib.metadata
import os
import subprocess
import venv
from pathlib import Path

from packaging.requirements import Requirement

from support import installed


class Environment:
    """A virtual environment below a folder, made of links to packages that are installed here.

    requirements: the names of the distributions that stand in it, with what they need. torchspan is always one.
    """

    def __init__(self, folder, *requirements):
        self._folder = Path(folder)
        venv.create(self._folder, symlinks=True, with_pip=False)
        (self.packages,) = self._folder.glob("lib/python3.*/site-packages")
        self.python = self._folder / "bin" / "python"
        link(requirements, self.packages)
        information = Path(installed.environment(self._folder)["PYTHONPATH"].partition(os.pathsep)[0])
        (self.packages / "torchspan.pth").write_text(f"{installed.ROOT / 'src'}\n{information}\n", encoding="utf-8")
        script = self._folder / "bin" / "torchspan"
        script.write_text(
            f"#!{self._folder / 'bin' / 'python'}\nimport sys\nfrom torchspan.cli import main\nsys.exit(main())\n",
            encoding="utf-8",
        )
        script.chmod(0o755)

    def run(self, *command, **environment):
        """Runs a program of the environment, `torchspan` for example."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "TORCHSPAN_"))}
        clean.pop("PYTHONPATH", None)
        return subprocess.run(
            [self._folder / "bin" / command[0], *command[1:]],
            cwd=self._folder,
            env={**clean, **environment},
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=120,
            check=False,
        )


def core():
    """The distributions that torchspan's core install asks for."""
    requirements = importlib.metadata.requires("torchspan") or ()
    return [Requirement(text).name for text in requirements if "extra ==" not in text]


def closure(names):
    """The distributions and all that they need, without their extras."""
    found, waiting = {}, list(names)
    while waiting:
        name = waiting.pop().lower()
        if name in found:
            continue
        found[name] = True
        for text in importlib.metadata.requires(name) or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(requirement.name)
    return sorted(found)


def link(names, folder):
    """Put links to distributions that are installed here, with all that they need, into a folder."""
    for name in closure(names):
        _link(name, folder)


def _link(name, packages):
    for file in importlib.metadata.distribution(name).files or ():
        if ".." in file.parts or "__pycache__" in file.parts:
            continue
        target = packages / file
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            target.symlink_to(file.locate())
