# SPDX-License-Identifier: Apache-2.0
"""What is read of compilations and of the files that they use."""

import sys
from types import SimpleNamespace

import pytest

from torchspan.probes import Call
from torchspan.probes.describe import compilation, conversion

torch = pytest.importorskip("torch")


def graph_module():
    return torch.fx.symbolic_trace(torch.nn.ReLU())


@pytest.mark.parametrize("argument", ["gm", "module"])
def test_the_graph_that_a_compilation_was_given_is_not_what_it_has_compiled(argument):
    graph, compiled = graph_module(), graph_module()
    call = Call(None, (), {argument: graph})
    assert compilation.compiled_module(call, graph) is None
    assert compilation.compiled_module(call, compiled) is compiled


def test_a_compilation_that_returns_no_graph_has_compiled_no_module():
    assert compilation.compiled_module(Call(None, (), {}), torch.nn.ReLU()) is None


@pytest.fixture
def without_rtx(monkeypatch):
    library = SimpleNamespace(ENABLED_FEATURES=SimpleNamespace(tensorrt_rtx=False))
    monkeypatch.setitem(sys.modules, "torch_tensorrt", library)


def timing_cache(path):
    return conversion.timing_cache_in(Call(None, (), {"timing_cache_path": str(path)}))


def test_a_timing_cache_is_read_where_there_is_a_file_and_otherwise_created(without_rtx, tmp_path):
    (tmp_path / "there").write_bytes(b"cache")
    assert timing_cache(tmp_path / "there") == {"torch_tensorrt.timing_cache.file": "read"}
    assert timing_cache(tmp_path / "missing") == {"torch_tensorrt.timing_cache.file": "created"}


def test_tensorrt_rtx_has_no_timing_cache(without_rtx, tmp_path):
    sys.modules["torch_tensorrt"].ENABLED_FEATURES.tensorrt_rtx = True
    assert timing_cache(tmp_path / "missing") == {}
