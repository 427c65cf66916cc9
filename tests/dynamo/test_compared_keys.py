# SPDX-License-Identifier: Apache-2.0
"""Two compilations by torch.compile, compared: the part of the cache's key that differs is in the first line."""

import re

import pytest
import torch
from torch._inductor.utils import fresh_cache

from support import compiled
from torchspan import comparison
from torchspan.sdk import FileSpanExporter

pytestmark = pytest.mark.slow


@pytest.fixture
def compared(exporter, tmp_path, monkeypatch):
    """The comparison of two compilations with the settings of a group each, in processes with empty caches of their own."""
    monkeypatch.setenv("TORCH_WARM_POOL", "0")

    def with_settings(before, after):
        sides = [tmp_path / "before.jsonl", tmp_path / "after.jsonl"]
        for path, group in zip(sides, (before, after), strict=True):
            torch._dynamo.reset()
            exporter.clear()
            settings = {"fx_graph_cache": True, "compile_threads": 1, **group}
            with torch._inductor.config.patch(settings), torch._functorch.config.patch(enable_autograd_cache=True):
                torch.compile(compiled.product, backend="inductor")(torch.ones(3, 3))
            file = FileSpanExporter(path)
            file.export(exporter.get_finished_spans())
            file.shutdown()
        return comparison.compare(*sides)

    return with_settings


def text(result):
    """What is printed, as one line without times, runs and the line of the function; it begins with the first line."""
    printed = re.sub(r" \([^)]*not judged\)", "", " ".join(str(result).split()))
    return re.sub(r"(?<=compiled.py:)\d+", "N", re.sub(r"\d[\d.]* (?:ms|s|µs)\b", "T", printed))


def test_a_setting_of_inductor_that_was_changed_is_in_the_first_line(compared):
    with fresh_cache():
        result = compared({}, {"max_fusion_size": 7})
    # AOTAutograd's key has Inductor's settings up to 2.11.
    keys = ["AOTAutograd's", "Inductor's"] if torch.__version__ < (2, 12) else ["Inductor's"]
    assert text(result).startswith(
        "compile product compiled.py:N: before T → after T: "
        f"inductor_config[max_fusion_size] in {keys[0]} key differs between before and after"
    )
    assert [change.kind for change in result.changes] == ["cache_key"] * len(keys)


def test_a_cache_of_torch_compile_that_was_filled_is_in_the_first_line(compared):
    with fresh_cache():
        result = compared({}, {})
    assert text(result).startswith(
        "compile product compiled.py:N: before T → after T: AOTAutograd's cache: before 1 miss → after 1 hit"
    )
