# SPDX-License-Identifier: Apache-2.0
"""Lays out the pages that the site is built from: docs/, every other Markdown file, and each file that one of them links to.

Links in Markdown are relative paths in the repository, so that they hold there. On the site, docs/ is the root, and the
other files are below `repository/`. A file that is not Markdown, such as `examples/fallback.py`, is a page with its text. So
every link stays within the site, and none names an address at which the repository is published.
"""

import functools
import os
import posixpath
import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import unquote

DOCS = "docs"
REPOSITORY = "repository"
"""The folder of the site with the files that are not in docs/."""

PICTURES = (".svg", ".png", ".jpg", ".gif", ".webp")
LANGUAGES = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml", ".json": "json", ".sh": "bash"}
_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,}|~{3,})(?P<info>[^`\n]*)$")
_CODE = re.compile(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
_TARGET = re.compile(
    r"(?P<before>\]\(|^ {0,3}\[[^\]\n]+\]:[ \t]+|\b(?:href|src|srcset)=\")(?P<target>[^)\s\"]+)", re.MULTILINE
)
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|//|#|/", re.IGNORECASE)


class BrokenLinkError(Exception):
    """A page links to a file that is not in the repository."""


class Pages:
    """Writes the pages of the repository at `root` to `folder`.

    Files that git does not know, nor would add, are not part of the repository.
    """

    def __init__(self, root, folder):
        self._root, self._folder = Path(root), Path(folder)
        self._known = _files(self._root)
        self._folders = {str(parent) for file in self._known for parent in Path(file).parents}
        self._waiting, self._broken = [], []

    def write(self):
        """Write all of them. Raises BrokenLinkError, which names every link that leads to no file."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._waiting = [file for file in sorted(self._known) if _is_below(file, DOCS) or _is_page(file)]
        done = set(self._waiting)
        while self._waiting:
            file = self._waiting.pop()
            for linked in self._write(file):
                if linked not in done:
                    done.add(linked)
                    self._waiting.append(linked)
        if self._broken:
            raise BrokenLinkError("\n".join(sorted(self._broken)))

    def _write(self, file):
        """Write the page of a file or folder. Returns what it links to."""
        target = self._folder / page_of(file, is_folder=file in self._folders)
        target.parent.mkdir(parents=True, exist_ok=True)
        source = self._root / file
        links = set()
        if file in self._folders:
            target.write_text(_listing(file, self._entries(file)), encoding="utf-8")
            links.update(self._entries(file))
        elif file.endswith(".md"):
            link = functools.partial(self._link, file, links)
            text = rewritten(source.read_text(encoding="utf-8"), link)
            target.write_text(text, encoding="utf-8")
        elif _is_below(file, DOCS) or file.endswith(PICTURES):
            shutil.copyfile(source, target)
        else:
            target.write_text(_listed(file, source.read_text(encoding="utf-8")), encoding="utf-8")
        return links

    def _link(self, file, links, target):
        """The target as the page of `file` has it. Adds the file that it names to `links`."""
        path, mark, anchor = target.partition("#")
        linked = posixpath.normpath(posixpath.join(posixpath.dirname(file), unquote(path)))
        if linked in self._folders and f"{linked}/README.md" in self._known:
            linked = f"{linked}/README.md"
        if linked not in self._known and linked not in self._folders:
            self._broken.append(f"{file} links to {target}, and there is no {linked}")
            return target
        links.add(linked)
        page = page_of(linked, is_folder=linked in self._folders)
        here = posixpath.dirname(page_of(file, is_folder=False))
        return posixpath.relpath(page, here or ".") + mark + anchor

    def _entries(self, folder):
        return sorted(file for file in self._known if posixpath.dirname(file) == folder)


def page_of(file, *, is_folder):
    """Where the page of a file or folder of the repository is, below the folder of pages."""
    if _is_below(file, DOCS):
        return posixpath.relpath(file, DOCS)
    if is_folder:
        return posixpath.join(REPOSITORY, file, "index.md")
    return posixpath.join(REPOSITORY, file if file.endswith((".md", *PICTURES)) else f"{file}.md")


def rewritten(text, link):
    """Markdown as the site's generator reads it: links replaced by what `link` makes of them, fences with a language alone.

    What is inside code stays. Links to addresses and within the page stay.
    """
    parts, prose, fence = [], [], None
    for line in text.splitlines(keepends=True):
        found = _FENCE.match(line.rstrip("\n"))
        if fence is None and found:
            parts.append(_linked("".join(prose), link))
            prose, fence = [], found["ticks"]
            language = found["info"].split()[:1]
            parts.append(f"{found['indent']}{fence}{''.join(language)}\n")
        elif fence is not None:
            parts.append(line)
            if found and found["ticks"].startswith(fence) and not found["info"].strip():
                fence = None
        else:
            prose.append(line)
    return "".join([*parts, _linked("".join(prose), link)])


def _linked(prose, link):
    def replace(found):
        target = found["target"]
        return found[0] if _ELSEWHERE.match(target) else found["before"] + link(target)

    code = [found.span() for found in _CODE.finditer(prose)]
    outside, at = [], 0
    for start, end in [*code, (len(prose), len(prose))]:
        outside.append(prose[at:start])
        at = end
    # Code inside a link's text, as in [`run`](run.md), stands between two parts: targets are found in the joined prose.
    hole = "\0"
    found = iter(prose[start:end] for start, end in code)
    return re.sub(hole, lambda _: next(found), _TARGET.sub(replace, hole.join(outside)))


def _listed(file, text):
    """A page that shows a file. It is not searched: the search is for what is written about the files."""
    ticks = "`" * (max((len(run) for run in re.findall(r"`{3,}", text)), default=2) + 1)
    language = LANGUAGES.get(Path(file).suffix, "text")
    return f"---\nsearch:\n  exclude: true\n---\n\n# `{file}`\n\n{ticks}{language}\n{text.rstrip()}\n{ticks}\n"


def _listing(folder, entries):
    lines = [f"- [`{posixpath.basename(file)}`]({posixpath.basename(_relative(file))})" for file in entries]
    return "\n".join([f"---\nsearch:\n  exclude: true\n---\n\n# `{folder}/`\n", *lines, ""])


def _relative(file):
    return page_of(file, is_folder=False)


def _is_page(file):
    """Whether it is Markdown, apart from templates of a code host, which are below a folder with a dot, and from tests."""
    return file.endswith(".md") and not file.startswith((".", "tests/"))


def _is_below(file, folder):
    return file.startswith(f"{folder}/")


def _files(root):
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, capture_output=True, check=True).stdout
    return {os.fsdecode(each) for each in listed.split(b"\0") if each and (root / os.fsdecode(each)).is_file()}
