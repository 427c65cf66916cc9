# SPDX-License-Identifier: Apache-2.0
import sys
import types

import pytest

import torchspan._bridge  # noqa: F401 - so that it can be replaced
from torchspan import TorchspanInstrumentor, _settings
from torchspan._settings import Config
from torchspan.exceptions import ConfigurationError


def test_defaults():
    assert _settings.load({}, {}) == Config(
        detail="stages", build_phases="auto", capture="none", propagation="on", heartbeat=None, without_gpu=False
    )


def test_variables_are_read():
    environment = {
        "TORCHSPAN_DETAIL": "Passes ",
        "TORCHSPAN_BUILD_PHASES": "on",
        "TORCHSPAN_CAPTURE": "text",
        "TORCHSPAN_HEARTBEAT": " 0.5",
        "TORCHSPAN_PROPAGATION": "links",
        "TORCHSPAN_WITHOUT_GPU": "1",
        "TORCHSPAN_LOG_CORRELATION": "true",
    }
    assert _settings.load({}, environment) == Config(
        "passes", "on", "text", "links", 0.5, without_gpu=True, log_correlation=True
    )


def test_an_argument_wins_over_its_variable():
    environment = {"TORCHSPAN_DETAIL": "passes", "TORCHSPAN_WITHOUT_GPU": "1", "TORCHSPAN_HEARTBEAT": "7"}
    arguments = {"detail": "stages", "without_gpu": False, "heartbeat": 0}
    assert _settings.load(arguments, environment) == Config(heartbeat=0)


def test_a_variable_that_means_nothing_is_named_and_ignored(caplog):
    assert _settings.load({}, {"TORCHSPAN_DETAIL": "everything", "TORCHSPAN_WITHOUT_GPU": "maybe"}) == Config()
    assert caplog.messages == [
        "TORCHSPAN_DETAIL='everything' is not allowed and has been ignored: use one of stages, passes.",
        "TORCHSPAN_WITHOUT_GPU='maybe' is not allowed and has been ignored: use one of 0, 1.",
    ]


def test_an_empty_variable_is_as_good_as_none(caplog):
    empty = {"TORCHSPAN_DETAIL": "", "TORCHSPAN_WITHOUT_GPU": "", "TORCHSPAN_HEARTBEAT": " "}
    assert _settings.load({}, empty) == Config()
    assert caplog.messages == []


def test_an_argument_that_means_nothing_is_an_error_that_says_what_is_allowed(provider):
    with pytest.raises(ConfigurationError, match="detail='everything' is not allowed: use one of stages, passes"):
        TorchspanInstrumentor().instrument(detail="everything", tracer_provider=provider)


@pytest.mark.parametrize(("given", "seconds"), [("0", 0), (0, 0), (0.1, 0.1), ("30", 30), (1e1, 10), (86_400, 86_400)])
def test_a_heartbeat_is_a_number_of_seconds(given, seconds):
    assert _settings.load({"heartbeat": given}, {}).heartbeat == seconds
    assert _settings.load({}, {"TORCHSPAN_HEARTBEAT": str(given)}).heartbeat == seconds


NO_HEARTBEATS = ["often", "-1", "0.05", "86401", "nan", "inf", "5s", "1,5"]


@pytest.mark.parametrize("value", NO_HEARTBEATS)
def test_a_heartbeat_variable_that_means_nothing_is_named_and_ignored(value, caplog):
    assert _settings.load({}, {"TORCHSPAN_HEARTBEAT": value}) == Config()
    assert caplog.messages == [
        f"TORCHSPAN_HEARTBEAT={value!r} is not allowed and has been ignored: use 0 (off) or 0.1 to 86400 seconds."
    ]


@pytest.mark.parametrize("value", [*NO_HEARTBEATS, "", -1, float("nan"), True, False, [5]])
def test_a_heartbeat_argument_that_means_nothing_is_an_error(value):
    with pytest.raises(ConfigurationError) as caught:
        _settings.load({"heartbeat": value}, {})
    assert str(caught.value) == f"heartbeat={value!r} is not allowed: use 0 (off) or 0.1 to 86400 seconds."


def test_a_failure_to_hook_comes_out_of_no_import_of_the_program(instrument, monkeypatch, caplog):
    def fails(*args, **kwargs):
        raise RuntimeError("ours")

    monkeypatch.setattr("torchspan._bridge.Bridge", fails)
    for library in ("torch_tensorrt", "tensorrt", "tensorrt_rtx"):
        monkeypatch.setitem(sys.modules, library, types.ModuleType(library))
    monkeypatch.delitem(sys.modules, "torchspan.observers", raising=False)  # another test's
    instrument().uninstrument()
    assert caplog.messages == ["Hooking failed; the program goes on, without our traces."] * 3


def test_an_argument_that_does_not_exist_is_an_error_that_names_it(provider):
    with pytest.raises(ConfigurationError, match="There is no argument detial: use capture, detail, heartbeat, "):
        TorchspanInstrumentor().instrument(detial="passes", tracer_provider=provider)
