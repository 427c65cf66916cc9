# SPDX-License-Identifier: Apache-2.0
"""Builds the documentation as a site, strictly: a link or an anchor that leads nowhere ends it with status 1.

`build_site.py [FOLDER]`: the site is in .site/html of the repository, or of FOLDER. What it is built from is in .site/pages; once
that is written, `SITE_THEME=mkdocs mkdocs build` builds a site from the same mkdocs.yml.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from site_pages import BrokenLinkError, Pages

ROOT = Path(__file__).resolve().parents[1]
CONFIGURATION = "mkdocs.yml"


def build(project, root=ROOT):
    """Build the site of the project, a folder with a mkdocs.yml, from the files of the repository at `root`.

    Returns the exit status. The site is in `.site/html` of the project.
    """
    site = project / ".site" / "html"
    try:
        Pages(root, project / ".site" / "pages").write()
    except BrokenLinkError as error:
        print(error, file=sys.stderr)
        return 1
    shutil.rmtree(site, ignore_errors=True)
    # As lines without colors: a warning is two or three of them, which colors would make unreadable in a log.
    command = (sys.executable, "-m", "zensical", "build", "--strict", "--clean")
    environment = {**os.environ, "NO_COLOR": "1"}
    status = subprocess.run(command, cwd=project, env=environment, check=False).returncode
    if not status:
        _write_index_as_script(site)
    return status


def copy_of_the_project(folder):
    """Prepare a folder in which the same site is built. Returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(ROOT / CONFIGURATION, folder / CONFIGURATION)
    if not (folder / "src").exists():
        (folder / "src").symlink_to(ROOT / "src")
    return folder


def _write_index_as_script(site):
    """Write the index of the search once more, as a script: a page that is opened as a file may read no other file."""
    index = (site / "search.json").read_text(encoding="utf-8")
    (site / "search.js").write_text(f"var __index = {index}", encoding="utf-8")


def main(arguments):
    """Build it and say where it is. Returns the exit status."""
    project = copy_of_the_project(Path(arguments[0])) if arguments else ROOT
    status = build(project)
    if not status:
        print(f"Open {project / '.site' / 'html' / 'index.html'} in a browser; it needs no server.")
    return status


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
