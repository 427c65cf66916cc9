# SPDX-License-Identifier: Apache-2.0
"""The programs of Torch-TensorRT's Observer guide run with `torchspan.observers`, the import line alone replaced.

Each has a prelude that supplies the names the guide leaves undefined. Those that call Torch-TensorRT run with it, the
others also in a process where it cannot be imported.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch_tensorrt
from torch_tensorrt.dynamo import _compiler, observer
from torch_tensorrt.dynamo.conversion import _conversion

from support import models
from torchspan import observers

PRINTED = re.findall(
    r"```python\n(.*?)```", Path(__file__).with_name("observer_guide.md").read_text(encoding="utf-8"), re.DOTALL
)
IMPORTS = {
    "from torch_tensorrt.dynamo.observer import": "from torchspan.observers import",
    "import torch_tensorrt.dynamo.observer as": "import torchspan.observers as",
    "from torch_tensorrt.dynamo import observer as": "from torchspan import observers as",
}


def torchspans(block):
    """A program of the guide with its import line replaced."""
    ((theirs, here),) = [(theirs, here) for theirs, here in IMPORTS.items() if theirs in block]
    assert block.count(theirs) == 1
    return block.replace(theirs, here)


FIRE, CAPTURE, DECORATE, RETHROW, NOT_OWNED = (torchspans(block) for block in PRINTED)


@pytest.fixture
def compiled():
    """What the guide takes for granted: Torch-TensorRT, a program and its inputs."""
    inputs = [models.image()]
    program = torch.export.export(models.seeded(models.ConvNet), tuple(inputs))
    return {"torch_tensorrt": torch_tensorrt, "exported_program": program, "inputs": inputs}


def test_the_guide_has_five_programs_and_names_nothing_that_is_not_here():
    assert len(PRINTED) == 5
    used = set(re.findall(r"\b(?:obs_module|_obs|observers)\.(\w+)", "".join(PRINTED)))
    assert used - {"pre", "post"} == {"RETHROW_CALLBACK_EXCEPTION", "_make_observable"}
    assert all(hasattr(observers, name) for name in used - {"pre", "post"})


def test_a_subgraphs_conversion_fires_an_observer_and_is_captured(compiled, monkeypatch, capsys):
    """The function of the first program takes the place of the one that converts, in the compilation of the second."""
    namespace = dict(compiled)
    convert = _conversion.interpret_module_to_result

    def through_the_guides_function(gm, *args, **kwargs):
        namespace["_do_convert"] = lambda gm, _settings: convert(gm, *args, **kwargs)
        return namespace["convert_subgraph"](gm, None)

    monkeypatch.setattr(_conversion, "interpret_module_to_result", through_the_guides_function)
    exec(FIRE, namespace)
    exec(CAPTURE, namespace)
    assert capsys.readouterr().out == "Captured 1 subgraph conversions\n"
    ((graph, engine),) = namespace["records"]
    assert isinstance(graph, torch.fx.Graph)
    assert len(engine) > 1000
    assert len(namespace["on_subgraph_converted"]._get_callbacks()) == 0


def test_a_lowering_pass_is_observed_before_and_after(capsys):
    gm = torch.fx.symbolic_trace(models.seeded(models.Mlp))
    exec(DECORATE, {"gm": gm, "settings": None})
    assert capsys.readouterr().out == (
        "About to run my_lowering_pass on graph with 5 nodes\nAfter pass: graph has 5 nodes\n"
    )


def test_while_the_flag_is_set_what_a_callback_raises_comes_out():
    before, after = RETHROW.split("# ... run test ...\n")
    failing, namespace = observers.Observer("fails"), {}
    failing.add(lambda: 1 / 0)
    exec(before, namespace)
    with pytest.raises(ZeroDivisionError):
        failing.observe()
    exec(after, namespace)
    failing.observe()


def test_a_function_of_the_compilers_is_observed_and_put_back(compiled):
    original = _compiler.compile_module
    namespace = dict(compiled)
    exec(NOT_OWNED, namespace)
    (returned,) = namespace["records"]
    assert isinstance(returned, torch.fx.GraphModule)
    assert isinstance(namespace["result"], torch.fx.GraphModule)
    assert _compiler.compile_module is original


WITHOUT = """
import sys
for name in ("torch", "torch_tensorrt", "tensorrt", "tensorrt_rtx"):
    sys.modules[name] = None  # importing it fails
from types import SimpleNamespace

def _do_convert(gm, settings):
    return SimpleNamespace(serialized_engine=b"engine")

gm, settings = SimpleNamespace(graph=SimpleNamespace(nodes=range(5))), None
"""


@pytest.mark.parametrize(
    ("program", "printed"),
    [
        (FIRE + "print(convert_subgraph(gm, settings).serialized_engine)", "b'engine'\n"),
        (DECORATE, "About to run my_lowering_pass on graph with 5 nodes\nAfter pass: graph has 5 nodes\n"),
        (RETHROW, ""),
    ],
    ids=["fire", "decorate", "rethrow"],
)
def test_what_does_not_call_torch_tensorrt_runs_where_it_is_not_installed(program, printed):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT + program], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == (printed, "")


def test_whoever_changes_nothing_but_the_import_finds_every_name_of_the_module():
    names = {name for name, value in vars(observer).items() if getattr(value, "__module__", None) == observer.__name__}
    assert {name for name in names if not hasattr(observers, name)} == {"TObserverCallback", "_log_error"}
