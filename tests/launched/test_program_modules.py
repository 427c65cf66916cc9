# SPDX-License-Identifier: Apache-2.0
"""Modules of a program that have the name of one that torchspan has imported before the program began."""

import pytest

from support.child import UNMEASURED

NAMES = ("calendar", "csv", "logging", "packaging", "platform", "queue", "token", "typing_extensions", "uuid", "wrapt")
OWN = f"""
import {", ".join(NAMES)}

print([module.own for module in ({", ".join(NAMES)})])
"""
OWN_ALONE = f"{list(NAMES)}\n"


@pytest.fixture
def program_with_modules(program):
    def make(text, *command, folder="."):
        app = program(text, *command)
        (app.folder / folder).mkdir(exist_ok=True)
        for name in NAMES:
            (app.folder / folder / f"{name}.py").write_text(f"own = {name!r}\n")
        return app

    return make


@pytest.mark.parametrize("command", [("app.py",), ("-m", "app"), ("-c", OWN)], ids=["next to the script", "-m", "-c"])
def test_modules_of_the_program_are_imported_as_alone_whatever_torchspan_has_imported(program_with_modules, command):
    below = program_with_modules(OWN, *command).below_run(**UNMEASURED)

    assert (below.out, below.err) == (OWN_ALONE, "")


def test_modules_that_the_program_brings_along_in_a_folder_are_imported_as_alone(program_with_modules):
    brings = "import sys\nsys.path.insert(0, 'brought')\n"
    below = program_with_modules(brings + OWN, folder="brought").below_run(**UNMEASURED)

    assert (below.out, below.err) == (OWN_ALONE, "")


def test_a_module_of_the_program_is_run_where_the_standard_library_has_one_of_its_name(program):
    app = program("", "-m", "calendar")
    (app.folder / "calendar.py").write_text("print('own')")

    assert app.below_run().out == "own\n"


def test_a_folder_of_the_program_with_the_name_of_a_package_has_its_own_modules(program):
    app = program("import packaging.version, packaging.boxes\nprint(packaging.version.own, packaging.boxes.own)")
    (app.folder / "packaging").mkdir()
    for name in ("__init__", "version", "boxes"):
        (app.folder / "packaging" / f"{name}.py").write_text(f"own = {name!r}\n")

    assert app.below_run().out == "version boxes\n"


SAME = """
import sys
print([name for name in ("calendar", "csv", "json", "packaging", "queue", "uuid") if name in sys.modules])
from torchspan.base import forks
from torchspan.start.launched import run_report
import json, json.decoder, logging, threading, weakref

print(run_report.json is json, json.decoder.JSONDecoder is json.JSONDecoder)
print(forks.logging is logging, forks.threading is threading, forks.weakref is weakref)
print(json.__spec__.name, json.__spec__.loader is json.__loader__, sorted(vars(json.__loader__)))
"""


def test_a_module_that_the_program_and_torchspan_import_is_one_object(program):
    below = program(SAME).below_run(**UNMEASURED)

    assert below.out == "[]\nTrue True\nTrue True True\njson True ['name', 'path']\n"
