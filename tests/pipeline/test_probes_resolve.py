# SPDX-License-Identifier: Apache-2.0
"""Every row against the installed libraries; `tests/routes.py` has what fires where."""

import pytest
import torch
import torch_tensorrt

from support import models
from support.tree import trees
from torchspan.hooks import adapters


@pytest.mark.parametrize("resolved", adapters.resolve_probes(), ids=lambda each: each.probe.target)
def test_each_row_resolves_or_says_why_not(resolved):
    assert resolved.status in {"resolved", "out of range"}
    assert resolved.status == "resolved" or resolved.detail


def test_resolving_prints_nothing(capsys):
    # Torch-TensorRT's module `tensorrt` prints when it is asked for a name that TensorRT lacks.
    adapters.resolve_probes()
    assert capsys.readouterr().out == ""


def test_the_rows_with_wrappers_of_their_own_leave_their_spans(instrument, exporter):
    instrument(detail="passes", build_phases="on")
    x = torch.ones(2, 16)
    torch_tensorrt.compile(models.seeded(models.Mlp), ir="dynamo", inputs=[x], min_block_size=1)(x)
    compilation, run = trees(exporter.get_finished_spans())
    assert compilation.find("torch_tensorrt.pass constant_fold")
    assert compilation.find("tensorrt.build_engine")
    assert compilation.find("tensorrt.build_phase Building engine")
    assert run.name == "torch_tensorrt.execute"
