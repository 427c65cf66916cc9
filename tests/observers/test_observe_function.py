# SPDX-License-Identifier: Apache-2.0
"""Functions that belong to others: observed wherever they have been taken, and restored as they were."""

import asyncio
import builtins
import gc
import sys
import threading
import types
import weakref

import pytest

from torchspan import observers
from torchspan.observers import ErrorPolicy, observe_function


class Base:
    def inherited(self):
        return "inherited"


class Holder(Base):
    limit = 5

    def method(self):
        return "method"

    @staticmethod
    def static():
        return "static"

    @classmethod
    def of_class(cls):
        return cls

    @property
    def attribute(self):
        return "attribute"

    class Inner:
        def method(self):
            return "inner"


def function(value="result"):
    return value


async def coroutine():
    return "result"


@pytest.fixture
def modules(monkeypatch):
    """A library of two modules, the second of which took a function from the first, and a program that took it as well."""
    contents = {
        "lib": {"function": function, "coroutine": coroutine, "Holder": Holder, "CONSTANT": 5},
        "lib.user": {"alias": function, "other": len},
        "program": {"function": function, "f": function},
    }
    made = {}
    for name, attributes in contents.items():
        made[name] = types.ModuleType(name)
        vars(made[name]).update(attributes)
        monkeypatch.setitem(sys.modules, name, made[name])
    return types.SimpleNamespace(lib=made["lib"], user=made["lib.user"], program=made["program"], bare=function)


@pytest.fixture(autouse=True)
def _the_classes_stay_as_they_are():
    before = [dict(vars(each)) for each in (Base, Holder, Holder.Inner)]
    yield
    assert [dict(vars(each)) for each in (Base, Holder, Holder.Inner)] == before


def taken(modules):
    """Every name under which the function was taken."""
    return [modules.lib.function, modules.user.alias, modules.program.function, modules.program.f]


# --- where it is observed -------------------------------------------------------------------------------------
def test_a_function_is_observed_under_every_name_and_in_every_module_that_took_it(modules, seen):
    with observe_function("lib:function") as observation:
        observation.observers.post.add(lambda call: seen.append((call.callable, call.args, call.return_value)))
        assert [each(index) for index, each in enumerate(taken(modules))] == [0, 1, 2, 3]
        assert modules.bare("the function itself") == "the function itself"
    assert seen == [(modules.bare, (index,), index) for index in range(4)]


def test_afterwards_every_name_is_bound_to_the_very_function(modules):
    with observe_function("lib:function"):
        assert [each is modules.bare for each in taken(modules)] == [False] * 4
    assert [each is function for each in taken(modules)] == [True] * 4


@pytest.mark.parametrize("name", ["lib.late", "late_program"])
def test_so_is_it_in_modules_that_were_imported_meanwhile(name, modules, monkeypatch):
    late = types.ModuleType(name)
    monkeypatch.setitem(sys.modules, name, late)
    with observe_function("lib:function"):
        late.function = modules.lib.function
    assert late.function is function


def test_the_function_may_be_named_by_any_module_that_took_it(modules, note, seen):
    with observe_function("program:f") as observation, observation.observers.pre.add(lambda _call: seen.append("pre")):
        modules.lib.function()
    assert seen == ["pre"]
    assert modules.lib.function is function


@pytest.mark.parametrize(
    ("path", "call", "args"),
    [
        ("Holder.method", lambda holder: holder.method(), 1),
        ("Holder.static", lambda holder: holder.static(), 0),
        ("Holder.static", lambda _holder: Holder.static(), 0),
        ("Holder.of_class", lambda holder: holder.of_class(), 1),
        ("Holder.of_class", lambda _holder: Holder.of_class(), 1),
        ("Holder.Inner.method", lambda holder: holder.Inner().method(), 1),
    ],
)
def test_methods_of_every_kind_are_observed_and_restored(path, call, args, modules, seen):
    bare = call(Holder())
    with observe_function(f"lib:{path}") as observation:
        observation.observers.post.add(lambda reported: seen.append((len(reported.args), reported.return_value)))
        assert call(Holder()) == bare
    assert call(Holder()) == bare
    assert seen == [(args, bare)]


def test_a_coroutine_function_stays_one(modules, seen):
    with observe_function("lib:coroutine") as observation:
        observation.observers.post.add(lambda call: seen.append(call.return_value))
        assert asyncio.iscoroutinefunction(modules.lib.coroutine)
        asyncio.run(modules.lib.coroutine())
    assert seen == ["result"]


def test_a_module_that_was_not_imported_is(tmp_path, monkeypatch, seen):
    (tmp_path / "not_yet_imported.py").write_text("def function():\n    return 'result'\n")
    monkeypatch.syspath_prepend(tmp_path)
    with observe_function("not_yet_imported:function") as observation:
        observation.observers.post.add(lambda call: seen.append(call.return_value))
        import not_yet_imported

        not_yet_imported.function()
    monkeypatch.delitem(sys.modules, "not_yet_imported")
    assert seen == ["result"]


def test_the_policy_is_that_of_the_pair(modules):
    with observe_function("lib:function", policy=ErrorPolicy(rethrow=True)) as observation:
        observation.observers.pre.add(lambda _call: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            modules.lib.function()


# --- the end of it --------------------------------------------------------------------------------------------
def test_it_ends_by_a_call_and_a_second_one_does_nothing(modules):
    end = observe_function("lib:function")
    end.remove()
    modules.lib.function = len
    end.remove()
    assert modules.lib.function is len


def test_it_ends_by_remove_as_a_registration_does(modules):
    observation = observe_function("lib:function")
    observation.remove()
    assert [each is function for each in taken(modules)] == [True] * 4
    observation.remove()


def test_it_ends_with_the_statement_whatever_is_raised_there(modules):
    with pytest.raises(KeyError), observe_function("lib:function"):
        raise KeyError
    assert modules.lib.function is function


@pytest.mark.parametrize("holder", ["module", "class"])
def test_what_another_package_put_over_it_stays_and_calls_pass_through_without_events(
    holder, modules, monkeypatch, seen
):
    place, name = (modules.lib, "function") if holder == "module" else (Holder, "method")
    observation = observe_function("lib:function" if holder == "module" else "lib:Holder.method")
    observation.observers.pre.add(lambda _call: seen.append("pre"))
    torchspans = getattr(place, name)
    theirs = lambda *args: torchspans(*args)
    with monkeypatch.context() as patched:
        patched.setattr(place, name, theirs)
        observation.remove()
        assert getattr(place, name) is theirs
        assert theirs(Holder()) is not None
    assert seen == []
    setattr(place, name, torchspans.orig_func)


def test_a_call_that_has_begun_when_it_ends_receives_its_end(modules, seen):
    observation = observe_function("lib:function")
    observation.observers.post.add(lambda call: seen.append(call.outcome))
    with observation.observers.pre.add(lambda _call: observation.remove()):
        modules.lib.function()
    modules.lib.function()
    assert seen == ["returned"]


@pytest.mark.parametrize("target", ["lib:function", "lib:Holder.method", "lib:Holder.static", "lib:Holder.of_class"])
@pytest.mark.parametrize("first", [0, 1], ids=["inner first", "outer first"])
def test_two_observations_of_one_function_end_in_either_order(first, target, modules, seen):
    name = target.rpartition(".")[2]
    call = (lambda: modules.lib.function()) if target == "lib:function" else (lambda: getattr(Holder(), name)())
    before = function if target == "lib:function" else vars(Holder)[name]
    both = [observe_function(target), observe_function(target)]
    for index, each in enumerate(both):
        each.observers.pre.add(lambda _call, index=index: seen.append(index))
    call()
    assert seen == [1, 0]
    both[first].remove()
    call()
    assert seen == [1, 0, 1 - first]
    both[1 - first].remove()
    call()
    assert seen == [1, 0, 1 - first]
    assert (modules.lib.function if target == "lib:function" else vars(Holder)[name]) is before


def test_three_observations_end_in_any_order(modules):
    a, b, c = (observe_function("lib:function") for _ in range(3))
    for each in (b, a, c):
        each.remove()
    assert [each is function for each in taken(modules)] == [True] * 4


def test_observing_again_after_the_end_begins_without_callbacks(modules, seen):
    with observe_function("lib:function") as observation:
        observation.observers.pre.add(lambda _call: seen.append("first"))
    with observe_function("lib:function") as observation:
        observation.observers.pre.add(lambda _call: seen.append("second"))
        modules.lib.function()
    assert seen == ["second"]


def test_what_is_observed_no_more_is_not_kept(modules):
    def temporary():
        pass

    modules.lib.temporary = temporary
    observation = observe_function("lib:temporary")
    observation.observers.pre.add(lambda _call, itself=temporary: itself)
    alive = weakref.ref(temporary), weakref.ref(modules.lib.temporary)
    observation.remove()
    del modules.lib.temporary, temporary, observation
    gc.collect()
    assert [each() for each in alive] == [None, None]


def test_threads_that_begin_and_end_observations_at_once_leave_the_function_as_it_was(modules):
    failures = []

    def work():
        try:
            for _ in range(5):
                with observe_function("lib:function"):
                    assert modules.lib.function(1) == 1
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert [each is function for each in taken(modules)] == [True] * 4


# --- what cannot be observed ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "target", ["", "lib", "lib.function", ":function", "lib:", "lib:a..b", "lib:two words", "lib:a:b"]
)
def test_a_text_that_names_no_function_is_refused(target, modules):
    with pytest.raises(ValueError, match=r"target must be 'module:name' or 'module:Class\.method', not"):
        observe_function(target)


def test_a_module_that_cannot_be_imported_is_an_import_error():
    with pytest.raises(ImportError, match="no_such_library"):
        observe_function("no_such_library:function")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("lib:funktion", "cannot observe lib:funktion: lib has no 'funktion'; did you mean 'function'?"),
        ("lib:Holdr.method", "cannot observe lib:Holdr.method: lib has no 'Holdr'; did you mean 'Holder'?"),
        ("lib:Holder.methd", "cannot observe lib:Holder.methd: Holder has no 'methd'; did you mean 'method'?"),
        ("lib:nothing_like_it", "cannot observe lib:nothing_like_it: lib has no 'nothing_like_it'"),
        ("lib:Holder.inherited", f"lib:Holder.inherited is inherited: observe {__name__}:Base.inherited"),
    ],
)
def test_a_name_that_is_missing_is_an_attribute_error_that_says_what_to_write(target, message, modules):
    with pytest.raises(AttributeError) as error:
        observe_function(target)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("lib:Holder", "only a function can be observed, not <class"),
        ("lib:CONSTANT", "only a function can be observed"),
        ("lib:Holder.limit", "only a function can be observed"),
        ("lib:Holder.attribute", "only a function can be observed"),
        ("lib:Holder.Inner", "only a function can be observed"),
        ("lib:CONSTANT.real", "CONSTANT is not a class"),
        ("lib:Holder.limit.real", "limit is not a class"),
        ("builtins:str.upper", "immutable type"),
        ("datetime:datetime.now", "immutable type"),
    ],
)
def test_what_is_not_a_function_or_cannot_be_replaced_is_a_type_error_that_names_it(target, reason, modules):
    before = str.upper
    with pytest.raises(TypeError, match=f"^{target} cannot be observed: .*{reason}"):
        observe_function(target)
    assert str.upper is before
    assert vars(modules.lib)["Holder"] is Holder
    assert modules.lib.CONSTANT == 5


def test_a_builtin_function_of_a_module_can_be_observed(seen):
    before = builtins.sorted
    with observe_function("builtins:sorted") as observation:
        observation.observers.post.add(lambda call: seen.append(call.return_value))
        assert sorted([2, 1]) == [1, 2]
    assert seen == [[1, 2]]
    assert builtins.sorted is before


def test_the_package_says_which_pairs_there_are_where_one_is_misspelt():
    hint = r"torchspan\.observers has no 'bild_engine': did you mean observers\.tensorrt\.build_engine\? Official obs.*lower"
    with pytest.raises(AttributeError, match=hint):
        _ = observers.bild_engine
