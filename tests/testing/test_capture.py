# SPDX-License-Identifier: Apache-2.0
"""`torchspan.testing.capture` and the plugin of pytest."""

import inspect
import threading

import pytest
import torch
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

import torchspan
from support import compiled
from support.dynamo import clean_dynamo
from support.operator_records import TEXT, USER, end, record, recorded
from torchspan import TorchspanInstrumentor, traces
from torchspan.exceptions import ConfigurationError
from torchspan.testing import capture

pytest_plugins = ["pytester"]

ONES = torch.ones(3, 3)


def compile_once(function=compiled.plain):
    with clean_dynamo():
        torch.compile(function, backend="eager")(ONES)


@pytest.fixture
def provider():
    made = TracerProvider(shutdown_on_exit=False)
    yield made
    made.shutdown()


# --- what is captured -------------------------------------------------------------------------------------------------
def test_the_spans_of_a_block_are_captured():
    with capture() as trace:
        compile_once()
    frame = trace.one("torch.compile_frame")
    assert (frame.attributes["torch.compile.outcome"], frame.scope, type(frame)) == (
        "compiled",
        "torchspan",
        traces.Span,
    )


def test_a_trace_without_spans_says_that_earlier_ones_are_not_in_it():
    compile_once()
    with capture() as trace, pytest.raises(LookupError) as raised:
        trace.one("torch.compile_frame")
    assert str(raised.value) == (
        "No span is named 'torch.compile_frame', because there are no spans at all. Spans from before the block, or before the test, are "
        "not included: compile inside the block, or use capture() in the fixture that compiles."
    )


def test_operators_of_a_span_are_captured_below_it_with_the_programs_names_among_the_texts(provider):
    span = provider.get_tracer("torchspan").start_span("torchspan.operators")
    parent = span.get_span_context().span_id
    operators = recorded(record(1, parent_id=parent), record(2, TEXT, USER, parent_id=1), capture="local")
    with capture(tracer_provider=provider) as trace:
        end(span, operators)
    assert trace.outline() == ("torchspan.operators\n  torch.operator aten.add.Tensor\n    torch.operator ?")
    inner = trace.one("torch.operator ?")
    assert inner.attributes == {"torch.operator.name": "?", "torch.operator.scope": "user_scope"}
    assert inner.texts == {"torch.operator.name": "the patient of room 7"}
    assert operators.is_read


def test_the_spans_of_the_program_are_captured_around_those_of_torchspan(provider):
    with capture(tracer_provider=provider) as trace, provider.get_tracer("app").start_as_current_span("request"):
        compile_once()
    assert trace.one("torch.compile_frame") in trace.below(trace.one("request"))


def test_what_ended_is_there_while_the_block_continues(provider):
    with capture(tracer_provider=provider) as trace:
        assert trace.traces == []
        provider.get_tracer("app").start_span("first").end()
        assert trace.outline() == "first"
        provider.get_tracer("app").start_span("second").end()
        assert trace.outline() == "first\nsecond"


def test_what_ends_after_the_block_is_not_captured(provider):
    with capture(tracer_provider=provider) as trace:
        late = provider.get_tracer("app").start_span("late")
    late.end()
    assert trace.outline() == ""


def test_a_span_that_was_not_sampled_is_not_captured():
    provider = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
    with capture(tracer_provider=provider) as trace:
        compile_once()
    assert trace.outline() == ""


def test_blocks_inside_each_other_capture_each_what_ends_in_them(provider):
    tracer = provider.get_tracer("app")
    with capture(tracer_provider=provider) as outer:
        tracer.start_span("before").end()
        with capture() as inner:
            tracer.start_span("inside").end()
    assert (outer.outline(), inner.outline()) == ("before\ninside", "inside")


def test_blocks_of_threads_capture_the_spans_of_the_process(provider):
    barrier, outlines = threading.Barrier(4), []

    def block(number):
        with capture() as trace:
            barrier.wait()
            provider.get_tracer("app").start_span(f"{number}").end()
            barrier.wait()
        outlines.append(sorted(trace.outline().split()))

    with capture(tracer_provider=provider):
        threads = [threading.Thread(target=block, args=(number,)) for number in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert outlines == [["0", "1", "2", "3"]] * 4


# --- instrumentation --------------------------------------------------------------------------------------------------
def test_torchspan_is_instrumented_for_the_length_of_the_block():
    with pytest.raises(KeyError), capture():
        assert TorchspanInstrumentor().is_instrumented_by_opentelemetry
        raise KeyError
    assert not TorchspanInstrumentor().is_instrumented_by_opentelemetry


def test_settings_hold_for_the_block(provider):
    with (
        capture(tracer_provider=provider, graph_runs=True) as trace,
        provider.get_tracer("app").start_as_current_span("request"),
    ):
        compile_once()
    assert len(trace.find("torch.run_graph")) == 1


def test_a_block_leaves_torchspan_instrumented_if_it_was(provider):
    torchspan.instrument(tracer_provider=provider)
    try:
        with capture() as trace:
            compile_once()
        assert TorchspanInstrumentor().is_instrumented_by_opentelemetry
        assert trace.one("torch.compile_frame").name == "torch.compile_frame"
    finally:
        torchspan.uninstrument()


def test_settings_of_a_block_are_refused_while_torchspan_is_instrumented(provider):
    torchspan.instrument(tracer_provider=provider)
    try:
        with (
            pytest.raises(
                RuntimeError, match=r"torchspan is instrumented already, so capture\(\) cannot set graph_runs"
            ),
            capture(graph_runs=True),
        ):
            pass
    finally:
        torchspan.uninstrument()


def test_without_a_provider_of_the_sdk_a_block_says_what_to_do():
    torchspan.instrument(tracer_provider=otel.NoOpTracerProvider())
    try:
        with pytest.raises(RuntimeError, match="its tracer provider is not of OpenTelemetry's SDK"), capture():
            pass
    finally:
        torchspan.uninstrument()


def test_a_disabled_sdk_is_an_error(monkeypatch):
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    with pytest.raises(RuntimeError, match="OTEL_SDK_DISABLED is set"), capture():
        pass


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"tracer_provider": otel.NoOpTracerProvider()}, TypeError, "tracer_provider must be an opentelemetry.sdk"),
        ({"detial": "passes"}, TypeError, "detial"),
        ({"detail": "all"}, ConfigurationError, "detail"),
    ],
    ids=["provider", "name", "value"],
)
def test_an_invalid_argument_is_refused_with_nothing_changed(arguments, error, text):
    with pytest.raises(error, match=text), capture(**arguments):
        pass
    assert not TorchspanInstrumentor().is_instrumented_by_opentelemetry


# --- pytest -----------------------------------------------------------------------------------------------------------
PLUGIN = ("-p", "no:cacheprovider", "-p", "no:randomly")


def run(pytester, *options, **files):
    """pytest in a process of its own, with the plugin as its entry point loads it."""
    pytester.makepyfile(**files)
    plugin = [] if "torchspan" in _entry_points() else ["-p", "torchspan.testing.pytest_plugin"]
    return pytester.runpytest_subprocess(*PLUGIN, *plugin, *options)


def _entry_points():
    from importlib.metadata import entry_points

    return {each.name for each in entry_points(group="pytest11")}


@pytest.mark.slow
def test_a_test_has_its_spans_in_a_fixture(pytester):
    outcome = run(
        pytester,
        test_it="""
            import sys


            def test_nothing_is_imported_before_it_is_needed():
                assert not {"torch", "opentelemetry.sdk"} & set(sys.modules)


            def test_a_frame(torchspan_trace):
                import torch

                torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
                assert torchspan_trace.one("torch.compile_frame").attributes["torch.compile.outcome"] == "compiled"


            def test_none_of_the_other_tests_spans(torchspan_trace):
                assert torchspan_trace.outline() == ""
        """,
    )
    outcome.assert_outcomes(passed=3)


@pytest.mark.stand_in_only("it enables the stand-in")
def test_the_option_replaces_what_needs_a_gpu_before_any_conftest(pytester):
    outcome = run(
        pytester,
        "--torchspan-without-gpu",
        conftest="from torchspan.testing import is_without_gpu\n\nBEFORE = is_without_gpu()\n",
        test_it="from conftest import BEFORE\n\n\ndef test_it():\n    assert BEFORE\n",
    )
    outcome.assert_outcomes(passed=1)


@pytest.mark.stand_in_only("it enables the stand-in")
def test_the_option_after_the_import_of_torch_tensorrt_is_an_error_of_usage(pytester):
    pytester.makepyfile(torch_tensorrt="")
    outcome = run(pytester, "-p", "torch_tensorrt", "--torchspan-without-gpu", test_it="def test_it(): pass\n")
    assert outcome.ret == pytest.ExitCode.USAGE_ERROR
    outcome.stderr.fnmatch_lines(["*--torchspan-without-gpu: *"])


# --- what editors and type checkers see ------------------------------------------------------------------------------
def test_its_settings_are_typed_as_the_arguments_of_instrument():
    ours, theirs = (inspect.signature(each).parameters["settings"] for each in (capture, torchspan.instrument))
    assert ours.annotation == theirs.annotation == "Unpack[InstrumentSettings]"
