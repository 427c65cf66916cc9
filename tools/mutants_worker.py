# SPDX-License-Identifier: Apache-2.0
"""`mutants_worker.py map PART TEST…` notes which test runs which line, and `add` adds to these notes; `try FOLDER SEED SAMPLE PART TEST…` tries mutants, one line of JSON each.

`try` reads those that need no try from its input: a JSON array of arrays, of a file, a line before and after, and the outcome.
PART is `0/2` for the first of two processes. It runs in the environment that has mutmut. See tools/mutants.py.
"""

import ast
import contextlib
import hashlib
import importlib
import importlib.machinery
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import coverage
import hypothesis
import pytest
import torch  # noqa: F401 - each fork has it
from mutmut.mutation.file_mutation import create_mutations, deep_replace

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "torchspan"
NOTES = ROOT / ".bench"

QUICK_S = 3
"""The fastest tests of a line, of about so many seconds together, come first, in a process without the files of the others."""
BUDGET_S = 60
"""Tests of a mutant beyond so many seconds together, the slowest ones, are left out."""
POLL_S = 0.02
MEMORY = 6 * 2**30
"""Bytes that a mutant may take on top of what the process has: one that appends forever ends with a MemoryError."""

AT_IMPORT = ""
"""The context of lines that run outside tests, as coverage calls it."""

PROFILE = "mutants"
OPTIONS = (
    *("-q", "-x", "--no-header", "-m", "not slow", "-p", "no:cacheprovider", "-p", "no:xdist"),
    *("--hypothesis-seed=0", f"--hypothesis-profile={PROFILE}", "-W", "ignore::pytest.PytestAssertRewriteWarning"),
)
# Of a failing example only that there is one matters, and no later run may begin with it.
hypothesis.settings.register_profile(
    PROFILE, deadline=None, database=None, phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate]
)


class Lines:
    """A plugin of pytest: which test runs which line, how long each takes, and which fail without a mutant."""

    def __init__(self, measured, own, processes):
        self._measured, self._own, self._processes = measured, own, processes
        self.seconds, self.failed = {}, set()

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config):
        """Measure also what the suite's own plugin leaves unmeasured."""
        for plugin in config.pluginmanager.get_plugins():
            if type(plugin).__name__ == "Unmeasured":
                config.pluginmanager.unregister(plugin)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        """Every second file, or as many processes as there are."""
        files = sorted({item.path for item in items})
        own = set(files[self._own :: self._processes])
        items[:] = [item for item in items if item.path in own]

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item):
        """The lines of the test, its fixtures included."""
        self._measured.switch_context(item.nodeid)
        start_s = time.monotonic()
        yield
        self.seconds[item.nodeid] = time.monotonic() - start_s
        self._measured.switch_context(AT_IMPORT)

    def pytest_runtest_logreport(self, report):
        """Note the tests that fail without a mutant, and those that are skipped."""
        if not report.passed:
            self.failed.add(report.nodeid)


def note(part, tests, earlier):
    """Run this part of the tests, and add to the earlier notes which of them run which line. Returns 1 if they could not run."""
    NOTES.mkdir(exist_ok=True)
    data_file = NOTES / f"mutants-{part.replace('/', '-of-')}.coverage"
    data_file.unlink(missing_ok=True)
    measured = coverage.Coverage(data_file=str(data_file), include=[str(SOURCE / "*")], config_file=False)
    lines = Lines(measured, *map(int, part.split("/")))
    measured.start()
    options = [option for option in OPTIONS if option != "-x"]
    with temporary_folder(), contextlib.redirect_stdout(sys.stderr):
        status = pytest.main([*options, *tests], plugins=[lines])
    measured.stop()
    measured.save()
    of_line = earlier.get("tests", {})
    for path in measured.get_data().measured_files():
        for line, contexts in measured.get_data().contexts_by_lineno(path).items():
            of_line.setdefault(f"{Path(path).relative_to(ROOT)}:{line}", []).extend(contexts)
    seconds = earlier.get("seconds", {}) | lines.seconds
    failed = {*earlier.get("failed", ()), *lines.failed}
    notes = {"seconds": seconds, "failed": sorted(failed), "tests": of_line}
    notes_of(part).write_text(json.dumps(notes), encoding="utf-8")
    return int(status not in {0, 1, int(pytest.ExitCode.NO_TESTS_COLLECTED)})


def notes_of(part):
    """The file of a part's notes."""
    return NOTES / f"mutants-{part.replace('/', '-of-')}.json"


@contextlib.contextmanager
def temporary_folder():
    """The folder for temporary files inside is gone afterwards."""
    before, folder = tempfile.tempdir, tempfile.mkdtemp(prefix="torchspan-mutant-")
    tempfile.tempdir = folder
    try:
        yield Path(folder)
    finally:
        tempfile.tempdir = before
        shutil.rmtree(folder, ignore_errors=True)


class Notes:
    """What the parts of the map say: seconds of a test, and the tests of a line."""

    def __init__(self, processes):
        self._seconds, self._of_line, failed = {}, {}, set()
        for part in range(processes):
            notes = json.loads(notes_of(f"{part}/{processes}").read_text(encoding="utf-8"))
            self._seconds |= notes["seconds"]
            failed |= set(notes["failed"])
            for line, tests in notes["tests"].items():
                self._of_line.setdefault(line, set()).update(tests)
        self.failed = failed
        self._usable = set(self._seconds) - failed

    def tests_of(self, path, line, folders):
        """The tests that may notice a change of a line: those that run it, fastest first, then others of the first folder.

        The others are there because a function that remembers its result runs in one test alone. For a line that runs while the modules
        are imported, all other tests may notice, too.
        """
        tree = ast.parse(path.read_text(encoding="utf-8"))
        around = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.stmt) and first_line(node) <= line <= node.end_lineno
        ]
        around.sort(key=lambda node: node.end_lineno - first_line(node))
        in_function = any(
            isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.lineno < line for node in around
        )
        contexts = set() if in_function else {AT_IMPORT}  # a test may be the first to import the module
        for first, last in ((line, line), *((first_line(node), node.end_lineno) for node in around)):
            contexts = contexts.union(
                *(self._of_line.get(f"{path.relative_to(ROOT)}:{number}", ()) for number in range(first, last + 1))
            )
            if contexts - {AT_IMPORT}:
                break
        running = contexts & self._usable
        own = self._below(folders[0])
        tests = self._fastest_first(running) + self._fastest_first(own - running)
        if not running or AT_IMPORT in contexts:
            others = set().union(*(self._below(folder) for folder in folders)) - own - running
            tests += self._fastest_first(others)
        return tests

    def _below(self, folder):
        return {test for test in self._usable if test.startswith((f"tests/{folder}/", f"tests/{folder}::"))}

    def _fastest_first(self, tests):
        return sorted(tests, key=lambda test: (self._seconds[test], test))

    def within(self, tests, seconds):
        """So many of the first tests as take these seconds together, and at least one."""
        total, kept = 0.0, []
        for test in tests:
            total += self._seconds[test]
            if kept and total > seconds:
                break
            kept.append(test)
        return kept

    def total(self, tests):
        """Seconds that the tests take together."""
        return sum(self._seconds[test] for test in tests)


def first_line(node):
    """The first line of a statement, with its decorators."""
    return min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])


def sampled(folder, seed, number):
    """So many mutants of a folder: file, line, one line of code before and after, and the mutated source.

    Those are taken whose digests with the seed are smallest, so that another line of code leaves the sample as it is except for its own mutants.
    """
    mutants = []
    for path in sorted((SOURCE / folder).rglob("*.py")):
        file, source = str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
        module, mutations, *_ = create_mutations(str(path), source)
        same = Counter()
        for mutation in mutations:
            change = (file, module.code_for_node(mutation.original_node), module.code_for_node(mutation.mutated_node))
            same[change] += 1
            digest = hashlib.sha256("\0".join((seed, *change, str(same[change]))).encode()).digest()
            mutants.append((digest, file, source, module, mutation))
    for _, file, source, module, mutation in sorted(mutants, key=lambda mutant: mutant[0])[:number]:
        mutated = deep_replace(module, mutation.original_node, mutation.mutated_node).code
        line, before, after = first_difference(source, mutated)
        yield {"file": file, "line": line, "before": before, "after": after}, mutated


def first_difference(source, mutated):
    """Number of the first line that differs, and both lines."""
    before, after = source.splitlines(), mutated.splitlines()
    for number, (old, new) in enumerate(zip(before, after, strict=False), 1):
        if old != new:
            return number, old.strip(), new.strip()
    return len(before), before[-1].strip(), "(nothing)"


class Report:
    """A plugin of pytest in the process of a mutant: which tests began, and which failed, as lines of a file."""

    def __init__(self, file, order):
        self._file, self._order = file, {test: number for number, test in enumerate(order)}

    def write(self, what, name=""):
        """One line; the process may end at any time."""
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps([what, name]) + "\n")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        """In the order that was asked for: the suite's own order has slow files first."""
        items.sort(key=lambda item: self._order.get(item.nodeid, len(self._order)))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid):
        """A test begins."""
        self.write("began", nodeid)

    def pytest_runtest_logreport(self, report):
        """A part of a test ended."""
        if report.failed:
            self.write("failed", report.nodeid)

    def pytest_collectreport(self, report):
        """A file that cannot be imported."""
        if report.failed:
            self.write("failed", report.nodeid)


def attempt(mutant, mutated, tests, seconds):
    """Run the tests in a process of its own. Returns `passed`, `failed`, `timed out` or `not collected`, the last test, and all that began.

    mutated: the source of the mutant's file, or None to run what is there.
    """
    with temporary_folder() as folder:
        file = folder / "report"
        pid = os.fork()
        if pid == 0:
            child(mutant, mutated, tests, Report(file, tests), seconds)
        status = ended(pid, 120 + 3 * seconds)
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []
    began = [name for what, name in rows if what == "began"]
    failed = [name for what, name in rows if what == "failed"]
    last = failed[0] if failed else began[-1] if began else "import"
    if mutated is not None and ["loaded", ""] not in rows:
        raise SystemExit(f"the mutant of {mutant['file']}:{mutant['line']} was never loaded")
    if status is None or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU):
        return "timed out", last, began
    if status == 0:
        return "passed", last, began
    if os.WIFEXITED(status) and not failed and ["imported", ""] in rows and os.WEXITSTATUS(status) == 4:
        return "not collected", last, began
    return "failed", last, began


def child(mutant, mutated, tests, report, seconds):
    """The process of a mutant: import its module, run the tests, and end."""
    status = 70
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        limit_s = int(30 + 3 * seconds)
        resource.setrlimit(resource.RLIMIT_CPU, (own_cpu_s() + limit_s, own_cpu_s() + limit_s + 5))
        in_use = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (in_use + MEMORY, in_use + MEMORY))
        path = ROOT / mutant["file"]
        if mutated is not None:
            read_instead(path, mutated, report)
        module = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
        importlib.import_module(module)
        report.write("imported")
        status = int(pytest.main([*OPTIONS, *tests], plugins=[report]))
    finally:
        os._exit(status)


def own_cpu_s():
    """Processor seconds of this process, rounded up."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return int(used.ru_utime + used.ru_stime) + 1


def read_instead(path, text, report):
    """Python reads this text where it would read the file, and no bytecode of it."""
    original = importlib.machinery.SourceFileLoader.get_code

    def get_code(loader, name):
        if loader.path == str(path):
            report.write("loaded")
            return compile(text, loader.path, "exec", dont_inherit=True)
        return original(loader, name)

    importlib.machinery.SourceFileLoader.get_code = get_code


def ended(pid, limit_s):
    """The wait status of a process once it has ended, or None where it had to be killed. None of its own processes is left.

    The limit counts the time in which this process itself runs: a machine that is suspended, and processes that are stopped, end no mutant.
    """
    status = None
    for _ in range(int(limit_s / POLL_S)):
        ended_pid, status_of_ended = os.waitpid(pid, os.WNOHANG)
        if ended_pid:
            status = status_of_ended
            break
        time.sleep(POLL_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    if status is None:
        os.waitpid(pid, 0)
    return status


class Trials:
    """Tries mutants. A test is believed once it has passed without a mutant, after the same tests and in such a process."""

    def __init__(self, notes, folders):
        self._notes, self._folders = notes, folders
        self._passes, self._fails = set(), set()

    def outcome_of(self, mutant, mutated):
        """The mutant with its outcome, and the test by which it was noticed."""
        tests = self._notes.tests_of(ROOT / mutant["file"], mutant["line"], self._folders)
        quick = self._notes.within(tests, QUICK_S)
        rest = self._notes.within(tests, BUDGET_S)[len(quick) :]
        for stage in (quick, rest):
            outcome, by = self._stage(mutant, mutated, stage)
            if outcome != "survived":
                return {**mutant, "outcome": outcome, "by": by, "tests": len(tests)}
        return {**mutant, "outcome": "survived", "by": None, "tests": len(tests)}

    def _stage(self, mutant, mutated, stage):
        while tests := [test for test in stage if test not in self._fails]:
            seconds = self._notes.total(tests)
            asked, (outcome, by, began) = tests, attempt(mutant, mutated, tests, seconds)
            if outcome == "not collected":  # names of tests that depend on what was changed
                asked = began = sorted({test.partition("::")[0] for test in tests})
                asked += [f"--deselect={test}" for test in sorted(self._notes.failed | self._fails)]
                outcome, by, _began = attempt(mutant, mutated, asked, seconds)
                if outcome == "not collected" and attempt(mutant, None, asked, seconds)[0] != outcome:
                    return "killed", "import"  # a conftest.py that cannot be imported, which is no failure of a test
            if outcome in {"passed", "not collected"}:
                break
            if by == "import" or by in self._passes:
                return ("killed" if outcome == "failed" else "timed out"), by
            control, failing, _began = attempt(mutant, None, began or asked, seconds)
            if control == "passed":
                self._passes.add(by)
                return ("killed" if outcome == "failed" else "timed out"), by
            print(f"fails without a mutant: {failing}", file=sys.stderr, flush=True)
            self._fails.add(by if failing in {"import", *self._fails} else failing)
        return "survived", None


def main(what, *arguments):
    """Note lines, or try mutants. Returns the exit status."""
    os.chdir(ROOT)
    if what in {"map", "add"}:
        part, *tests = arguments
        return note(part, tests, json.loads(notes_of(part).read_text(encoding="utf-8")) if what == "add" else {})
    folder, seed, number, part, *tests = arguments
    own, processes = map(int, part.split("/"))
    trials = Trials(Notes(processes), tests)
    known = {tuple(change): outcome for *change, outcome in json.load(sys.stdin)}
    for index, (mutant, mutated) in enumerate(sampled(folder, seed, int(number))):
        if index % processes == own:
            start_s = time.monotonic()
            if (change := (mutant["file"], mutant["before"], mutant["after"])) in known:
                row = {**mutant, "outcome": known[change], "by": None, "tests": 0}
            else:
                row = trials.outcome_of(mutant, mutated)
            print(json.dumps({**row, "seconds": round(time.monotonic() - start_s, 1)}), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
