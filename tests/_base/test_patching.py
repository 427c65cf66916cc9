# SPDX-License-Identifier: Apache-2.0
import gc
import importlib
import inspect
import sys
import types

import pytest
import wrapt
import wrapt.importer
from opentelemetry.instrumentation.utils import unwrap

from torchspan.base import import_hooks, patching
from torchspan.base.import_hooks import when_imported
from torchspan.base.patching import Patches, in_use


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
    outsider = types.ModuleType("library_of_another_package")
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


def test_functions_of_another_library_are_replaced_wherever_they_are_and_restored(library):
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


def test_a_static_method_stays_one_and_is_restored_as_it_was():
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


def test_what_another_package_put_over_it_stays(monkeypatch):
    patches = Patches("lib")
    patches.replace_attribute(Base, "method", lambda original: lambda self: "torchspans")
    theirs = lambda self: "theirs"
    original = Base.method.__wrapped__ if hasattr(Base.method, "__wrapped__") else None
    monkeypatch.setattr(Base, "method", theirs)
    patches.undo()
    assert vars(Base)["method"] is theirs
    assert original is None


@pytest.mark.fault("interpreter", "sys.modules has something that is not a module")
def test_an_object_in_sys_modules_that_is_not_a_module_is_left_alone(monkeypatch):
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


@pytest.fixture
def awaited(tmp_path, monkeypatch):
    """The name of a module that can be imported and has not been."""
    name = f"awaited_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    sys.modules.pop(name, None)


def hooks_of(name):
    return len(wrapt.importer._post_import_hooks.get(name, ()))


def test_waiting_for_a_module_again_and_again_leaves_one_hook_and_no_action(awaited):
    for _ in range(20):
        when_imported(awaited, lambda _late: lambda: None)()
    assert (hooks_of(awaited), import_hooks._WAITING[awaited]) == (1, [])


def test_actions_for_one_module_run_in_order_and_a_removed_one_does_not(awaited):
    done = []
    undo = [when_imported(awaited, lambda _late, n=n: done.append(n) or (lambda: done.append(-n))) for n in (1, 2, 3)]
    undo[1]()
    importlib.import_module(awaited)
    assert done == [1, 3]
    for each in undo:
        each()
        each()
    assert done == [1, 3, -1, -3]


def test_an_action_waits_for_a_module_that_was_removed_and_is_imported_again(awaited):
    done = []
    importlib.import_module(awaited)
    del sys.modules[awaited]
    for number in (1, 2):
        when_imported(awaited, lambda late, number=number: done.append((number, late)) or (lambda: None))
        importlib.import_module(awaited)
        del sys.modules[awaited]
    assert done == [(1, False), (2, False)]


def test_an_import_that_is_forbidden_is_waited_for(awaited, monkeypatch):
    done = []
    monkeypatch.setitem(sys.modules, awaited, None)
    when_imported(awaited, lambda late: done.append(late) or (lambda: None))
    assert done == []
    monkeypatch.delitem(sys.modules, awaited)
    importlib.import_module(awaited)
    assert done == [False]


# --- replacements that are out of use --------------------------------------------------------------------------------


class Shared:
    def method(self):
        return "original"


@pytest.fixture
def shared():
    """A class that other instrumentations wrap as well."""
    original = vars(Shared)["method"]
    yield Shared
    Shared.method = original


def add_torchspans(original):
    return lambda self: f"torchspans {original(self)}"


def depth(function):
    number = 0
    while hasattr(function, "__wrapped__"):
        function, number = function.__wrapped__, number + 1
    return number


def theirs(wrapped, _instance, args, kwargs):
    return f"theirs {wrapped(*args, **kwargs)}"


def test_a_replacement_that_was_restored_by_another_package_is_not_wrapped_again(shared):
    original = shared.method
    for _ in range(3):
        patches = Patches()
        patches.replace_shared(shared, "method", add_torchspans)
        restore, shared.method = shared.method, lambda self: "theirs"
        patches.undo()
        shared.method = restore
    assert depth(shared.method) == 1
    patches = Patches()
    patches.replace_shared(shared, "method", add_torchspans)
    assert shared().method() == "torchspans original"
    patches.undo()
    assert shared.method is original


@pytest.mark.parametrize("replace", ["replace_attribute", "replace_shared"])
def test_every_way_of_replacing_a_method_goes_over_the_original_of_one_out_of_use(replace, shared):
    patches = Patches()
    getattr(patches, replace)(shared, "method", add_torchspans)
    kept, shared.method = shared.method, None
    patches.undo()
    shared.method = kept
    patches = Patches()
    getattr(patches, replace)(shared, "method", add_torchspans)
    assert shared().method() == "torchspans original"
    patches.undo()
    assert shared().method() == "original"


def test_a_function_out_of_use_that_another_module_kept_is_replaced_where_it_lies(library):
    wrapped = lambda: "out of use"
    patches = Patches("lib")
    patches.replace_functions([(function, wrapped)])
    library.outsider.kept = library.definer.function
    patches.undo()
    library.user.alias = library.outsider.kept
    patches = Patches("lib")
    assert in_use(wrapped) is function
    torchspans = lambda: "in use"
    patches.replace_functions([(wrapped, torchspans)])
    assert library.user.alias is library.definer.function is torchspans
    patches.undo()
    assert library.user.alias is library.definer.function is function


def test_a_replacement_out_of_use_is_forgotten_with_its_last_reference(shared):
    patches = Patches()
    patches.replace_shared(shared, "method", add_torchspans)
    before = len(patching._RETIRED)
    kept = shared.method
    patches.undo()
    assert len(patching._RETIRED) == before + 1
    del kept
    gc.collect()
    assert len(patching._RETIRED) == before


# --- proxies of other instrumentations -------------------------------------------------------------------------------


def test_opentelemetrys_unwrap_takes_theirs_off_below_torchspans(shared):
    original = vars(shared)["method"]
    wrapt.wrap_function_wrapper(shared, "method", theirs)
    patches = Patches()
    patches.replace_shared(shared, "method", add_torchspans)
    assert shared().method() == "torchspans theirs original"
    unwrap(shared, "method")
    assert shared().method() == "torchspans original"
    patches.undo()
    assert vars(shared)["method"] is original


@pytest.mark.fault("libraries", "other packages wrap the same names")
def test_two_proxies_of_others_go_one_at_a_time(shared):
    original = vars(shared)["method"]
    for _ in range(2):
        wrapt.wrap_function_wrapper(shared, "method", theirs)
    patches = Patches()
    patches.replace_shared(shared, "method", add_torchspans)
    assert shared().method() == "torchspans theirs theirs original"
    unwrap(shared, "method")
    assert shared().method() == "torchspans theirs original"
    unwrap(shared, "method")
    assert shared().method() == "torchspans original"
    patches.undo()
    assert vars(shared)["method"] is original


def test_over_a_proxy_the_name_looks_as_it_did(shared):
    wrapt.wrap_function_wrapper(shared, "method", theirs)
    before = inspect.signature(shared.method), shared.method.__name__, shared.method.__qualname__
    patches = Patches()
    patches.replace_shared(shared, "method", add_torchspans)
    assert (inspect.signature(shared.method), shared.method.__name__, shared.method.__qualname__) == before
    assert shared.method(shared()) == "torchspans theirs original"
    assert inspect.isfunction(shared.method)
    patches.undo()


def test_the_proxy_that_was_there_is_restored(shared):
    wrapt.wrap_function_wrapper(shared, "method", theirs)
    proxy = vars(shared)["method"]
    patches = Patches()
    patches.replace_shared(shared, "method", add_torchspans)
    patches.undo()
    assert vars(shared)["method"] is proxy


# --- one pass --------------------------------------------------------------------------------------------------------


def test_functions_of_the_library_and_of_others_are_replaced_in_one_pass(library, monkeypatch):
    passes = []
    modules = patching._modules
    monkeypatch.setattr(patching, "_modules", lambda: passes.append("pass") or modules())
    of_torch, its_wrapper, torchspans = (lambda: "of torch"), (lambda: "wrapped"), (lambda: "torchspans")
    library.outsider.of_torch = library.user.of_torch = of_torch
    patches = Patches("lib")
    patches.replace_functions([(function, torchspans)], everywhere=[(of_torch, its_wrapper)])
    assert (library.outsider.function, library.definer.function) == (function, torchspans)
    assert library.outsider.of_torch is library.user.of_torch is its_wrapper
    patches.replace_functions([])
    assert passes == ["pass"]
    patches.undo()
    assert library.definer.function is function
    assert library.outsider.of_torch is library.user.of_torch is of_torch
    assert passes == ["pass", "pass"]


def test_a_wrapper_that_is_used_again_is_in_use(library):
    torchspans = lambda: "torchspans"
    for _ in range(2):
        patches = Patches("lib")
        patches.replace_functions([(function, torchspans)])
        assert in_use(torchspans) is torchspans
        patches.undo()
        assert in_use(torchspans) is function


def test_functions_that_replaced_each_other_make_no_circle(library):
    one, other = (lambda: "one"), (lambda: "other")
    library.definer.one, library.definer.other = one, other
    both = [Patches("lib"), Patches("lib")]
    for patches, pair in zip(both, [(one, other), (other, one)], strict=True):
        patches.replace_functions([pair])
    for patches in both:
        patches.undo()
    assert {in_use(one), in_use(other)} <= {one, other}
