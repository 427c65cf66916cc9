# SPDX-License-Identifier: Apache-2.0
"""Which setting an entry of the engine cache was made with, where a lookup found nothing."""

import pytest

from support import models
from torchspan.hooks.probes import Call
from torchspan.hooks.probes.describe import cache_neighbors

torch = pytest.importorskip("torch")
torch_tensorrt = pytest.importorskip("torch_tensorrt")
engine_cache = pytest.importorskip("torch_tensorrt.dynamo._engine_cache")

POSSIBLE = [
    *(("optimization_level", level, None) for level in (0, 1, 2, 3, 4, 5)),
    ("optimization_level", None, 0),
    *(("max_aux_streams", count, None) for count in (0, 1, 2, 3, 4)),
    ("max_aux_streams", None, 0),
    *(("tiling_optimization_level", level, "none") for level in ("fast", "moderate", "full")),
    ("tiling_optimization_level", "none", "full"),
    ("autocast_max_depth_of_reduction", None, 7),
    *(("autocast_low_precision_type", type_, None) for type_ in (torch.float16, torch.bfloat16)),
    *(("autocast_low_precision_type", type_, None) for type_ in (torch_tensorrt.dtype.f16, torch_tensorrt.dtype.bf16)),
    ("autocast_low_precision_type", None, torch.float16),
    ("sparse_weights", True, False),
]


@pytest.fixture
def missed(tmp_path):
    """A lookup where the folder has the same engine with another value of a setting."""
    graph, size = torch.fx.symbolic_trace(models.seeded(models.Mlp)), torch.ones(2, 16)

    def settings_and_hash(settings):
        settings = torch_tensorrt.dynamo.CompilationSettings(immutable_weights=False, **settings)
        inputs = [torch_tensorrt.Input.from_tensor(size)]
        return settings, engine_cache.BaseEngineCache.get_hash(graph, inputs, settings)

    def lookup(name, stored, requested, **others):
        (_, entry), (settings, wanted) = (settings_and_hash({name: value, **others}) for value in (stored, requested))
        (tmp_path / entry).mkdir()
        cache = engine_cache.DiskEngineCache(str(tmp_path), 1 << 20)
        return Call(None, (), {"hash_val": wanted, "engine_cache": cache, "settings": settings})

    return lookup


@pytest.mark.parametrize(("name", "stored", "requested"), POSSIBLE, ids=str)
def test_each_possible_value_of_a_setting_is_recognized(missed, name, stored, requested):
    assert cache_neighbors.facts(missed(name, stored, requested)) == {
        "torch_tensorrt.engine_cache.reason": "other_settings",
        "torch_tensorrt.engine_cache.miss.settings.names": [name],
        "torch_tensorrt.engine_cache.miss.settings.stored_values": [str(stored)],
        "torch_tensorrt.engine_cache.miss.settings.requested_values": [str(requested)],
    }


@pytest.mark.parametrize("kind", [list, tuple, set, frozenset])
def test_a_setting_is_found_next_to_one_that_has_several_values(missed, kind):
    call = missed("sparse_weights", True, False, autocast_excluded_nodes=kind(["wanda"]))
    assert cache_neighbors.facts(call)["torch_tensorrt.engine_cache.miss.settings.names"] == ["sparse_weights"]


@pytest.mark.parametrize("name", ["sha256_hash", "_SETTINGS_TO_BE_ENGINE_INVARIANT"])
def test_a_version_of_the_library_without_a_name_is_not_guessed_at(missed, monkeypatch, name):
    call = missed("sparse_weights", True, False)
    monkeypatch.delattr(engine_cache, name)
    assert cache_neighbors.facts(call) == {"torch_tensorrt.engine_cache.reason": "other_settings"}
