# SPDX-License-Identifier: Apache-2.0
"""The rows and reality agree."""

from __future__ import annotations

import functools
import importlib
import sys

import pytest
import torch
import torch_tensorrt  # noqa: F401

import torchspan.testing
from torchspan.hooks.without_gpu import _replacements, _switch

pytestmark = pytest.mark.stand_in_only("with a real GPU nothing is replaced")

ROWS = _replacements.TORCH + _replacements.TENSORRT + _replacements.TORCH_TENSORRT
VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])
NAMES = [(row, name) for row in ROWS for name in row.names.split()]
# Names of versions other than 2.14, and of full TensorRT.
ELSEWHERE = {
    "torch_tensorrt.dynamo.runtime._PythonTorchTensorRTModule.logger.warning",
    "torch_tensorrt.dynamo.runtime._PythonTorchTensorRTModule.PythonTorchTensorRTModule.setup_input_tensors",
    "tensorrt.Builder.build_engine_with_config",
}


def bound(row, name):
    return functools.reduce(getattr, name.split("."), importlib.import_module(row.module))


@pytest.mark.parametrize(("row", "name"), [pytest.param(*r, id=f"{r[0].module}.{r[1]}") for r in NAMES])
def test_the_name_is_bound_to_its_replacement(row, name):
    call = f"{row.module}.{name}"
    if call not in _switch.applied:
        assert call in ELSEWHERE or VERSION < (2, 14), f"{call} was not replaced"
        pytest.skip("not in this version")
    now, then = bound(row, name), _switch.applied[call]
    assert now is then or getattr(now, "__func__", now) is getattr(then, "__func__", then)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.module}.{row.names.split()[0]}")
def test_observers_can_tell_a_stand_in_from_the_real_thing(row):
    for name in row.names.split():
        if f"{row.module}.{name}" in _switch.applied:
            marked = getattr(bound(row, name), "__torchspan_stand_in__", False)
            assert marked is row.is_stand_in


def test_no_name_has_two_rows():
    calls = [f"{row.module}.{name}" for row, name in NAMES]
    assert len(calls) == len(set(calls))


def test_every_factory_that_a_default_device_applies_to_has_a_row():
    replaced = {value for key, value in _switch.applied.items() if key.startswith("torch.")}
    constructors = torch.utils._device._device_constructors()
    originals = {value.__wrapped__ for value in replaced if hasattr(value, "__wrapped__")}
    assert {c for c in constructors if c not in originals and c not in replaced} == set()


def test_the_public_names_are_sorted_and_there():
    assert torchspan.testing.__all__ == sorted(torchspan.testing.__all__)
    assert all(hasattr(torchspan.testing, name) for name in torchspan.testing.__all__)


def test_the_real_tensorrt_package_is_the_one_in_use():
    trt = sys.modules["tensorrt"]
    assert trt.Builder is trt._target_module.Builder and trt.Runtime is trt._target_module.Runtime
