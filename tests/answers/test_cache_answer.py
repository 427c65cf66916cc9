# SPDX-License-Identifier: Apache-2.0
"""What caches did: the engine cache with each engine, and those of torch.compile with each graph."""

import pytest

from torchspan.reading.answers import _cache_answer
from torchspan.words import semconv as s


def test_every_reason_of_the_cache_is_put_into_words():
    reasons = {value for name, value in vars(s.CacheReason).items() if name.isupper()}
    assert set(_cache_answer.WHY) == reasons


@pytest.fixture
def line(recording, findings):
    """The one line about caches, of the spans below a compilation: name and attributes of each."""

    def line(*spans):
        root = recording.span("torch_tensorrt.compile", 0, 100)
        for number, (name, attributes) in enumerate(spans):
            recording.span(name, 10 * number, 10 * number + 5, attributes, parent=root)
        (only,) = findings()
        return only

    return line


# --- the engine cache -------------------------------------------------------------------------------------------------
def engine(result, reason=None, settings=None):
    """A conversion or an insertion with this outcome."""
    stored = result in ("inserted", "refused")
    attributes = {s.CACHE_INSERTED if stored else s.CACHE_RESULT: result}
    attributes |= {s.CACHE_REASON: reason} if reason else {}
    attributes |= {s.CACHE_SETTINGS: settings} if settings else {}
    return "torch_tensorrt.engine_cache.insert" if stored else "torch_tensorrt.convert", attributes


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        (
            [engine("disabled", "not_requested")] * 2,
            "off; immutable_weights=False, cache_built_engines=True, reuse_cached_engines=True turn it on",
        ),
        (
            [engine("disabled", "immutable_weights")],
            "1 disabled (immutable weights); immutable_weights=False, cache_built_engines=True, reuse_cached_engines=True turn it on",
        ),
        (
            [engine("rejected", "settings", ["disable_tf32"])],
            "1 rejected (other settings disable_tf32)",
        ),
        (
            [engine("hit"), engine("rejected", "outdated_entry")],
            "1 hit, 1 rejected (outdated entry)",
        ),
        (
            [engine("miss"), engine("refused", "cache_full")],
            "1 miss, 1 refused (cache full)",
        ),
        ([engine("rejected", "a_reason_of_a_later_version")], "1 rejected (a_reason_of_a_later_version)"),
    ],
)
def test_the_line_of_the_engine_cache_says_why_and_what_would_change_it(line, spans, expected):
    assert line(*spans) == f"engine cache: {expected}"


@pytest.mark.parametrize(("first", "second"), [(False, True), (True, False)])
def test_the_cache_is_off_where_the_settings_of_a_builds_own_compilation_say_so(recording, findings, first, second):
    for number, stores in enumerate((first, second)):
        names = {s.SETTINGS["cache_built_engines"]: stores, s.SETTINGS["reuse_cached_engines"]: stores}
        compilation = recording.span(
            "torch_tensorrt.compile", 100 * number, 100 * number + 90, {s.MODEL_CLASS: "Net", **names}
        )
        if not stores:
            recording.span("tensorrt.build_engine", 100 * number, 100 * number + 50, parent=compilation)
    assert [line.partition(";")[0] for line in findings()] == ["engine cache: off"]


def test_a_miss_says_by_which_setting_an_entry_was_missed(recording, findings):
    root = recording.span("torch_tensorrt.compile", 0, 100)
    outcome = {s.CACHE_RESULT: "miss", s.CACHE_REASON: "other_settings"}
    convert = recording.span("torch_tensorrt.convert", 0, 90, outcome, parent=root)
    neighbor = {
        s.CACHE_NEIGHBOR_SETTINGS: ["optimization_level"],
        s.CACHE_NEIGHBOR_STORED: ["3"],
        s.CACHE_NEIGHBOR_REQUESTED: ["2"],
    }
    recording.span("torch_tensorrt.engine_cache.lookup", 0, 10, {**outcome, **neighbor}, parent=convert)
    assert findings() == ["engine cache: 1 miss (an entry for other settings: optimization_level 3 there, 2 here)"]


# --- the caches of torch.compile --------------------------------------------------------------------------------------
def aotautograd(outcome, **more):
    return "torch.compile_phase backend_compile", {s.AOTAUTOGRAD_CACHE: outcome, **more}


def inductor(outcome, **more):
    return "torch.compile_phase inductor_compile", {s.INDUCTOR_CACHE: outcome, **more}


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        (
            [aotautograd("hit", **{s.AOTAUTOGRAD_CACHE_SAVED: 1.25})] * 2,
            "AOTAutograd's cache: 2 hits, which saved 2.50 s",
        ),
        ([aotautograd("hit")], "AOTAutograd's cache: 1 hit"),
        ([aotautograd("miss")] * 3, "AOTAutograd's cache: 3 misses"),
        (
            [aotautograd("bypass", **{s.AOTAUTOGRAD_CACHE_BYPASS_REASON: "Cannot cache a graph with ?"})],
            "AOTAutograd's cache: 1 bypass (Cannot cache a graph with ?)",
        ),
        ([inductor("hit", **{s.INDUCTOR_CACHE_SAVED: 0.75})], "Inductor's cache: 1 hit, which saved 750 ms"),
        ([inductor("hit"), inductor("miss")], "Inductor's cache: 1 hit, 1 miss"),
        (
            [inductor("disabled", **{s.INDUCTOR_CACHE_DISABLING_VARIABLES: ["TORCHINDUCTOR_FX_GRAPH_CACHE"]})] * 2,
            "Inductor's cache: 2 disabled; unset TORCHINDUCTOR_FX_GRAPH_CACHE",
        ),
        ([inductor("disabled")], "Inductor's cache: 1 disabled"),
        (
            [inductor("bypass", **{s.INDUCTOR_CACHE_BYPASS_REASON: "freezing"})] * 2,
            "Inductor's cache: 2 bypasses (freezing)",
        ),
    ],
)
def test_the_lines_of_torch_compiles_caches_say_what_they_saved_why_not_and_what_to_do(line, spans, expected):
    assert line(*spans) == expected


def test_what_hits_saved_is_not_said_of_misses(recording, said):
    recording.span(*inductor("hit")[:1], 0, 10, {s.INDUCTOR_CACHE: "hit", s.INDUCTOR_CACHE_SAVED: 0.5})
    recording.span(*inductor("miss")[:1], 10, 20, {s.INDUCTOR_CACHE: "miss", s.INDUCTOR_CACHE_SAVED: 0.5})
    assert [(result.cache, result.outcome, result.count, result.saved_s) for result in said().cache] == [
        ("inductor", "hit", 1, 0.5),
        ("inductor", "miss", 1, None),
    ]
