# SPDX-License-Identifier: Apache-2.0
"""The call of CUDA's driver that keeps torchspan's threads out of captures by other threads."""

import ctypes

import pytest

from torchspan.hooks.device import _driver


class StandInDriver:
    """Stands in for `libcuda.so.1`, which comes with a GPU. It remembers the mode that it got, and answers with `result`."""

    def __init__(self, result):
        self.result, self.modes = result, []

    def cuThreadExchangeStreamCaptureMode(self, mode):
        self.modes.append(mode._obj.value)
        return self.result


@pytest.mark.parametrize(("result", "is_set"), [(0, True), (3, False)], ids=["success", "not initialized"])
def test_the_mode_of_the_thread_is_thread_local_where_the_driver_sets_it(monkeypatch, result, is_set):
    driver = StandInDriver(result)
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: driver)
    assert _driver.set_thread_local_capture() is is_set
    assert driver.modes == [1]  # CU_STREAM_CAPTURE_MODE_THREAD_LOCAL


def test_without_the_driver_the_mode_is_not_set(monkeypatch):
    def missing(name):
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert _driver.set_thread_local_capture() is False


def test_a_driver_without_the_function_does_not_set_the_mode(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: object())
    assert _driver.set_thread_local_capture() is False
