# SPDX-License-Identifier: Apache-2.0
"""`torchspan.instrument()` and `uninstrument()`, and the instrumentor that distros call."""

import contextlib
import dataclasses
import inspect
import json
import logging
import pathlib
import re
import runpy
import sys
import threading
import types
import typing
from importlib.metadata import EntryPoint

import pytest
from opentelemetry import _logs, metrics, trace
from opentelemetry import context as context_api
from opentelemetry.configuration.instrumentation import configure_instrumentation
from opentelemetry.configuration.models import ExperimentalInstrumentation
from opentelemetry.instrumentation.distro import BaseDistro
from opentelemetry.sdk.trace import TracerProvider

import torchspan
import torchspan.start.bridge  # so that it can be replaced
from support import child
from support.own_failures import consequences
from torchspan import TorchspanInstrumentor
from torchspan.engine import RUNNING
from torchspan.exceptions import ConfigurationError
from torchspan.hooks.adapters import export
from torchspan.output.server_span import ServerSpans
from torchspan.start import instrumentor
from torchspan.words.settings import ARGUMENTS, SETTINGS, Settings
from torchspan.words.settings.kinds import Choice


@pytest.fixture(autouse=True)
def off_again():
    yield
    torchspan.uninstrument()


@pytest.fixture
def used(monkeypatch):
    """Settings and providers of each bridge that is built, which happens when a library is imported."""
    built = []

    class Bridge:
        def __init__(self, settings, providers, _run):
            built.append((settings, *providers.values()))

        def hook(self, library, *, late):
            pass

        def close(self):
            pass

    monkeypatch.setattr("torchspan.start.bridge.Bridge", Bridge)
    monkeypatch.setitem(sys.modules, "tensorrt", types.ModuleType("tensorrt"))
    return built


def test_of_threads_that_instrument_at_once_one_does_and_uninstrument_removes_all(monkeypatch):
    before = threading.Thread.start, context_api.attach
    both_inside = threading.Barrier(2)
    carried = []

    def carry(*args):
        carried.append(threading.get_ident())
        with contextlib.suppress(threading.BrokenBarrierError):
            both_inside.wait(2)
        return original(*args)

    original = instrumentor._carry
    monkeypatch.setattr(instrumentor, "_carry", carry)
    threads = [threading.Thread(target=torchspan.instrument) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(carried) == 1
    torchspan.uninstrument()
    assert (threading.Thread.start, context_api.attach) == before


@pytest.mark.fault("hooks and callbacks", "a part of torchspan cannot be removed")
def test_a_part_that_cannot_be_removed_is_logged_and_the_others_are_removed(monkeypatch, caplog):
    before = threading.Thread.start

    def fails():
        raise OSError("gone")

    monkeypatch.setattr(instrumentor.FirstImports, "install", lambda _self: fails)
    torchspan.instrument()
    assert threading.Thread.start is not before
    torchspan.uninstrument()
    assert threading.Thread.start is before
    assert instrumentor.tracer_provider() is None
    assert consequences(caplog) == ["A part of torchspan could not be removed. The others are."]


def test_the_types_for_type_checkers_are_those_of_the_table():
    stub = runpy.run_path(str(pathlib.Path(torchspan.__file__).parent / "words" / "settings" / "arguments.pyi"))
    hints = typing.get_type_hints(stub["InstrumentSettings"])
    assert ["tracer_provider", *hints] == list(ARGUMENTS)
    types = {setting.name: hints[setting.name] for setting in SETTINGS}
    choices = {setting.name: setting.kind.choices for setting in SETTINGS if isinstance(setting.kind, Choice)}
    number, text = float | None, str | None
    assert types == {
        **{name: typing.Literal[words] | None for name, words in choices.items()},
        "heartbeat": number,
        "without_gpu": bool | None,
        "ready_after": text,
        "sample_other": number,
        "sample_execute": number,
        "sample_execute_per_second": number,
        "sample_execute_target": number,
        "ranks": str | int | None,
        "graph_runs": bool | None,
        "layers": text,
        "inputs": text,
        "inputs_every": int | None,
    }
    assert hints["meter_provider"] == metrics.MeterProvider | None
    assert hints["logger_provider"] == _logs.LoggerProvider | None


def test_the_docstring_explains_each_argument_and_each_choice():
    arguments = re.split(r"^ {4}(?=\w)", inspect.getdoc(torchspan.instrument), flags=re.MULTILINE)[1:]
    explained = {name: text for name, _, text in (argument.partition(": ") for argument in arguments)}
    assert set(ARGUMENTS) <= set(explained)
    for setting in SETTINGS:
        if isinstance(setting.kind, Choice):
            assert set(setting.kind.choices) <= set(re.findall(r"`(\w+)`", explained[setting.name]))
            assert explained[setting.name].rstrip().endswith(f"Default: `{setting.default}`.")


def test_each_argument_arrives(provider, metrics, used):
    logs = _logs.NoOpLoggerProvider()
    torchspan.instrument(
        tracer_provider=provider,
        meter_provider=metrics.provider,
        logger_provider=logs,
        detail="passes",
        build_phases="on",
        heartbeat=7,
        capture="text",
        propagation="off",
        without_gpu=True,
    )
    settings = Settings(
        detail="passes",
        build_phases="on",
        heartbeat=7,
        capture="text",
        propagation="off",
        without_gpu=True,
    )
    assert used[0] == (settings, provider, metrics.provider, logs)


def test_arguments_that_are_not_given_come_from_the_environment(used, monkeypatch):
    monkeypatch.setenv("TORCHSPAN_DETAIL", "passes")
    torchspan.instrument(capture="text")
    assert used[0] == (Settings(detail="passes", capture="text"), None, None, None)


def test_an_unknown_argument_is_a_type_error_that_suggests_the_one_that_was_meant():
    with pytest.raises(TypeError) as caught:
        torchspan.instrument(detial="passes")
    assert str(caught.value) == "instrument() got an unexpected argument 'detial' (did you mean 'detail'?)"


def test_an_unknown_argument_that_is_like_no_other_is_a_type_error_that_lists_them():
    with pytest.raises(TypeError) as caught:
        torchspan.instrument(propagators=None)
    assert str(caught.value) == (
        "instrument() got an unexpected argument 'propagators' (expected one of build_phases, capture, detail, events, "
        "gpu_time, graph_runs, heartbeat, inputs, inputs_every, layers, logger_provider, meter_provider, operators, propagation, ranks, ready_after, "
        "sample_execute, sample_execute_per_second, sample_execute_target, sample_other, tracer_provider, without_gpu)"
    )


def test_an_invalid_value_leaves_torchspan_off(used):
    with pytest.raises(ConfigurationError, match="invalid value for without_gpu: 'yes'"):
        torchspan.instrument(without_gpu="yes")
    assert not TorchspanInstrumentor().is_instrumented_by_opentelemetry
    assert used == []


def test_a_second_call_with_the_settings_in_use_does_nothing_and_says_nothing(provider, used, caplog):
    torchspan.instrument(tracer_provider=provider, detail="passes")
    torchspan.instrument(tracer_provider=provider, detail="passes", capture="local")
    torchspan.instrument()
    assert (caplog.messages, len(used)) == ([], 1)


def test_a_second_call_with_different_settings_does_nothing_and_says_which_are_ignored(used, caplog):
    torchspan.instrument()
    torchspan.instrument(detail="passes", capture="local", heartbeat=3)
    assert caplog.messages == [
        (
            "torchspan is already instrumented; ignoring detail='passes' (in use: 'stages'), heartbeat=3.0 "
            "(in use: gaps of 5 to 60 s). Call torchspan.uninstrument() first to change it."
        )
    ]
    assert [settings for settings, *_ in used] == [Settings()]


def test_a_second_call_with_another_provider_says_that_it_is_ignored(provider, used, caplog):
    torchspan.instrument()
    torchspan.instrument(tracer_provider=provider)
    (message,) = caplog.messages
    assert message.startswith(f"torchspan is already instrumented; ignoring tracer_provider={provider!r} (in use: ")
    assert [given for _, given, *_ in used] == [None]


def test_a_second_call_with_the_global_providers_which_are_in_use_says_nothing(used, caplog):
    torchspan.instrument()
    torchspan.instrument(tracer_provider=trace.get_tracer_provider(), meter_provider=metrics.get_meter_provider())
    assert caplog.messages == []


def test_a_second_call_is_checked_like_the_first():
    torchspan.instrument()
    with pytest.raises(ConfigurationError, match="invalid value for capture: 3"):
        torchspan.instrument(capture=3)
    with pytest.raises(TypeError, match="did you mean 'capture'"):
        torchspan.instrument(captrue="text")


def test_after_uninstrument_other_settings_hold(used, caplog):
    torchspan.instrument(detail="passes")
    torchspan.uninstrument()
    torchspan.instrument(capture="text")
    assert [settings for settings, *_ in used] == [Settings(detail="passes"), Settings(capture="text")]
    assert caplog.messages == []


def test_uninstrument_does_nothing_while_not_instrumented(caplog):
    torchspan.uninstrument()
    torchspan.uninstrument()
    assert caplog.messages == []


def test_a_distros_second_call_with_different_settings_says_which_are_ignored(used, caplog):
    TorchspanInstrumentor().instrument()
    TorchspanInstrumentor().instrument(detail="passes", skip_dep_check=True)
    assert [record.getMessage() for record in caplog.records if record.name == "torchspan"] == [
        (
            "torchspan is already instrumented; ignoring detail='passes' (in use: 'stages'). "
            "Call torchspan.uninstrument() first to change it."
        )
    ]


def test_a_distros_unknown_arguments_are_ignored_with_one_warning(used, caplog):
    TorchspanInstrumentor().instrument(
        skip_dep_check=True,
        logger_provider=_logs.NoOpLoggerProvider(),
        request_hook=print,
        excluded_urls="",
        detail="passes",
    )
    assert caplog.record_tuples == [
        (
            "torchspan",
            logging.WARNING,
            "instrument() ignores unknown arguments: request_hook, excluded_urls",
        )
    ]
    assert [settings for settings, *_ in used] == [Settings(detail="passes")]


def test_a_logger_provider_is_used_and_another_one_afterwards_is_named(used, caplog):
    provider = _logs.NoOpLoggerProvider()
    torchspan.instrument(logger_provider=provider)
    torchspan.instrument(logger_provider=provider)
    assert used == [(Settings(), None, None, provider)]
    assert caplog.records == []
    torchspan.instrument(logger_provider=_logs.NoOpLoggerProvider())
    assert "ignoring logger_provider=" in caplog.records[0].getMessage()


def test_the_global_logger_provider_is_the_one_in_use_without_an_argument(used, caplog):
    torchspan.instrument()
    torchspan.instrument(logger_provider=_logs.get_logger_provider())
    assert caplog.records == []


def test_a_distro_that_hands_every_instrumentor_an_argument_of_its_own_enables_torchspan(used, caplog):
    class Distro(BaseDistro):
        def _configure(self, **kwargs):
            pass

        def load_instrumentor(self, entry_point, **kwargs):
            super().load_instrumentor(entry_point, tenant="x", **kwargs)

    entry_point = EntryPoint(
        name="torchspan", value="torchspan.start.instrumentor:TorchspanInstrumentor", group="opentelemetry_instrumentor"
    )
    Distro().load_instrumentor(entry_point, skip_dep_check=True)
    assert caplog.messages == ["instrument() ignores unknown arguments: tenant"]
    assert [settings for settings, *_ in used] == [Settings()]


def test_a_distros_misspelled_argument_is_an_error():
    for _ in range(2):
        with pytest.raises(TypeError) as caught:
            TorchspanInstrumentor().instrument(detial="passes")
        assert str(caught.value) == "instrument() got an unexpected argument 'detial' (did you mean 'detail'?)"
        torchspan.instrument()


def test_the_configuration_of_the_instrumentor_is_a_dataclass_with_nothing_given():
    configuration = TorchspanInstrumentor.configuration
    assert dataclasses.is_dataclass(configuration)
    assert dataclasses.asdict(configuration()) == {setting.name: None for setting in SETTINGS}
    assert TorchspanInstrumentor().configuration is configuration


def test_a_configuration_file_that_sets_one_option_leaves_the_others_to_the_environment(used, monkeypatch):
    monkeypatch.setenv("TORCHSPAN_CAPTURE", "text")
    # What opentelemetry.configuration.instrumentation does with the options of a file.
    checked = TorchspanInstrumentor.configuration(detail="passes")
    options = {name: value for name, value in dataclasses.asdict(checked).items() if value is not None}
    TorchspanInstrumentor().instrument(**options)
    assert [settings for settings, *_ in used] == [Settings(detail="passes", capture="text")]


@pytest.fixture
def file_says(monkeypatch):
    """`file_says(**node)`: what OpenTelemetry does with the node of a configuration file."""
    monkeypatch.setattr(TorchspanInstrumentor, "_options", {})
    return lambda **node: configure_instrumentation(ExperimentalInstrumentation(python={"torchspan": node}))


@pytest.fixture
def loader_calls():
    """`loader_calls(**arguments)`: `instrument()` as `opentelemetry-instrument` calls it, with a distro's arguments."""
    namespace = {"__name__": "opentelemetry.instrumentation.auto_instrumentation._load", "cls": TorchspanInstrumentor}
    exec("def call(**arguments):\n    cls().instrument(skip_dep_check=True, **arguments)\n", namespace)
    return namespace["call"]


def test_after_a_file_the_call_of_a_loader_changes_nothing_and_says_nothing(used, caplog, file_says, loader_calls):
    file_says(enabled=True, detail="passes", heartbeat=30)
    loader_calls()
    assert [settings for settings, *_ in used] == [Settings(detail="passes", heartbeat=30)]
    assert caplog.messages == []


@pytest.mark.parametrize("program", ["compile_worker/__main__.py", "__autotune_main__.py"])
def test_a_loader_does_not_switch_it_on_in_a_process_of_inductors(used, loader_calls, monkeypatch, program):
    monkeypatch.setattr(sys, "orig_argv", [sys.executable, f"/packages/torch/_inductor/{program}", "--workers=2"])
    loader_calls()
    assert used == []
    torchspan.instrument()
    assert len(used) == 1


def test_a_distros_arguments_win_over_a_file_and_leave_its_other_options(used, caplog, file_says, loader_calls):
    file_says(detail="passes", capture="text")
    loader_calls(detail="stages")
    assert used[-1][0] == Settings(detail="stages", capture="text")
    loader_calls(detail="passes")
    assert caplog.messages == [
        (
            "torchspan is already instrumented; ignoring detail='passes' (in use: 'stages'). "
            "Call torchspan.uninstrument() first to change it."
        )
    ]


def test_the_programs_arguments_win_over_a_file(used, caplog, file_says, loader_calls):
    file_says(detail="passes", capture="text")
    loader_calls()
    torchspan.instrument(detail="stages")
    assert used[-1][0] == Settings(detail="stages", capture="text")
    assert caplog.messages == []


def test_a_file_leaves_a_program_alone_that_is_instrumented_already(used, caplog, file_says):
    torchspan.instrument(detail="passes")
    file_says(detail="stages", capture="text")
    assert [settings for settings, *_ in used] == [Settings(detail="passes")]
    assert caplog.messages == []


@pytest.mark.parametrize("on", [False, True])
def test_a_disabled_node_holds_for_the_loader_until_the_program_calls(
    used, tmp_path, monkeypatch, file_says, loader_calls, on
):
    node = {"enabled": on}
    file = tmp_path / "otel.json"
    file.write_text(json.dumps({"instrumentation/development": {"python": {"torchspan": node}}}))
    monkeypatch.setenv("OTEL_CONFIG_FILE", str(file))
    file_says(**node)
    loader_calls()
    assert TorchspanInstrumentor().is_instrumented_by_opentelemetry is on
    torchspan.instrument()
    assert TorchspanInstrumentor().is_instrumented_by_opentelemetry


def test_a_failure_to_hook_comes_out_of_no_import_of_the_program(instrument, monkeypatch, caplog):
    def fails(*args, **kwargs):
        raise RuntimeError("torchspans")

    monkeypatch.setattr("torchspan.start.bridge.Bridge", fails)
    for library in ("torch_tensorrt", "tensorrt", "tensorrt_rtx"):
        monkeypatch.setitem(sys.modules, library, types.ModuleType(library))
    for library in (
        "torchspan.observers",
        "torchspan.hooks.operators._block",
        "torchspan.hooks.device._requests",
        "torch._dynamo",
        export.LIBRARY,
    ):  # another test's
        monkeypatch.delitem(sys.modules, library, raising=False)
    instrument().uninstrument()
    assert consequences(caplog) == [
        "torchspan failed to instrument torch_tensorrt; continuing without tracing it.",
        "torchspan failed to instrument tensorrt; continuing without tracing it.",
        "torchspan failed to instrument tensorrt_rtx; continuing without tracing it.",
    ]


class WithoutHash(TracerProvider):
    """Stands for a provider that is a dataclass, as Logfire's is."""

    __hash__ = None


def test_spans_below_a_server_span_are_recognized_also_if_the_provider_has_no_hash():
    provider, server_spans = WithoutHash(shutdown_on_exit=False), ServerSpans()
    stop = server_spans.start()
    for _ in range(2):
        server_spans.watch(provider)
    tracer = provider.get_tracer("user")
    with tracer.start_as_current_span("GET /", kind=trace.SpanKind.SERVER), tracer.start_as_current_span("inside"):
        assert server_spans.is_around()
    stop()
    assert provider._active_span_processor._span_processors == (server_spans.processor,)


def test_a_call_that_is_refused_leaves_on_what_another_one_has_enabled(monkeypatch):
    def refuse():
        raise torchspan.testing.WithoutGpuError("torch_tensorrt is imported")

    instrumentor.resume()
    monkeypatch.setattr("torchspan.hooks.without_gpu._switch.enable", refuse)
    with pytest.raises(torchspan.testing.WithoutGpuError):
        torchspan.instrument(without_gpu=True)
    assert TorchspanInstrumentor().is_instrumented_by_opentelemetry


def test_what_is_disabled_while_a_library_is_hooked_is_off_when_that_has_ended(monkeypatch):
    hooking, disabled = threading.Event(), threading.Event()
    make = instrumentor._Arrivals._make_bridge

    def waits(arrivals):
        hooking.set()
        assert disabled.wait(60)
        return make(arrivals)

    monkeypatch.setattr(instrumentor, "when_imported", lambda _name, _action: lambda: None)
    torchspan.instrument()
    monkeypatch.setattr(instrumentor._Arrivals, "_make_bridge", waits)
    arrivals = TorchspanInstrumentor._arrivals
    thread = threading.Thread(target=arrivals.hook, args=("torchspan.observers", False))
    thread.start()
    assert hooking.wait(60)
    torchspan.uninstrument()
    disabled.set()
    thread.join(60)
    assert RUNNING.engine is None


def test_torchspan_does_not_wait_for_an_import_that_waits_for_it(tmp_path):
    (tmp_path / "torch.py").write_text(
        "import sys, time\nend = time.monotonic() + 8\nwhile not hasattr(sys, 'used') and time.monotonic() < end:\n    time.sleep(0.01)",
        encoding="utf-8",
    )

    def program():
        import faulthandler
        import sys
        import threading
        import time

        import torchspan

        faulthandler.dump_traceback_later(60, exit=True)
        torchspan.instrument()
        thread = threading.Thread(target=__import__, args=("torch",))
        thread.start()
        while "torch" not in sys.modules:
            time.sleep(0.001)
        made = torchspan.operators.__name__
        sys.used = True
        thread.join()
        return made

    assert child.run(program, folder=tmp_path, path=[tmp_path], timeout=120).value == "operators"
