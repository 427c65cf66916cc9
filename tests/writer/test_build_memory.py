# SPDX-License-Identifier: Apache-2.0
"""Memory of real builds. The device's is the stand-in's: a GPU that says it is initialized, and has round numbers."""

import sys
import threading
from pathlib import Path

import pytest

pytest.importorskip("torch_tensorrt", reason="torch_tensorrt is not installed")
import psutil
import tensorrt_rtx
import torch
import torch_tensorrt

from support import models
from support.own_failures import consequences
from support.tree import named
from torchspan import TorchspanInstrumentor
from torchspan.output.writer import _memory
from torchspan.start import bridge as _bridge

MIB = 1 << 20
INPUT = torch.ones(2, 16)
linux = pytest.mark.skipif(sys.platform != "linux", reason="memory is read on Linux only")


def compiled(**settings):
    model = models.seeded(models.Mlp).cuda()
    return torch_tensorrt.compile(model, ir="dynamo", inputs=[INPUT], min_block_size=1, **settings)


@pytest.fixture(autouse=True)
def the_samplers_thread_has_its_mode(monkeypatch):
    """As on a machine that has CUDA's driver."""
    monkeypatch.setattr(_bridge, "set_thread_local_capture", lambda: True)


@pytest.fixture
def during_the_build(monkeypatch):
    """Runs a function inside each build; to be asked for before the bridge is enabled."""
    build = tensorrt_rtx.Builder.build_serialized_network

    def use(action):
        def building(self, network, config):
            action()
            return build(self, network, config)

        monkeypatch.setattr(tensorrt_rtx.Builder, "build_serialized_network", building)

    return use


def memory(exporter):
    """The attributes about memory of the build, without their prefix."""
    attributes = named(exporter.get_finished_spans(), "tensorrt.build_engine").attributes
    prefix = "tensorrt.build."
    return {key.removeprefix(prefix): value for key, value in attributes.items() if "memory." in key}


def resident():
    return psutil.Process().memory_info().rss


def beyond_every_peak():
    return _memory.peak_resident_bytes() - _memory.resident_bytes() + 256 * MIB


@linux
def test_an_allocation_inside_the_build_is_in_its_peak(instrument, exporter, during_the_build):
    seen = {}

    def allocate():
        seen["before"] = resident()
        block = b"\x01" * beyond_every_peak()
        seen["during"], seen["size"] = resident(), len(block)

    during_the_build(allocate)
    instrument()
    compiled()
    reported = memory(exporter)
    assert abs(reported["memory.before"] - seen["before"]) < 32 * MIB
    assert abs(reported["memory.peak"] - seen["during"]) < 32 * MIB
    assert reported["memory.peak"] - reported["memory.before"] > 0.9 * seen["size"]
    assert reported["memory.peak_sampled"] is False


@linux
def test_below_an_earlier_peak_a_sample_has_seen_it(instrument, exporter, during_the_build, monkeypatch):
    sampled, seen = threading.Semaphore(0), {}

    def read_and_report(path, read=Path.read_bytes):
        try:
            return read(path)
        finally:
            if threading.current_thread().name == "torchspan memory":
                sampled.release()

    monkeypatch.setattr(Path, "read_bytes", read_and_report)

    def allocate():
        block = b"\x01" * (192 * MIB)
        seen["during"] = resident()
        for _ in range(2):  # the first may have been on its way when the block was made
            assert sampled.acquire(timeout=60)
        del block

    earlier = b"\x01" * (beyond_every_peak() + 256 * MIB)
    del earlier
    during_the_build(allocate)
    instrument()
    compiled()
    reported = memory(exporter)
    assert abs(reported["memory.peak"] - seen["during"]) < 32 * MIB
    assert reported["memory.peak"] - reported["memory.before"] > 160 * MIB
    assert reported["memory.peak_sampled"] is True


@linux
def test_a_build_that_fails_has_its_memory_too(instrument, exporter):
    instrument()
    with pytest.raises((RuntimeError, AssertionError, TypeError)):  # of which, the version decides
        compiled(workspace_size=1)
    assert memory(exporter)["memory.peak"] >= memory(exporter)["memory.before"] > 0


@pytest.mark.stand_in_only("a real GPU is initialized")
def test_of_a_device_nothing_is_asked_while_the_program_has_not_initialized_it(instrument, exporter, monkeypatch):
    asked = []

    def record(holder, name):
        answer = getattr(holder, name)

        def recording(*args):
            if (
                sys._getframe(1).f_globals["__name__"].startswith("torchspan.output.writer")
            ):  # the library itself asks, too
                asked.append(name)
            return answer(*args)

        monkeypatch.setattr(holder, name, recording)

    record(torch.cuda, "mem_get_info")
    record(torch.cuda, "current_device")
    record(torch._C, "_cuda_hasPrimaryContext")
    assert not torch.cuda.is_initialized()
    instrument()
    compiled()
    assert asked == []
    assert not [key for key in memory(exporter) if key.startswith("gpu")]


def test_of_a_device_that_is_initialized_the_free_memory_before_and_after_is_reported(
    instrument, exporter, during_the_build, monkeypatch
):
    free = [20 << 30]
    monkeypatch.setattr(_memory, "loaded_torch", lambda: InitializedTorch(free))
    during_the_build(lambda: free.__setitem__(0, 17 << 30))
    instrument()
    compiled()
    assert {key: value for key, value in memory(exporter).items() if key.startswith("gpu")} == {
        "gpu_memory.free.before": 20 << 30,
        "gpu_memory.free.after": 17 << 30,
        "gpu_memory.total": 24 << 30,
        "gpu_memory.used.peak": 7 << 30,
    }


def test_the_workspace_that_was_asked_for_is_on_the_span_of_the_build(instrument, exporter):
    instrument()
    compiled(workspace_size=64 * MIB)
    attributes = named(exporter.get_finished_spans(), "tensorrt.build_engine").attributes
    assert attributes["tensorrt.builder.workspace_size"] == 64 * MIB


def test_the_peak_of_the_used_device_memory_is_the_most_that_a_sample_saw(
    instrument, exporter, during_the_build, monkeypatch
):
    free = [20 << 30]
    cuda = InitializedTorch(free)
    monkeypatch.setattr(_memory, "loaded_torch", lambda: cuda)

    def use_and_give_back():
        free[0] = 11 << 30
        cuda.wait_for_a_sample()
        free[0] = 17 << 30

    during_the_build(use_and_give_back)
    instrument()
    compiled()
    assert memory(exporter)["gpu_memory.used.peak"] == 13 << 30


def test_the_samples_are_of_the_device_that_was_current_when_the_build_began(
    instrument, exporter, during_the_build, monkeypatch
):
    cuda = InitializedTorch([20 << 30], current=1)
    monkeypatch.setattr(_memory, "loaded_torch", lambda: cuda)

    def change_device():
        cuda.current = 0
        cuda.wait_for_a_sample()

    during_the_build(change_device)
    instrument()
    compiled()
    assert set(cuda.asked) == {1}


def test_a_sample_that_fails_leaves_the_build_with_what_was_seen_before_and_after(
    instrument, exporter, during_the_build, monkeypatch
):
    free = [20 << 30]
    cuda = InitializedTorch(free)
    monkeypatch.setattr(_memory, "loaded_torch", lambda: cuda)

    def fail_once():
        free.clear()
        assert cuda.sampled.acquire(timeout=60)
        free.append(17 << 30)

    during_the_build(fail_once)
    instrument()
    compiled()
    assert memory(exporter)["gpu_memory.used.peak"] == 7 << 30


def test_a_device_that_does_not_answer_costs_its_own_attributes_alone(instrument, exporter, monkeypatch, caplog):
    monkeypatch.setattr(_memory, "loaded_torch", lambda: InitializedTorch([]))
    instrument()
    compiled()
    assert not [key for key in memory(exporter) if key.startswith("gpu")]
    assert [key for key in memory(exporter) if key.startswith("memory")]
    assert "reading the memory of the device failed; the program continues, with less telemetry." in consequences(
        caplog
    )


def test_a_device_that_the_program_has_not_used_yet_is_not_asked(instrument, exporter, monkeypatch):
    monkeypatch.setattr(_memory, "loaded_torch", lambda: InitializedTorch([20 << 30], used=False))
    instrument()
    compiled()
    assert not [key for key in memory(exporter) if key.startswith("gpu")]


class InitializedTorch:
    """Stands in for torch in a program that has initialized CUDA, and used a device: nothing else can, without a GPU."""

    def __init__(self, free, *, used=True, current=0):
        self.free, self.used, self.current = free, used, current
        self.cuda = self._C = self
        self.asked = []
        self.sampled = threading.Semaphore(0)

    def is_initialized(self):
        return True

    def current_device(self):
        return self.current

    def _cuda_hasPrimaryContext(self, device):
        return self.used

    def mem_get_info(self, device):
        self.asked.append(device)
        try:
            return self.free[0], 24 << 30
        finally:
            if threading.current_thread().name == _memory.NAME:
                self.sampled.release()

    def wait_for_a_sample(self):
        for _ in range(2):  # the first may have been on its way before the memory changed
            assert self.sampled.acquire(timeout=60)


@linux
def test_the_thread_that_looks_stays_for_the_next_build_and_ends_when_the_bridge_does(instrument):
    alive = lambda: [each for each in threading.enumerate() if each.name == _memory.NAME]
    instrument()
    assert alive() == []
    compiled()
    (thread,) = alive()
    compiled()
    assert alive() == [thread]
    TorchspanInstrumentor().uninstrument()
    thread.join(60)
    assert not thread.is_alive()
