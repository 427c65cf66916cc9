# SPDX-License-Identifier: Apache-2.0
"""Lookups in the caches of torch.compile: the result, the parts of the key, and why the cache does not accept a graph."""

import logging
import re
import stat
from contextlib import contextmanager

import pytest
import torch
from torch._inductor.utils import fresh_cache

from support import compiled
from torchspan.base.files import user_folder
from torchspan.hooks.probes.describe import compile_caches
from torchspan.hooks.probes.describe.compile_caches import CACHES, key_parts

ONES = torch.ones(3, 3)
AOTAUTOGRAD, INDUCTOR = "torch.compile.aotautograd_cache", "torch.compile.inductor_cache"
HASH = "esstihe2nyydk4mhzpvox3qkajyu5y5t23hk3fi2me7jn75xi3o"


@pytest.fixture(autouse=True)
def cold(monkeypatch):
    """Both caches are enabled and empty, and Inductor starts no processes."""
    monkeypatch.setenv("TORCH_WARM_POOL", "0")
    settings = torch._inductor.config.patch(fx_graph_cache=True, compile_threads=1)
    with settings, torch._functorch.config.patch(enable_autograd_cache=True), fresh_cache():
        yield


@pytest.fixture
def lookups(spans):
    """The attributes of each frame, after the function was compiled once for each group of Inductor's settings."""

    def looked_up(*settings, function=compiled.product, x=ONES):
        for group in settings:
            torch._dynamo.reset()
            with torch._inductor.config.patch(group):
                torch.compile(function, backend="inductor")(x)
        return [span.attributes for span in spans("torch.compile_frame")]

    return looked_up


def digests(attributes, cache=INDUCTOR):
    """Name of a part -> digest."""
    return dict(zip(attributes[f"{cache}.key_parts"], attributes[f"{cache}.key_digests"], strict=True))


# --- real compilations ------------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_of_two_keys_exactly_the_digest_of_the_setting_that_was_changed_differs(lookups):
    first, second = lookups({"max_autotune_gemm_backends": "ATEN"}, {"max_autotune_gemm_backends": "ATEN,CPP"})
    assert [attributes[f"{INDUCTOR}.result"] for attributes in (first, second)] == ["miss", "miss"]
    assert first[f"{INDUCTOR}.key"] != second[f"{INDUCTOR}.key"]
    before, after = digests(first), digests(second)
    assert list(before) == list(after)
    assert [name for name in before if before[name] != after[name]] == ["inductor_config[max_autotune_gemm_backends]"]
    assert {"gm", "example_inputs[0]", "torch_version", "inductor_config[*]", "inductor_config[triton.*]"} <= set(
        before
    )


@pytest.mark.slow
def test_a_setting_that_only_one_of_two_compilations_changes_is_a_part_of_only_that_key(lookups):
    first, second = lookups({}, {"max_fusion_size": 7})
    assert set(digests(second)) - set(digests(first)) == {"inductor_config[max_fusion_size]"}


@pytest.mark.slow
def test_a_hit_has_the_key_of_the_miss_before_it_and_the_time_that_it_saved(lookups):
    cold, warm = lookups({}, {})
    assert [attributes[f"{AOTAUTOGRAD}.result"] for attributes in (cold, warm)] == ["miss", "hit"]
    assert cold[f"{AOTAUTOGRAD}.key"] == warm[f"{AOTAUTOGRAD}.key"]
    assert warm[f"{AOTAUTOGRAD}.saved"] > 0
    assert f"{AOTAUTOGRAD}.saved" not in cold
    assert f"{INDUCTOR}.result" not in warm  # the result is in AOTAutograd's entry


@pytest.mark.slow
def test_aotautograds_key_has_parts_while_its_debug_log_is_on(lookups, caplog):
    caplog.set_level(logging.DEBUG, logger="torch._functorch._aot_autograd.autograd_cache")
    first, second = lookups({"max_fusion_size": 7}, {"max_fusion_size": 8})
    before, after = digests(first, AOTAUTOGRAD), digests(second, AOTAUTOGRAD)
    assert [name for name in before if before[name] != after[name]] == ["inductor_config[max_fusion_size]"]


@pytest.mark.slow
def test_a_hit_of_inductors_own_cache_has_the_time_that_it_saved(lookups):
    with torch._functorch.config.patch(enable_autograd_cache=False):
        cold, warm = lookups({}, {})
    assert [attributes[f"{INDUCTOR}.result"] for attributes in (cold, warm)] == ["miss", "hit"]
    assert digests(cold) == digests(warm)
    assert warm[f"{INDUCTOR}.saved"] > 0


@pytest.mark.slow
def test_a_graph_that_no_cache_accepts_has_pytorchs_reason(lookups):
    (attributes,) = lookups({"post_grad_custom_pre_pass": lambda graph: None})
    assert attributes[f"{AOTAUTOGRAD}.result"] == attributes[f"{INDUCTOR}.result"] == "bypass"
    assert attributes[f"{AOTAUTOGRAD}.bypass_reason"] == "Unsupported post grad custom pass"
    assert attributes[f"{INDUCTOR}.bypass_reason"] == "Unsupported post grad custom pass"
    assert f"{INDUCTOR}.key" not in attributes


@pytest.mark.slow
def test_a_cache_that_is_disabled_is_marked(lookups):
    (attributes,) = lookups({"fx_graph_cache": False})
    assert attributes[f"{INDUCTOR}.result"] == "disabled"
    assert attributes[f"{INDUCTOR}.bypass_reason"] == "cache not enabled"
    assert attributes[f"{AOTAUTOGRAD}.bypass_reason"] == "FX graph cache is not enabled"
    assert f"{INDUCTOR}.disabling_variables" not in attributes


@pytest.mark.slow
def test_variables_that_disable_a_cache_are_named(lookups, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_FX_GRAPH_CACHE", "0")  # Inductor has read it, so the setting says the same
    (attributes,) = lookups({"fx_graph_cache": False})
    assert attributes[f"{INDUCTOR}.disabling_variables"] == ("TORCHINDUCTOR_FX_GRAPH_CACHE",)


@pytest.mark.slow
def test_a_backward_graph_has_lookups_of_its_own(lookups, spans):
    def squares(x):
        return (x * x).sum()

    torch.compile(squares, backend="inductor")(torch.ones(3, 3, requires_grad=True)).backward()
    (frame,), (backward,) = spans("torch.compile_frame"), spans("torch.compile_backward")
    assert frame.attributes[f"{INDUCTOR}.result"] == backward.attributes[f"{INDUCTOR}.result"] == "miss"
    forward, back = digests(frame.attributes), digests(backward.attributes)
    assert forward["torch_version"] == back["torch_version"]
    assert forward["gm"] != back["gm"]


@pytest.mark.slow
def test_no_hash_of_pytorchs_leaves(lookups, monkeypatch):
    hashes = set()
    original = compile_caches.key_parts
    monkeypatch.setattr(
        compile_caches, "key_parts", lambda lines: hashes.update(line[1:52] for line in lines) or original(lines)
    )
    (attributes,) = lookups({})
    assert len(hashes) > 50
    assert [text for text in hashes if text in str(dict(attributes))] == []


# --- the parts of a key -----------------------------------------------------------------------------------------------
def test_a_part_has_no_value_and_a_name_that_is_not_an_identifier_is_grouped():
    lines = [
        f"[{HASH}] gm: GraphModule()\n\ndef forward(self, alice):",
        f"[{HASH}] fx_kwargs[cpp_wrapper]: False",
        f"[{HASH}] fx_kwargs[alice's own]: secret",
        "no line of a key",
        7,
    ]
    assert key_parts(lines) == {"gm": [HASH], "fx_kwargs[cpp_wrapper]": [HASH], "fx_kwargs[*]": [HASH]}


def test_more_than_sixteen_parts_of_one_name_are_one_part():
    few, many = ([f"[{HASH}] example_inputs[{number}]: x" for number in range(count)] for count in (16, 17))
    assert list(key_parts(few)) == [f"example_inputs[{number}]" for number in range(16)]
    assert key_parts(many) == {"example_inputs[*]": [HASH] * 17}


def test_settings_of_a_namespace_are_one_part():
    lines = [f"[{HASH}] inductor_config[triton.option{number}]: x" for number in range(9)]
    lines += [f"[{HASH}] inductor_config[option{number}]: x" for number in range(9)]
    assert key_parts(lines) == {"inductor_config[triton.*]": [HASH] * 9, "inductor_config[*]": [HASH] * 9}


def test_sixty_four_parts_are_named_and_the_last_has_all_others():
    names = [f"part_{number}" for number in range(100)]
    cache = CACHES[1]
    facts = cache.facts({"cache_state": "miss", "components": [f"[{HASH}] {name}: x" for name in names]}, str.upper)
    assert facts[cache.parts] == [*names[:63], "others"]
    assert len(facts[cache.digests]) == 64
    assert facts[cache.digests][63].count(HASH.upper()) == 37


def test_the_names_of_parts_fit_into_one_attribute():
    lines = [f"[{HASH}] {'n' * 50}_{number:02d}: x" for number in range(64)]
    cache = CACHES[1]
    facts = cache.facts({"cache_state": "miss", "components": lines}, str.upper)
    assert facts[cache.parts][-1] == "others"
    assert sum(map(len, facts[cache.parts])) <= 2048


def test_equal_values_of_two_parts_have_different_digests():
    cache = CACHES[1]
    facts = cache.facts({"components": [f"[{HASH}] first: False", f"[{HASH}] second: False"]}, str.upper)
    assert len(set(facts[cache.digests])) == 2


# --- the user's key ---------------------------------------------------------------------------------------------------
@contextmanager
def caches_in(folder, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    user_folder.digests_key.cache_clear()
    yield
    user_folder.digests_key.cache_clear()


def test_the_key_of_digests_is_in_a_file_that_only_the_user_can_read(tmp_path, monkeypatch):
    with caches_in(tmp_path, monkeypatch):
        key = user_folder.digests_key()
    file = tmp_path / "torchspan" / "digests.key"
    assert (len(key), file.read_bytes()) == (32, key)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    with caches_in(tmp_path, monkeypatch):
        assert user_folder.digests_key() == key


def test_a_key_that_others_could_read_is_not_used(tmp_path, monkeypatch):
    file = tmp_path / "torchspan" / "digests.key"
    file.parent.mkdir(mode=0o700)
    file.write_bytes(b"x" * 32)
    file.chmod(0o644)
    with caches_in(tmp_path, monkeypatch):
        assert user_folder.digests_key() == user_folder._OF_THIS_PROCESS


def test_where_no_folder_can_be_made_the_key_is_one_of_the_process(tmp_path, monkeypatch):
    (tmp_path / "torchspan").write_text("a file")
    with caches_in(tmp_path, monkeypatch):
        assert user_folder.digests_key() == user_folder._OF_THIS_PROCESS


def test_a_digest_depends_on_the_users_key(tmp_path, monkeypatch):
    from torchspan.hooks.adapters.dynamo.frames import keyed_digest

    made = []
    for name in ("one", "another"):
        with caches_in(tmp_path / name, monkeypatch):
            made.append(keyed_digest("False"))
    assert made[0] != made[1]
    assert all(re.fullmatch(r"[0-9a-f]{16}", digest) for digest in made)
