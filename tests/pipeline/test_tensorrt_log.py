# SPDX-License-Identifier: Apache-2.0
"""TensorRT's log inside real builds, and builds that the real builder refuses.

Lines that only a GPU would make TensorRT write (no memory left on it) are handed to the real `TRT_LOGGER.log` while the
real builder is called, on its thread, as TensorRT hands over its own; everything else here TensorRT wrote itself.
"""

import contextlib
import json
import logging
import re
import threading

import pytest
import tensorrt_rtx
import torch
import torch_tensorrt
from opentelemetry.trace import StatusCode
from torch_tensorrt.dynamo import Debugger
from torch_tensorrt.dynamo.conversion import _ConverterRegistry as registry
from torch_tensorrt.dynamo.conversion import dynamo_tensorrt_converter
from torch_tensorrt.dynamo.conversion._TRTInterpreter import TRTInterpreter
from torch_tensorrt.logging import TRT_LOGGER

from pipeline.expected import VERSION
from support import models
from support.tree import named
from testing.models import assert_close

INPUT = torch.ones(2, 16)
SEVERITY = tensorrt_rtx.ILogger.Severity
REQUEST = "Tactic Device request: 600MB Available: {}MB. Device memory is insufficient to use tactic."
SKIPPING = (
    "UNSUPPORTED_STATE: Skipping tactic {} due to insufficient memory on requested size of 629145600 detected for tactic "
    "0xa5a46bfbd719d757."
)


def compiled(**settings):
    return torch_tensorrt.compile(models.seeded(models.Mlp), ir="dynamo", inputs=[INPUT], min_block_size=1, **settings)


REFUSED = RuntimeError, AssertionError, TypeError
"""Of which, the version decides: 2.11 hands the engine that is missing to the runtime."""


def refused(**settings):
    """A compilation whose build the builder refuses."""
    with pytest.raises(REFUSED):
        compiled(**settings)


@pytest.fixture
def during_the_build(monkeypatch):
    """Runs a function of the network inside each build; to be asked for before the bridge is enabled."""
    build = tensorrt_rtx.Builder.build_serialized_network

    def use(action):
        def building(self, network, config):
            action(network)
            return build(self, network, config)

        monkeypatch.setattr(tensorrt_rtx.Builder, "build_serialized_network", building)

    return use


@pytest.fixture
def say(during_the_build):
    """Hands lines to TensorRT's logger inside each build."""

    def use(*lines):
        def saying(_network):
            for severity, text in lines:
                TRT_LOGGER.log(severity, text)

        during_the_build(saying)

    return use


WITHOUT_A_GPU = re.compile(
    r"In JIT build, strongly typed is enabled by default\."
    r"|(?:\[[\w.:]+\] )?Error Code 1: Cuda Runtime \([^()]*\)"
    r"|The timing cache will not be used!"
)
"""What TensorRT-RTX 1.4, which torch_tensorrt 2.11 and 2.12 have, says around each build."""
PREVIEW = "Using PreviewFeature::{} can help improve performance and resolve potential functional issues."
FAILED = "Engine generation failed because all backend strategies failed."
WARNING = "Timing cache disabled. Turning it on will improve builder speed."
"""Lines that TensorRT writes without a name of the program in them."""


def lines(span):
    """(severity, message, count, about memory) of the lines on a span."""
    prefix = "tensorrt.log."
    found = [
        tuple(event.attributes[prefix + key] for key in ("severity", "message", "count", "out_of_memory"))
        for event in span.events
        if event.name == "tensorrt.log"
    ]
    return [line for line in found if not WITHOUT_A_GPU.fullmatch(line[1])]


def build(exporter):
    return named(exporter.get_finished_spans(), "tensorrt.build_engine")


# --- lines ---------------------------------------------------------------------------------------------------------


def test_a_build_without_warnings_has_no_lines(instrument, exporter):
    instrument()
    compiled()
    span = build(exporter)
    assert span.events == ()
    assert {key for key in span.attributes if "log" in key or "out_of_memory" in key or "tactics" in key} == set()


def test_warnings_and_errors_are_events_of_the_build_and_what_only_informs_is_not(instrument, exporter, say):
    say(
        (SEVERITY.WARNING, PREVIEW.format("kFASTER_DYNAMIC_SHAPES_0805")),
        (SEVERITY.ERROR, FAILED),
        (SEVERITY.INFO, "Only informs"),
        (SEVERITY.VERBOSE, "Chatters"),
        (SEVERITY.ERROR, FAILED),
    )
    instrument()
    compiled()
    span = build(exporter)
    assert lines(span) == [("WARNING", PREVIEW.format("?"), 1, False), ("ERROR", FAILED, 2, False)]
    assert all(span.start_time <= event.timestamp <= span.end_time for event in span.events)
    assert span.status.status_code is StatusCode.UNSET, "the build went well whatever it said"


@contextlib.contextmanager
def internal_errors():
    """Torch-TensorRT's own way to ask for silence, with the logger's level as it was: it does not put that back."""
    logger = logging.getLogger("torch_tensorrt [TensorRT Conversion Context]")
    level = logger.level
    with torch_tensorrt.logging.internal_errors():
        yield
    logger.setLevel(level)


@contextlib.contextmanager
def logging_disabled():
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


@pytest.mark.parametrize("quiet", [internal_errors, logging_disabled])
def test_they_are_there_whatever_the_log_level(instrument, exporter, say, caplog, quiet):
    say((SEVERITY.WARNING, WARNING))
    instrument()
    with quiet():
        compiled()
    assert lines(build(exporter)) == [("WARNING", WARNING, 1, False)]
    assert WARNING not in caplog.messages, "it was printed, so nothing was shown here"


def test_beyond_twenty_different_lines_a_span_counts_them(instrument, exporter, say):
    texts = [f"Loaded engine size: {number} MiB" for number in range(25)]
    say(*((SEVERITY.WARNING, text) for text in texts))
    instrument()
    compiled()
    span = build(exporter)
    assert [message for _, message, _, _ in lines(span)] == texts[:20]
    assert span.attributes["tensorrt.log.omitted"] == 5


def test_lines_go_to_the_innermost_span_of_their_thread(instrument, exporter):
    operator = torch.ops.aten.special_i1e.default

    def convert(ctx, target, args, kwargs, name):
        TRT_LOGGER.log(SEVERITY.WARNING, WARNING)
        raise RuntimeError("no network")

    dynamo_tensorrt_converter(operator, supports_dynamic_shapes=True)(convert)
    instrument()
    try:
        with pytest.raises(RuntimeError):
            torch_tensorrt.compile(
                models.seeded(models.Fallback), ir="dynamo", inputs=[models.image()], min_block_size=1
            )
    finally:
        registry.DYNAMO_ATEN_CONVERTERS.pop(operator, None)
    spans = exporter.get_finished_spans()
    assert {span.name: lines(span) for span in spans if lines(span)} == {
        "torch_tensorrt.construct_network": [("WARNING", WARNING, 1, False)]
    }


def test_lines_of_other_threads_and_outside_any_span_are_nobodys(instrument, exporter, during_the_build):
    def elsewhere(_network):
        thread = threading.Thread(target=TRT_LOGGER.log, args=(SEVERITY.ERROR, "elsewhere"))
        thread.start()
        thread.join()

    during_the_build(elsewhere)
    instrument()
    TRT_LOGGER.log(SEVERITY.ERROR, "before")
    compiled()
    TRT_LOGGER.log(SEVERITY.ERROR, "after")
    assert [lines(span) for span in exporter.get_finished_spans() if lines(span)] == []


@pytest.mark.fault("libraries", "TensorRT's logger raises")
def test_an_internal_error_raises_what_it_raised_and_is_an_event(instrument, exporter, during_the_build, caplog):
    raised = []

    def fatal(_network):
        try:
            TRT_LOGGER.log(SEVERITY.INTERNAL_ERROR, FAILED)
        except RuntimeError as error:
            raised.append(error)

    during_the_build(fatal)
    instrument()
    compiled()
    assert [(type(error), error.args) for error in raised] == [(RuntimeError, (FAILED,))]
    assert lines(build(exporter)) == [("INTERNAL_ERROR", FAILED, 1, False)]
    assert ("CRITICAL", FAILED) in [(record.levelname, record.message) for record in caplog.records]


def test_a_wrong_call_gets_its_own_type_error(instrument, during_the_build, caplog):
    def wrong(_network):
        with pytest.raises(TypeError, match=r"log\(\) missing 1 required positional argument: 'msg'"):
            TRT_LOGGER.log(SEVERITY.VERBOSE)

    during_the_build(wrong)
    instrument()
    compiled()
    assert [record for record in caplog.records if record.name == "torchspan"] == []


# --- out of memory -------------------------------------------------------------------------------------------------


def test_lines_about_memory_are_marked_and_the_build_says_how_many_tactics_were_skipped(instrument, exporter, say):
    pairs = [
        line
        for number in range(30)
        for line in (
            (SEVERITY.WARNING, REQUEST.format(300 - number)),
            (SEVERITY.WARNING, SKIPPING.format(number)),
        )
    ]
    say((SEVERITY.WARNING, WARNING), *pairs)
    instrument()
    compiled()
    span = build(exporter)
    assert lines(span) == [
        ("WARNING", WARNING, 1, False),
        ("WARNING", "Tactic Device request: ? Available: ?. Device memory is insufficient to use tactic.", 30, True),
        (
            "WARNING",
            "UNSUPPORTED_STATE: Skipping tactic ? due to insufficient memory on requested size of 629145600 detected for tactic ?.",
            30,
            True,
        ),
    ]
    assert span.attributes["tensorrt.out_of_memory"] is True
    assert span.attributes["tensorrt.tactics.skipped"] == 30
    assert "tensorrt.log.omitted" not in span.attributes


# --- builds that fail ----------------------------------------------------------------------------------------------


def failure(span):
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes["error.type"] == "engine_build_failed"
    assert span.status.description == span.attributes["tensorrt.build.error"]
    if VERSION >= (2, 13):
        return span.status.description
    # The last error of TensorRT-RTX 1.4 is that there is no driver of a GPU.
    return [message for severity, message, *_ in lines(span) if severity == "ERROR"][-1]


@pytest.mark.parametrize("phases", ["off", "on"])
def test_a_build_without_space_to_work_names_memory_as_the_cause(instrument, exporter, phases):
    instrument(build_phases=phases)  # which are spans below the build, and no place for lines
    refused(workspace_size=1)
    span = build(exporter)
    assert "no tactics to implement the operation within workspace limit" in failure(span)
    assert lines(span) == [("ERROR", failure(span), 1, True)]
    assert span.attributes["tensorrt.out_of_memory"] is True


@pytest.mark.stand_in_only("with a real GPU, the build does not fail")
def test_a_build_that_needs_a_gpu_says_what_the_builder_said(instrument, exporter, monkeypatch):
    # The stand-in for a GPU keeps the builder from being asked for a refittable engine, which needs a driver.
    monkeypatch.setattr(tensorrt_rtx.IBuilderConfig, "set_flag", tensorrt_rtx.IBuilderConfig.set_flag.__wrapped__)
    instrument()
    refused(immutable_weights=False)
    span = build(exporter)
    assert "Error Code 1: Myelin" in failure(span)
    assert lines(span) == [("ERROR", failure(span), 1, False)]
    assert "tensorrt.out_of_memory" not in span.attributes


def test_a_build_that_the_users_monitor_cancels_is_an_error(instrument, exporter, monkeypatch):
    class Canceling(tensorrt_rtx.IProgressMonitor):
        def __init__(self):
            tensorrt_rtx.IProgressMonitor.__init__(self)

        def phase_start(self, phase_name, parent_phase, num_steps):
            pass

        def step_complete(self, phase_name, step):
            return False

        def phase_finish(self, phase_name):
            pass

    populate, monitor = TRTInterpreter._populate_trt_builder_config, Canceling()

    def populated(self, *args, **kwargs):
        config = populate(self, *args, **kwargs)
        config.progress_monitor = monitor
        return config

    monkeypatch.setattr(TRTInterpreter, "_populate_trt_builder_config", populated)
    instrument()
    refused()
    assert "BuildCanceled (Build canceled by user" in failure(build(exporter))


def test_it_is_the_last_error_of_this_build_and_of_no_other(instrument, exporter, say):
    say((SEVERITY.ERROR, FAILED), (SEVERITY.WARNING, WARNING))
    instrument()
    compiled()
    refused(workspace_size=1)
    first, second = [span for span in exporter.get_finished_spans() if span.name == "tensorrt.build_engine"]
    assert [message for _, message, _, _ in lines(first)] == [FAILED, WARNING]
    assert first.status.status_code is StatusCode.UNSET
    assert "tensorrt.build.error" not in first.attributes
    assert "within workspace limit" in failure(second)


def test_a_failed_build_that_torch_compile_swallows_has_its_message_all_the_same(instrument, exporter):
    instrument()
    model = models.seeded(models.Mlp)
    options = {"min_block_size": 1, "workspace_size": 1}
    # On a real GPU, the kernels of the lowered graph may round otherwise than those of the model.
    assert_close(torch.compile(model, backend="tensorrt", options=options)(INPUT), model(INPUT), rtol=0, atol=0)
    assert "within workspace limit" in failure(build(exporter))
    compilation = named(exporter.get_finished_spans(), "torch_tensorrt.compile")
    assert compilation.attributes["torch_tensorrt.fallback.reason_classes"] == ("compile_failed",)


def test_a_build_that_fails_silently_has_no_message(instrument, exporter, monkeypatch):
    monkeypatch.setattr(tensorrt_rtx.Builder, "build_serialized_network", lambda self, network, config: None)
    instrument()
    refused()
    span = build(exporter)
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, None)
    assert "tensorrt.build.error" not in span.attributes


# --- what leaves the process ---------------------------------------------------------------------------------------


class Named(torch.nn.Module):
    """Its modules and its argument have names that must not leave the process. Takes (2, 3, 16, 16)."""

    def __init__(self):
        super().__init__()
        self.add_module("SECRET-4711", torch.nn.Conv2d(3, 8, 3))
        self.add_module("topsecret", torch.nn.Linear(8, 4))

    def forward(self, secret_4711):
        x = torch.relu(self.get_submodule("SECRET-4711")(secret_4711))
        return self.get_submodule("topsecret")(x.mean((2, 3)))


def complain(network):
    """What TensorRT says of a layer when memory does not suffice, of each layer and tensor under its real name."""
    layers = [network.get_layer(index).name for index in range(network.num_layers)]
    tensors = [network.get_input(index).name for index in range(network.num_inputs)]
    assert any("SECRET-4711" in name for name in layers)
    assert tensors == ["secret_4711"]
    for name in layers:
        for text in (
            f"IBuilder::buildSerializedNetwork: Error Code 10: Internal Error (Could not find any implementation for node {name}.)",
            f"Could not find any implementation for node {{ForeignNode[{name}...{layers[-1]}]}}.",
            f"GPU error during getBestTactic: {' + '.join(layers)}",
            f"{name}: wrong\nsecond line {name}",
        ):
            TRT_LOGGER.log(SEVERITY.ERROR, text)
    for name in tensors:
        TRT_LOGGER.log(SEVERITY.WARNING, f"Input {name} is not used, nor is '{name}', nor SECRET-4711.")


def exported(exporter):
    """Everything that left, as text, except the attribute that has names of modules."""
    spans = [json.loads(span.to_json()) for span in exporter.get_finished_spans()]
    for span in spans:
        span["attributes"].pop("torch_tensorrt.engine.modules", None)
    return json.dumps(spans).lower()


@pytest.mark.parametrize("settings", [{}, {"workspace_size": 1}], ids=["a build", "a failing build"])
def test_names_of_the_users_modules_and_arguments_do_not_leave(instrument, exporter, during_the_build, settings):
    during_the_build(complain)
    instrument()
    with contextlib.suppress(*REFUSED):
        torch_tensorrt.compile(Named().eval(), ir="dynamo", inputs=[models.image()], min_block_size=1, **settings)
    assert len(lines(build(exporter))) >= 4
    assert "secret" not in exported(exporter)
    assert not re.search(r"\b4711\b", exported(exporter))  # ids of spans may have these digits in them


def test_with_capture_text_lines_are_whole_and_bounded(instrument, exporter, during_the_build):
    def lengthy(network):
        TRT_LOGGER.log(SEVERITY.WARNING, "first line\nsecond line " + "x" * 5000)
        complain(network)

    during_the_build(lengthy)
    instrument(capture="text")
    torch_tensorrt.compile(Named().eval(), ir="dynamo", inputs=[models.image()], min_block_size=1)
    messages = [message for _, message, _, _ in lines(build(exporter))]
    assert any("SECRET-4711" in message for message in messages)
    assert messages[0] == ("first line\nsecond line " + "x" * 5000)[:2048]


# --- Torch-TensorRT's Debugger ---------------------------------------------------------------------------------------


@pytest.fixture
def debugger(tmp_path):
    """A Debugger that lets nothing through; it strips the root logger of its handlers, which are restored."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield Debugger(logging_dir=str(tmp_path), log_level="internal_errors")
    for handler in root.handlers[:]:
        root.removeHandler(handler)
        handler.close()
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(level)


@pytest.mark.filterwarnings("ignore:Implicitly cleaning up:ResourceWarning")  # a temporary folder of the Debugger
def test_lines_are_events_before_inside_and_after_a_debugger(instrument, exporter, say, debugger):
    say((SEVERITY.WARNING, WARNING))
    instrument()
    compiled()
    handlers = logging.getLogger().handlers[:]
    with debugger:
        assert not set(handlers) & set(logging.getLogger().handlers), "the Debugger is known to strip the root logger"
        compiled()
    compiled()
    builds = [span for span in exporter.get_finished_spans() if span.name == "tensorrt.build_engine"]
    assert [lines(span) for span in builds] == [[("WARNING", WARNING, 1, False)]] * 3
