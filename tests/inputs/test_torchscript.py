# SPDX-License-Identifier: Apache-2.0
"""TorchScript compiles every hook of a module that it is given. An observed module can be scripted as one that is not."""

import copy
import os
import subprocess
import sys
from collections import OrderedDict

import pytest
import torch

from torchspan.inputs import InputObserver

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:FutureWarning")

ROWS = torch.ones(2, 4)


def double(self, input: tuple[torch.Tensor]) -> torch.Tensor:  # noqa: A002 - TorchScript wants these names
    return input[0] * 2


def halve(self, input: tuple[torch.Tensor], result: torch.Tensor) -> torch.Tensor:  # noqa: A002
    return result / 2


class Inner(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x)


class Outer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        return torch.relu(self.inner(x))


def test_an_observed_module_can_be_scripted_and_is_observed_afterwards():
    model, observer = torch.nn.Linear(4, 4), InputObserver()
    with observer(model):
        scripted = torch.jit.script(model)
        model(ROWS)
    assert torch.equal(scripted(ROWS), model(ROWS))
    assert observer.num_obs() == 1
    assert (len(scripted._forward_hooks), len(scripted._forward_pre_hooks)) == (0, 0)


def test_a_module_inside_of_the_scripted_one_can_be_observed():
    model, observer = Outer(), InputObserver()
    with observer(model.inner.linear):
        scripted = torch.jit.script(model)
        model(ROWS)
    assert torch.equal(scripted(ROWS), model(ROWS))
    assert observer.num_obs() == 1


def test_a_copy_of_an_observed_module_can_be_scripted():
    model = Inner()
    with InputObserver()(model):
        copied = copy.deepcopy(model)
    assert torch.equal(torch.jit.script(copied)(ROWS), model(ROWS))


def test_hooks_of_the_program_are_compiled_and_stay_with_those_of_the_observer_in_their_order():
    model = torch.nn.Linear(4, 4)
    model.register_forward_pre_hook(double)
    model.register_forward_hook(halve)
    with InputObserver()(model):
        before = [OrderedDict(table) for table in (model._forward_pre_hooks, model._forward_hooks)]
        scripted = torch.jit.script(model)
        assert [model._forward_pre_hooks, model._forward_hooks] == before
        assert [len(table) for table in before] == [2, 2]
    assert (len(scripted._forward_pre_hooks), len(scripted._forward_hooks)) == (1, 1)
    assert torch.allclose(scripted(ROWS), model(ROWS))


def test_a_hook_that_torchscript_cannot_compile_is_refused_as_without_an_observer():
    model = torch.nn.Linear(4, 4)
    model.register_forward_hook(lambda _module, _args, _result: None)
    with pytest.raises(RuntimeError) as bare:
        torch.jit.script(model)
    with InputObserver()(model), pytest.raises(RuntimeError) as observed:
        torch.jit.script(model)
    assert str(observed.value) == str(bare.value)


PROGRAM = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
print(tuple(torch.jit.script(model)(torch.ones(1, 4)).shape))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "variables"),
    [(["--observe-inputs", "torch.nn:Linear"], {}), ([], {"TORCHSPAN_INPUTS": "torch.nn:Linear"})],
    ids=["--observe-inputs", "TORCHSPAN_INPUTS"],
)
def test_a_program_below_run_scripts_a_class_whose_calls_are_observed(tmp_path, option, variables):
    command = [
        sys.executable,
        "-m",
        "torchspan",
        "run",
        "--quiet",
        "--output",
        "run.jsonl",
        *option,
        "--",
        sys.executable,
    ]
    done = subprocess.run(
        [*command, "-W", "ignore", "-c", PROGRAM],
        cwd=tmp_path,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "(1, 4)\n")
