# SPDX-License-Identifier: Apache-2.0
"""Layer times on request, through the real hooks of runs, over contexts that report as TensorRT's do."""

import os
import sys
import threading
from types import SimpleNamespace

import pytest

import torchspan
from support.engines import Callback
from support.forked import in_forked_child
from support.layered_context import LIBRARY, LayeredContext, Profiler
from support.ports import make_ports
from torchspan import phase
from torchspan.engine import RUNNING, Engine, ObservedRun, RateLimits, RunSampling
from torchspan.engine.subscribers.callback_registry import Registry
from torchspan.hooks.adapters import Provenance
from torchspan.hooks.adapters.engine_runs import wrap_run
from torchspan.hooks.adapters.machinery.wrap import WrapperFactory
from torchspan.hooks.device import LayerTimes
from torchspan.hooks.device._layers import _REQUESTS
from torchspan.hooks.probes import PROBES, Runs
from torchspan.output.writer import SpanParents
from torchspan.words.sampling.rules import SamplingRules

RUN_PROBES = [probe for probe in PROBES if isinstance(probe.action, Runs)]
OPERATOR = next(probe for probe in RUN_PROBES if probe.action.phase is phase.EXECUTE)
CONTEXT = next(probe for probe in RUN_PROBES if probe.action.excluded_callers)
NAMES = "tensorrt.layers.names"


class Engines:
    """torchspan without a writer of spans: every run of an engine is an event.

    tables: what the events of runs have of layers.
    """

    def __init__(self, setting="off"):
        self.engine = Engine(Registry())
        self.tables = []
        self.is_sampled = True
        self.engine.listen([Callback("events", self._start, self._end), LayerTimes(setting)])
        RUNNING.start(self.engine)
        self._parents = SpanParents()
        sampling = RunSampling(RateLimits())
        sampling.use(SamplingRules(execute=1.0, execute_per_second=1e6))
        self._ports = make_ports(parents=self._parents, sampling=sampling)

    def _start(self, event):
        event.is_sampled = self.is_sampled
        return event

    def _end(self, event, _):
        self.tables.append({key: value for key, value in event.additions.items() if ".layers." in key})

    def hook(self, probe, function):
        """`function` with a probe of torchspan's."""
        return wrap_run(WrapperFactory(self.engine, Provenance()), self._ports, probe.target, probe.action, function)

    def close(self):
        self.engine.stop()
        self._parents.close()
        _REQUESTS.clear()


@pytest.fixture
def library(monkeypatch):
    for name in ("tensorrt", "tensorrt_rtx"):
        monkeypatch.setitem(sys.modules, name, LIBRARY)
    monkeypatch.delitem(sys.modules, "torch_tensorrt.runtime", raising=False)


@pytest.fixture
def make_engines(library):
    """Makes `Engines`; they are closed after the test."""
    opened = []

    def make(setting="off"):
        opened.append(Engines(setting))
        return opened[-1]

    yield make
    for engines in opened:
        engines.close()


@pytest.fixture
def engines(make_engines):
    return make_engines()


@pytest.fixture
def run(engines):
    """Runs an engine."""
    return engines.hook(OPERATOR, lambda input_tensors, engine: engine.run())


class TrtEngine:
    """Stands for Torch-TensorRT's `TRTEngine`: an engine with a context, which it makes at its first run."""

    def __init__(self, *layers, name="first"):
        self.name = f"{name}_engine"
        self._context = LayeredContext(*layers)

    @property
    def context(self):
        raise AssertionError("reading it makes a context")

    def run(self):
        return self._context.execute_async_v3(0)


class Printer(Profiler):
    """A profiler of the program."""

    def __init__(self):
        Profiler.__init__(self)
        self.reports = []

    def report_layer_time(self, layer_name, ms):
        self.reports.append((layer_name, ms))


def lines(caplog):
    return [record.getMessage() for record in caplog.records]


# --- the table --------------------------------------------------------------------------------------------------------
def test_the_last_run_has_medians_and_shares_slowest_first(engines, run):
    torchspan.layers("first", runs=3)
    engine = TrtEngine()
    for ms in (1.0, 9.0, 3.0, 5.0):
        engine._context.layers = [("relu", 1.0), ("conv", ms)]
        assert run([], engine) is True
    assert engines.tables == [
        {},
        {},
        {
            "tensorrt.layers.names": ["conv", "relu"],
            "tensorrt.layers.durations": [0.003, 0.001],
            "tensorrt.layers.shares": [0.75, 0.25],
            "tensorrt.layers.runs": 3,
        },
        {},
    ]


def test_beyond_forty_layers_the_rest_is_summed(engines, run):
    torchspan.layers("first", runs=1)
    run([], TrtEngine(*((f"layer {number}", 2.0) for number in range(40)), ("late", 1.0), ("later", 0.5)))
    (table,) = engines.tables
    assert table["tensorrt.layers.names"] == [f"layer {number}" for number in range(40)]
    assert table["tensorrt.layers.shares"] == [0.02454] * 40
    assert table["tensorrt.layers.omitted.count"] == 2
    assert table["tensorrt.layers.omitted.duration"] == 0.0015


def test_the_median_is_over_the_runs_in_which_a_layer_reported(engines, run):
    torchspan.layers("first", runs=3)
    engine = TrtEngine()
    for reports in ([("a", 1.0), ("b", 4.0)], [("a", 1.0)], [("a", 1.0), ("b", 2.0)]):
        engine._context.layers = reports
        run([], engine)
    assert engines.tables[-1]["tensorrt.layers.durations"] == [0.003, 0.001]


def test_reports_of_one_layer_in_one_run_are_summed(engines, run):
    torchspan.layers("first", runs=1)
    run([], TrtEngine(("loop", 1.0), ("loop", 2.0)))
    assert engines.tables[0]["tensorrt.layers.durations"] == [0.003]


def test_times_of_zero_have_shares_of_zero(engines, run):
    torchspan.layers("first", runs=1)
    run([], TrtEngine(("empty", 0.0)))
    assert engines.tables[0]["tensorrt.layers.shares"] == [0.0]


# --- which engines, and which runs ------------------------------------------------------------------------------------
def test_each_engine_of_the_name_has_a_table_of_its_own_and_no_other_engine(engines, run):
    torchspan.layers("first", runs=1)
    for name, reported in (("first", "a"), ("second", "b"), ("first", "c")):
        run([], TrtEngine((reported, 1.0), name=name))
    assert [table.get(NAMES) for table in engines.tables] == [["a"], None, ["c"]]


def test_without_a_name_each_engine_has_a_table(engines, run):
    torchspan.layers(runs=1)
    for name in ("first", "second"):
        run([], TrtEngine((name, 1.0), name=name))
    assert [table.get(NAMES) for table in engines.tables] == [["first"], ["second"]]


def test_a_further_call_has_an_engine_timed_again(engines, run):
    engine = TrtEngine(("a", 1.0))
    for _ in range(2):
        torchspan.layers("first", runs=1)
        run([], engine)
    assert [table.get(NAMES) for table in engines.tables] == [["a"], ["a"]]


def test_the_setting_is_a_request(make_engines):
    engines = make_engines("first:2")
    run, engine = engines.hook(OPERATOR, lambda input_tensors, engine: engine.run()), TrtEngine(("a", 1.0))
    run([], engine)
    run([], engine)
    assert [table.get("tensorrt.layers.runs") for table in engines.tables] == [None, 2]


def test_a_context_of_the_programs_own_is_asked_for_by_the_name_of_its_engine(engines, tracer):
    torchspan.layers("plain", runs=1)
    execute = engines.hook(CONTEXT, LayeredContext.execute_async_v3)
    with tracer.start_as_current_span("request"):
        execute(LayeredContext(("a", 1.0)), 0)
        execute(LayeredContext(("b", 1.0), engine="other"), 0)
    assert [table.get(NAMES) for table in engines.tables] == [["a"], None]


def test_a_run_without_a_span_has_no_profiler(engines, run, tracer):
    engines.is_sampled = False
    torchspan.layers("first", runs=1)
    seen, engine = [], TrtEngine()
    engine.run = lambda: seen.append(engine._context.profiler)
    run([], engine)
    assert (seen, engines.tables) == ([None], [{}])


def test_a_run_before_the_first_context_is_not_timed_and_makes_no_context(engines, run):
    torchspan.layers("first", runs=1)
    engine = TrtEngine(("a", 1.0))
    context, engine._context = engine._context, None

    def first():
        engine._context = context
        return context.execute_async_v3(0)

    engine.run = first
    run([], engine)
    run([], engine)
    assert [table.get(NAMES) for table in engines.tables] == [None, ["a"]]


def test_the_module_of_earlier_versions_has_its_context_as_a_plain_attribute(engines, run):
    torchspan.layers("first", runs=1)
    context = LayeredContext(("a", 1.0))
    module = type("PythonTorchTensorRTModule", (), {"run": lambda self: self.context.execute_async_v3(0)})()
    module.name, module.context = "first_engine", context
    run([], module)
    assert engines.tables[0][NAMES] == ["a"]


# --- the profiler is given back ---------------------------------------------------------------------------------------
def test_a_profiler_of_the_program_gets_every_report_and_is_restored(engines, run):
    torchspan.layers("first", runs=1)
    engine, printer = TrtEngine(("a", 1.0), ("b", 0.5)), Printer()
    engine._context.profiler = printer
    run([], engine)
    run([], engine)
    assert printer.reports == [("a", 1.0), ("b", 0.5)] * 2
    assert engine._context.profiler is printer
    assert engines.tables[0][NAMES] == ["a", "b"]


def is_silent(context):
    """Whether the context reports nothing. TensorRT takes no profiler off: that of torchspan stays, and gathers nothing."""
    return not context.enqueue_emits_profile and context.profiler.ms == {}


def test_between_runs_the_context_reports_nothing_and_logs_no_error(engines, run, capsys):
    torchspan.layers("first", runs=5)
    engine = TrtEngine(("a", 1.0))
    run([], engine)
    engine.run()
    assert is_silent(engine._context)
    assert capsys.readouterr().err == ""


def test_a_context_that_reports_nothing_since_a_table_has_another_when_asked(engines, run):
    engine = TrtEngine(("a", 1.0))
    for _ in range(2):
        torchspan.layers("first", runs=2)
        run([], engine)
        engine.run()
        run([], engine)
    assert [table.get("tensorrt.layers.durations") for table in engines.tables] == [None, [0.001]] * 2
    assert is_silent(engine._context)


def test_a_profiler_that_the_program_sets_after_a_table_stays_and_is_not_reported_to(engines, run, caplog):
    torchspan.layers("first", runs=1)
    engine, printer = TrtEngine(("a", 1.0)), Printer()
    run([], engine)
    engine._context.profiler = printer
    engine.run()
    assert (engine._context.profiler, printer.reports) == (printer, [])
    engine._context.enqueue_emits_profile = True
    engine.run()
    assert printer.reports == [("a", 1.0)]


def test_after_a_run_that_raises_the_context_reports_nothing_and_it_raises_the_same(engines, run):
    torchspan.layers("first", runs=5)
    engine, error = TrtEngine(), ValueError("the program's")

    def fails():
        raise error

    engine.run = fails
    with pytest.raises(ValueError) as raised:
        run([], engine)
    assert raised.value is error
    assert is_silent(engine._context)


def test_a_context_that_is_replaced_during_the_run_reports_nothing_afterwards(engines, run):
    torchspan.layers("first", runs=2)
    engine = TrtEngine(("a", 1.0))
    old = engine._context

    def replaces():
        old.execute_async_v3(0)
        engine._context = LayeredContext(("a", 3.0))

    engine.run = replaces
    run([], engine)
    del engine.run
    run([], engine)
    assert (is_silent(old), is_silent(engine._context)) == (True, True)
    assert engines.tables[1]["tensorrt.layers.durations"] == [0.002]


def test_a_profiler_that_the_program_sets_during_the_run_stays(engines, run):
    torchspan.layers("first", runs=1)
    engine, printer = TrtEngine(), Printer()
    engine.run = lambda: setattr(engine._context, "profiler", printer)
    run([], engine)
    assert engine._context.profiler is printer


def test_a_profiler_of_torchspan_that_the_program_keeps_forwards_to_the_programs_own(engines, run):
    torchspan.layers("first", runs=1)
    engine, printer, kept = TrtEngine(("a", 1.0)), Printer(), []
    engine._context.profiler = printer

    def keeps():
        kept.append(engine._context.profiler)
        engine._context.execute_async_v3(0)

    engine.run = keeps
    run([], engine)
    kept[0].report_layer_time("late", 1.0)
    assert printer.reports == [("a", 1.0), ("late", 1.0)]
    assert kept[0].ms == {}


def test_after_disabling_torchspan_during_a_run_the_context_reports_nothing(engines, run):
    torchspan.layers("first", runs=1)
    engine = TrtEngine()
    engine.run = engines.engine.stop
    run([], engine)
    assert is_silent(engine._context)


# --- the program does what it did -------------------------------------------------------------------------------------
@pytest.mark.fault("libraries", "the program's profiler raises")
def test_what_the_programs_profiler_raises_goes_to_stderr_as_without_torchspan(engines, run, capsys):
    class Failing(Profiler):
        def __init__(self):
            Profiler.__init__(self)

        def report_layer_time(self, layer_name, ms):
            raise KeyError(layer_name)

    torchspan.layers("first", runs=1)
    engine = TrtEngine(("a", 1.0), ("b", 1.0))
    engine._context.profiler = Failing()
    run([], engine)
    assert capsys.readouterr().err == "[ERROR] Exception caught in report_layer_time(): KeyError\n" * 2
    assert engines.tables[0][NAMES] == ["a", "b"]


def test_two_threads_on_one_context_attach_one_profiler_and_mix_no_reports(engines, run):
    torchspan.layers("first", runs=1)
    inside, may_end = threading.Event(), threading.Event()
    engine = TrtEngine(("a", 1.0))

    def slow():
        inside.set()
        assert may_end.wait(30)
        return engine._context.execute_async_v3(0)

    engine.run = slow
    first = threading.Thread(target=run, args=([], engine))
    first.start()
    assert inside.wait(30)
    del engine.run
    run([], engine)
    may_end.set()
    first.join(30)
    assert [table.get("tensorrt.layers.durations") for table in engines.tables] == [None, [0.001]]
    assert is_silent(engine._context)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_child_has_the_request_even_if_the_fork_came_during_a_run(engines, run):
    torchspan.layers("first", runs=1)
    engine = TrtEngine(("a", 1.0))

    def child():
        del engine.run
        run([], engine)
        return [table[NAMES] for table in engines.tables]

    answers = []
    engine.run = lambda: answers.append(in_forked_child(child))
    run([], engine)
    assert (answers, is_silent(engine._context)) == (["[['a']]"], True)


def test_a_run_under_capture_is_left_alone(engines, run, monkeypatch):
    torchspan.layers("first", runs=1)
    capturing = [True, False]
    cuda = SimpleNamespace(is_initialized=lambda: True, is_current_stream_capturing=lambda: capturing.pop(0))
    monkeypatch.setitem(sys.modules, "torch.cuda", cuda)
    engine = TrtEngine(("a", 1.0))
    run([], engine)
    run([], engine)
    assert [table.get(NAMES) for table in engines.tables] == [None, ["a"]]


def test_cuda_is_not_asked_before_the_program_has_initialized_it(engines, run, monkeypatch):
    torchspan.layers("first", runs=1)
    monkeypatch.setitem(sys.modules, "torch.cuda", SimpleNamespace(is_initialized=lambda: False))
    run([], TrtEngine(("a", 1.0)))
    assert engines.tables[0][NAMES] == ["a"]


# --- what cannot be timed is one line ---------------------------------------------------------------------------------
NONE_OF = "torchspan records no layer times of engine first: "


def refused_twice(run, engine, caplog):
    """What is logged where an engine runs twice, whose request ends at the first."""
    torchspan.layers("first", runs=5)
    run([], engine)
    run([], engine)
    (line,) = lines(caplog)
    return line.removeprefix(NONE_OF)


def test_an_engine_of_the_cpp_runtime_has_no_context(run, caplog):
    engine = type("ScriptObject", (), {"name": "first_engine", "run": lambda self: True})()
    assert refused_twice(run, engine, caplog) == (
        "Torch-TensorRT's C++ runtime does not hand out its execution context."
    )


def test_a_context_that_emits_no_profile_is_left_alone(run, caplog):
    engine = TrtEngine(("a", 1.0))
    engine._context.enqueue_emits_profile = False
    assert refused_twice(run, engine, caplog) == (
        "enqueue_emits_profile of its execution context is False; set it to True."
    )


def test_torch_tensorrts_cuda_graphs_report_nothing(run, caplog, monkeypatch):
    runtime = SimpleNamespace(get_cudagraphs_mode=lambda: True)
    monkeypatch.setitem(sys.modules, "torch_tensorrt.runtime", runtime)
    assert refused_twice(run, TrtEngine(), caplog) == (
        "Torch-TensorRT replays CUDA graphs, which report nothing; turn them off for these runs."
    )


def test_a_context_that_refuses_a_profiler_is_named_with_its_error(run, caplog):
    class Refusing(LayeredContext):
        @property
        def profiler(self):
            raise PermissionError

    engine = TrtEngine()
    engine._context = Refusing()
    assert refused_twice(run, engine, caplog) == "its execution context takes no profiler (PermissionError)."


def test_engines_with_the_same_reason_are_one_line(run, caplog):
    torchspan.layers()
    for name in ("first", "second"):
        engine = TrtEngine(name=name)
        engine._context.enqueue_emits_profile = False
        run([], engine)
    assert len(lines(caplog)) == 1


def test_an_engine_that_could_not_be_timed_is_asked_again_by_a_further_call_alone(engines, run):
    torchspan.layers("first", runs=1)
    engine = TrtEngine(("a", 1.0))
    engine._context.enqueue_emits_profile = False
    run([], engine)
    engine._context.enqueue_emits_profile = True
    run([], engine)
    torchspan.layers("first", runs=1)
    run([], engine)
    assert [table.get(NAMES) for table in engines.tables] == [None, None, ["a"]]


def test_a_run_of_a_graph_has_no_layers(engines, caplog):
    torchspan.layers("*", runs=1)
    event = engines.engine.open(phase.RUN_GRAPH, {}, observed=ObservedRun(print, (), {}, print, ()))
    engines.engine.close(event)
    assert engines.tables == [{}]
    assert lines(caplog) == []


def test_a_request_without_a_report_ends_after_its_runs(engines, run, caplog):
    torchspan.layers("first", runs=2)
    engine = TrtEngine()
    for _ in range(3):
        run([], engine)
    assert engines.tables == [{}, {}, {}]
    assert lines(caplog) == [f"{NONE_OF}TensorRT reported no layer in 2 runs."]


def test_an_engine_that_never_runs_costs_no_line(engines, run, caplog):
    torchspan.layers("never")
    run([], TrtEngine(("a", 1.0)))
    assert (engines.tables, lines(caplog)) == ([{}], [])


# --- what TensorRT reports --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("ms", [float("nan"), float("inf"), float("-inf"), -1.0, 1e300, 1e9])
def test_a_time_that_is_none_is_left_out(engines, run, ms):
    torchspan.layers("first", runs=1)
    run([], TrtEngine(("broken", ms), ("a", 1.0)))
    assert engines.tables[0][NAMES] == ["a"]


def test_a_name_that_is_not_a_text_is_left_out(engines, run):
    torchspan.layers("first", runs=1)
    run([], TrtEngine((b"\xff", 1.0), (None, 1.0), ("a", 1.0)))
    assert engines.tables[0][NAMES] == ["a"]


def test_a_name_of_a_megabyte_is_kept_in_part(engines, run):
    torchspan.layers("first", runs=1)
    run([], TrtEngine(("x" * 1_000_000, 1.0)))
    assert engines.tables[0][NAMES] == ["x" * 1000]


def test_a_hundred_thousand_layers_are_bounded(engines, run):
    torchspan.layers("first", runs=2)
    engine = TrtEngine(*((f"layer {number}", 0.125) for number in range(100_000)))
    run([], engine)
    run([], engine)
    assert engines.tables[1]["tensorrt.layers.omitted.count"] == 99_960
    assert engines.tables[1]["tensorrt.layers.omitted.duration"] == 12.495
    assert engines.tables[1]["tensorrt.layers.shares"] == [1e-05] * 40


def test_a_request_ends_early_when_it_has_half_a_million_times(engines, run):
    torchspan.layers("first", runs=10_000)
    engine = TrtEngine(*((f"layer {number}", 1.0) for number in range(5_000)))
    for _ in range(101):
        run([], engine)
    assert [number for number, table in enumerate(engines.tables, 1) if table] == [100]


# --- asking -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((3,), TypeError, "engine must be a str, the name of an engine, or None for each engine, not 3"),
        (("a", "5"), TypeError, "runs must be an int, not '5'"),
        (("a", True), TypeError, "runs must be an int, not True"),
        (("",), ValueError, "engine must be the name of an engine, or None for each engine, not ''"),
        (("a", 0), ValueError, "runs must be 1 to 10000, not 0"),
        (("a", 10_001), ValueError, "runs must be 1 to 10000, not 10001"),
    ],
)
def test_a_wrong_argument_is_named_with_its_value(arguments, error, message):
    with pytest.raises(error) as raised:
        torchspan.layers(*arguments)
    assert str(raised.value) == message


def test_without_instrumentation_a_request_is_one_line_in_the_log(caplog):
    torchspan.layers("first")
    assert lines(caplog) == [
        "torchspan.layers records nothing, because torchspan is not instrumented. Call torchspan.instrument() before it."
    ]
    assert _REQUESTS == {}


def test_the_oldest_of_more_than_a_hundred_requests_yields(engines):
    for number in range(101):
        torchspan.layers(f"engine_{number}")
    assert (len(_REQUESTS), next(iter(_REQUESTS))) == (100, "engine_1")


def test_a_request_before_the_libraries_are_imported_starts_the_bridge(instrument):
    instrument()
    torchspan.layers("first")
    assert list(_REQUESTS) == ["first"]


def test_the_requests_of_an_earlier_instrumentation_are_gone(instrument):
    instrument()
    torchspan.layers("first")
    instrument(layers="second:7")
    assert [(name, request.runs) for name, request in _REQUESTS.items()] == [("second", 7)]
