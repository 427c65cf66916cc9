# SPDX-License-Identifier: Apache-2.0
"""TensorRT's progress phases, and the user's own progress monitor."""

import re

import pytest
import tensorrt_rtx
import torch
import torch_tensorrt
from torch_tensorrt.dynamo.conversion._TRTInterpreter import TRTInterpreter

from pipeline.expected import by_version
from support import models
from support import recorded as work
from support.own_failures import consequences
from support.tree import named, trees
from testing.models import assert_close
from torchspan.hooks.adapters.tensorrt import build as _phases

INPUT = torch.ones(2, 16)


def compiled():
    program = torch_tensorrt.dynamo.trace(models.seeded(models.Mlp), arg_inputs=[INPUT])
    return torch_tensorrt.dynamo.compile(program, arg_inputs=[INPUT], min_block_size=1)


def build(spans):
    (compilation,) = [tree for tree in trees(spans) if tree.name == "torch_tensorrt.compile"]
    (found,) = compilation.find("tensorrt.build_engine")
    return found


class Monitor(tensorrt_rtx.IProgressMonitor):
    """A user's monitor: writes down what it is reported, and answers what a test wants."""

    def __init__(self, answer=True):
        tensorrt_rtx.IProgressMonitor.__init__(self)
        self.answer, self.reported = answer, []

    def phase_start(self, phase_name, parent_phase, num_steps):
        self.reported.append(("start", phase_name, parent_phase, num_steps))

    def step_complete(self, phase_name, step):
        self.reported.append(("step", phase_name, step))
        return self.answer

    def phase_finish(self, phase_name):
        self.reported.append(("finish", phase_name))


@pytest.fixture
def use_monitor(monkeypatch):
    """Puts a monitor into each builder configuration, as Torch-TensorRT's Debugger does; returns the configurations."""
    populate = TRTInterpreter._populate_trt_builder_config

    def use(monitor):
        configs = []

        def populated(self, *args, **kwargs):
            configs.append(populate(self, *args, **kwargs))
            configs[-1].progress_monitor = monitor
            return configs[-1]

        monkeypatch.setattr(TRTInterpreter, "_populate_trt_builder_config", populated)
        return configs

    return use


def test_phases_are_spans_below_the_build_nested_as_tensorrt_nests_them(recorded):
    lines = list(build(recorded(work.traced_mlp, build_phases="on").spans).lines())
    assert lines[:7] == [
        "tensorrt.build_engine",
        "  tensorrt.build_phase Building engine",
        "    tensorrt.build_phase Cloning network graph",
        "    tensorrt.build_phase Preparing graph for optimization",
        "    tensorrt.build_phase Building engine from subgraph",
        "      tensorrt.build_phase Optimizing graph",
        "      tensorrt.build_phase Computing profile costs",
    ]


def test_each_phase_says_its_steps(recorded):
    (optimizing,) = build(recorded(work.traced_mlp, build_phases="on").spans).find(
        "tensorrt.build_phase Optimizing graph"
    )
    assert optimizing.attributes == {
        "torchspan.keep": True,
        "tensorrt.build_phase.name": "Optimizing graph",
    }


@pytest.mark.parametrize("setting", ["off", "auto"])
def test_without_being_asked_for_there_are_none(recorded, setting):
    assert build(recorded(work.traced_mlp, build_phases=setting).spans).children == []


def test_a_monitor_that_is_there_hears_the_same_as_without_us_and_stays(instrument, use_monitor):
    alone = Monitor()
    use_monitor(alone)
    compiled()

    instrument(build_phases="on")
    chained = Monitor()
    configs = use_monitor(chained)
    compiled()

    assert chained.reported == alone.reported
    assert len(alone.reported) > 50
    assert configs[0].progress_monitor is chained


def test_without_a_monitor_there_is_none_again_after_the_build(instrument, use_monitor):
    configs = use_monitor(None)
    instrument(build_phases="on")
    compiled()
    assert configs[0].progress_monitor is None


@pytest.mark.parametrize("answer", [False, None])
def test_the_users_monitor_can_cancel_the_build_and_that_is_an_error_of_the_build(
    instrument, exporter, use_monitor, answer
):
    instrument(build_phases="on")
    use_monitor(Monitor(answer))
    with pytest.raises((RuntimeError, AssertionError, TypeError)):  # of which, the version decides
        compiled()
    spans = exporter.get_finished_spans()
    assert named(spans, "tensorrt.build_engine").attributes["error.type"] == "engine_build_failed"
    raised = [span.name for span in spans for event in span.events if event.name == "exception"]
    assert raised == [by_version({(2, 11): "tensorrt.deserialize_engine", (2, 12): "torch_tensorrt.convert"})]
    assert all(span.end_time is not None for span in spans)


class Raising(Monitor):
    """A user's monitor of which one method raises from its third call on."""

    def __init__(self, method):
        super().__init__()
        self._method, self._calls = method, 0

    def _count(self, method):
        self._calls += method == self._method
        if self._calls >= 3:
            raise ValueError("the monitor raises")

    def phase_start(self, *phase):
        self._count("phase_start")
        super().phase_start(*phase)

    def step_complete(self, *step):
        self._count("step_complete")
        return super().step_complete(*step)

    def phase_finish(self, name):
        self._count("phase_finish")
        super().phase_finish(name)


def ended(capfd):
    """How a compilation ends: its result or its exception, and what TensorRT printed, without the frames of Python's stack."""
    try:
        result = compiled()(INPUT).tolist()
    except Exception as error:
        result = (type(error), str(error).partition("\n")[0])
    printed = capfd.readouterr()
    return result, re.sub(r"(?m)^  /.*\(\d+\): \w+\n", "", printed.out + printed.err)


@pytest.mark.fault("libraries", "A TensorRT progress monitor of the program raises")
@pytest.mark.parametrize("method", ["phase_start", "step_complete", "phase_finish"])
def test_a_build_whose_monitor_raises_ends_as_without_torchspan(instrument, exporter, use_monitor, capfd, method):
    alone = Raising(method)
    use_monitor(alone)
    expected = ended(capfd)

    instrument(build_phases="on")
    chained = Raising(method)
    use_monitor(chained)
    assert ended(capfd) == expected
    assert chained.reported == alone.reported
    spans = exporter.get_finished_spans()
    assert "tensorrt.build_engine" in {span.name for span in spans}
    assert all(span.end_time is not None for span in spans)


def test_a_monitor_of_torchspan_that_fails_cancels_nothing(instrument, exporter, monkeypatch, caplog):
    def broken(*_args):
        raise RuntimeError("torchspans")

    for name in ("start", "finish"):
        monkeypatch.setattr(_phases.BuildPhases, name, broken)
    instrument(build_phases="on")
    module = compiled()
    assert_close(module(INPUT), models.seeded(models.Mlp)(INPUT), rtol=1e-5, atol=1e-8)
    assert "tensorrt.build_engine" in {span.name for span in exporter.get_finished_spans()}
    assert "reporting a TensorRT phase failed; the program continues, with less telemetry." in consequences(caplog)


def test_a_configuration_whose_monitor_cannot_be_read_is_built_with_all_the_same(
    instrument, exporter, monkeypatch, caplog
):
    instrument(build_phases="on")
    monkeypatch.delattr(tensorrt_rtx.IBuilderConfig, "progress_monitor")
    compiled()
    assert "tensorrt.build_engine" in {span.name for span in exporter.get_finished_spans()}
    assert "making a progress monitor failed; the program continues, with less telemetry." in consequences(caplog)


def test_a_phase_that_never_ends_is_closed_with_the_build_and_marked(instrument, exporter, monkeypatch):
    monkeypatch.setattr(_phases.BuildPhases, "finish", lambda self, name: None)
    instrument(build_phases="on")
    compiled()
    spans = exporter.get_finished_spans()
    phases = [span for span in spans if span.name.startswith("tensorrt.build_phase")]
    assert phases
    assert all(span.attributes["torchspan.incomplete"] for span in phases)
    whole = named(spans, "tensorrt.build_engine")
    assert all(whole.start_time <= span.start_time <= span.end_time <= whole.end_time for span in phases)
