# SPDX-License-Identifier: Apache-2.0
"""What may import what, and what importing us brings along."""

import ast
import graphlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import generate_architecture
import size
import torchspan
from generate_architecture import part_of

ROOT = Path(torchspan.__file__).parent
REPOSITORY = Path(__file__).resolve().parents[1]
ALLOWED = {
    "base": set(),
    "words": {"base", "exceptions"},
    "engine": {"base", "words"},
    "inputs": {"base", "words"},
    "hooks": {"base", "words", "engine", "inputs", "start"},
    "output": {"base", "words", "engine"},
    "start": {"base", "words", "engine", "inputs", "hooks", "output", "exceptions"},
    "reading": {"words"},
    "testing": {"words", "hooks", "output", "start", "reading"},
    "cli": {"base", "words", "inputs", "hooks", "output", "start", "reading", "testing"},
    # the public faces
    "__init__": {"base", "hooks", "start"},
    "__main__": {"cli"},
    "answers": {"reading"},
    "callbacks": {"engine"},
    "comparison": {"reading"},
    "environment_variables": {"words"},
    "exceptions": set(),
    "native": {"hooks"},
    "observers": {"base", "hooks"},
    "phase": {"words"},
    "sdk": {"output"},
    "traces": {"reading"},
}
"""Part of the package -> parts it may import. Data flows one way: no room is allowed one that comes after it."""

FOR_TYPE_CHECKERS = {("hooks", "start"), ("sdk", "output")}
"""Imports that do not run."""

FILES = generate_architecture.files()


def imports(path):
    """Modules that a file imports, wherever in it."""
    return generate_architecture.imports(ast.parse(path.read_text(encoding="utf-8")))


def test_the_tool_reads_the_package_that_the_tests_import():
    assert generate_architecture.SOURCE == ROOT


def test_imports_point_one_way():
    found = generate_architecture.graph(at_run_time=False)
    assert {part: sorted(targets - ALLOWED[part]) for part, targets in found.items() if targets - ALLOWED[part]} == {}


def test_no_part_is_allowed_an_import_that_it_does_not_have():
    found = generate_architecture.graph(at_run_time=False)
    assert {part: sorted(targets - found[part]) for part, targets in ALLOWED.items() if targets - found[part]} == {}


def test_a_room_is_allowed_no_room_that_comes_after_it():
    order = list(ALLOWED)[: len(generate_architecture.ROOMS)]
    later = {(room, each) for room in order for each in ALLOWED[room] if each in order[order.index(room) :]}
    assert set(order) == set(generate_architecture.ROOMS)
    assert later - FOR_TYPE_CHECKERS == set()


def test_the_table_of_rooms_on_the_page_has_the_imports_above_but_those_for_type_checkers():
    page = (REPOSITORY / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| .+ \|([^|]*)\|$", page, re.M)
    rooms = generate_architecture.ROOMS
    assert {room: set(re.findall(r"`(\w+)`", imported)) for room, imported in rows} == {
        room: {each for each in ALLOWED[room] if each in rooms and (room, each) not in FOR_TYPE_CHECKERS}
        for room in rooms
    }


def test_at_the_top_are_ten_rooms_and_faces_of_at_most_fifty_lines():
    top = {part_of(path) for path in FILES}
    assert len(generate_architecture.ROOMS) == 10
    faces = {path: part_of(path) for path in FILES if part_of(path) not in generate_architecture.ROOMS}
    assert top - set(generate_architecture.ROOMS) == set(faces.values())
    assert [path.name for path in faces if size.measure(path.read_text(encoding="utf-8")).code > 50] == []


def module_of(path):
    """The dotted name of a file of the package."""
    return ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")


def test_no_file_imports_in_a_circle_with_another():
    modules = {module_of(path): path for path in FILES}
    graph = {}
    for module, path in modules.items():
        found = generate_architecture.without_types(ast.parse(path.read_text(encoding="utf-8")))
        graph[module] = {each for each in files_imported_by(found) if each in modules} - {module}
    assert list(graphlib.TopologicalSorter(graph).static_order())  # a circle is a CycleError, which names its files


def files_imported_by(tree):
    """Modules that a tree imports, wherever in it: of `from a import b` both, because `b` may be a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from inner
            if any(not is_module(name) for name in inner):
                yield node.module


def at_import_time(tree):
    """Modules imported when a file is imported: not those inside functions or for type checkers alone."""
    for node in tree.body if hasattr(tree, "body") else []:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, (ast.ClassDef, ast.Try)) or (
            isinstance(node, ast.If) and "TYPE_CHECKING" not in ast.dump(node.test)
        ):
            yield from at_import_time(node)


OBSERVED = {"torch", "torch_tensorrt", "tensorrt", "tensorrt_rtx"}
LATE = ("hooks/without_gpu/", "testing/", "cli/_demo_program.py", "cli/_torch_demo_program.py")
"""Imported after the observed libraries, or a program of its own."""


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(ROOT)) for path in FILES])
def test_no_part_imports_an_observed_library_with_itself(path):
    if str(path.relative_to(ROOT)).startswith(LATE):
        return
    assert not OBSERVED & {name.split(".")[0] for name in at_import_time(ast.parse(path.read_text()))}


def test_the_engine_and_what_is_below_it_know_neither_the_observed_libraries_nor_opentelemetry():
    for path in FILES:
        if part_of(path) in {"base", "engine"}:
            assert not (OBSERVED | {"opentelemetry"}) & {name.split(".")[0] for name in imports(path)}, path


def test_probes_and_engine_do_not_speak_of_spans():
    for path in FILES:
        if part_of(path) == "engine" or path.is_relative_to(ROOT / "hooks" / "probes"):
            names = {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
            assert not {name for name in names if "span" in name.lower() and name != "torchspan"}, path


def test_the_public_names_are_those_in_all():
    assert [
        name for name in torchspan.__all__ if not hasattr(torchspan, name)
    ] == []  # some are imported at their first use
    visible = {name for name in vars(torchspan) if not name.startswith(("_", "@"))}  # "@": what pytest adds to a plugin
    modules = {path.stem for path in ROOT.iterdir()}
    assert visible - modules == set(torchspan.__all__) - {"__version__"}
    assert list(torchspan.__all__) == sorted(torchspan.__all__)


def run(program, **environment):
    """What a new Python prints."""
    import os

    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "TORCHSPAN_"))}
    result = subprocess.run(
        [sys.executable, "-c", program], env={**clean, **environment}, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


LOADED = "import sys; print(sorted(m for m in sys.modules if m.split('.')[0] in ('torch', 'torch_tensorrt', 'tensorrt', 'tensorrt_rtx') or m.startswith('opentelemetry.sdk')))"


def test_importing_us_imports_neither_torch_nor_tensorrt_nor_the_sdk():
    assert run(f"import torchspan, torchspan.inputs, torchspan.testing; {LOADED}") == "[]"


def test_importing_torchspan_loads_no_package_of_opentelemetry():
    """Each Python that an instrumented program starts pays for it."""
    assert run(
        "import sys; before = set(sys.modules); import torchspan; print(sorted(m for m in set(sys.modules) - before if m.startswith(('torchspan', 'opentelemetry', 'wrapt'))))"
    ) == ("['torchspan', 'torchspan.base', 'torchspan.base.readiness', 'torchspan.base.version']")


def test_instrumenting_imports_neither_torch_nor_tensorrt_nor_the_sdk():
    assert run(f"import torchspan; torchspan.TorchspanInstrumentor().instrument(without_gpu=True); {LOADED}") == "[]"


READING = "print(sorted(m for m in sys.modules if m.startswith('torchspan.reading')))"


@pytest.mark.parametrize("arguments", ["", "without_gpu=True"])
def test_a_program_that_is_traced_loads_nothing_of_what_reads_traces(arguments):
    program = f"import sys, torchspan; torchspan.instrument({arguments}); import torchspan.observers; {READING}"
    assert run(program) == "[]"


@pytest.mark.parametrize("options", [[], ["--without-gpu"]])
def test_a_program_under_run_loads_nothing_of_what_reads_traces(tmp_path, options):
    program = f"import sys, torchspan.observers; {READING}"
    command = [sys.executable, "-m", "torchspan", "run", "--output", str(tmp_path / "trace.jsonl"), *options]
    ended = subprocess.run([*command, sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[0] == "[]"


def test_auto_instrumentation_imports_neither_torch_nor_tensorrt():
    program = """
from opentelemetry.instrumentation.auto_instrumentation import initialize
initialize(swallow_exceptions=False)
import sys, torchspan
assert torchspan.TorchspanInstrumentor().is_instrumented_by_opentelemetry
print(sorted(m for m in sys.modules if m.split(".")[0] in ("torch", "torch_tensorrt", "tensorrt", "tensorrt_rtx")))
"""
    exporters = {f"OTEL_{signal}_EXPORTER": "none" for signal in ("TRACES", "METRICS", "LOGS")}
    assert run(program, **exporters, TORCHSPAN_WITHOUT_GPU="1") == "[]"


@pytest.mark.slow
def test_uninstrumenting_before_the_library_is_imported_leaves_it_untouched():
    program = """
import warnings; warnings.simplefilter("ignore")
import torchspan, torchspan.testing
torchspan.testing.without_gpu()
instrumentor = torchspan.TorchspanInstrumentor()
instrumentor.instrument()
instrumentor.uninstrument()
import torch_tensorrt, torch
from torch_tensorrt.dynamo import _compiler
functions = (_compiler.compile, _compiler.compile_module, torch_tensorrt.compile, torch.export.ExportedProgram.run_decompositions)
print([function.__globals__["__name__"].startswith("torchspan.") for function in functions])
"""
    assert run(program).splitlines()[-1] == "[False, False, False, False]"


@pytest.mark.slow
def test_cuda_and_nvml_are_never_initialized_by_us(tmp_path):
    program = """
import warnings; warnings.simplefilter("ignore")
import ctypes, sys
import torchspan, torchspan.testing
torchspan.testing.without_gpu()
torchspan.TorchspanInstrumentor().instrument(detail="passes", build_phases="on", graph_runs=True)
import torch
def refuse(*_args, **_kwargs):
    raise SystemExit("CUDA or NVML was initialized")
for holder, name in ((torch._C, "_cuda_init"), (torch._C, "_cuda_getDeviceCount"), (torch._C, "_cuda_hasPrimaryContext"), (torch.cuda, "_lazy_init"), (torch.cuda, "_raw_device_count_nvml")):
    setattr(holder, name, refuse)
sys.modules["pynvml"] = None
load = ctypes.CDLL.__init__
def loading(self, name, *args, **kwargs):
    if name and ("nvidia-ml" in str(name) or "libcuda.so" in str(name)):
        refuse()
    load(self, name, *args, **kwargs)
ctypes.CDLL.__init__ = loading
import torch_tensorrt
answers = torch.cuda.mem_get_info
def mem_get_info(*args, **kwargs):
    if sys._getframe(1).f_globals["__name__"].startswith("torchspan.hooks.adapters"):  # the library itself asks, too
        refuse()
    return answers(*args, **kwargs)
torch.cuda.mem_get_info = mem_get_info
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
exporter = InMemorySpanExporter()
provider = TracerProvider(shutdown_on_exit=False)
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
class Net(torch.nn.Module):
    def forward(self, x):
        return torch.special.i1e(torch.relu(x)) + 1
x = torch.ones(2, 4)
torch_tensorrt.compile(Net().eval(), ir="dynamo", inputs=[x], min_block_size=1)(x)
try:
    torch_tensorrt.compile(Net().eval(), ir="dynamo", inputs=[x], min_block_size=1, workspace_size=1)
except (RuntimeError, AssertionError):
    pass
assert not torch.cuda.is_initialized()
print({span.name for span in exporter.get_finished_spans()} >= {"torch_tensorrt.compile", "tensorrt.build_engine", "torch_tensorrt.execute"})
"""
    assert run(program, TMPDIR=str(tmp_path)).splitlines()[-1] == "True"


def test_the_rest_of_torchspan_imports_one_module_of_inputs():
    outside = {
        name
        for path in FILES
        if part_of(path) != "inputs"
        for name in imports(path)
        if name is not None and name.startswith("torchspan.inputs")
    }
    assert outside == {"torchspan.inputs.port"}


# --- the tests ----------------------------------------------------------------------------------------------------------
TESTS = Path(__file__).parent
PRIVATE = re.compile(r"torchspan\.(?:(?:base|hooks|output|reading|start|words)\.)?(\w+)\..*\b_")
"""A private module of a package: a private name below it. The package is the first part, or the first below a room."""


TESTED_IN = {"without_gpu": "testing"}


def package_of(path):
    """The package that a test tests: the name of its folder, or of its file."""
    return path.relative_to(TESTS).parts[0].removesuffix(".py").removeprefix("test_")


def modules_imported_by(tree):
    """Modules of torchspan, and private names imported from its packages, by the names that they have in the file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("torchspan"):
            yield from ((alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, alias.name) for alias in node.names if alias.name.startswith("torchspan"))


def is_module(name):
    path = ROOT.parent.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def test_no_test_imports_a_private_module_of_a_package_that_it_does_not_test():
    found = []
    for path in sorted(TESTS.rglob("*.py")):
        for _, name in modules_imported_by(ast.parse(path.read_text(encoding="utf-8"))):
            module = name if is_module(name) else name.rpartition(".")[0]
            package = PRIVATE.match(module)
            if package and TESTED_IN.get(package[1], package[1]) != package_of(path).strip("_"):
                found.append((str(path.relative_to(TESTS)), module))
    assert found == []


def constants_changed_by(tree):
    """What the file changes of torchspan's constants by `monkeypatch.setattr` or by an assignment."""
    modules = {name: target for name, target in modules_imported_by(tree) if is_module(target)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setattr":
            names = [argument.value for argument in node.args if isinstance(argument, ast.Constant)][:1]
            target = modules.get(ast.unparse(node.args[0]), "")
            yield from (f"{target}.{name}" for name in names if isinstance(name, str))
        elif isinstance(node, (ast.Assign, ast.AugAssign)):
            for target in getattr(node, "targets", None) or [node.target]:
                if isinstance(target, ast.Attribute) and ast.unparse(target.value) in modules:
                    yield f"{modules[ast.unparse(target.value)]}.{target.attr}"


SWITCH = "torchspan.observers.RETHROW_CALLBACK_EXCEPTION"
"""For users to change."""


def test_no_test_changes_a_constant_of_torchspan():
    found = [
        (str(path.relative_to(TESTS)), name.strip("."))
        for path in sorted(TESTS.rglob("*.py"))
        for name in constants_changed_by(ast.parse(path.read_text(encoding="utf-8")))
        if re.fullmatch(r"\.?torchspan\..*\.[A-Z][A-Z0-9_]+", name) and name != SWITCH
    ]
    assert found == []
