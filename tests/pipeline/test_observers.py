# SPDX-License-Identifier: Apache-2.0
"""Observers on real compilations: the official pairs, and what programs observe with torchspan or with Torch-TensorRT."""

import asyncio
import contextvars
import threading
import types
from concurrent.futures import ThreadPoolExecutor

import pytest
import tensorrt
import torch
import torch_tensorrt
from torch_tensorrt.dynamo import observer as theirs
from torch_tensorrt.dynamo.lowering.passes import _aten_lowering_pass as passes

from support import models
from support.tree import outline
from torchspan import callbacks, observers, phase
from torchspan.engine.subscribers.callback_registry import REGISTRY
from torchspan.engine.subscribers.recording import RECORDING

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _nothing_is_registered():
    yield
    assert [entry.name for entry in (*REGISTRY.users(), *REGISTRY._local.values())] == []
    assert [each.name for each in phase.PHASES if REGISTRY.interest(each).observers] == []
    assert RECORDING.recorder is None


def compiled(model=models.Mlp, x=None, **settings):
    x = torch.ones(2, 16) if x is None else x
    return torch_tensorrt.compile(models.seeded(model), ir="dynamo", inputs=[x], min_block_size=1, **settings)


# --- the official pairs ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("module", [observers.torch_tensorrt, observers.tensorrt, observers.torch])
def test_the_names_that_a_library_declares_for_editors_are_pairs(module):
    pairs = {name for name, value in vars(module).items() if isinstance(value, observers.CallableObservers)}
    assert {*module.__all__} <= pairs
    assert {name for name, type_ in module.__annotations__.items() if type_ == "CallableObservers"} == {*module.__all__}


def test_runs_of_engines_and_of_contexts_are_apart():
    assert observers.torch_tensorrt.execute is not observers.tensorrt.execute


@pytest.mark.parametrize(
    ("module", "name", "message"),
    [
        (
            observers,
            "build_engine",
            "torchspan.observers has no 'build_engine': did you mean observers.tensorrt.build_engine?",
        ),
        (observers, "compile", "torchspan.observers has no 'compile': did you mean observers.torch_tensorrt.compile?"),
        (
            observers.tensorrt,
            "build",
            "torchspan.observers.tensorrt has no 'build': did you mean observers.tensorrt.build",
        ),
        (observers.torch, "nothing_like_it", "torchspan.observers.torch has no 'nothing_like_it'."),
    ],
)
def test_a_pair_that_does_not_exist_is_refused_with_those_that_do(module, name, message):
    with pytest.raises(AttributeError) as error:
        getattr(module, name)
    assert str(error.value).startswith(message)
    assert str(error.value).endswith(f" Official observers: {', '.join(observers.PHASES)}")


def test_callbacks_get_the_function_with_its_arguments_and_what_it_returned(instrument):
    instrument()
    seen = []
    with (
        observers.tensorrt.build_engine.pre.add(
            lambda c: seen.append((c.callable.__name__, [type(a) for a in c.args], c.outcome))
        ),
        observers.tensorrt.build_engine.post.add(lambda c: seen.append((c.outcome, len(bytes(c.return_value)) > 1000))),
        observers.torch_tensorrt.lower.post.add(
            lambda c: seen.append(("lower", isinstance(c.return_value, torch.fx.GraphModule)))
        ),
        observers.torch_tensorrt.convert.pre.add(
            lambda c: seen.append(("convert", c.args[0].graph is not None, c.kwargs["name"]))
        ),
    ):
        compiled()
    assert seen == [
        ("lower", True),
        ("convert", True, "_run_on_acc_0"),
        ("build_serialized_network", [tensorrt.Builder, tensorrt.INetworkDefinition, tensorrt.IBuilderConfig], None),
        ("returned", True),
    ]


def test_callbacks_run_inside_the_span_of_their_phase(instrument, provider, exporter):
    instrument()
    tracer = provider.get_tracer("user")
    with (
        observers.torch_tensorrt.partition.pre.add(lambda _context: tracer.start_span("before").end()),
        observers.torch_tensorrt.partition.post.add(lambda _context: tracer.start_span("after").end()),
    ):
        compiled()
    spans = {span.name: span for span in exporter.get_finished_spans()}
    partition = spans["torch_tensorrt.partition"].context.span_id
    assert [spans[name].parent.span_id for name in ("before", "after")] == [partition] * 2


def test_a_compilation_in_any_thread_is_reported_to_those_who_listen_in_another(instrument):
    instrument()
    heard = []
    with observers.torch_tensorrt.compile.post.add(lambda _context: heard.append(threading.current_thread().name)):
        thread = threading.Thread(target=compiled, name="plain")
        thread.start()
        thread.join()
        with ThreadPoolExecutor(1, thread_name_prefix="pool") as pool:
            pool.submit(compiled).result()
        asyncio.run(asyncio.to_thread(compiled))
    assert [name.partition("_")[0] for name in heard] == ["plain", "pool", "asyncio"]


def test_an_official_pair_can_be_listened_to_in_ones_own_context_alone(instrument):
    instrument()
    heard = []
    with observers.torch_tensorrt.compile.pre.add(
        lambda _context: heard.append(threading.current_thread().name), scope="context"
    ):
        thread = threading.Thread(target=compiled)
        thread.start()
        thread.join()
        compiled()
    assert heard == ["MainThread"]


def test_post_gets_the_very_exception_and_what_it_passed_is_reported_it(instrument):
    instrument()
    seen = []
    for name in ("compile", "partition", "trace"):
        getattr(observers.torch_tensorrt, name).post.add(
            lambda c, name=name: seen.append((name, c.outcome, c.exception, c.return_value))
        )
    with pytest.raises(AssertionError) as raised:
        compiled(models.Fallback, models.image(), require_full_compilation=True)
    for name in ("compile", "partition", "trace"):
        (added,) = getattr(observers.torch_tensorrt, name).post._get_callbacks()
        getattr(observers.torch_tensorrt, name).post._get_callbacks().remove(added)
    assert [(name, outcome) for name, outcome, _, _ in seen] == [
        ("trace", "returned"),
        ("partition", "raised"),
        ("compile", "raised"),
    ]
    assert [error for _, _, error, _ in seen] == [None, raised.value, raised.value]
    assert [value for name, _, _, value in seen if name != "trace"] == [None, None]


def test_a_callback_that_fails_changes_neither_the_compilation_nor_its_spans(instrument, exporter, caplog):
    instrument()
    with (
        observers.torch_tensorrt.compile.pre.add(lambda _context: 1 / 0),
        observers.torch_tensorrt.convert.post.add(lambda _context: 1 / 0),
    ):
        result = compiled()(torch.ones(2, 16))
    torch.testing.assert_close(result, models.seeded(models.Mlp)(torch.ones(2, 16)), rtol=1e-3, atol=1e-3)
    assert all(span.status.is_unset for span in exporter.get_finished_spans())
    assert not [record for record in caplog.records if record.name == "torchspan" and record.levelname == "ERROR"]


@pytest.mark.parametrize("when", ["pre", "post"])
def test_with_a_policy_that_rethrows_the_compilation_fails_and_every_span_ends(instrument, exporter, tracer, when):
    instrument()

    def fails(_context):
        raise LookupError("the test's own")

    with (
        tracer.start_as_current_span("request"),
        getattr(observers.torch_tensorrt.construct_network, when).add(
            fails, policy=observers.ErrorPolicy(rethrow=True)
        ),
        pytest.raises(LookupError, match="the test's own"),
    ):
        compiled()
    names = [span.name for span in exporter.get_finished_spans()]
    assert names[-4:] == [
        "torch_tensorrt.construct_network",
        "torch_tensorrt.convert",
        "torch_tensorrt.compile",
        "request",
    ]


def test_nothing_observed_is_kept(instrument):
    import gc
    import weakref

    instrument()
    seen = []
    with observers.torch_tensorrt.compile.pre.add(lambda context: seen.append(weakref.ref(context.args[0]))):
        compiled()
    gc.collect()
    assert [reference() for reference in seen] == [None]


def test_listening_while_the_bridge_is_disabled_is_said_once_and_works_when_it_comes(instrument, caplog):
    heard = []
    with observers.torch_tensorrt.compile.pre.add(lambda _context: heard.append("compile")):
        compiled()
        assert heard == []
        instrument()
        compiled()
    assert heard == ["compile"]
    (warning,) = [record.getMessage() for record in caplog.records if record.name == "torchspan"]
    assert warning.startswith(
        "A callback was added to torchspan.observers.torch_tensorrt.compile, and nothing fires it yet"
    )


def test_they_run_inside_the_users_callbacks_and_ends_come_last_started_first(instrument):
    instrument()
    order = []
    with observers.torch_tensorrt.partition.pre.add(lambda _c: order.append("observer pre")):
        handle = callbacks.add_global_callback(
            callbacks.RecordFunctionCallback(
                lambda _record: order.append("callback start"),
                lambda _record, _context: order.append("callback end"),
                scopes={phase.PARTITION},
            )
        )
        with observers.torch_tensorrt.partition.post.add(lambda _c: order.append("observer post")):
            compiled()
        callbacks.remove_callback(handle)
    assert order == ["callback start", "observer pre", "observer post", "callback end"]


def test_what_fires_inside_a_callback_is_not_reported(instrument, exporter):
    instrument()
    heard = []
    with (
        observers.torch_tensorrt.partition.pre.add(lambda _c: compiled()),
        observers.torch_tensorrt.compile.pre.add(lambda _c: heard.append("compile")),
    ):
        compiled()
    assert heard == ["compile"]
    assert [span.name for span in exporter.get_finished_spans()].count("torch_tensorrt.compile") == 1


# --- functions that the program observes ----------------------------------------------------------------------
def with_pass(lowering_pass, monkeypatch):
    """Lowering has one more pass, as `_aten_lowering_pass` registers them."""
    manager = passes.ATEN_POST_LOWERING_PASSES
    monkeypatch.setattr(manager, "passes", [*manager.passes, lowering_pass])


def test_an_observed_lowering_pass_is_a_span_where_it_runs_on_both_routes(instrument, exporter, monkeypatch):
    @observers.observable()
    def my_lowering_pass(gm, settings):
        return gm

    with_pass(my_lowering_pass, monkeypatch)
    instrument()
    heard = []
    with my_lowering_pass.observers.post.add(lambda context: heard.append(context.return_value is context.args[0])):
        compiled()
        torch.compile(models.seeded(models.Mlp), backend="tensorrt", options={"min_block_size": 1})(torch.ones(2, 16))
    assert heard == [True, True]
    spans = exporter.get_finished_spans()
    names = {span.context.span_id: span.name for span in spans}
    observed = [span for span in spans if span.name.startswith("torchspan.observed")]
    assert [span.name.rpartition(".")[2] for span in observed] == ["my_lowering_pass"] * 2
    assert [names[span.parent.span_id] for span in observed] == ["torch_tensorrt.lower"] * 2


def test_a_function_of_the_library_that_is_observed_lies_between_its_neighbors(instrument, exporter):
    instrument()
    heard = []
    with observers.observe_function("torch_tensorrt.dynamo._compiler:compile_module") as observed:
        observed.observers.post.add(lambda context: heard.append(context.outcome), scope="process")
        compiled()
        observed.observers.post._get_callbacks().remove(next(iter(observed.observers.post._get_callbacks())))
    compiled()
    assert heard == ["returned"]
    first, second = outline(exporter.get_finished_spans())
    assert (
        """\
  torch_tensorrt.lower
  torchspan.observed compile_module
    torch_tensorrt.partition
    torch_tensorrt.convert
"""
        in first
    )
    assert "torchspan.observed" not in second


# --- Torch-TensorRT's own -------------------------------------------------------------------------------------
def decorated(name="prepare", body=lambda *_args: None):
    def function(*args):
        return body(*args)

    function.__qualname__ = function.__name__ = name
    return theirs.observable()(function)


def test_a_function_decorated_with_their_observable_before_us_is_a_span_in_whichever_thread(
    instrument, exporter, tracer
):
    inner = decorated("inner")
    outer = decorated("outer", lambda: inner(1))
    instrument()
    with tracer.start_as_current_span("request"):
        outer()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(outer).result()
    assert outline(exporter.get_finished_spans()) == [
        """\
request
  torchspan.observed outer
    torchspan.observed inner
  torchspan.observed outer
    torchspan.observed inner"""
    ]


def test_their_callbacks_run_as_before_inside_the_span(instrument, exporter, provider):
    function, heard = decorated(), []
    instrument()

    def listen(context):
        heard.append((context.args, context.return_value))
        provider.get_tracer("user").start_span("theirs").end()

    with function.observers.pre.add(listen), function.observers.post.add(listen):
        function(3)
    assert heard == [((3,), None), ((3,), None)]
    assert outline(exporter.get_finished_spans()) == ["torchspan.observed prepare\n  theirs\n  theirs"]


def test_an_exception_marks_the_span_and_one_that_is_being_handled_does_not(instrument, exporter):
    fails, works = decorated("fails", models.raises(KeyError("secret"))), decorated("works")
    instrument()
    with pytest.raises(KeyError):
        fails()
    try:
        raise ValueError
    except ValueError:
        works()
    failed, worked = exporter.get_finished_spans()
    assert (failed.attributes["error.type"], [event.name for event in failed.events]) == ("KeyError", ["exception"])
    assert worked.status.is_unset
    assert "secret" not in str(failed.to_json())


def test_a_call_that_is_interrupted_in_a_callback_ends(instrument, exporter):
    interrupted = decorated("interrupted")
    instrument()

    def interrupt(_context):
        raise KeyboardInterrupt

    with interrupted.observers.pre.add(interrupt), pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [span.name for span in exporter.get_finished_spans()] == ["torchspan.observed interrupted"]


def test_a_call_whose_end_never_comes_is_closed_by_the_next(instrument, exporter, tracer):
    abandoned, later = decorated("abandoned"), decorated("later")
    instrument()

    def observed_func(observers, context):  # as theirs, interrupted between its two calls
        observers.pre.observe(context)

    def program():
        types.FunctionType(observed_func.__code__, vars(theirs))(
            abandoned.observers, theirs.ObserveContext(abandoned.orig_func, (), {})
        )
        with tracer.start_as_current_span("request"):
            later()

    contextvars.copy_context().run(program)  # what was abandoned stays current in it
    assert outline(exporter.get_finished_spans()) == [
        "torchspan.observed abandoned\n  request\n    torchspan.observed later"
    ]


def test_a_wrapper_of_the_library_without_the_names_that_torchspan_reads_calls_as_before(instrument):
    """As in a version of Torch-TensorRT in which a local variable of `observed_func` has another name."""
    instrument()

    def observed_func(pair, context):
        pair.pre.observe(context)
        return pair.post.observe(context)

    function = decorated("renamed")
    context = theirs.ObserveContext(function.orig_func, (), {})
    assert types.FunctionType(observed_func.__code__, vars(theirs))(function.observers, context) is None


def events_of(exporter, name):
    (span,) = [span for span in exporter.get_finished_spans() if span.name == name]
    return [(event.name, dict(event.attributes)) for event in span.events]


def test_an_observer_of_theirs_is_an_event_in_the_span_around_with_a_count(instrument, exporter, monkeypatch):
    mine = theirs.Observer("on_node")

    def tells(gm, _settings):
        for node in list(gm.graph.nodes)[:3]:
            mine.observe(node)
        return gm

    with_pass(tells, monkeypatch)
    instrument()
    compiled()
    assert events_of(exporter, "torch_tensorrt.lower") == [
        ("torchspan.observer", {"torchspan.observer.name": "on_node", "torchspan.observer.count": 3})
    ]
    assert events_of(exporter, "torch_tensorrt.construct_network") == [
        (
            "torchspan.observer",
            {"torchspan.observer.name": "TRT_INTERPRETER_CALL_PRE_OBSERVER", "torchspan.observer.count": 1},
        )
    ]


def test_one_that_fires_inside_a_callback_of_torchspan_is_none(instrument, exporter):
    mine = theirs.Observer("on_node")
    instrument()
    with observers.torch_tensorrt.lower.pre.add(lambda _context: mine.observe(1)):
        compiled()
    assert events_of(exporter, "torch_tensorrt.lower") == []


def test_outside_any_compilation_it_is_an_event_on_the_users_span(instrument, exporter, tracer):
    mine = theirs.Observer("on_request")
    instrument()
    mine.observe(1)
    with tracer.start_as_current_span("request"):
        mine.observe(2)
    (request,) = exporter.get_finished_spans()
    assert [(event.name, event.attributes["torchspan.observer.name"]) for event in request.events] == [
        ("torchspan.observer", "on_request")
    ]


def test_disabled_their_module_is_as_it_was(instrument):
    original = theirs.Observer.observe
    instrument()
    assert theirs.Observer.observe is not original
    instrument().uninstrument()
    assert theirs.Observer.observe is original
