# SPDX-License-Identifier: Apache-2.0
"""A simulated GPU behind `torch.cuda`."""

import importlib.util

import pytest

from support.asynchronous_device import AsynchronousDevice


def _install(device, monkeypatch):
    device.install(monkeypatch)
    if importlib.util.find_spec("torchspan.device"):
        monkeypatch.setattr("torchspan.device._driver.set_thread_local_capture", device.set_thread_local_capture)
    return device


@pytest.fixture
def device(monkeypatch):
    """One simulated GPU. A call that the real one would need to initialize CUDA, or forever, fails the test."""
    device = _install(AsynchronousDevice(), monkeypatch)
    yield device
    assert device.violations == []


@pytest.fixture
def two_devices(monkeypatch):
    """Two simulated GPUs; the program has used the first one only."""
    device = _install(AsynchronousDevice(devices=2), monkeypatch)
    yield device
    assert device.violations == []
