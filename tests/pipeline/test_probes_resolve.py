# SPDX-License-Identifier: Apache-2.0
"""Every row against the installed libraries, and every reached row exercised."""

import pytest
import torch
import torch_tensorrt

from pipeline.expected import VERSION
from support import models
from support.tree import trees
from torchspan import adapters
from torchspan.adapters import _wrap
from torchspan.probes import PROBES, Action


@pytest.mark.parametrize("resolved", adapters.resolve_probes(), ids=lambda each: each.probe.target)
def test_each_row_resolves_or_says_why_not(resolved):
    assert resolved.status in {"resolved", "out of range"}
    assert resolved.status == "resolved" or resolved.detail


def test_resolving_prints_nothing(capsys):
    # Torch-TensorRT's module `tensorrt` prints when it is asked for a name that TensorRT lacks.
    adapters.resolve_probes()
    assert capsys.readouterr().out == ""


ONLY_WATCHED = {probe.target for probe in PROBES if probe.action is Action.WATCH}
NOT_REACHED = {
    "torch_tensorrt.dynamo._engine_cache:DiskEngineCache.clear_cache": "a full cache; see test_engine_cache",
    "torch_tensorrt.dynamo.conversion._TRTInterpreter:TRTInterpreter._save_weight_mapping": "refittable engines to 2.12",
    **(
        {}
        if VERSION >= (2, 13)
        else {
            "torch_tensorrt.dynamo.runtime._TorchTensorRTModule:TorchTensorRTModule.setup_engine": "needs the C++ runtime"
        }
    ),
}
"""Rows that the routes below do not call, with the reason."""


def test_every_row_that_these_routes_reach_is_called(instrument, monkeypatch, tmp_path):
    called = set()

    def recording(maker):
        def make(self, probe, original):
            wrapper = maker(self, probe, original)

            def counted(*args, **kwargs):
                called.add(probe.target)
                return wrapper(*args, **kwargs)

            counted.__wrapped__ = wrapper
            return counted

        return make

    for kind in ("event", "facts", "step", "tally"):
        monkeypatch.setattr(_wrap.Wrapping, kind, recording(getattr(_wrap.Wrapping, kind)))
    instrument(detail="passes", tensorrt_phases="on")

    x = models.image()
    for settings in (
        {},
        {"use_fast_partitioner": False},
        {"enable_resource_partitioning": True, "offload_module_to_cpu": True},
        {
            "cache_built_engines": True,
            "reuse_cached_engines": True,
            "immutable_weights": False,
            "engine_cache_dir": str(tmp_path),
        },
    ):
        module = torch_tensorrt.compile(
            models.seeded(models.Fallback), ir="dynamo", inputs=[x], min_block_size=1, **settings
        )
        module(x)
        if "reuse_cached_engines" in settings:
            torch_tensorrt.compile(
                models.seeded(models.Fallback), ir="dynamo", inputs=[x], min_block_size=1, **settings
            )
    counter = models.seeded(models.Counter)
    torch_tensorrt.compile(counter, ir="dynamo", inputs=[torch.ones(2, 16)], min_block_size=1)
    torch.compile(models.seeded(models.Mlp), backend="tensorrt", options={"min_block_size": 1})(torch.ones(2, 16))

    by_kind = {Action.EVENT, Action.FACTS, Action.STEP, Action.TALLY}
    expected = {
        each.probe.target
        for each in adapters.resolve_probes()
        if each.status == "resolved" and each.probe.action in by_kind
    }
    assert expected - called - NOT_REACHED.keys() == set()


def test_the_rows_with_wrappers_of_their_own_leave_their_spans(instrument, exporter):
    instrument(detail="passes", tensorrt_phases="on")
    x = torch.ones(2, 16)
    torch_tensorrt.compile(models.seeded(models.Mlp), ir="dynamo", inputs=[x], min_block_size=1)(x)
    compilation, run = trees(exporter.get_finished_spans())
    assert compilation.find("torch_tensorrt.pass constant_fold")
    assert compilation.find("tensorrt.build_engine")
    assert compilation.find("tensorrt.phase Building engine")
    assert run.name == "torch_tensorrt.execute"
