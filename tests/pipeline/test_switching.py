# SPDX-License-Identifier: Apache-2.0
"""`instrument()` and `uninstrument()` in the middle of real compilations."""

import logging
import threading

import pytest
import torch
import torch_tensorrt
from torch_tensorrt.dynamo import _compiler
from torch_tensorrt.dynamo.conversion import _ConverterRegistry as registry

from support import models
from support.otlp import wait_until
from support.tree import outline
from torchspan import TorchspanInstrumentor

pytestmark = pytest.mark.slow

RELU = torch.ops.aten.relu.default
X = torch.linspace(-1, 1, 32).reshape(2, 16)


def compiled():
    return torch_tensorrt.compile(models.seeded(models.Mlp), ir="dynamo", inputs=[X], min_block_size=1)


def in_this_thread(action):
    action()


def in_another_thread(action):
    thread = threading.Thread(target=action)
    thread.start()
    thread.join()


@pytest.fixture
def at_relu():
    """`at_relu(action)`: from here on `action()` runs where a ReLU is converted, the first time."""
    kept = registry.DYNAMO_ATEN_CONVERTERS[RELU]

    def run(action):
        waiting = [action]
        implementation = kept[0].converter_implementation

        def converter(*args):
            if waiting:
                waiting.pop()()
            return implementation(*args)

        registry.DYNAMO_ATEN_CONVERTERS[RELU] = [
            type(kept[0])(**{**vars(kept[0]), "converter_implementation": converter})
        ]

    yield run
    registry.DYNAMO_ATEN_CONVERTERS[RELU] = kept


@pytest.fixture
def tree(instrument, exporter):
    """The spans of a whole compilation, as an outline."""
    instrument()
    compiled()
    TorchspanInstrumentor().uninstrument()
    found = outline(exporter.get_finished_spans())
    exporter.clear()
    return found


@pytest.fixture
def names():
    """What the names that torchspan replaces are bound to while it is off."""
    found = (torch_tensorrt.compile, _compiler.compile, _compiler.compile_module)
    yield
    assert (torch_tensorrt.compile, _compiler.compile, _compiler.compile_module) == found


THREADS = pytest.mark.parametrize("where", [in_this_thread, in_another_thread])


@THREADS
def test_disabled_in_the_middle_what_has_begun_ends_and_nothing_else_begins(
    instrument, exporter, at_relu, names, where, caplog
):
    expected = compiled()(X)
    instrumentor = instrument()
    at_relu(lambda: where(instrumentor.uninstrument))
    with caplog.at_level(logging.WARNING, "torchspan"):
        result = compiled()(X)
    assert torch.equal(result, expected)
    ended = [span.name for span in exporter.get_finished_spans()]
    assert ended[-1] == "torch_tensorrt.compile"
    assert "torch_tensorrt.construct_network" in ended
    assert "tensorrt.build_engine" not in ended
    exporter.clear()
    compiled()
    assert exporter.get_finished_spans() == ()
    assert [record.getMessage() for record in caplog.records if record.name == "torchspan"] == []


@THREADS
def test_enabled_in_the_middle_the_rest_is_traced_and_the_next_compilation_whole(
    tree, instrument, exporter, at_relu, where
):
    expected = compiled()(X)
    at_relu(lambda: where(instrument))
    result = compiled()
    exporter.clear()
    assert torch.equal(result(X), expected)
    exporter.clear()
    compiled()
    assert outline(exporter.get_finished_spans()) == tree


@THREADS
def test_disabled_and_enabled_again_in_the_middle_the_next_compilation_is_traced_whole(
    tree, instrument, exporter, at_relu, where
):
    instrumentor = instrument()

    def switch():
        instrumentor.uninstrument()
        instrument()

    at_relu(lambda: where(switch))
    compiled()
    exporter.clear()
    compiled()
    assert outline(exporter.get_finished_spans()) == tree


def test_disabled_and_enabled_all_the_time_compilations_continue_and_the_last_is_traced_whole(
    tree, instrument, exporter, names
):
    expected = compiled()(X)
    threads_before, stop, failures = threading.active_count(), threading.Event(), []

    def switch():
        try:
            while not stop.is_set():
                instrument().uninstrument()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=switch)
    thread.start()
    try:
        results = [compiled()(X) for _ in range(3)]
    finally:
        stop.set()
        thread.join()
    assert failures == []
    assert all(torch.equal(result, expected) for result in results)
    exporter.clear()
    instrument()
    compiled()
    assert outline(exporter.get_finished_spans()) == tree
    TorchspanInstrumentor().uninstrument()
    # `uninstrument()` does not wait for torchspan's threads to end.
    wait_until(lambda: threading.active_count() <= threads_before)
