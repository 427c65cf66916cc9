# SPDX-License-Identifier: Apache-2.0
import sys
import types

import pytest

from torchspan._base.import_hooks import when_imported
from torchspan._base.patching import Patches


def function():
    return "original"


def wrapper():
    return "wrapped"


@pytest.fixture
def library(monkeypatch):
    """A library of two modules, the second of which imported a function from the first by name."""
    names = {"lib": {"function": function}, "lib.user": {"alias": function, "other": len}}
    modules = {}
    for name, attributes in names.items():
        modules[name] = types.ModuleType(name)
        vars(modules[name]).update(attributes)
        monkeypatch.setitem(sys.modules, name, modules[name])
    outsider = types.ModuleType("library_of_somebody_else")
    outsider.function = function
    monkeypatch.setitem(sys.modules, outsider.__name__, outsider)
    return types.SimpleNamespace(definer=modules["lib"], user=modules["lib.user"], outsider=outsider)


def test_a_function_is_replaced_wherever_the_library_holds_it_and_nowhere_else(library):
    patches = Patches("lib")
    patches.replace_functions([(function, wrapper)])
    assert (library.definer.function, library.user.alias, library.user.other) == (wrapper, wrapper, len)
    assert library.outsider.function is function
    patches.undo()
    assert library.definer.function is library.user.alias is function


def test_one_that_comes_late_replaces_what_others_have_taken_as_well(library):
    patches = Patches("lib", everywhere=True)
    patches.replace_functions([(function, wrapper)])
    assert library.outsider.function is library.definer.function is wrapper
    patches.undo()
    assert library.outsider.function is library.definer.function is function


def test_functions_of_another_library_are_replaced_wherever_they_are_and_put_back(library):
    patches = Patches("lib")
    patches.replace_functions([], everywhere=[(function, wrapper)])
    assert library.outsider.function is library.definer.function is wrapper
    patches.undo()
    assert library.outsider.function is library.definer.function is function


class Base:
    def method(self):
        return "base"


class Holder(Base):
    @staticmethod
    def static():
        return "static"


def test_a_static_method_stays_one_and_is_put_back_as_it_was():
    before = vars(Holder)["static"]
    patches = Patches("lib")
    patches.replace_attribute(Holder, "static", lambda original: lambda: "wrapped " + original())
    assert Holder.static() == Holder().static() == "wrapped static"
    patches.undo()
    assert vars(Holder)["static"] is before


def test_a_module_that_others_use_is_left_alone_and_the_library_gets_a_view_of_it(library):
    shared = types.ModuleType("shared", "What it is.")
    shared.loads, shared.dumps = function, len
    library.user.shared = shared
    patches = Patches("lib")
    patches.replace_in_module(library.user, "shared", "loads", lambda original: wrapper)
    assert library.user.shared is not shared
    assert (library.user.shared.loads, library.user.shared.dumps, library.user.shared.__doc__) == (wrapper, len, shared.__doc__)  # fmt: skip
    assert shared.loads is function
    patches.undo()
    assert library.user.shared is shared


def test_what_somebody_put_over_ours_stays(monkeypatch):
    patches = Patches("lib")
    patches.replace_attribute(Base, "method", lambda original: lambda self: "ours")
    theirs = lambda self: "theirs"
    original = Base.method.__wrapped__ if hasattr(Base.method, "__wrapped__") else None
    monkeypatch.setattr(Base, "method", theirs)
    patches.undo()
    assert vars(Base)["method"] is theirs
    assert original is None


def test_an_object_in_sys_modules_that_is_no_module_is_left_alone(monkeypatch):
    class Trap:
        def __getattribute__(self, name):
            raise RuntimeError("touched")

    monkeypatch.setitem(sys.modules, "lib.trap", Trap())
    Patches("lib").undo()


def test_an_action_runs_at_once_for_a_module_that_is_there():
    done = []
    undo = when_imported("sys", lambda late: done.append(f"done {late}") or (lambda: done.append("undone")))
    undo()
    assert done == ["done True", "undone"]


def test_an_action_waits_for_the_import_and_not_after_its_undo(tmp_path, monkeypatch):
    for name in ("awaited_one", "awaited_two"):
        (tmp_path / f"{name}.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    done = []
    when_imported("awaited_one", lambda late: done.append(f"one {late}") or (lambda: None))
    when_imported("awaited_two", lambda late: done.append("two") or (lambda: None))()
    assert done == []
    import awaited_one
    import awaited_two

    assert (awaited_one.value, awaited_two.value, done) == (1, 1, ["one False"])
