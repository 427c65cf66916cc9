# SPDX-License-Identifier: Apache-2.0
"""The operator that runs an engine, by version: up to 2.12 Torch-TensorRT has it with its C++ runtime only."""

from types import SimpleNamespace

import pytest

from torchspan.hooks.adapters.machinery.resolve import resolve
from torchspan.hooks.probes import PROBES, CustomOperator

(OPERATOR,) = [probe for probe in PROBES if isinstance(probe.target, CustomOperator)]


def namespaces(**operators):
    """What stands for `torch.ops`."""
    return SimpleNamespace(tensorrt=SimpleNamespace(**operators))


@pytest.mark.parametrize("version", ["2.11.0", "2.12.1", "2.14.0"])
def test_the_operator_is_hooked_where_it_is_there(version):
    operator = SimpleNamespace(_op=len, default=SimpleNamespace(_op=len))
    resolved = resolve(OPERATOR, version, "tensorrt_rtx", namespaces(execute_engine=operator))
    assert (resolved.status, resolved.holder, resolved.original) == ("resolved", operator, len)


@pytest.mark.parametrize(
    ("version", "status", "detail"),
    [
        ("2.11.0", "out of range", "since 2.13"),
        ("2.12.1", "out of range", "since 2.13"),
        ("2.13.0", "absent", "torch.ops.tensorrt.execute_engine._op is missing"),
    ],
)
def test_without_the_operator_it_is_missed_since_2_13(version, status, detail):
    resolved = resolve(OPERATOR, version, "tensorrt_rtx", namespaces())
    assert (resolved.status, resolved.detail) == (status, detail)
