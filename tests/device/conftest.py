# SPDX-License-Identifier: Apache-2.0
"""A simulated GPU, and runs that have their time on it."""

import contextlib
import threading

import pytest
import torch

from support.asynchronous_device import GLOBAL, AsynchronousDevice
from support.engines import Callback, extend
from support.ports import make_ports
from support.real_device import RealDevice
from torchspan import phase
from torchspan.engine import Engine, RateLimits, RunSampling
from torchspan.engine.subscribers.callback_registry import Registry
from torchspan.hooks.adapters import Provenance
from torchspan.hooks.adapters.engine_runs import wrap_run
from torchspan.hooks.adapters.machinery.wrap import WrapperFactory
from torchspan.hooks.device import DeviceTimes, _driver
from torchspan.hooks.probes import PROBES, Runs
from torchspan.output.writer import SpanParents
from torchspan.testing import is_without_gpu

(OPERATOR, *_) = (row for row in PROBES if isinstance(row.action, Runs) and row.action.phase is phase.EXECUTE)
PATIENCE_S = 120


def _device(monkeypatch, devices):
    if not is_without_gpu():
        if torch.cuda.device_count() < devices:
            pytest.skip(f"needs {devices} GPUs")
        return RealDevice()
    return _simulated(monkeypatch, devices)


def _simulated(monkeypatch, devices):
    device = AsynchronousDevice(devices)
    device.install(monkeypatch)
    monkeypatch.setattr(_driver, "set_thread_local_capture", device.set_thread_local_capture)
    return device


@pytest.fixture
def device(monkeypatch):
    """One GPU. A call that would initialize CUDA, make a context or never return fails the test."""
    device = _device(monkeypatch, 1)
    yield device
    device.exchange_capture_mode(GLOBAL)
    assert list(device.violations) == []


@pytest.fixture
def two_devices(monkeypatch):
    """Two GPUs; of the simulated ones, the program has used the first alone."""
    device = _device(monkeypatch, 2)
    yield device
    device.exchange_capture_mode(GLOBAL)
    assert list(device.violations) == []


@pytest.fixture
def gpu(monkeypatch):
    """Two simulated GPUs whose time stands still until a test lets it pass. They refuse every call that synchronizes."""
    device = _simulated(monkeypatch, 2)
    device.forbid_synchronizing = True
    yield device
    assert list(device.violations) == []


class TrtEngine:
    """Stands for the engine that runs. work: what a run does."""

    def __init__(self, work):
        self.work = work


class TimedRuns:
    """Runs of an engine, by the real hook, each an event. What a run does is queue work on the device.

    completed: the events that are complete.
    """

    def __init__(self, gpu, **options):
        self.gpu = gpu
        self.engine = Engine(Registry())
        self.completed = []
        self._changed = threading.Condition()
        self.parents = SpanParents()
        self.times = DeviceTimes(self.engine, **options)
        extend(self.engine, Callback("events", lambda event: event, self._complete), self.times)
        sampling = RunSampling(RateLimits())
        ports = make_ports(parents=self.parents, sampling=sampling)
        provenance = Provenance()
        self._fresh = provenance.fresh
        factory = WrapperFactory(self.engine, provenance)
        self._run = wrap_run(factory, ports, OPERATOR.target, OPERATOR.action, self._execute)

    @staticmethod
    def _execute(input_tensors, engine):
        engine.work()
        return input_tensors

    def _complete(self, event, _context):
        with self._changed:
            self.completed.append(event)
            self._changed.notify_all()

    def run(self, seconds=0.0, inputs=(), work=None):
        """A run that queues work of this length; the first of its engine, so that it is an event. Returns the result."""
        engine = TrtEngine(work or (lambda: self.gpu.launch(seconds)))
        self._fresh[engine] = True
        return self._run(list(inputs), engine)

    def wait(self, number):
        """What `number` complete events say of their time on the device, in the order of their starts."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.completed) >= number, PATIENCE_S), "events are missing"
            events = sorted(self.completed, key=lambda event: event.start_ns)
        return [dict(event.additions) for event in events]

    def close(self):
        self.engine.stop()
        self.parents.close()


@pytest.fixture
def make_runs(gpu):
    """Makes runs with their time on the device; arguments are those of `DeviceTimes`."""
    with contextlib.ExitStack() as stack:
        yield lambda **options: stack.enter_context(contextlib.closing(TimedRuns(gpu, **options)))


@pytest.fixture
def runs(make_runs):
    """Runs with their time on the device."""
    return make_runs()
