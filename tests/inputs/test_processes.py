# SPDX-License-Identifier: Apache-2.0
"""All objects of some classes, observed from the start of a process to its end."""

import importlib
import os
import sys
import weakref

import pytest
import torch
from torch._dynamo.testing import CompileCounter

from support.dynamo import breaks, clean_dynamo
from support.observed_calls import ones
from torchspan.inputs.watched.observed_process import ObservedProcess

SOURCE = """
import torch

class Net(torch.nn.Module):
    def forward(self, x, mode="plain"):
        return x * 2

class Derived(Net):
    pass
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The name of a module with classes of models, which has not been imported."""
    name = f"models_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield name
    sys.modules.pop(name, None)


@pytest.fixture
def observe(request):
    def observe(*paths):
        process = ObservedProcess(paths)
        request.addfinalizer(process.close)
        return process

    return observe


def calls(process):
    return {each["class"].rpartition(".")[2]: each["counts"]["completed"] for each in process.document().observations}


def test_objects_of_one_class_are_observed_as_one_and_derived_classes_apart(module, observe):
    process = observe(f"{module}:Net")
    program = importlib.import_module(module)
    for model in (program.Net(), program.Net(), program.Derived()):
        model(ones(2))
    assert calls(process) == {"Net": 2, "Derived": 1}


def test_nothing_is_observed_after_close_and_the_model_is_as_it_was(module, observe):
    process = observe(f"{module}:Net")
    program = importlib.import_module(module)
    model = program.Net()
    process.close()
    model(ones(2))
    program.Net()(ones(2))
    assert calls(process) == {"Net": 0}
    assert not model._forward_hooks
    assert not model._forward_pre_hooks
    assert "__init__" not in vars(program.Net)


def test_an_object_is_not_kept_alive(module, observe):
    process = observe(f"{module}:Net")
    model = importlib.import_module(module).Net()
    model(ones(2))
    alive = weakref.ref(model)
    del model
    assert alive() is None
    assert calls(process) == {"Net": 1}


@pytest.mark.parametrize("is_watched", [False, True])
def test_a_compiled_model_of_the_class_has_the_same_graphs(module, observe, is_watched):
    process = observe(f"{module}:Net") if is_watched else None
    program, counter = importlib.import_module(module), CompileCounter()
    with clean_dynamo():
        compiled = torch.compile(program.Net(), backend=counter)
        for size in (2, 2, 3, 4):
            compiled(ones(size))
        assert breaks() == ({}, {})
    assert counter.frame_count == 2
    assert process is None or calls(process) == {"Net": 4}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_counts_from_zero_and_the_parent_continues(module, observe):
    process = observe(f"{module}:Net")
    model = importlib.import_module(module).Net()
    model(ones(2))
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            for _ in range(3):
                model(ones(5))
            os.write(write, repr(calls(process)).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    model(ones(2))
    assert os.read(read, 100).decode() == "{'Net': 3}"
    assert calls(process) == {"Net": 2}
    os.close(read)
    os.close(write)


def test_a_document_has_values_where_the_environment_asks_for_them(module, observe, monkeypatch):
    process = observe(f"{module}:Net")
    importlib.import_module(module).Net()(ones(2), mode="fast")
    assert [each["values"] for each in process.document().observations] == [False]
    monkeypatch.setenv("TORCHSPAN_CAPTURE", "text")
    assert [each["values"] for each in process.document().observations] == [True]


def test_a_class_that_was_not_seen_is_in_the_document_with_the_reason(module, observe):
    process = observe(f"{module}:Net", "missing_module:Net")
    importlib.import_module(module)
    assert process.document().unseen == {
        f"{module}:Net": f"the program made no object of {module}:Net",
        "missing_module:Net": "the program did not import the module missing_module",
    }
