# SPDX-License-Identifier: Apache-2.0
"""`TORCHSPAN_INPUTS=module:Class`: what is followed in production, as events and metrics. No value leaves the process."""

import gc
import logging
import re
import threading
import weakref

import pytest
import torch

from support import followed_models

MODEL = "support.followed_models:Model"


@pytest.fixture
def calls(exporter, tracer):
    """`calls(work)`: the events that `work` left on the span around it, in order."""

    def of(work):
        exporter.clear()
        with tracer.start_as_current_span("request"):
            work()
        (span,) = exporter.get_finished_spans()
        return [(each.name, dict(each.attributes)) for each in span.events]

    return of


def ones(*sizes):
    return torch.ones(*sizes)


def hooks(module):
    return len(module._forward_pre_hooks), len(module._forward_hooks)


# --- what is followed ------------------------------------------------------------------------------------------------
def test_by_default_no_module_has_a_hook(instrument, calls):
    instrument()
    model = followed_models.Model()
    assert calls(lambda: model(ones(2))) == []
    assert hooks(model) == (0, 0)


def test_a_call_of_a_new_shape_is_an_event_on_the_current_span(instrument, calls):
    instrument(inputs=MODEL)
    model = followed_models.Model()
    assert calls(lambda: model(ones(2, 3), mask=ones(2))) == [
        (
            "torchspan.input",
            {
                "torchspan.input.module": "Model",
                "torchspan.input.paths": ("x", "mask"),
                "torchspan.input.shapes": ("[2, 3]", "[2]"),
                "torchspan.input.dtypes": ("float32", "float32"),
                "torchspan.input.new": True,
                "torchspan.input.count": 1,
            },
        )
    ]


def test_a_call_of_a_known_shape_is_not_an_event(instrument, calls):
    instrument(inputs=MODEL)
    model = followed_models.Model()
    model(ones(2))
    assert calls(lambda: model(ones(2))) == []


def test_one_call_in_n_is_an_event(instrument, calls):
    instrument(inputs=MODEL, inputs_every=3)
    model = followed_models.Model()
    events = calls(lambda: [model(ones(2)) for _ in range(7)])
    assert [(each["torchspan.input.new"], each["torchspan.input.count"]) for _, each in events] == [
        (True, 1),
        (False, 3),
        (False, 6),
    ]


def test_objects_that_were_made_before_are_not_followed(instrument, calls):
    model = followed_models.Model()
    instrument(inputs=MODEL)
    assert calls(lambda: model(ones(2))) == []


def test_at_most_twenty_calls_are_events_of_one_span(instrument, calls):
    instrument(inputs=MODEL)
    model = followed_models.Model()
    assert len(calls(lambda: [model(ones(size)) for size in range(1, 40)])) == 20


def test_keys_of_dictionaries_and_names_that_kwargs_takes_do_not_leave(instrument, calls):
    instrument(inputs=MODEL)
    model = followed_models.Model()
    ((_, attributes),) = calls(lambda: model({"secret": [ones(2)]}, token_of_ann=ones(1), mask="secret"))
    assert attributes["torchspan.input.paths"] == ("x[?][0]", "others.?")


def test_after_uninstrumenting_the_module_is_as_it_was(instrument, calls):
    instrumentor = instrument(inputs=MODEL)
    model = followed_models.Model()
    assert hooks(model) == (1, 0)
    instrumentor.uninstrument()
    assert hooks(model) == (0, 0)
    assert calls(lambda: model(ones(2))) == []


def test_a_module_that_is_followed_can_be_freed(instrument):
    instrument(inputs=MODEL)
    model = followed_models.Model()
    model(ones(2))
    gone = weakref.ref(model)
    del model
    assert gone() is None


def test_beyond_256_modules_further_ones_are_not_followed_with_a_warning(instrument, caplog):
    instrument(inputs=MODEL)
    models = [followed_models.Model() for _ in range(258)]
    assert [hooks(each) for each in models[255:]] == [(1, 0), (0, 0), (0, 0)]
    assert [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING] == [
        "TORCHSPAN_INPUTS names more than 256 modules that are alive; the calls of further ones are not followed."
    ]
    del models[:2]
    assert hooks(followed_models.Model()) == (1, 0)


def test_a_class_that_its_module_does_not_have_is_one_warning_at_once(instrument, caplog):
    bridge = instrument(inputs="support.followed_models:Modle")
    warning = (
        "TORCHSPAN_INPUTS: no call of support.followed_models:Modle is followed: the module support.followed_models has no "
        "class Modle; name the module that defines the class."
    )
    assert [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING] == [warning]
    bridge.uninstrument()
    assert [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING] == [warning]


def test_a_class_of_a_module_that_was_not_imported_is_a_warning_at_the_end(instrument, caplog):
    bridge = instrument(inputs="a_module_that_is_absent:Model")
    assert "TORCHSPAN_INPUTS" not in caplog.text
    bridge.uninstrument()
    assert (
        "TORCHSPAN_INPUTS: no call of a_module_that_is_absent:Model was followed: the program did not import the module "
        "a_module_that_is_absent." in caplog.text
    )


# --- metrics ---------------------------------------------------------------------------------------------------------
def test_calls_are_counted_exactly_from_eight_threads(instrument, metrics):
    instrument(inputs=MODEL)
    model, inputs = followed_models.Model(), [ones(1), ones(2)]

    def work():
        for index in range(500):
            model(inputs[index % 2])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert metrics.values("torchspan.input.calls", "torchspan.input.module") == {"Model": 4_000}


def test_sizes_of_one_call_in_n_are_a_histogram_for_each_dimension(instrument, metrics):
    instrument(inputs=MODEL, inputs_every=2)
    model = followed_models.Model()
    for size in (3, 3, 5, 5, 7, 7):
        model(ones(size, 8))
    keys = ("torchspan.input.module", "torchspan.input.path", "torchspan.input.axis")
    assert metrics.counts("torchspan.input.dimension.size", *keys) == {("Model", "x", 0): 3, ("Model", "x", 1): 3}
    assert metrics.sums("torchspan.input.dimension.size", *keys) == {("Model", "x", 0): 15, ("Model", "x", 1): 24}


def test_no_more_than_64_dimensions_are_series(instrument, metrics):
    instrument(inputs=MODEL, inputs_every=1)
    model = followed_models.Model()
    for _ in range(2):
        model([ones(1)] * 100)
    assert sum(metrics.counts("torchspan.input.dimension.size", "torchspan.input.path").values()) == 64


def test_calls_beyond_1024_shapes_are_counted(instrument, metrics):
    instrument(inputs=MODEL)
    model = followed_models.Model()
    for size in range(1_030):
        model(torch.empty(size))
    assert metrics.values("torchspan.input.overflow", "torchspan.input.module") == {"Model": 6}


def test_calls_of_modules_that_are_gone_are_counted(instrument, metrics):
    instrument(inputs=MODEL)
    for _ in range(3):
        followed_models.Model()(ones(2))
    gc.collect()
    assert metrics.values("torchspan.input.calls", "torchspan.input.module") == {"Model": 3}


def test_calls_are_counted_once_for_any_reader(instrument, metrics):
    instrument(inputs=MODEL)
    model = followed_models.Model()
    for _ in range(2):
        model(ones(2))
        metrics.read()
    assert metrics.values("torchspan.input.calls", "torchspan.input.module") == {"Model": 2}


# --- what is computed -------------------------------------------------------------------------------------------------
def graphs_and_guards(model):
    """What Dynamo makes of a model: graphs, and guards without addresses."""
    torch._dynamo.reset()
    graphs = []

    def backend(graph, _inputs):
        graphs.append(graph.print_readable(print_output=False))
        return graph

    compiled = torch.compile(model, backend=backend)
    for size in (2, 2, 3):
        compiled(ones(size))
    entries = torch._C._dynamo.eval_frame._debug_get_cache_entry_list(type(model).forward.__code__)
    return graphs, [re.sub(r"0x[0-9a-f]+|\b\d{6,}\b", "", str(each.guard_manager)) for each in entries]


def test_a_followed_module_that_is_compiled_has_the_same_graphs_and_guards(instrument, metrics):
    without = graphs_and_guards(followed_models.Scaled())
    assert [len(each) for each in without] == [2, 2]
    instrument(inputs="support.followed_models:Scaled")
    model = followed_models.Scaled()
    assert hooks(model) == (1, 0)
    assert graphs_and_guards(model) == without
    assert metrics.values("torchspan.input.calls", "torchspan.input.module") == {"Scaled": 3}


def test_tensors_without_data_are_not_calls(instrument, metrics):
    instrument(inputs=MODEL)
    model = followed_models.Model()
    torch.export.export(model, (ones(2),))
    assert metrics.values("torchspan.input.calls", "torchspan.input.module") == {}
