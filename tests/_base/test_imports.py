# SPDX-License-Identifier: Apache-2.0
"""Around the body of a module: the times of imports, and that the imports stay what they are."""

import contextlib
import importlib
import importlib.util
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from support.fake_time import replace_clocks
from support.own_failures import consequences
from torchspan.base import imports as timed
from torchspan.base.boundaries import Failures
from torchspan.base.imports import AroundImport, FirstImports

NAMES = ("watched_outer", "watched_inner", "watched_broken")


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """Writes modules that can be imported; they are gone after the test."""
    monkeypatch.syspath_prepend(tmp_path)
    # After a change of sys.path coverage looks at it again when the next new file runs, and takes away what other threads import
    # meanwhile.
    (tmp_path / "first_file.py").touch()
    importlib.import_module("first_file")

    def write(**sources):
        for name, source in sources.items():
            (tmp_path / f"{name}.py").write_text(source)
        importlib.invalidate_caches()

    yield write
    for name in (*NAMES, "first_file"):
        sys.modules.pop(name, None)


@pytest.fixture
def imports():
    """The outermost imports that have ended."""
    ended = []
    remove = FirstImports(NAMES, ended.append).install()
    yield ended
    remove()
    assert not any(isinstance(finder, AroundImport) and finder._arounds.keys() & set(NAMES) for finder in sys.meta_path)


def test_an_import_has_its_times_its_version_and_the_imports_inside(modules, imports):
    modules(
        watched_outer="import time\nstart = time.time_ns()\nimport watched_inner\n__version__ = '1.2'",
        watched_inner="import watched_outer",
    )
    before = time.time_ns()
    import watched_outer

    (outer,) = imports
    (inner,) = outer.inside
    assert (outer.name, outer.version, outer.error) == ("watched_outer", "1.2", None)
    assert (inner.name, inner.version, inner.inside) == ("watched_inner", None, [])
    slack_ns = 1_000_000  # two clocks
    assert before - slack_ns <= outer.start_ns <= watched_outer.start + slack_ns
    assert outer.start_ns <= inner.start_ns <= inner.end_ns <= outer.end_ns


def test_a_module_is_what_it_would_be(modules, imports):
    modules(watched_inner="spec, loader = __spec__, __loader__")
    import watched_inner

    loader = watched_inner.__loader__
    assert loader is watched_inner.__spec__.loader is watched_inner.loader
    assert type(loader) is importlib.machinery.SourceFileLoader
    assert "exec_module" not in vars(loader)
    assert watched_inner.spec is watched_inner.__spec__ is not None
    assert loader.get_source("watched_inner").startswith("spec")


def test_an_error_passes_as_it_is_and_is_kept_with_the_import(modules, imports):
    modules(watched_broken="class Mine(Exception): pass\nerror = Mine('x')\nimport sys\nsys.mine = error\nraise error")
    with pytest.raises(Exception) as caught:
        importlib.import_module("watched_broken")
    (broken,) = imports
    assert caught.value is sys.mine is broken.error
    assert (caught.value.args, caught.value.__cause__, caught.value.__context__) == (("x",), None, None)
    assert "watched_broken" not in sys.modules
    assert broken.has_failed
    del sys.mine


def test_an_import_that_is_tried_again_is_reported_once(modules, imports):
    modules(watched_broken="raise ImportError('no library')")
    for _ in range(2):
        with pytest.raises(ImportError, match="no library"):
            importlib.import_module("watched_broken")
    modules(watched_outer="try:\n import watched_broken\nexcept ImportError: pass")
    importlib.import_module("watched_outer")
    assert [each.name for each in imports] == ["watched_broken", "watched_outer"]
    assert not imports[1].has_failed


def test_an_error_inside_that_the_outer_module_catches_is_the_inner_ones(modules, imports):
    modules(
        watched_broken="raise ImportError('no library')",
        watched_outer="try:\n import watched_broken\nexcept ImportError: pass",
    )
    importlib.import_module("watched_outer")
    (outer,) = imports
    assert outer.error is None and str(outer.inside[0].error) == "no library"
    assert outer.has_failed


def test_a_reload_is_not_a_first_import(modules, imports):
    modules(watched_inner="count = globals().get('count', 0) + 1")
    module = importlib.import_module("watched_inner")
    assert importlib.reload(module) is module
    assert module.count == 2
    assert len(imports) == 1


def test_a_module_that_is_there_already_has_no_import(modules):
    modules(watched_inner="")
    module = importlib.import_module("watched_inner")
    ended = []
    remove = FirstImports(NAMES, ended.append).install()
    try:
        importlib.reload(module)
    finally:
        remove()
    assert ended == []


def test_a_program_that_only_asks_for_the_spec_changes_nothing(modules, imports):
    modules(watched_inner="")
    assert importlib.util.find_spec("watched_inner").origin.endswith("watched_inner.py")
    assert imports == [] and "watched_inner" not in sys.modules
    importlib.import_module("watched_inner")
    assert [each.name for each in imports] == ["watched_inner"]


def test_a_module_that_is_not_installed_or_forbidden_has_no_import(imports, monkeypatch):
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("watched_outer")
    monkeypatch.setitem(sys.modules, "watched_inner", None)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("watched_inner")
    assert imports == []


def test_a_lazy_loader_is_timed_when_it_loads(modules, imports):
    modules(watched_inner="value = 1")
    spec = importlib.util.find_spec("watched_inner")
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules["watched_inner"] = module
    spec.loader.exec_module(module)
    assert imports == []
    assert module.value == 1
    assert [each.name for each in imports] == ["watched_inner"]


def test_threads_that_import_the_same_module_at_once_make_one_import(modules, imports):
    modules(
        watched_outer="import threading\nthreading.stall.wait(10)\nimport watched_inner",
        watched_inner="import watched_outer",
    )
    threading.stall = threading.Event()
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(importlib.import_module("watched_outer"))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    threading.stall.set()
    for thread in threads:
        thread.join()
    del threading.stall
    assert len(found) == 4 and len(set(map(id, found))) == 1
    assert [(each.name, [x.name for x in each.inside]) for each in imports] == [("watched_outer", ["watched_inner"])]


def test_threads_that_import_different_modules_are_not_inside_each_other(modules, imports):
    modules(
        watched_outer="import threading\nthreading.begun.set()\nthreading.done.wait(10)",
        watched_inner="import threading\nthreading.begun.wait(10)",
    )
    threading.begun, threading.done = threading.Event(), threading.Event()
    thread = threading.Thread(target=importlib.import_module, args=("watched_outer",))
    thread.start()
    importlib.import_module("watched_inner")
    threading.done.set()
    thread.join()
    del threading.begun, threading.done
    assert [(each.name, each.inside) for each in imports] == [("watched_inner", []), ("watched_outer", [])]


@pytest.mark.parametrize("order", ["before", "after"])
def test_two_finders_around_one_module_both_run_and_leave_the_loader_as_it_was(modules, order):
    modules(watched_inner="")
    seen, ended = [], []

    class Around:
        def __enter__(self):
            seen.append("in")

        def __exit__(self, *_exc_info):
            seen.append("out")

    finders = [AroundImport({"watched_inner": Around}), FirstImports(NAMES, ended.append)]
    undo = [each.install() for each in (finders if order == "before" else finders[::-1])]
    try:
        module = importlib.import_module("watched_inner")
    finally:
        for each in undo:
            each()
    assert (seen, [each.name for each in ended]) == (["in", "out"], ["watched_inner"])
    assert "exec_module" not in vars(module.__loader__)


def test_a_defect_in_the_receiver_does_not_reach_the_import(modules, caplog):
    modules(watched_inner="value = 1")

    def fails(_ended):
        raise ValueError("defect")

    remove = FirstImports(NAMES, fails).install()
    try:
        assert importlib.import_module("watched_inner").value == 1
    finally:
        remove()
    assert consequences(caplog) == ["An import is not observed."]


@pytest.mark.parametrize("part", ["around", "_wrap_loader"])
def test_a_defect_in_the_finder_is_counted_and_does_not_reach_the_import(modules, imports, monkeypatch, part):
    modules(watched_inner="value = 1")

    def fails(*_arguments):
        raise MemoryError

    monkeypatch.setattr(FirstImports if part == "around" else timed, part, fails)
    before = Failures.total
    assert importlib.import_module("watched_inner").value == 1
    assert Failures.total == before + 1


# --- modules of a library ---------------------------------------------------------------------------------------------
MS = 1_000_000
LIBRARIES = ("watched_library.lazy", "watched_other")


class Series:
    """What is reported of the imports of the libraries, by a clock that only the modules and `wait` advance."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.now_ns = folder, 0
        clock = SimpleNamespace(time_ns=lambda: self.now_ns, perf_counter_ns=lambda: self.now_ns)
        replace_clocks(monkeypatch, timed, clock)
        monkeypatch.setattr(sys, "series", self, raising=False)
        self.reported = []
        self.times = FirstImports((), self.reported.append, LIBRARIES)
        (folder / "watched_library" / "lazy").mkdir(parents=True)
        for package in ("watched_library", "watched_library/lazy"):
            (folder / package / "__init__.py").touch()
        importlib.import_module("watched_library.lazy")

    def wait(self, ms):
        self.now_ns += ms * MS

    def take(self, name, ms, body="", then=0):
        """Imports a module that takes `ms` before its body and `then` after it."""
        source = f"import sys\nsys.series.wait({ms})\n{body}\nsys.series.wait({then})\n"
        (self.folder / f"{name.replace('.', '/')}.py").write_text(source)
        importlib.invalidate_caches()
        importlib.import_module(name)

    def write(self, name, ms):
        (self.folder / f"{name.replace('.', '/')}.py").write_text(f"import sys\nsys.series.wait({ms})\n")

    def all(self):
        """(library, milliseconds) of each, with those inside."""
        return [self.of(each) for each in self.reported]

    def of(self, each):
        spent = (each.name, (each.end_ns - each.start_ns) // MS)
        return (*spent, [self.of(inner) for inner in each.inside]) if each.inside else spent


@pytest.fixture
def series(modules, tmp_path, monkeypatch):
    result = Series(tmp_path, monkeypatch)
    remove = result.times.install()
    yield result
    remove()
    for name in [name for name in sys.modules if name.startswith(("watched_library", "watched_other"))]:
        del sys.modules[name]


def test_an_import_of_a_library_is_reported_from_100_ms(series):
    series.take("watched_library.lazy.a", 100)
    series.take("watched_library.lazy.b", 99)
    series.take("watched_other", 130)
    assert series.all() == [("watched_library.lazy", 100), ("watched_other", 130)]


def test_only_modules_of_the_library_count(series):
    (series.folder / "watched_library" / "lazy_not").mkdir()
    series.take("watched_library.other", 200)
    series.take("watched_library.lazy_not", 200)
    series.take("watched_other_not", 200)
    assert series.all() == []


def test_what_a_library_imports_of_itself_is_part_of_its_import(series):
    series.write("watched_library.lazy.b", 50)
    series.take("watched_library.lazy.a", 60, "import watched_library.lazy.b")
    assert series.all() == [("watched_library.lazy", 110)]


def test_what_a_library_imports_of_another_is_inside_if_it_is_long(series):
    series.write("watched_library.lazy.b", 110)
    series.take("watched_other", 10, "import watched_library.lazy.b", then=20)
    assert series.all() == [("watched_other", 140, [("watched_library.lazy", 110)])]


def test_what_a_library_imports_of_another_is_left_out_if_it_is_short(series):
    series.write("watched_library.lazy.b", 30)
    series.take("watched_other", 90, "import watched_library.lazy.b", then=20)
    assert series.all() == [("watched_other", 140)]


def test_an_import_that_fails_counts_as_time_and_has_no_error(series):
    with pytest.raises(ZeroDivisionError):
        series.take("watched_library.lazy.a", 150, "1 / 0")
    (failed,) = series.reported
    assert (failed.end_ns - failed.start_ns, failed.error) == (150 * MS, None)


@pytest.mark.parametrize("part", ["wrapped", "taken out"])
def test_a_program_that_wraps_the_finders_or_takes_them_out_imports_as_before(modules, monkeypatch, part):
    finder = AroundImport({})
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    finder.install()
    others = [each for each in sys.meta_path if each is not finder]
    wrapper = SimpleNamespace(find_spec=finder.find_spec)
    sys.meta_path[:] = [wrapper, *others] if part == "wrapped" else others
    finder.around = lambda _name: contextlib.nullcontext
    assert finder.find_spec("json.tool", None) is None
    assert importlib.util.find_spec("json.tool") is not None


def test_an_import_that_looks_for_its_module_while_the_finder_is_removed_finds_it(modules):
    modules(watched_outer="value = 1")
    finder = AroundImport({})
    finder.around = lambda _name: remove()  # as another thread that uninstruments
    remove = finder.install()
    assert importlib.import_module("watched_outer").value == 1
