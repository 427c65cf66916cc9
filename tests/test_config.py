# SPDX-License-Identifier: Apache-2.0
import sys
import types

import pytest

import torchspan.session  # noqa: F401 - so that it can be replaced
from torchspan import TorchspanInstrumentor, config
from torchspan.config import Config
from torchspan.exceptions import ConfigurationError


def test_defaults():
    assert config.load({}, {}) == Config(
        detail="stages", tensorrt_phases="auto", capture="none", propagation="on", without_gpu=False
    )


def test_variables_are_read():
    environment = {
        "TORCHSPAN_DETAIL": "Passes ",
        "TORCHSPAN_TENSORRT_PHASES": "on",
        "TORCHSPAN_CAPTURE": "text",
        "TORCHSPAN_PROPAGATION": "links",
        "TORCHSPAN_WITHOUT_GPU": "1",
    }
    assert config.load({}, environment) == Config("passes", "on", "text", "links", without_gpu=True)


def test_an_argument_wins_over_its_variable():
    environment = {"TORCHSPAN_DETAIL": "passes", "TORCHSPAN_WITHOUT_GPU": "1"}
    assert config.load({"detail": "stages", "without_gpu": False}, environment) == Config()


def test_a_variable_that_means_nothing_is_named_and_ignored(caplog):
    assert config.load({}, {"TORCHSPAN_DETAIL": "everything", "TORCHSPAN_WITHOUT_GPU": "maybe"}) == Config()
    assert caplog.messages == [
        "TORCHSPAN_DETAIL='everything' is not allowed and has been ignored: use one of stages, passes.",
        "TORCHSPAN_WITHOUT_GPU='maybe' is not allowed and has been ignored: use one of 0, 1.",
    ]


def test_an_empty_variable_is_as_good_as_none(caplog):
    assert config.load({}, {"TORCHSPAN_DETAIL": "", "TORCHSPAN_WITHOUT_GPU": ""}) == Config()
    assert caplog.messages == []


def test_an_argument_that_means_nothing_is_an_error_that_says_what_is_allowed(provider):
    with pytest.raises(ConfigurationError, match="detail='everything' is not allowed: use one of stages, passes"):
        TorchspanInstrumentor().instrument(detail="everything", tracer_provider=provider)


def test_a_failure_to_hook_comes_out_of_no_import_of_the_program(instrument, monkeypatch, caplog):
    def fails(*args, **kwargs):
        raise RuntimeError("ours")

    monkeypatch.setattr("torchspan.session.start", fails)
    monkeypatch.setitem(sys.modules, "torch_tensorrt", types.ModuleType("torch_tensorrt"))
    instrument().uninstrument()
    assert caplog.messages == ["Hooking failed; the program goes on, without our traces."]


def test_an_argument_that_does_not_exist_is_an_error_that_names_it(provider):
    with pytest.raises(
        ConfigurationError, match="There is no argument detial: use capture, detail, propagation, tensorrt_phases"
    ):
        TorchspanInstrumentor().instrument(detial="passes", tracer_provider=provider)
