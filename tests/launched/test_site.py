# SPDX-License-Identifier: Apache-2.0
"""The `sitecustomize` of `run`, and the one that would run without it."""

import ast
import json
import os
import subprocess
import sys

import pytest

from torchspan.cli.run import SITE, environment
from torchspan.start.launched.run_settings import RunSettings

SETTINGS = RunSettings("00000000000000aa", "/nowhere/x", "/nowhere/r", "00-" + "1" * 32 + "-" + "2" * 16 + "-01", 1)
STATE = """
import json, sys
module = sys.modules.get("sitecustomize")
try:
    import sitecustomize
    found = sitecustomize.__file__
except ImportError as error:
    found = [error.name, str(error)]
print(json.dumps([getattr(module, "__file__", None), found, sys.path]))
"""


@pytest.fixture
def python(tmp_path):
    """`python(below, *options, users=…)`: the state above in a new Python, with a `sitecustomize` of the user's."""

    def call(below, *options, users=None, text=STATE, **variables):
        folder = tmp_path / "users"
        folder.mkdir(exist_ok=True)
        if users is not None:
            (folder / "sitecustomize.py").write_text(users)
        (tmp_path / "state.py").write_text(text)
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "TORCHSPAN_", "COVERAGE_"))}
        environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(folder), environ.get("PYTHONPATH", "")]))
        environ |= variables
        if below:
            environ = environment(environ, SETTINGS, {})
        command = [sys.executable, *options, str(tmp_path / "state.py")]
        return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)

    return call


def test_without_another_sitecustomize_there_is_none(python):
    alone, below = python(False), python(True)

    assert (below.stdout, below.stderr) == (alone.stdout, alone.stderr)
    assert SITE not in json.loads(below.stdout)[2]


def test_the_users_sitecustomize_runs_and_is_the_module(python):
    users = "import sys\nprint('users', __name__, __file__.endswith('users/sitecustomize.py'), file=sys.stderr)\n"
    alone, below = python(False, users=users), python(True, users=users)

    assert (below.stdout, below.stderr) == (alone.stdout, alone.stderr)
    assert below.stderr == "users sitecustomize True\n"


@pytest.mark.fault("interpreter", "sitecustomize raises or exits")
@pytest.mark.parametrize("raised", ["ValueError('no')", "ImportError('no', name='other')", "SystemExit(3)"])
def test_what_the_users_sitecustomize_raises_is_reported_as_without_run(python, raised):
    users = f"raise {raised}\n"
    alone, below = python(False, users=users), python(True, users=users)

    assert (below.returncode, below.stdout) == (alone.returncode, alone.stdout)
    assert below.stderr.replace("\n", "") == alone.stderr.replace("\n", "") or "SystemExit" in raised


def test_it_starts_torchspan(python):
    text = "import torchspan\nprint(torchspan.TorchspanInstrumentor().is_instrumented_by_opentelemetry)\n"

    assert python(True, text=text).stdout == "True\n"
    assert python(False, text=text).stdout == "False\n"


@pytest.mark.parametrize("option", ["-S", "-I", "-E"])
def test_a_python_that_takes_no_sitecustomize_or_no_variables_gets_nothing(python, option):
    text = "import sys\nprint('torchspan' in sys.modules, 'sitecustomize' in sys.modules)\n"
    below, alone = python(True, option, text=text), python(False, option, text=text)

    assert (below.stdout, below.stderr) == (alone.stdout, "")
    assert below.stdout.startswith("False ")


def test_a_python_without_torchspan_says_nothing(python, tmp_path):
    """Modules that raise stand for those that are not installed, and for a syntax that an older Python does not know."""
    for broken in ("raise ModuleNotFoundError(\"No module named 'opentelemetry'\")", "def f(: pass"):
        (tmp_path / "users" / "torchspan").mkdir(parents=True, exist_ok=True)
        (tmp_path / "users" / "torchspan" / "__init__.py").write_text(broken)
        alone, below = python(False), python(True)

        assert (below.returncode, below.stdout, below.stderr) == (0, alone.stdout, "")


def test_the_file_is_read_by_the_oldest_pythons():
    """Python 2.7 and 3.6 parse it: no annotation, f-string, walrus or keyword of later versions."""
    with open(os.path.join(SITE, "sitecustomize.py"), encoding="ascii") as file:
        tree = ast.parse(file.read(), feature_version=(3, 4))
    later = (ast.JoinedStr, ast.AnnAssign, ast.NamedExpr, ast.AsyncFunctionDef, ast.Nonlocal, ast.YieldFrom)
    assert not [node for node in ast.walk(tree) if isinstance(node, later)]
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Raise) and node.cause]
    assert [node.returns for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)] == [None]


def test_processes_that_an_instrumentation_starts_while_it_is_loaded_do_not_load_it_again(python, tmp_path):
    folder = tmp_path / "installed"
    information = folder / "starting-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: starting\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[opentelemetry_pre_instrument]\nstarting = starting:start\n")
    (folder / "starting.py").write_text(
        "import os, subprocess, sys\n"
        "def start():\n"
        "    print('loaded', file=sys.stderr, flush=True)\n"
        "    subprocess.run([sys.executable, '-c', 'pass'], check=True)\n"
    )
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")]))
    below = python(True, text="import os\nprint(os.environ['PYTHONPATH'])\n", PYTHONPATH=path)

    assert below.stderr == "loaded\n"
    assert below.stdout == f"{SITE}{os.pathsep}{path}\n"
