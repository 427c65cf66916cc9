# SPDX-License-Identifier: Apache-2.0
"""Frames of torch.compile as spans, with their phases and backward graphs."""

import logging
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode
from torch._inductor.async_compile import AsyncCompile

import torchspan
from dynamo.expected import COMPILED, P, frame, graph
from support import compiled
from support.tree import assert_times_nest, assert_trees, outline, without_clocks
from torchspan import observers
from torchspan.hooks.adapters import dynamo as adapter

ONES = torch.ones(3, 3)


def run(function, *args, backend="eager", **options):
    """What the function returns, called once and compiled."""
    return torch.compile(function, backend=backend, **options)(*args)


def failing(_graph, _inputs):
    raise ValueError("ulterior secret of the program")


@observers.observable
def converts(module, inputs):
    """A backend whose work is an event."""
    return torch._dynamo.lookup_backend("aot_eager")(module, inputs)


# --- trees ------------------------------------------------------------------------------------------------------------
def test_a_frame_is_a_span_with_its_phases_below_it(every_phase, exporter):
    run(compiled.plain, ONES)
    assert_trees(exporter.get_finished_spans(), [frame("0/0", "plain", 7, *COMPILED, **graph(8, 2))])
    assert_times_nest(exporter.get_finished_spans())


def test_a_method_that_a_decorator_replaced_has_the_name_that_it_has_in_its_class(exporter):
    """Frames of models of transformers were called `wrapper`."""

    def decorated(function):
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs)

        return wrapper

    class Net(torch.nn.Module):
        forward = decorated(lambda _self, x: x + 1)

        def plain(self, x):
            return self.forward(x)

    def function(x):
        return x + 2

    net = Net()
    for call in (net.forward, net.plain, decorated(function)):
        run(call, ONES)
    frames = [span for span in exporter.get_finished_spans() if span.name == "torch.compile_frame"]
    assert [span.attributes["code.function.name"] for span in frames] == [
        f"{Net.__qualname__}.forward",
        "plain",
        "wrapper",
    ]


def test_what_is_left_after_a_graph_break_is_a_frame_of_its_own(every_phase, exporter):
    run(compiled.breaks_twice, ONES)
    first, second = (
        {"graph_break.classes": (kind,), "graph_break.counts": (1,)} for kind in ("requested", "data_dependent_branch")
    )
    again = (P("bytecode_tracing"), *COMPILED)
    assert_trees(
        exporter.get_finished_spans(),
        [
            frame("0/0", "breaks_twice", 15, *again, **first, **graph(11, 1)),
            frame("1/0", "torch_dynamo_resume_in_breaks_twice_at_17", 17, *COMPILED, **second, **graph(8, 2)),
            frame("2/0", "torch_dynamo_resume_in_breaks_twice_at_18", 18, *COMPILED, **graph(8, 2)),
        ],
    )


def test_a_backward_graph_is_a_span_where_it_first_runs_linked_to_its_frame(every_phase, exporter, tracer, spans):
    with tracer.start_as_current_span("forward"):
        total = run(compiled.product, torch.ones(3, 3, requires_grad=True), backend="aot_eager")
    with tracer.start_as_current_span("backward"):
        total.backward()
    assert outline(exporter.get_finished_spans()) == [
        (
            "forward\n"
            "  torch.compile_frame\n"
            "    torch.compile_phase bytecode_tracing\n"
            "    torch.compile_phase insert_deferred_runtime_asserts\n"
            "    torch.compile_phase backend_compile\n"
            "      torch.compile_phase create_aot_dispatcher_function\n"
            "        torch.compile_phase aot_collect_metadata\n"
            "        torch.compile_phase aot_trace_joint_graph\n"
            "    torch.compile_phase build_guards\n"
            "    torch.compile_phase gc"
        ),
        "backward\n  torch.compile_backward",
    ]
    (forward,), (backward,) = spans("torch.compile_frame"), spans("torch.compile_backward")
    assert without_clocks(backward.attributes) == {
        "torchspan.keep": True,
        "torch.compile.id": "0/0",
        "code.function.name": "product",
        "code.file.path": "support/compiled.py",
        "code.line.number": compiled.product.__code__.co_firstlineno,
    }
    assert [link.context for link in backward.links] == [forward.context]


def test_what_a_backend_asks_of_aotautograd_lies_below_its_own_work(every_phase, exporter):
    run(compiled.plain, ONES, backend=converts)
    (tree,) = outline(exporter.get_finished_spans())
    assert tree == (
        "torch.compile_frame\n"
        "  torch.compile_phase bytecode_tracing\n"
        "  torch.compile_phase insert_deferred_runtime_asserts\n"
        "  torch.compile_phase backend_compile\n"
        "    torchspan.observed converts\n"
        "      torch.compile_phase create_aot_dispatcher_function\n"
        "        torch.compile_phase aot_collect_metadata\n"
        "  torch.compile_phase build_guards\n"
        "  torch.compile_phase gc"
    )
    assert_times_nest(exporter.get_finished_spans())


def test_a_backward_graph_of_before_a_reset_is_linked_to_its_own_frame(dynamo, spans):
    before = run(compiled.product, torch.ones(3, 3, requires_grad=True), backend="aot_eager")
    dynamo.reset()
    after = run(compiled.product, torch.ones(3, 3, requires_grad=True), backend="aot_eager")
    after.backward()
    before.backward()
    first, second = spans("torch.compile_frame")
    assert [span.attributes["torch.compile.id"] for span in (first, second)] == ["0/0", "0/0"]
    linked = [span.links[0].context for span in spans("torch.compile_backward")]
    assert linked == [second.context, first.context]


@pytest.mark.slow
def test_phases_of_inductor_and_what_its_caches_answered(every_phase, exporter, spans, monkeypatch):
    monkeypatch.setenv("TORCH_WARM_POOL", "0")  # no processes
    settings = torch._inductor.config.patch(fx_graph_cache=True, compile_threads=2)
    with settings, torch._inductor.utils.fresh_cache(), ThreadPoolExecutor(2) as pool:
        monkeypatch.setattr(AsyncCompile, "pool", lambda: pool)
        run(compiled.product, ONES, backend="inductor")
        torch._dynamo.reset()
        run(compiled.product, ONES, backend="inductor")
    cold, warm = spans("torch.compile_frame")
    assert cold.attributes["torch.compile.aotautograd_cache.result"] == "miss"
    assert cold.attributes["torch.compile.inductor_cache.result"] == "miss"
    assert warm.attributes["torch.compile.aotautograd_cache.result"] == "hit"
    lines = outline(exporter.get_finished_spans())[0].splitlines()
    assert [line for line in lines if line.strip().endswith(("_compile", "_graph", "and_compile", "code_gen"))] == [
        "  torch.compile_phase backend_compile",
        "        torch.compile_phase inductor_compile",
        "          torch.compile_phase fx_codegen_and_compile",
        "              torch.compile_phase code_gen",
    ]
    by_id = {span.context.span_id: span for span in exporter.get_finished_spans()}
    (worker,) = spans("torch.compile_worker")
    assert by_id[worker.parent.span_id].name == "torch.compile_phase PyCodeCache.load_by_key_path"
    inside = [span.name for span in by_id.values() if span.parent and span.parent.span_id == worker.context.span_id]
    assert inside == ["torch.compile_phase compile_file"]
    alongside = worker  # it runs alongside the phase that waits for it
    assert_times_nest([span for span in by_id.values() if span is not alongside])


def test_a_phase_of_less_than_a_millisecond_is_a_step(no_long_phase, exporter, spans):
    run(compiled.product, torch.ones(3, 3, requires_grad=True), backend="aot_eager")
    assert outline(exporter.get_finished_spans()) == ["torch.compile_frame\n  torch.compile_phase backend_compile"]
    (made,), (backend,) = spans("torch.compile_frame"), spans("torch.compile_phase backend_compile")
    assert sorted(made.attributes["torchspan.steps.names"]) == [
        "build_guards",
        "bytecode_tracing",
        "gc",
        "insert_deferred_runtime_asserts",
    ]
    assert sorted(backend.attributes["torchspan.steps.names"]) == [
        "aot_collect_metadata",
        "aot_trace_joint_graph",
        "create_aot_dispatcher_function",
    ]
    for span in (made, backend):
        assert sum(span.attributes["torchspan.steps.durations"]) <= (span.end_time - span.start_time) / 1e9


def test_a_frame_compiled_inside_a_backend_lies_below_it(exporter, tracer):
    def backend(module, _inputs):
        with tracer.start_as_current_span("the backend's own"):
            run(compiled.adds, ONES, 1)
        return module.forward

    run(compiled.plain, ONES, backend=backend)
    assert outline(exporter.get_finished_spans()) == [
        (
            "torch.compile_frame\n"
            "  torch.compile_phase backend_compile\n"
            "    the backend's own\n"
            "      torch.compile_frame\n"
            "        torch.compile_phase backend_compile"
        )
    ]


def test_a_frame_compiled_inside_a_backend_has_all_that_is_known_of_a_frame(dynamo, spans):
    inner = torch.compile(compiled.adds, backend="eager", dynamic=False)

    def backend(module, _inputs):
        with dynamo.config.patch(recompile_limit=2):
            for number in range(3):
                inner(ONES, number)
        return module.forward

    run(compiled.plain, ONES, backend=backend)
    _, *inside = spans("torch.compile_frame")
    assert [span.attributes.get("torch.compile.graph.operators") for span in inside] == [1, 1, None]
    assert ["torch.compile.guards.count" in span.attributes for span in inside] == [True, True, False]
    assert [span.attributes["torch.compile.outcome"] for span in inside] == ["compiled", "compiled", "limit"]
    assert [span.attributes.get("torch.compile.recompile.class") for span in inside] == [None, "value", "value"]
    assert [event.name for span in inside for event in span.events] == [
        "torch.compile.recompile",
        "torch.compile.recompile_limit",
    ]


# --- how frames end ---------------------------------------------------------------------------------------------------
def test_a_function_without_a_tensor_operator_is_skipped(spans):
    assert run(compiled.without_a_tensor, ONES) == 3
    (made,) = spans("torch.compile_frame")
    assert made.attributes["torch.compile.outcome"] == "skipped"
    assert "torch.compile.failure.type" not in made.attributes


def test_a_graph_break_in_a_loop_skips_the_whole_frame(spans):
    run(compiled.breaks_in_a_loop, ONES)
    (made,) = spans("torch.compile_frame")
    assert {key: made.attributes[key] for key in made.attributes if "failure" in key or "outcome" in key} == {
        "torch.compile.outcome": "skipped",
        "torch.compile.failure.type": "torch._dynamo.exc.Unsupported",
        "torch.compile.failure.reason": "Call to `torch._dynamo.graph_break()`",
        "torch.compile.failure.file": "support/compiled.py",
        "torch.compile.failure.line": 26,
    }
    assert made.status.status_code is StatusCode.UNSET


def test_a_graph_break_is_an_error_where_the_whole_function_has_to_be_one_graph(spans):
    with pytest.raises(torch._dynamo.exc.Unsupported):
        run(compiled.breaks_twice, ONES, fullgraph=True)
    (made,) = spans("torch.compile_frame")
    assert made.attributes["torch.compile.outcome"] == "failed"
    assert made.attributes["error.type"] == "torch._dynamo.exc.Unsupported"
    assert made.status.status_code is StatusCode.ERROR


def test_the_recompile_limit_is_an_outcome_of_its_own_and_nothing_is_compiled_afterwards(dynamo, spans):
    function = torch.compile(compiled.adds, backend="eager", dynamic=False)
    with dynamo.config.patch(recompile_limit=2):
        for number in range(5):
            function(ONES, number)
    assert [
        (span.attributes["torch.compile.id"], span.attributes["torch.compile.outcome"])
        for span in spans("torch.compile_frame")
    ] == [("0/0", "compiled"), ("0/1", "compiled"), ("0/2", "limit")]


def test_without_dynamos_summaries_a_frame_has_what_dynamo_measured_on_the_way(dynamo, spans):
    function = torch.compile(compiled.adds, backend="eager", dynamic=False)
    with dynamo.config.patch(log_compilation_metrics=False, recompile_limit=1):
        for number in range(2):
            function(ONES, number)
    compiled_once, limited = (span.attributes for span in spans("torch.compile_frame"))
    assert (compiled_once["torch.compile.outcome"], limited["torch.compile.outcome"]) == ("compiled", "limit")
    assert limited["torch.compile.recompile.limit"] == "recompile_limit"
    assert compiled_once["torch.compile.guards.count"] == 9
    assert limited["torch.compile.recompile.reason"] == "number == ?"


@pytest.mark.fault("libraries", "a backend raises")
def test_what_a_backend_raises_marks_its_phase_and_the_frame(exporter, spans):
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed):
        run(compiled.plain, ONES, backend=failing)
    (made,), (backend,) = spans("torch.compile_frame"), spans("torch.compile_phase backend_compile")
    for span in (made, backend):
        assert span.attributes["error.type"] == "torch._dynamo.exc.BackendCompilerFailed"
        assert span.status.status_code is StatusCode.ERROR
    assert made.attributes["torch.compile.outcome"] == "failed"
    assert [event.name for event in (*made.events, *backend.events)] == ["exception"]
    assert "secret" not in str([span.to_json() for span in exporter.get_finished_spans()])


def test_an_analysis_that_dynamo_begins_again_is_not_an_error(spans):
    function = torch.compile(compiled.at_most, backend="aot_eager")
    for limit in (1.5, 2.5):
        function(ONES, limit)
    backends = spans("torch.compile_phase backend_compile")
    assert len(backends) == 3  # the second frame needs two
    for span in (*backends, *spans("torch.compile_frame")):
        assert span.status.status_code is StatusCode.UNSET
        assert "error.type" not in span.attributes
        assert span.events == () or [event.name for event in span.events] == ["torch.compile.recompile"]


def test_a_failure_that_dynamo_suppresses_has_fallen_back(dynamo, spans):
    logging.disable(logging.CRITICAL)
    try:
        with dynamo.config.patch(suppress_errors=True):
            run(compiled.plain, ONES, backend=failing)
    finally:
        logging.disable(logging.NOTSET)
    (made,) = spans("torch.compile_frame")
    assert made.attributes["torch.compile.outcome"] == "fallen_back"
    assert made.attributes["torch.compile.failure.type"] == "torch._dynamo.exc.BackendCompilerFailed"
    assert made.status.status_code is StatusCode.UNSET


def test_an_exception_that_the_program_was_handling_is_not_the_frames(spans):
    try:
        raise KeyError("of the program")
    except KeyError:
        run(compiled.plain, ONES)
    (made,) = spans("torch.compile_frame")
    assert made.attributes["torch.compile.outcome"] == "compiled"
    assert "error.type" not in made.attributes


def test_nothing_is_open_after_a_compilation_that_failed(exporter, tracer):
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed):
        run(compiled.plain, ONES, backend=failing)
    with tracer.start_as_current_span("next"):
        pass
    assert outline(exporter.get_finished_spans())[1:] == ["next"]


# --- nothing changes --------------------------------------------------------------------------------------------------
def counted(function, *args, **options):
    """Results, frames, graphs, breaks and guards of a function that is called with each argument.

    It is done twice, and the second time counts: where coverage is measured, coverage's own functions are asked about each file
    that runs for the first time, and Dynamo counts their frames.
    """
    _counted(function, *args, **options)
    return _counted(function, *args, **options)


def _counted(function, *args, **options):
    torch._dynamo.reset()
    counters = torch._dynamo.utils.counters
    counters.clear()
    torch._dynamo.utils.clear_compilation_metrics()
    call = torch.compile(function, **options)
    results = [call(each) for each in args]
    metrics = torch._dynamo.utils.get_compilation_metrics()
    return (
        [each.tolist() for each in results],
        {name: dict(counters[name]) for name in ("frames", "stats", "graph_break", "unimplemented")},
        [
            (each.compile_id, each.guard_count, each.graph_op_count, each.recompile_reason)
            for each in metrics
            if each.compile_id is not None  # without one: what PyTorch had gathered of runs, in earlier tests too
        ],
    )


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", [compiled.plain, compiled.breaks_twice, compiled.breaks_in_a_loop])
def test_graphs_breaks_guards_and_results_are_the_same_without_the_bridge(function, backend, instrument):
    inputs = (ONES, torch.ones(4, 3))
    observed = counted(function, *inputs, backend=backend)
    instrument().uninstrument()
    assert counted(function, *inputs, backend=backend) == observed


def test_ids_are_distinct_although_dynamo_restores_the_state_of_random(exporter, dynamo):
    for _ in range(3):
        dynamo.reset()
        run(compiled.breaks_twice, ONES)
    found = exporter.get_finished_spans()
    assert len(found) == 18
    assert len({span.context.span_id for span in found}) == len(found)


def test_the_programs_random_numbers_stay_as_they_are(instrument, dynamo):
    def drawn():
        dynamo.reset()
        random.seed(7)
        torch.manual_seed(7)
        run(compiled.plain, ONES)
        return random.random(), torch.rand(1).item()

    observed = drawn()
    instrument().uninstrument()
    assert drawn() == observed


def test_two_threads_forward_in_one_and_backward_in_the_other_give_two_clean_trees(exporter, tracer):
    total = run(compiled.product, torch.ones(3, 3, requires_grad=True), backend="aot_eager")
    exporter.clear()
    inside, done = threading.Event(), threading.Event()

    def backend(module, _inputs):
        inside.set()
        assert done.wait(60)
        return module.forward

    def forward():
        with tracer.start_as_current_span("thread"):
            run(compiled.plain, ONES, backend=backend)

    thread = threading.Thread(target=forward)
    thread.start()
    assert inside.wait(60)
    with tracer.start_as_current_span("main"):
        total.backward()
    done.set()
    thread.join()
    assert sorted(outline(exporter.get_finished_spans())) == [
        "main\n  torch.compile_backward",
        "thread\n  torch.compile_frame\n    torch.compile_phase backend_compile",
    ]


def test_after_uninstrumenting_nothing_of_dynamo_is_replaced(instrument):
    utils = torch._dynamo.utils
    assert utils.record_chromium_event_internal.__module__ == "torch._utils_internal"  # by functools.wraps
    assert hasattr(utils.record_chromium_event_internal, "__wrapped__")
    instrument().uninstrument()
    assert not hasattr(utils.record_chromium_event_internal, "__wrapped__")
    assert not hasattr(torch._dynamo.metrics_context.MetricsContext.update_outer, "__wrapped__")


def test_the_programs_own_hook_over_torchspans_stays_and_has_every_report(instrument, monkeypatch):
    seen = []
    below = torch._dynamo.utils.record_chromium_event_internal

    def own(event):
        seen.append(event["name"])
        return below(event)

    monkeypatch.setattr(torch._dynamo.utils, "record_chromium_event_internal", own)
    run(compiled.plain, ONES)
    observed = list(seen)
    instrument().uninstrument()
    torch._dynamo.reset()
    run(compiled.plain, ONES)
    assert seen[len(observed) :] == observed
    assert torch._dynamo.utils.record_chromium_event_internal is own


def test_a_report_that_torchspan_cannot_read_does_not_reach_the_compilation(spans, caplog):
    for report in ({}, {"name": 3, "args": None, "ph": "B"}, {"name": "gc", "args": {}, "ph": "E"}):
        torch._dynamo.utils.record_chromium_event_internal(report)
    assert run(compiled.plain, ONES).shape == (3, 3)


def test_observers_have_each_phase_when_it_begins_however_short(exporter):
    begun, ended = [], []
    pair = observers.torch.compile_phase
    added = (
        pair.pre.add(lambda context: begun.append(context.args[0]["name"])),
        pair.post.add(lambda context: ended.append(context.args[0]["name"])),
    )
    try:
        run(compiled.plain, ONES)
    finally:
        for each in added:
            each.remove()
    assert (
        begun
        == ended
        == ["bytecode_tracing", "insert_deferred_runtime_asserts", "backend_compile", "build_guards", "gc"]
    )
    assert outline(exporter.get_finished_spans()) == ["torch.compile_frame\n  torch.compile_phase backend_compile"]


@pytest.mark.fault("hooks and callbacks", "an observer of phases raises while Dynamo compiles")
def test_an_observer_that_raises_does_not_reach_the_compilation(exporter):
    def broken(_context):
        raise ZeroDivisionError

    pairs = [observers.torch.compile_frame, observers.torch.compile_phase]
    added = [each.add(broken) for pair in pairs for each in (pair.pre, pair.post)]
    try:
        assert run(compiled.plain, ONES).shape == (3, 3)
    finally:
        for each in added:
            each.remove()
    assert outline(exporter.get_finished_spans()) == ["torch.compile_frame\n  torch.compile_phase backend_compile"]


def test_an_interrupt_is_a_failure_also_where_dynamo_suppresses_errors(dynamo, spans):
    def interrupted(_graph, _inputs):
        raise KeyboardInterrupt

    with dynamo.config.patch(suppress_errors=True), pytest.raises(KeyboardInterrupt):
        run(compiled.plain, ONES, backend=interrupted)
    (made,) = spans("torch.compile_frame")
    assert made.attributes["torch.compile.outcome"] == "failed"
    assert made.attributes["error.type"] == "KeyboardInterrupt"


def test_a_frame_whose_end_torchspan_could_not_follow_is_closed(monkeypatch, exporter):
    """make failing-calls: the frame stayed open, and what was compiled later was below it."""
    call = adapter.Call

    def without_an_end(signature, args, kwargs):
        if isinstance(args[0], dict) and (args[0]["ph"], args[0]["name"]) == ("E", "dynamo"):
            raise MemoryError
        return call(signature, args, kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(adapter, "Call", without_an_end)
        run(compiled.plain, ONES)
    run(compiled.square, ONES)
    roots = [tree.partition("\n")[0] for tree in outline(exporter.get_finished_spans())]
    assert roots == ["torch.compile_frame", "torch.compile_frame"]


# --- while serving ----------------------------------------------------------------------------------------------------
@pytest.fixture
def ready():
    yield torchspan.mark_ready
    torchspan.mark_not_ready()


@pytest.fixture
def served(metrics):
    """Numbers of compilations while serving, by phase, kind and error."""
    keys = ("torchspan.phase", "torchspan.serving.kind", "error.type")
    return lambda: metrics.values("torchspan.serving.compilations", *keys)


FAILED = ("torch.compile_frame", "recompilation", "torch._dynamo.exc.TorchRuntimeError")


@torch.no_grad()
def test_frames_that_requests_waited_for_are_marked_and_counted_failed_ones_too(ready, served, spans, tracer):
    model = torch.compile(torch.nn.Linear(8, 4), backend="aot_eager", dynamic=False)
    model(torch.ones(4, 8))
    with tracer.start_as_current_span("GET /", kind=SpanKind.SERVER):
        model(torch.ones(3, 8))
    ready()
    model(torch.ones(2, 8))
    model(torch.ones(2, 8))
    with pytest.raises(torch._dynamo.exc.TorchRuntimeError):
        model(torch.ones(2, 9))
    keys = ("torchspan.while_serving", "torchspan.serving.kind", "torch.compile.outcome")
    assert [tuple(span.attributes.get(key) for key in keys) for span in spans("torch.compile_frame")] == [
        (None, None, "compiled"),
        (True, "recompilation", "compiled"),
        (True, "recompilation", "compiled"),
        (True, "recompilation", "failed"),
    ]
    assert served() == {("torch.compile_frame", "recompilation", None): 2, FAILED: 1}


def test_a_backward_graph_that_a_request_waited_for_is_marked_and_counted(ready, served, spans):
    total = run(compiled.product, torch.ones(3, 3, requires_grad=True), backend="aot_eager")
    ready()
    total.backward()
    (backward,) = spans("torch.compile_backward")
    assert backward.attributes["torchspan.while_serving"] is True
    assert served() == {("torch.compile_backward", "compilation", None): 1}


def test_a_frame_without_a_span_is_counted_as_compiled_while_serving(instrument, ready, served, spans):
    instrument(tracer_provider=TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False))
    ready()
    run(compiled.plain, ONES)
    assert spans("torch.compile_frame") == []
    assert served() == {("torch.compile_frame", "compilation", None): 1}
