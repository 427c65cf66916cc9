# SPDX-License-Identifier: Apache-2.0
"""Objects of a class that a text names: seen as they are made, once the program has imported the module."""

import copy
import importlib
import inspect
import pickle
import sys

import pytest
import torch

from torchspan.inputs.observed.watched_classes import WatchedClass

SOURCE = """
class Plain:
    def forward(self):
        pass

class Net:
    def __init__(self, size, *, depth=2):
        self.size = size

    def forward(self, x):
        return x

    class Inner:
        def forward(self):
            pass

class Loaded(Plain):
    def __setstate__(self, state):
        self.__dict__.update(state)

class Deep(Net):
    def __init__(self):
        super().__init__(8)
        self.whole = True

class Config:
    pass

instance = Net(1)
"""

MODULES = """
import torch

class Inherits(torch.nn.Module):
    def forward(self, x):
        return x * 2

class Defines(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = 2

    def forward(self, x):
        return x * self.factor
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The name of a module that has not been imported yet."""
    name = f"watched_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield name
    sys.modules.pop(name, None)


@pytest.fixture
def watch(request):
    """Watches a class; the list has what was made."""

    def watch(path):
        made = []
        watched = WatchedClass(path, made.append)
        request.addfinalizer(watched.close)
        return watched, made

    return watch


def test_an_object_made_after_the_import_is_seen(module, watch):
    _, made = watch(f"{module}:Net")
    net = importlib.import_module(module).Net(4, depth=3)
    assert made == [net]
    assert net.size == 4


def test_a_class_whose_module_was_imported_before_is_seen(module, watch):
    program = importlib.import_module(module)
    _, made = watch(f"{module}:Net")
    assert made == []
    net = program.Net(4)
    assert made == [net]


def test_a_class_without_an_init_of_its_own_is_seen(module, watch):
    _, made = watch(f"{module}:Plain")
    plain = importlib.import_module(module).Plain()
    assert made == [plain]


def test_a_nested_class_is_seen(module, watch):
    _, made = watch(f"{module}:Net.Inner")
    inner = importlib.import_module(module).Net.Inner()
    assert made == [inner]


def test_an_object_of_a_derived_class_is_seen_once(module, watch):
    _, made = watch(f"{module}:Net")
    deep = importlib.import_module(module).Deep()
    assert made == [deep]


def test_an_object_is_seen_once_though_init_is_called_again(module, watch):
    _, made = watch(f"{module}:Net")
    net = importlib.import_module(module).Net(1)
    net.__init__(2)
    assert made == [net]


def test_copies_and_unpickled_objects_are_seen_where_the_class_sets_their_state(module, watch):
    _, made = watch(f"{module}:Loaded")
    loaded = importlib.import_module(module).Loaded()
    loaded.state = 1
    assert made == [loaded, copy.deepcopy(loaded), pickle.loads(pickle.dumps(loaded))]


def test_a_class_without_setstate_gets_none(module, watch):
    watch(f"{module}:Net")
    assert not hasattr(importlib.import_module(module).Net, "__setstate__")


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The name of a package that takes a class from one module, and exports another one lazily, as transformers does."""
    name = f"package_{tmp_path.name}"
    (tmp_path / name).mkdir()
    (tmp_path / name / "defining.py").write_text(SOURCE)
    (tmp_path / name / "lazy.py").write_text(SOURCE.replace("Net", "LazyNet"))
    (tmp_path / name / "__init__.py").write_text(
        "import sys, types, importlib\n"
        "from .defining import Net\n"
        "class _LazyModule(types.ModuleType):\n"
        "    _class_to_module = {'LazyNet': 'lazy', 'Deep': 'lazy'}\n"
        "    def __getattr__(self, name):\n"
        "        return getattr(importlib.import_module(__name__ + '.' + self._class_to_module[name]), name)\n"
        "sys.modules[__name__].__class__ = _LazyModule\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield name
    for each in [each for each in sys.modules if each.partition(".")[0] == name]:
        del sys.modules[each]


def test_a_class_that_the_module_takes_from_another_is_seen(package, watch):
    _, made = watch(f"{package}:Net")
    net = importlib.import_module(package).Net(1)
    assert made == [net]


def test_a_class_that_is_exported_lazily_is_seen_and_nothing_is_imported_for_it(package, watch):
    watched, made = watch(f"{package}:LazyNet")
    program = importlib.import_module(package)
    assert f"{package}.lazy" not in sys.modules
    assert watched.problem == f"the program made no object of {package}:LazyNet"
    net = program.LazyNet(1)
    assert made == [net]
    watched.close()
    program.LazyNet(1)
    assert made == [net]


def test_a_lazily_exported_class_is_not_watched_after_close_before_its_import(package, watch):
    watched, made = watch(f"{package}:LazyNet")
    program = importlib.import_module(package)
    watched.close()
    program.LazyNet(1)
    assert made == []


def test_an_object_whose_init_raises_is_not_seen(module, watch):
    _, made = watch(f"{module}:Net")
    with pytest.raises(TypeError, match="required positional argument"):
        importlib.import_module(module).Net()
    assert made == []


def test_the_signature_of_the_class_is_the_same(module, watch):
    watch(f"{module}:Net")
    assert str(inspect.signature(importlib.import_module(module).Net)) == "(size, *, depth=2)"


def test_the_class_is_as_it_was_after_close(module, watch):
    program = importlib.import_module(module)
    before = {kind: dict(vars(kind)) for kind in (program.Net, program.Plain, program.Loaded)}
    for name in ("Net", "Plain", "Loaded"):
        watch(f"{module}:{name}")[0].close()
    assert {kind: dict(vars(kind)) for kind in before} == before


def test_two_watch_one_class_and_leave_in_any_order(module, watch):
    program = importlib.import_module(module)
    before = dict(vars(program.Net))
    (first, one), (second, other) = watch(f"{module}:Net"), watch(f"{module}:Net")
    first.close()
    net = program.Net(1)
    assert (one, other) == ([], [net])
    second.close()
    assert dict(vars(program.Net)) == before


def test_what_was_put_over_the_replacement_stays_after_close(module, watch):
    program = importlib.import_module(module)
    watched, made = watch(f"{module}:Net")
    over = program.Net.__init__

    def init(self, *args):
        over(self, *args)

    program.Net.__init__ = init
    watched.close()
    assert program.Net(3).size == 3
    assert vars(program.Net)["__init__"] is init
    assert made == []


def test_closing_before_the_import_watches_nothing(module, watch):
    watched, made = watch(f"{module}:Net")
    watched.close()
    importlib.import_module(module).Net(1)
    assert made == []


def test_what_the_function_raises_does_not_reach_the_program(module, caplog):
    def raises(_net):
        raise KeyError("secret")

    watched = WatchedClass(f"{module}:Net", raises)
    assert importlib.import_module(module).Net(1).size == 1
    watched.close()
    assert [record.message.partition(" Cause")[0] for record in caplog.records] == [
        f"Observing an object of {module}:Net failed; the program continues without it."
    ]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("Plain", "the program made no object of MODULE:Plain"),
        ("Nte", "the module MODULE has no class Nte; name the module that defines the class"),
        ("Elsewhere", "the module MODULE has no class Elsewhere; name the module that defines the class"),
        ("Net.Outer", "the module MODULE has no class Net.Outer; name the module that defines the class"),
        ("instance", "MODULE:instance is not a class"),
        ("Config", "the class MODULE:Config has no method forward, whose calls are observed"),
    ],
)
def test_what_kept_a_class_from_being_seen_is_said(module, watch, name, problem):
    watched, _ = watch(f"{module}:{name}")
    assert watched.problem == f"the program did not import the module {module}"
    importlib.import_module(module)
    assert watched.problem == problem.replace("MODULE", module)


def test_there_is_no_problem_once_an_object_was_made(module, watch):
    watched, _ = watch(f"{module}:Net")
    importlib.import_module(module).Net(1)
    assert watched.problem is None


@pytest.mark.parametrize("path", ["Net", "app:", ":Net", "app:1", "app/model:Net", "app:Net()", "", None, 1])
def test_a_text_that_names_no_class_is_refused(path):
    with pytest.raises(ValueError, match="is not a class: expected module:Class, of a module that the program imports"):
        WatchedClass(path, print)


def test_a_class_of_the_script_is_refused():
    with pytest.raises(ValueError, match="is in the script that runs: put the class into a module and import it"):
        WatchedClass("__main__:Net", print)


@pytest.mark.parametrize("name", ["Inherits", "Defines"])
def test_an_object_that_is_made_inside_a_graph_is_not_a_break_and_is_not_seen(name, tmp_path, monkeypatch, watch):
    module = f"modules_{tmp_path.name}"
    (tmp_path / f"{module}.py").write_text(MODULES)
    monkeypatch.syspath_prepend(str(tmp_path))
    _, made = watch(f"{module}:{name}")
    program = importlib.import_module(module)

    def calls_a_new_one(x):
        return getattr(program, name)()(x)

    assert torch.compile(calls_a_new_one, backend="eager", fullgraph=True)(torch.ones(2)).tolist() == [2.0, 2.0]
    assert made == []
    seen = getattr(program, name)()
    assert made == [seen]
    sys.modules.pop(module)
