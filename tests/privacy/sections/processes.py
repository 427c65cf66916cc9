# SPDX-License-Identifier: Apache-2.0
"""Processes that the program starts: what they are called with, what they find around them, and what happens to them."""

import json
import multiprocessing
import os
import shlex
import subprocess
import sys
from pathlib import Path

from opentelemetry import baggage, context

from privacy.planting import Planting

_FAILS = "from torchspan.observers import observable\n@observable\ndef fails():\n    raise ValueError({text!r})\n"
_TRIES = "try:\n    fails()\nexcept ValueError:\n    pass\n"
_SHOWS = "import json, os; print(json.dumps(dict(os.environ)))"


def plant(place):
    """Returns the environments of two children: one that got the parent's, and one that was to get none."""
    environ = {**os.environ, "USERS_VARIABLE": place("child.variable")}
    folder = place.folder / place("child.working_folder")
    folder.mkdir(exist_ok=True)
    body = _FAILS.format(text=place("child.raises")) + _TRIES
    carried = baggage.set_baggage(place("child.baggage.key"), place("child.baggage.value"))
    token = context.attach(carried)
    try:
        code = f"{body}# {place('child.code')}\n{_SHOWS}"
        inherited = _run([sys.executable, "-c", code, place("child.argument")], env=environ, cwd=folder)
        own = {"USERS_VARIABLE": place("child.emptied.variable")}
        emptied = _run([sys.executable, "-c", _SHOWS], env=own, cwd=folder)
        _scripts(place, body, environ)
        _multiprocessing(place)
        _crash(place, environ)
    finally:
        context.detach(token)
    return {"inherited": json.loads(inherited), "emptied": json.loads(emptied)}


def _run(command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120, **options).stdout


def _scripts(place, body, environ):
    """What a process is called is the name of its script or module, where that is a plain name."""
    text, identifier = (place.folder / f"{place(f'child.script.{each}')}.py" for each in ("text", "identifier"))
    module = place("child.module.identifier")
    for file in (text, identifier, place.folder / f"{module}.py"):
        file.write_text(body, encoding="utf-8")
    for command in (
        [sys.executable, str(text)],
        [sys.executable, str(identifier)],
        ["sh", "-c", f"HF_TOKEN={place('child.shell.command')} {shlex.quote(sys.executable)} -m {module}"],
    ):
        _run(command, env=environ, cwd=place.folder)


def _multiprocessing(place):
    process = multiprocessing.get_context("spawn").Process(
        target=_in_process, args=(str(place.folder), "child.process.raises"), name=place("child.process.name")
    )
    place("child.process.raises")
    process.start()
    process.join(120)
    if process.exitcode != 0:
        place.problems.append(f"the process of multiprocessing ended with {process.exitcode}")


def _in_process(folder, name):
    place = Planting(folder)

    def fails():
        raise ValueError(place(name))

    with place.raises(name):
        place.call(fails)


def _crash(place, environ):
    """A child that aborts, in a function and a file of the user's naming."""
    file = place.folder / f"{place('child.crash.file')}.py"
    function = place("child.crash.function")
    file.write_text(f"import os\ndef {function}():\n    os.abort()\n{function}()\n", encoding="utf-8")
    ended = subprocess.run([sys.executable, str(file)], env=environ, cwd=place.folder, check=False, timeout=120)
    if ended.returncode >= 0:
        place.problems.append("the child that aborts did not")


def reports(place):
    """Copies what the processes of this run have reported so far, before the wrapper removes it."""
    settings = json.loads(os.environ.get("TORCHSPAN_RUN", "{}"))
    for file in Path(settings.get("reports", os.devnull)).glob("*.json"):
        (place.folder / f"report-{file.name}").write_bytes(file.read_bytes())
