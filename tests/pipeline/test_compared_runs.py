# SPDX-License-Identifier: Apache-2.0
"""Real compilations, compared: what was changed between the two is in the first line."""

import dataclasses
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import torch_tensorrt
from torch_tensorrt.dynamo._engine_cache import DiskEngineCache
from torch_tensorrt.dynamo.conversion import _ConverterRegistry as registry

from support import models
from support.recorded import record
from torchspan import comparison
from torchspan.sdk import FileSpanExporter

RELU = torch.ops.aten.relu.default
SLOWER_S = 1.0


def compiled(**settings):
    """The net with one operator that has no converter, compiled."""
    options = {"min_block_size": 1, **settings}
    return torch_tensorrt.compile(models.seeded(models.Fallback), ir="dynamo", inputs=[models.image()], **options)


def written(path, **settings):
    """The path of a file with the spans of one compilation."""
    exporter = FileSpanExporter(path)
    exporter.export(record(lambda: compiled(**settings)).spans)
    exporter.shutdown()
    return path


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    """The file of a compilation in which nothing was changed. The first one of a process is slower, and not it."""
    folder = tmp_path_factory.mktemp("compared")
    written(folder / "first.jsonl")
    return written(folder / "before.jsonl")


@pytest.fixture
def compared(before, tmp_path):
    """`compared(**settings)`: the comparison with a compilation that has other settings."""
    return lambda **settings: comparison.compare(before, written(tmp_path / "after.jsonl", **settings))


def text(result):
    """What is printed, as one line without times and runs; it begins with the first line."""
    printed = re.sub(r" \([^)]*not judged\)", "", " ".join(str(result).split()))
    return re.sub(r"\d[\d.]* (?:ms|s|µs|ns)\b", "T", printed)


def sentences(result, *kinds):
    """What has changed of some kinds."""
    return [change.sentence("before", "after") for change in result.changes if change.kind in kinds]


def test_nothing_is_said_of_two_equal_compilations_besides_time(compared):
    assert compared().changes == ()


def test_an_operator_that_was_excluded(compared):
    result = compared(torch_executed_ops={"torch.ops.aten.relu.default"})
    assert text(result).startswith(
        "compile Fallback: before T → after T: torch_executed_ops: before none → after aten.relu"
    )
    assert sentences(result, "fallback", "coverage", "engines") == [
        "aten.relu in PyTorch: before \N{MULTIPLICATION SIGN}0 → after \N{MULTIPLICATION SIGN}1 (excluded by you at support/models.py:45)",
        "operators in TensorRT: before 4 of 5 → after 3 of 5",
        "engine of 1 op [2, 3, 16, 16]: before \N{MULTIPLICATION SIGN}0 → after \N{MULTIPLICATION SIGN}1 (conv)",
        "engine of 2 ops [2, 3, 16, 16]: before \N{MULTIPLICATION SIGN}1 → after \N{MULTIPLICATION SIGN}0 (conv)",
    ]


def test_groups_that_became_too_small(compared):
    result = compared(min_block_size=3)
    assert text(result).startswith("compile Fallback: before T → after T: min_block_size: before 1 → after 3")
    why = "group smaller than min_block_size=3 at support/models.py"
    assert sentences(result, "fallback") == [
        f"{name} in PyTorch: before \N{MULTIPLICATION SIGN}0 → after \N{MULTIPLICATION SIGN}1 ({why}:{line})"
        for name, line in (("aten.convolution", 45), ("aten.linear", 46), ("aten.mean.dim", 46), ("aten.relu", 45))
    ]


def test_a_converter_that_became_slower(compared, monkeypatch):
    def slower(converter):
        def convert(*arguments):
            time.sleep(SLOWER_S)
            return converter(*arguments)

        return convert

    rows = registry.DYNAMO_ATEN_CONVERTERS[RELU]
    slow = [dataclasses.replace(row, converter_implementation=slower(row.converter_implementation)) for row in rows]
    monkeypatch.setitem(registry.DYNAMO_ATEN_CONVERTERS, RELU, type(rows)(slow))
    result = compared()
    assert text(result).startswith(
        "compile Fallback: before T → after T: convert 2 ops [2, 3, 16, 16] > construct_network > aten.relu +T"
    )
    (pair,) = result.pairs
    assert pair.parts[0].difference_s == pytest.approx(SLOWER_S, rel=0.1)
    assert sum(row.difference_s for row in pair.parts) == pytest.approx(pair.whole.difference_s, abs=1e-3)


@pytest.mark.slow
@pytest.mark.skipif(torch_tensorrt.__version__.startswith("2.13."), reason="it is the version of the recorded files")
def test_another_version_of_torch_tensorrt(tmp_path):
    """The files of 2.13 were recorded once, from the same program."""
    folder = Path(__file__).resolve().parents[1] / "comparison" / "recorded"
    subprocess.run([sys.executable, folder / "program.py", tmp_path], check=True, capture_output=True, timeout=120)
    result = comparison.compare(folder / "torch_tensorrt_2.13", tmp_path)
    after = f"{tmp_path.name} {torch_tensorrt.__version__}"
    assert f"torch_tensorrt: torch_tensorrt_2.13 2.13.0 → {after}" in text(result)


def test_a_cache_that_was_filled(tmp_path):
    settings = {"cache_built_engines": True, "reuse_cached_engines": True, "immutable_weights": False}
    cache = DiskEngineCache(engine_cache_dir=str(tmp_path / "engines"), engine_cache_size=1 << 28)
    sides = [written(tmp_path / f"{name}.jsonl", custom_engine_cache=cache, **settings) for name in ("before", "after")]
    result = comparison.compare(*sides)
    assert text(result).startswith(
        "compile Fallback: before T → after T: engine cache: before 2 inserted, 2 misses → after 2 hits"
    )
    assert [part.path[-1] for part in result.pairs[0].parts if part.new_s == 0] != []
