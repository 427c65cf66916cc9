# SPDX-License-Identifier: Apache-2.0
"""Calls of a compiled module against the profile of its engine: what lies outside is an event, and how far the rest is
from opt a metric."""

import contextlib
import gc
import warnings

import pytest
import torch
import torch_tensorrt

from pipeline.expected import since_2_13
from support.tree import named
from torchspan import TorchspanInstrumentor

OPT, MAX = 3, 8
FITS = ("torchspan.input.module", "torchspan.input.profile.fit")


def compiled(largest=MAX):
    """`relu` for 1 to 8 rows, optimized for 3."""
    rows = torch.export.Dim("rows", min=1, max=largest)
    program = torch.export.export(torch.nn.ReLU().eval(), (torch.ones(OPT, 4),), dynamic_shapes=({0: rows},))
    return torch_tensorrt.dynamo.compile(program, arg_inputs=[torch.ones(OPT, 4)], min_block_size=1)


@pytest.fixture
def module(instrument):
    """A module that was compiled while compiled modules are followed; every call is sampled."""
    instrument(inputs="compiled", inputs_every=1)
    return compiled()


@pytest.fixture
def events(exporter, tracer):
    """`events(name, work)`: the attributes of the events of this name that `work` leaves on the span around it."""

    def left(name, work):
        exporter.clear()
        with tracer.start_as_current_span("request"):
            work()
        span = named(exporter.get_finished_spans(), "request")
        return [dict(each.attributes) for each in span.events if each.name == name]

    return left


def test_a_call_outside_the_profile_is_one_event_and_a_call_inside_is_none(module, events, metrics):
    """Acceptance case 7."""
    for size in (1, OPT, MAX):
        assert events("torchspan.input.out_of_profile", lambda size=size: module(torch.ones(size, 4))) == []
    expected = {
        "torchspan.input.module": "ReLU",
        "torchspan.input.outside.paths": ("input",),
        "torchspan.input.outside.axes": (0,),
        "torchspan.input.outside.sizes": (9,),
        "torchspan.input.outside.minimums": (1,),
        "torchspan.input.outside.maximums": (8,),
    }

    def outside():
        with contextlib.suppress(RuntimeError):  # refused, but not by Torch-TensorRT 2.11 on a GPU
            module(torch.ones(9, 4))

    for _ in range(2):
        assert events("torchspan.input.out_of_profile", outside) == [expected]
    assert metrics.values("torchspan.input.profile.calls", *FITS) == {
        ("ReLU", "opt"): 1,
        ("ReLU", "inside"): 2,
        ("ReLU", "outside"): 2,
    }


def test_calls_are_counted_for_each_engine_of_a_model(instrument, exporter, metrics):
    instrument(inputs="compiled", inputs_every=1)
    exporter.clear()
    modules = [compiled(), compiled(3 * MAX)]
    engines = [
        each.attributes["tensorrt.engine.id"]
        for each in exporter.get_finished_spans()
        if each.name == "torch_tensorrt.convert"
    ]
    assert len(set(engines)) == 2
    for module, number in zip(modules, (2, 3), strict=True):
        for _ in range(number):
            module(torch.ones(OPT - 1, 4))
    keys = ("torchspan.input.module", "tensorrt.engine.id")
    assert metrics.values("torchspan.input.profile.calls", *keys) == {("ReLU", engines[0]): 2, ("ReLU", engines[1]): 3}


@since_2_13
def test_a_call_outside_the_profile_of_a_loaded_program_is_an_event_before_it_is_refused(
    instrument, events, metrics, tmp_path
):
    path = str(tmp_path / "relu.ep")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the library's surgery warns of its own node
        torch_tensorrt.save(compiled(), path, retrace=False)
    instrument(inputs="compiled")
    loaded = torch_tensorrt.load(path).module()
    assert events("torchspan.input.out_of_profile", lambda: loaded(torch.ones(MAX, 4))) == []

    def refused():
        with pytest.raises(RuntimeError, match="to be <= 8"):
            loaded(torch.ones(9, 4))

    (event,) = events("torchspan.input.out_of_profile", refused)
    assert (event["torchspan.input.module"], event["torchspan.input.outside.sizes"]) == ("GraphModule", (9,))
    assert metrics.values("torchspan.input.profile.calls", *FITS) == {
        ("GraphModule", "inside"): 1,
        ("GraphModule", "outside"): 1,
    }


def test_the_module_of_a_program_without_engines_is_not_followed(instrument):
    instrument(inputs="compiled")
    program = torch.export.export(torch.nn.ReLU().eval(), (torch.ones(OPT, 4),))
    hooks = len(program.module()._forward_pre_hooks)
    TorchspanInstrumentor().uninstrument()
    assert len(program.module()._forward_pre_hooks) == hooks


def test_a_usual_size_that_is_not_opt_is_an_event(module, events):
    def calls():
        for size in (5,) * 36 + (OPT,) * 4:
            module(torch.ones(size, 4))

    # After 20 calls, and when they have doubled; before that too little is known.
    first, second = events("torchspan.input.drift", calls)
    assert second == {
        "torchspan.input.module": "ReLU",
        "torchspan.input.drift.calls": 40,
        "torchspan.input.drift.at_opt": 4,
        "torchspan.input.drift.path": "input",
        "torchspan.input.drift.axis": 0,
        "torchspan.input.drift.size": 5,
        "torchspan.input.drift.size_calls": 36,
        "torchspan.input.drift.opt": 3,
    }
    assert first["torchspan.input.drift.calls"] == 20


def test_calls_that_are_mostly_at_opt_leave_no_event_about_that(module, events):
    def calls():
        for size in (OPT,) * 30 + (5,) * 10:
            module(torch.ones(size, 4))

    assert events("torchspan.input.drift", calls) == []


def test_calls_of_a_module_that_is_gone_are_counted(instrument, metrics):
    instrument(inputs="compiled")
    module = compiled()
    module(torch.ones(OPT, 4))
    del module
    gc.collect()
    assert metrics.values("torchspan.input.profile.calls", *FITS) == {("ReLU", "opt"): 1}
