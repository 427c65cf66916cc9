# SPDX-License-Identifier: Apache-2.0
"""What Torch-TensorRT's guide to its observers says, sentence by sentence, holds for torchspan's.

The docstring of a test is what the guide says, in our words. Its program runs twice where both can do it: with
`torch_tensorrt.dynamo.observer`, and with `torchspan.observers` in its place.
"""

import asyncio
import concurrent.futures
import dataclasses
import logging
import subprocess
import sys
import threading
import time

import pytest
import torch
import torch_tensorrt
from torch_tensorrt.dynamo import _compiler, observer
from torch_tensorrt.dynamo.conversion import _conversion

from support import models
from torchspan import observers

NAME_OF_REPORT = "torch_tensorrt.dynamo._DryRunTracker:dryrun_stats_display"


@pytest.fixture(params=[observer, observers], ids=lambda module: module.__name__)
def api(request):
    """The module that a program imports."""
    return request.param


@pytest.fixture
def model():
    """A program that has been exported, and its inputs."""
    inputs = [models.image()]
    return torch.export.export(models.seeded(models.ConvNet), tuple(inputs)), inputs


def compiled(model, **settings):
    program, inputs = model
    return torch_tensorrt.dynamo.compile(program, arg_inputs=inputs, min_block_size=1, **settings)


@pytest.fixture
def wrapped(api, monkeypatch):
    """Makes a function of the library observable in the module that calls it, until the end of the test."""

    def wrap(module, name):
        monkeypatch.setattr(module, name, api._make_observable(getattr(module, name)))
        return getattr(module, name).observers

    return wrap


# --- what it is for -----------------------------------------------------------------------------------------------
def test_callbacks_log_graphs_gather_times_and_keep_what_was_converted(wrapped, model):
    """Callbacks are attached to functions of the compiler whose source stays as it is: to log the graph between stages, to
    gather durations and shapes, to assert on inner state in a test, and to keep what a conversion worked on."""
    lowering = wrapped(_compiler, "post_lowering")
    conversion = wrapped(_conversion, "interpret_module_to_result")
    graphs, starts, durations, shapes, converted = [], [], [], [], []

    with (
        lowering.pre.add(lambda context: graphs.append(len(context.args[0].graph.nodes))),
        lowering.post.add(lambda context: graphs.append(len(context.return_value.graph.nodes))),
        conversion.pre.add(lambda _context: starts.append(time.perf_counter())),
        conversion.pre.add(lambda context: shapes.append(tuple(context.args[1][0].shape))),
        conversion.post.add(lambda _context: durations.append(time.perf_counter() - starts[-1])),
        conversion.post.add(lambda context: converted.append((context.args[0].graph, context.return_value))),
    ):
        result = compiled(model)

    before, after = graphs
    assert before >= after > 0
    assert shapes == [(2, 3, 16, 16)]
    assert len(durations) == 1
    ((graph, engine),) = converted
    assert isinstance(graph, torch.fx.Graph)
    assert len(engine.serialized_engine) > 1000
    assert result(*model[1])[0].shape == (10,)


# --- its parts ----------------------------------------------------------------------------------------------------
def test_an_observer_has_a_name_and_passes_what_it_is_fired_with(api):
    """An observer is a source of events with a name. A function that holds one fires it where something of interest happens,
    and the callbacks receive what it is fired with."""
    loaded, received = api.Observer(name="loaded"), []
    loaded.add(lambda *args, **kwargs: received.append((args, kwargs)))
    loaded.observe("weights.bin", 3, cached=True)
    assert loaded.name == "loaded"
    assert received == [(("weights.bin", 3), {"cached": True})]


def test_a_decorated_function_fires_before_and_after_each_call(api):
    """A decorator wraps a function, and fires one observer before each call and one after it, with a context."""
    seen = []

    @api.observable()
    def double(number):
        seen.append("body")
        return 2 * number

    with (
        double.observers.pre.add(lambda context: seen.append(type(context) is api.ObserveContext and "pre")),
        double.observers.post.add(lambda context: seen.append(type(context) is api.ObserveContext and "post")),
    ):
        assert (double(1), double(2)) == (2, 4)
    assert seen == ["pre", "body", "post", "pre", "body", "post"]


def test_the_context_has_the_function_its_arguments_and_its_result(api):
    """The context is a dataclass with the function itself, its positional and its named arguments, and what it returned."""
    contexts = []

    def area(width, *, height):
        return width * height

    observed = api.observable()(area)
    with observed.observers.pre.add(contexts.append), observed.observers.post.add(contexts.append):
        observed(2, height=3)
    before, after = contexts
    assert dataclasses.is_dataclass(api.ObserveContext)
    assert (before.callable, before.args, dict(before.kwargs)) == (area, (2,), {"height": 3})
    assert (after.callable, after.args, dict(after.kwargs)) == (area, (2,), {"height": 3})
    assert after.return_value == 6


def test_only_the_context_after_the_call_has_its_result(api):
    """What the function returned is known to the callbacks that run after it only."""
    results = []

    @api.observable()
    def answer():
        return 42

    with (
        answer.observers.pre.add(lambda context: results.append(context.return_value)),
        answer.observers.post.add(lambda context: results.append(context.return_value)),
    ):
        answer()
    assert results == [None, 42]


# --- an observer by itself ----------------------------------------------------------------------------------------
def test_a_module_fires_its_observer_and_a_consumer_captures_what_is_converted(api, model, monkeypatch):
    """A module has an observer as a constant and fires it inside of a function. A consumer adds a callback with `with`, compiles,
    and has what was converted."""
    converted = api.Observer(name="converted")
    convert = _conversion.interpret_module_to_result

    def converting(module, *args, **kwargs):
        result = convert(module, *args, **kwargs)
        converted.observe(module, result)
        return result

    monkeypatch.setattr(_conversion, "interpret_module_to_result", converting)
    sizes = []
    with converted.add(lambda module, result: sizes.append((len(module.graph.nodes), len(result.serialized_engine)))):
        compiled(model)
    ((nodes, size),) = sizes
    assert nodes > 5
    assert size > 1000


def test_a_callback_of_a_with_block_is_removed_at_its_end(api):
    """The callback is removed when the block ends, so that it is called for what happens in the block alone."""
    stepped, steps = api.Observer("stepped"), []
    stepped.observe("before")
    with stepped.add(steps.append):
        stepped.observe("inside")
    stepped.observe("after")
    assert steps == ["inside"]


def test_a_callback_of_a_with_block_is_removed_when_the_block_raises(api):
    """The same where the block ends with an exception."""
    stepped, steps = api.Observer("stepped"), []
    with pytest.raises(KeyError), stepped.add(steps.append):
        raise KeyError
    stepped.observe("after")
    assert steps == []


def test_a_callback_without_a_with_block_stays_until_it_is_removed_by_hand(api):
    """Without `with` a callback stays. It is removed from the list that `_get_callbacks()` returns."""
    stepped, steps = api.Observer("stepped"), []
    callback = steps.append
    stepped.add(callback)
    stepped.observe(1)
    stepped.observe(2)
    stepped._get_callbacks().remove(callback)
    stepped.observe(3)
    assert steps == [1, 2]
    assert len(stepped._get_callbacks()) == 0


# --- functions that are decorated ---------------------------------------------------------------------------------
def test_a_decorated_function_has_a_pair_of_observers(api):
    """The function gets an attribute with the pair, whose members are observers of their own."""

    @api.observable()
    def work():
        pass

    assert isinstance(work.observers, api.CallableObservers)
    assert isinstance(work.observers.pre, api.Observer)
    assert isinstance(work.observers.post, api.Observer)


def test_callbacks_look_at_a_graph_before_and_after_a_pass(api):
    """One `with` statement adds a callback before a lowering pass and one after it: they look at the graph that the pass gets and
    at the one that it returns."""
    lines = []

    @api.observable()
    def remove_relu(module, settings):
        for node in module.graph.nodes:
            if node.op == "call_function" and node.target is torch.relu:
                node.replace_all_uses_with(node.args[0])
                module.graph.erase_node(node)
        return module

    module = torch.fx.symbolic_trace(models.seeded(models.Mlp))
    with (
        remove_relu.observers.pre.add(
            lambda each: lines.append((each.callable.__name__, len(each.args[0].graph.nodes)))
        ),
        remove_relu.observers.post.add(lambda each: lines.append(len(each.return_value.graph.nodes))),
    ):
        remove_relu(module, None)
    assert lines == [("remove_relu", 5), 4]


# --- errors -------------------------------------------------------------------------------------------------------
def test_an_exception_of_a_callback_is_logged_at_info_and_stays_there(api, caplog):
    """What a callback raises is caught and logged at INFO. The caller sees nothing of it."""
    stepped, steps = api.Observer("stepped"), []
    with caplog.at_level(logging.INFO), stepped.add(lambda: 1 / 0), stepped.add(lambda: steps.append("next")):
        stepped.observe()
    assert steps == ["next"]
    at_info = [caplog.handler.format(record) for record in caplog.records if record.levelno == logging.INFO]
    assert ["ZeroDivisionError" in text for text in at_info] == [True]


def test_a_defect_of_a_callback_does_not_stop_a_compilation(wrapped, model):
    """So an error in the instrumentation never stops a compilation."""
    pair = wrapped(_compiler, "compile_module")
    with pair.pre.add(lambda _context: 1 / 0), pair.post.add(lambda _context: 1 / 0):
        assert compiled(model)(*model[1]).shape == (2, 10)


def test_while_a_flag_is_set_exceptions_of_callbacks_come_out(api, monkeypatch):
    """In a test one sets a flag of the module; exceptions of callbacks then come out, until it is restored."""
    stepped = api.Observer("stepped")
    stepped.add(lambda: 1 / 0)
    stepped.observe()
    api.RETHROW_CALLBACK_EXCEPTION = True
    try:
        with pytest.raises(ZeroDivisionError):
            stepped.observe()
    finally:
        api.RETHROW_CALLBACK_EXCEPTION = False
    stepped.observe()


# --- threads and tasks --------------------------------------------------------------------------------------------
def test_a_callback_of_one_thread_is_not_called_for_another(api):
    """Callbacks belong to the execution context in which they were added: those of one thread are not called for what
    happens in another."""
    stepped, steps = api.Observer("stepped"), []
    with stepped.add(steps.append):
        thread = threading.Thread(target=stepped.observe, args=("other",))
        thread.start()
        thread.join()
        stepped.observe("this")
    assert steps == ["this"]


def test_each_worker_of_a_pool_has_callbacks_of_its_own(api):
    """The same for the workers of `concurrent.futures`, each of which adds its own."""
    stepped, both = api.Observer("stepped"), threading.Barrier(2)

    def work(name):
        steps = []
        with stepped.add(steps.append):
            both.wait(timeout=60)
            stepped.observe(name)
            both.wait(timeout=60)
        return steps

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert list(pool.map(work, ["first", "second"])) == [["first"], ["second"]]


def test_each_task_has_callbacks_of_its_own():
    """The same for the tasks of asyncio. With torchspan alone: tasks of Torch-TensorRT 2.14 share one dictionary of callbacks."""
    stepped = observers.Observer("stepped")

    async def work(name):
        steps = []
        with stepped.add(steps.append):
            await asyncio.sleep(0)
            stepped.observe(name)
            await asyncio.sleep(0)
        return steps

    async def both():
        return await asyncio.gather(work("first"), work("second"))

    assert asyncio.run(both()) == [["first"], ["second"]]


def test_two_threads_compile_and_each_sees_its_own_work(api):
    """So programs that compile in several threads may use it: here each callback is called for the pass of its own thread."""
    barrier, seen = threading.Barrier(2), {}

    @api.observable()
    def lower(graph):
        barrier.wait(timeout=60)
        return graph

    def work(name):
        with lower.observers.post.add(lambda context: seen.setdefault(name, []).append(context.return_value)):
            lower(f"graph of {name}")

    threads = [threading.Thread(target=work, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {"one": ["graph of one"], "two": ["graph of two"]}


# --- functions of the library -------------------------------------------------------------------------------------
@pytest.mark.parametrize("dryrun", [False, True])
def test_the_report_of_a_compilation_is_observed_once_whether_or_not_it_is_a_dry_run(model, dryrun):
    """The function that displays the report of a compilation can be observed: its callbacks get the tracker, with the operators and
    engines as data, and whether it was a dry run, once a compilation. torchspan observes it in versions that do not decorate it, too."""
    contexts = []
    with observers.observe_function(NAME_OF_REPORT) as observed, observed.observers.post.add(contexts.append):
        compiled(model, dryrun=dryrun)
    ((tracker, enabled),) = (context.args for context in contexts)
    assert enabled is dryrun
    assert tracker.total_ops_in_graph > 0
    assert tracker.unsupported_ops == {}
    assert len(tracker.per_subgraph_data) == 1


def test_a_function_of_the_library_is_wrapped_observed_and_restored(api, model):
    """A function that one does not own is wrapped and put in its place; its results are collected; then the original is restored."""
    original, results = _compiler.compile_module, []
    _compiler.compile_module = api._make_observable(original)
    try:
        with _compiler.compile_module.observers.post.add(lambda context: results.append(context.return_value)):
            returned = compiled(model)
    finally:
        _compiler.compile_module = original
    (result,) = results
    assert isinstance(result, torch.fx.GraphModule)
    assert isinstance(returned, torch.fx.GraphModule)


def test_official_observers_need_no_replaced_function(instrument, model):
    """Replacing functions breaks with other versions; observers that a module offers itself are to be preferred. torchspan has a pair for
    every stage."""
    instrument()
    results = []
    with observers.torch_tensorrt.convert.post.add(lambda context: results.append(context.outcome)):
        compiled(model)
    assert results == ["returned"]


# --- the module ---------------------------------------------------------------------------------------------------
def test_a_program_that_changes_its_import_alone_finds_every_name_of_the_module():
    names = {name for name, value in vars(observer).items() if getattr(value, "__module__", None) == observer.__name__}
    assert {name for name in names if not hasattr(observers, name)} == {"TObserverCallback", "_log_error"}


WITHOUT_THE_LIBRARIES = """
import sys
for name in ("torch", "torch_tensorrt", "tensorrt", "tensorrt_rtx"):
    sys.modules[name] = None  # importing it fails

from torchspan import observers
from torchspan.observers import ObserveContext, Observer, observable

counted = Observer(name="counted")

@observable()
def count(words):
    counted.observe(len(words))
    return len(words)

def show(context: ObserveContext):
    print(context.callable.__name__, context.args, context.return_value)

with counted.add(print), count.observers.pre.add(show), count.observers.post.add(show):
    count(["a", "b"])
count(["c"])
observers.RETHROW_CALLBACK_EXCEPTION = True
with counted.add(lambda _number: 1 / 0):
    try:
        count([])
    except ZeroDivisionError:
        print("came out")
"""


def test_a_program_of_observers_runs_where_neither_library_is_installed():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_THE_LIBRARIES], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("count (['a', 'b'],) None\n2\ncount (['a', 'b'],) 2\ncame out\n", "")
