# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys

import pytest
import torch

import torchspan.testing
from torchspan.hooks.without_gpu import _switch

pytestmark = pytest.mark.stand_in_only("how it is enabled")

HEAVY = "[m for m in ('torch', 'torch_tensorrt', 'tensorrt', 'opentelemetry.sdk') if m in sys.modules]"


def test_importing_the_package_imports_no_library_and_switches_nothing_on(python):
    assert python(f"import sys, torchspan.testing as t; print({HEAVY}, t.is_without_gpu())") == "[] False\n"


def test_enabling_imports_no_library(python):
    program = f"import sys, torchspan.testing as t; t.without_gpu(); print({HEAVY}, t.is_without_gpu())"
    assert python(program) == "[] True\n"


def test_a_second_call_does_nothing():
    finders, zeros, applied = list(sys.meta_path), torch.zeros, dict(_switch.applied)
    torchspan.testing.without_gpu()
    assert torchspan.testing.is_without_gpu()
    assert (list(sys.meta_path), torch.zeros, _switch.applied) == (finders, zeros, applied)


def test_nothing_is_replaced_unless_asked_for(python):
    program = """
import torchspan.testing, torch
print(torch.cuda.is_available(), torch.cuda.device_count(), type(torch.zeros).__name__, torch.cuda.Stream.__module__)
print(any(hasattr(getattr(torch.cuda, n, None), "__torchspan_stand_in__") for n in dir(torch.cuda)))
"""
    assert python(program, CUDA_VISIBLE_DEVICES="") == "False 0 builtin_function_or_method torch.cuda.streams\nFalse\n"


def test_enabling_after_torch_tensorrt_says_where_and_how_to_fix_it(monkeypatch):
    monkeypatch.setattr(_switch, "_is_on", False)
    assert "torch_tensorrt" in sys.modules or __import__("torch_tensorrt")
    with pytest.raises(
        torchspan.testing.TooLateError, match=r"after torch_tensorrt had been imported \(from .*__init__.py"
    ) as e:
        torchspan.testing.without_gpu()
    assert "conftest.py" in str(e.value) and "TORCHSPAN_WITHOUT_GPU=1" in str(e.value)
    assert not torchspan.testing.is_without_gpu()


def test_enabling_after_cuda_was_initialized_is_refused(monkeypatch):
    monkeypatch.setattr(_switch, "_is_on", False)
    monkeypatch.delitem(sys.modules, "torch_tensorrt", raising=False)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    with pytest.raises(torchspan.testing.TooLateError, match="after CUDA had been initialized"):
        torchspan.testing.without_gpu()


@pytest.mark.slow
def test_enabled_after_torch_and_dynamo_everything_holds(python):
    program = """
import torch, torch._dynamo
DEVICE = "cpu"
class Model(torch.nn.Module):
    def forward(self, x):
        return x + torch.zeros(1, device=DEVICE) + torch.arange(x.shape[0], device=x.device) + int(torch.cuda.is_available())
torch.compile(Model(), backend="eager", fullgraph=True)(torch.ones(3))
torch._dynamo.reset()
import torchspan.testing
torchspan.testing.without_gpu()
DEVICE = "cuda"
print(torch.compile(Model(), backend="eager", fullgraph=True)(torch.ones(3).to("cuda")).tolist())
"""
    assert python(program, CUDA_VISIBLE_DEVICES="") == "[2.0, 3.0, 4.0]\n"


@pytest.mark.parametrize("first", ["hook", "switch"])
def test_post_import_hooks_see_replaced_names_whichever_was_registered_first(python, first):
    steps = {
        "hook": "wrapt.register_post_import_hook(look, 'library')",
        "switch": "AroundImport({'library': around}).install()",
    }
    order = [steps[first], *(step for name, step in steps.items() if name != first)]
    program = """
import contextlib, pathlib, sys, wrapt
from torchspan.base.imports import AroundImport
pathlib.Path("library.py").write_text("events = ['body']; import inspect")
sys.path.insert(0, "")
seen = []
@contextlib.contextmanager
def around():
    seen.append("before")
    yield
    seen.append("after"); sys.modules["library"].name = "replaced"
def look(module):
    seen.append(module.name)
FIRST
SECOND
import library
print(seen, type(library.__spec__.loader).__name__, vars(library.__spec__.loader).get("exec_module"))
""".replace("FIRST", order[0]).replace("SECOND", order[1])
    assert python(program) == "['before', 'after', 'replaced'] SourceFileLoader None\n"


def test_looking_for_a_module_does_not_run_what_surrounds_its_import(python):
    program = """
import importlib.util, torchspan.testing
torchspan.testing.without_gpu()
import sys
print(importlib.util.find_spec("torch").name, "torch" in sys.modules, importlib.util.find_spec("torch").loader.get_filename() != "")
"""
    assert python(program) == "torch False True\n"


def test_a_failing_import_of_torch_tensorrt_puts_everything_back(python, tmp_path):
    (tmp_path / "torch_tensorrt").mkdir()
    (tmp_path / "torch_tensorrt" / "__init__.py").write_text(
        "import os; print(os.path.isfile(__file__)); raise ValueError('no')"
    )
    program = """
import os, sys, importlib.util
sys.path.insert(0, "")
isfile, find_spec = os.path.isfile, importlib.util.find_spec
import torchspan.testing; torchspan.testing.without_gpu()
try: import torch_tensorrt
except ValueError as e: print(e, "torch_tensorrt" in sys.modules)
print(os.path.isfile is isfile, importlib.util.find_spec is find_spec)
"""
    assert python(program) == "True\nno False\nTrue True\n"


@pytest.mark.slow
def test_tensorrt_gets_its_stand_in_whether_it_is_imported_before_or_after(python):
    program = """
import sys
{first}
{second}
import tensorrt_rtx as trt, torch
print(trt.ICudaEngine.__torchspan_stand_in__, trt.IExecutionContext.__torchspan_stand_in__, trt.Refitter.__module__)
print(torch.zeros.__wrapped__.__class__.__name__)  # replaced once
builder = trt.Builder(trt.Logger(trt.Logger.INTERNAL_ERROR))
network = builder.create_network(1)
x = network.add_input("x", trt.float32, (2, 4))
network.mark_output(network.add_activation(x, trt.ActivationType.RELU).get_output(0))
plan = builder.build_serialized_network(network, builder.create_builder_config())
print(trt.Runtime(trt.Logger(trt.Logger.INTERNAL_ERROR)).deserialize_cuda_engine(plan))
print("torch_tensorrt" in sys.modules)
"""
    switch, tensorrt = "import torchspan.testing as t; t.without_gpu()", "import tensorrt_rtx"
    expected = "True True torchspan.hooks.without_gpu._runtime\nbuiltin_function_or_method\nNone\nFalse\n"
    assert python(program.format(first=switch, second=tensorrt)) == expected
    assert python(program.format(first=tensorrt, second=switch)) == expected
