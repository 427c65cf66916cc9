# SPDX-License-Identifier: Apache-2.0
"""A Python in which packages that are installed here are not."""

import os
import subprocess
import sysconfig
import venv
from pathlib import Path

import torchspan


def python_without(folder, *modules):
    """The path of a Python with everything that this one has, except these modules.

    folder: where its environment is made. Nothing is copied or downloaded.
    """
    venv.create(folder, symlinks=os.name != "nt", with_pip=False)
    python = Path(folder, "Scripts" if os.name == "nt" else "bin", "python")
    (site,) = Path(folder).rglob("site-packages")
    paths = (Path(torchspan.__file__).parents[1], sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
    # The import of a module that is None here fails as that of one that is missing.
    hidden = "".join(f"sys.modules[{name!r}] = None; " for name in modules)
    lines = [*dict.fromkeys(map(str, paths)), f"import sys; {hidden}"]
    (site / "hidden.pth").write_text("\n".join(lines) + "\n", encoding="utf-8")
    subprocess.run([python, "-c", "import torchspan"], check=True, timeout=60, env=os.environ | {"PYTHONSAFEPATH": "1"})
    return str(python)
