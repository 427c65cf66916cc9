# SPDX-License-Identifier: Apache-2.0
"""Waiting for a module, also where its import has begun already."""

import importlib
import importlib.machinery
import sys
import threading

import pytest

from torchspan.base.import_hooks import when_imported

MODULE = """
import sys
begin, proceed = sys.modules["import_steps"].begin, sys.modules["import_steps"].proceed
begin()
proceed()
last = True
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Makes a module `slow_module`: `begin()` and `proceed()` run in the middle of its import."""
    (tmp_path / "slow_module.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)

    def make(begin=lambda: None, proceed=lambda: None):
        steps = type(sys)("import_steps")
        steps.begin, steps.proceed = begin, proceed
        monkeypatch.setitem(sys.modules, "import_steps", steps)

    yield make
    sys.modules.pop("slow_module", None)


def noting(ran):
    """An action that notes whether it came late and whether the module was complete."""

    def action(late):
        ran.append((late, hasattr(sys.modules.get("slow_module"), "last")))
        return lambda: ran.append("undone")

    return action


@pytest.mark.fault("libraries", "torch is half imported")
def test_an_import_that_another_thread_has_begun_is_waited_for(module):
    ran, has_begun, may_proceed = [], threading.Event(), threading.Event()
    module(has_begun.set, lambda: may_proceed.wait(60))
    thread = threading.Thread(target=importlib.import_module, args=("slow_module",))
    thread.start()
    assert has_begun.wait(60)
    undo = when_imported("slow_module", noting(ran))
    assert ran == []
    may_proceed.set()
    thread.join()
    assert ran == [(False, True)]
    undo()
    assert ran == [(False, True), "undone"]


def test_in_the_middle_of_the_import_that_this_thread_is_in_it_is_waited_for(module):
    ran = []
    module(lambda: (when_imported("slow_module", noting(ran)), when_imported("slow_module", noting(ran))))
    import slow_module

    assert ran == [(False, True), (False, True)]
    assert type(slow_module.__spec__) is importlib.machinery.ModuleSpec
    assert slow_module.__spec__._initializing is False


def test_where_the_import_fails_the_next_one_counts(module):
    ran, failures = [], [ImportError("no driver")]

    def begin():
        if failures:
            when_imported("slow_module", noting(ran))
            raise failures.pop()

    module(begin)
    with pytest.raises(ImportError, match="no driver"):
        importlib.import_module("slow_module")
    assert ran == []
    importlib.import_module("slow_module")
    assert ran == [(False, True)]


def test_what_is_taken_back_before_the_import_has_ended_does_not_run(module):
    ran = []
    module(lambda: when_imported("slow_module", noting(ran))())
    importlib.import_module("slow_module")
    when_imported("slow_module", noting(ran))
    assert ran == [(True, True)]
