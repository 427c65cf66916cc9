# SPDX-License-Identifier: Apache-2.0
"""Which programs of `tools/backends.py` tests can run: `pytest.mark.needs("jaeger")` marks a test with those that it runs.

Where one is missing the test is skipped before its fixtures begin to work, and the end of the run lists it. While programs
are being built (`make test BACKENDS=build`), files of tests that need one come last, and their tests wait for it.
"""

import fcntl
import os
import time
from pathlib import Path

import pytest

import backends
from support import run_log

LOCK = "TEST_BACKENDS_LOCK"
"""Names the file that `tools/check.py` keeps locked for as long as programs are being built."""

# Read when the suite begins, because it gives its processes a folder for caches of their own, and no variable of torchspan's.
_used = {name: used for name, each in backends.BY_NAME.items() if (used := each.found())}
_built = {each.name: str(each.target()) for each in backends.BACKENDS if isinstance(each, backends.BUILT)}
_marked = set()


def program(name):
    """Path or address of a program that the running test is marked with."""
    if name not in _marked:
        raise LookupError(f'the test runs {name} and is not marked: pytest.mark.needs("{name}")')
    run_log.write("program", name=name, used=_used[name])
    return _used[name]


def named(name):
    """What a variable names, for a test that can do without; None where it names nothing."""
    return _used.get(name)


def _is_there(name):
    """Whether there is the program; where programs are being built, when that is known."""
    while name not in _used:
        over = _building_is_over()
        if Path(_built.get(name, "")).is_file():
            _used[name] = _built[name]
        elif over:
            return False
        else:
            time.sleep(1)
    return True


def _building_is_over():
    try:
        with Path(os.environ.get(LOCK, "")).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def _of(item):
    return [name for mark in item.iter_markers("needs") for name in mark.args]


class Needs:
    """The pytest plugin. Workers of pytest-xdist take what the first process found."""

    def __init__(self, config):
        if hasattr(config, "workerinput"):
            used, built = config.workerinput["programs"]
            _used.update(used)
            _built.update(built)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node):
        node.workerinput["programs"] = (_used, _built)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        waiting = {item.path for item in items if not _used.keys() >= set(_of(item))}
        items.sort(key=lambda item: item.path in waiting)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item):
        needed = _of(item)
        missing = [name for name in needed if not _is_there(name)]
        if missing:
            pytest.skip("; ".join(f"{name} is not here: {backends.BY_NAME[name].how_to_get}" for name in missing))
        _marked.clear()
        _marked.update(needed)
