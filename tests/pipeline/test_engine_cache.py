# SPDX-License-Identifier: Apache-2.0
"""What the engine cache did and why, with Torch-TensorRT's own log and the files on disk as witnesses."""

import asyncio
import contextlib
import hashlib
import logging
import pickle
import sys

import pytest
import torch
import torch_tensorrt
from opentelemetry.trace import StatusCode
from torch_tensorrt.dynamo import _compiler, _engine_cache
from torch_tensorrt.dynamo._engine_cache import BaseEngineCache, DiskEngineCache
from torch_tensorrt.dynamo.conversion import _conversion

from pipeline.expected import VERSION
from support import models
from support.gpu import ON_GPU
from support.tree import named
from testing.models import assert_close
from torchspan.hooks.probes import Call
from torchspan.hooks.probes.describe import cache_neighbors

INPUT = torch.ones(2, 16)
CACHED = {"cache_built_engines": True, "reuse_cached_engines": True, "immutable_weights": False}
LOOKUP, INSERT = "torch_tensorrt.engine_cache.lookup", "torch_tensorrt.engine_cache.insert"
PREFIX = "torch_tensorrt.engine_cache."


class Memory(BaseEngineCache):
    """A user's cache: blobs in a dictionary, and how often each method ran."""

    def __init__(self):
        self.blobs, self.calls = {}, []

    def save(self, key, blob, *args, **kwargs):
        self.calls.append("save")
        self.blobs[key] = blob

    def load(self, key, *args, **kwargs):
        self.calls.append("load")
        return self.blobs.get(key)

    def change(self, **fields):
        """Replaces fields of the one entry there is; None takes one out."""
        ((key, blob),) = self.blobs.items()
        entry = {**pickle.loads(blob), **fields}
        self.blobs[key] = pickle.dumps({name: value for name, value in entry.items() if value is not None})


class OneKey(Memory):
    """Finds the same entry whatever is compiled."""

    @staticmethod
    def get_hash(gm, input_specs, settings):
        return "0" * 64


def compiled(cache=None, model=None, x=INPUT, **settings):
    program = torch_tensorrt.dynamo.trace(model or models.seeded(models.Mlp), arg_inputs=[x])
    if cache is not None:
        settings = {**CACHED, "custom_engine_cache": cache, **settings}
    return torch_tensorrt.dynamo.compile(program, arg_inputs=[x], min_block_size=1, **settings)


@pytest.fixture
def filled(exporter):
    """Fills a cache without the bridge looking on, then forgets what was emitted."""

    def fill(cache, **settings):
        compiled(cache, **settings)
        cache.calls.clear()
        return cache

    return fill


def of_cache(span):
    """The attributes about the cache, without their prefix."""
    return {key.removeprefix(PREFIX): value for key, value in span.attributes.items() if key.startswith(PREFIX)}


def outcome(spans):
    """(result, reason) on the conversion, which must be those on the lookup if there is one."""
    conversion = of_cache(named(spans, "torch_tensorrt.convert"))
    found = conversion.get("result"), conversion.get("reason")
    lookups = [of_cache(span) for span in spans if span.name == LOOKUP]
    assert not lookups or found == (lookups[0].get("result"), lookups[0].get("reason"))
    return found


# --- hit and miss ---------------------------------------------------------------------------------------------------


def digest(key):
    """What is recorded of the key under which a cache keeps an engine."""
    return hashlib.blake2b(key.encode(), digest_size=8).hexdigest()


@pytest.fixture
def log(caplog):
    """What Torch-TensorRT logs about its cache since the last call."""
    caplog.set_level(logging.INFO, "torch_tensorrt.dynamo")

    def lines():
        wanted = ("Found the cached engine with hash", "was successfully inserted", "Ignoring engine cache entry")
        found = [each for each in wanted for message in caplog.messages if each in message]
        caplog.clear()
        return found

    return lines


def test_a_miss_an_insertion_and_a_hit_as_the_log_and_the_files_have_them(instrument, exporter, tmp_path, log):
    instrument()
    cache = {**CACHED, "engine_cache_dir": str(tmp_path)}
    compiled(**cache)
    spans = exporter.get_finished_spans()
    assert log() == ["was successfully inserted"]
    assert outcome(spans) == ("miss", None)
    (file,) = tmp_path.rglob("blob.bin")
    stored = of_cache(named(spans, INSERT))
    assert stored == {"key": digest(file.parent.name), "insert.result": "inserted", "entry.size": file.stat().st_size}

    exporter.clear()
    compiled(**cache)
    spans = exporter.get_finished_spans()
    assert log() == ["Found the cached engine with hash"]
    assert outcome(spans) == ("hit", None)
    found = of_cache(named(spans, LOOKUP))
    assert (found["key"], found["entry.size"]) == (stored["key"], file.stat().st_size)
    assert INSERT not in {span.name for span in spans}

    exporter.clear()
    file.write_bytes(b"not to be read")
    compiled(**cache, optimization_level=2)
    spans = exporter.get_finished_spans()
    assert outcome(spans) == ("miss", "other_settings")
    assert of_miss(named(spans, LOOKUP).attributes) == {
        "settings.names": ("optimization_level",),
        "settings.stored_values": ("None",),
        "settings.requested_values": ("2",),
    }


def test_what_a_hit_cost_can_be_read_from_the_lookup(instrument, exporter, filled):
    cache = filled(Memory())
    instrument()
    module = compiled(cache)
    spans = exporter.get_finished_spans()
    lookup = named(spans, LOOKUP)
    whole_s = (lookup.end_time - lookup.start_time) / 1e9
    reading = [
        span
        for span in spans
        if span.name == "tensorrt.deserialize_engine" and span.parent.span_id == lookup.context.span_id
    ]
    assert len(reading) == 1
    steps = dict(
        zip(lookup.attributes["torchspan.steps.names"], lookup.attributes["torchspan.steps.durations"], strict=True)
    )
    assert 0 < steps["_refit_single_trt_engine_with_gm"] < whole_s
    (engine,) = [child for _, child in module.named_children() if hasattr(child, "serialized_engine")]
    assert lookup.attributes["tensorrt.engine.size"] == len(engine.serialized_engine)


def test_an_entry_that_is_stored_over_another_was_refreshed(instrument, exporter, filled):
    cache = filled(Memory())
    instrument()
    compiled(cache, reuse_cached_engines=False)
    assert of_cache(named(exporter.get_finished_spans(), INSERT))["insert.result"] == "refreshed"


# --- entries for something else -------------------------------------------------------------------------------------


def of_miss(attributes):
    """The attributes under `torch_tensorrt.engine_cache.miss.`, without their prefix."""
    return {key.partition(".miss.")[2]: value for key, value in attributes.items() if ".miss." in key}


def hash_of(x=INPUT, model=models.Mlp, **settings):
    """The library's own hash of a model."""
    given = torch_tensorrt.dynamo.CompilationSettings(immutable_weights=False, **settings)
    graph = torch.fx.symbolic_trace(models.seeded(model))
    return BaseEngineCache.get_hash(graph, [torch_tensorrt.Input.from_tensor(x)], given)


@pytest.fixture
def looked_for(tmp_path):
    """Describes a lookup of the small model, with these settings, that found nothing in a folder with these entries."""

    def describe(*entries, hash_val=None, **settings):
        for entry in entries:
            (tmp_path / entry).mkdir()
        cache = DiskEngineCache(str(tmp_path), 1 << 20)
        given = torch_tensorrt.dynamo.CompilationSettings(immutable_weights=False, **settings)
        arguments = {"hash_val": hash_val or hash_of(**settings), "engine_cache": cache, "settings": given}
        return cache_neighbors.facts(Call(None, (), arguments))

    return describe


def test_nothing_is_said_of_other_graphs_and_of_what_is_not_an_entry(looked_for):
    assert looked_for() == {}
    assert looked_for(hash_of(model=models.Counter), "x", "y" * 153, hash_of()) == {}


def test_each_setting_of_which_one_alone_differs_is_named_with_both_values(looked_for):
    found = looked_for(
        hash_of(),
        hash_of(disable_tf32=True, optimization_level=2),
        hash_of(optimization_level=2, engine_capability=torch_tensorrt.EngineCapability.SAFETY),
        hash_of(optimization_level=2, tiling_optimization_level="fast"),
        hash_of(optimization_level=5, version_compatible=True, sparse_weights=True),
        hash_of(x=torch.ones(3, 16)),
        optimization_level=2,
    )
    assert found["torch_tensorrt.engine_cache.reason"] == "other_settings"
    rows = zip(*(found[f"torch_tensorrt.engine_cache.miss.settings.{each}"] for each in ROW), strict=True)
    assert sorted(rows) == [
        ("disable_tf32", "True", "False"),
        ("engine_capability", "EngineCapability.SAFETY", "EngineCapability.STANDARD"),
        ("optimization_level", "None", "2"),
        ("tiling_optimization_level", "fast", "none"),
    ]


ROW = ("names", "stored_values", "requested_values")


def test_where_two_settings_differ_only_that_they_do_is_said(looked_for):
    entry = hash_of(disable_tf32=True, optimization_level=2)
    assert looked_for(entry) == {
        "torch_tensorrt.engine_cache.reason": "other_settings",
    }


def test_what_is_not_a_number_boolean_or_enumeration_is_named_without_its_value(looked_for):
    found = looked_for(hash_of(), autocast_excluded_nodes={"SECRET"})
    assert of_miss(found) == {
        "settings.names": ["autocast_excluded_nodes"],
        "settings.stored_values": ["?"],
        "settings.requested_values": ["?"],
    }


def test_an_entry_for_other_inputs_is_said_to_be_one(looked_for):
    assert looked_for(hash_of(x=torch.ones(3, 16), optimization_level=1)) == {
        "torch_tensorrt.engine_cache.reason": "other_inputs",
    }


def test_a_version_that_hashes_in_another_way_is_not_guessed_at(looked_for):
    graph_and_inputs = hash_of()[: 2 * len(hash_of()) // 3]
    found = looked_for(hash_of(optimization_level=1), hash_val=graph_and_inputs + "x" * (len(hash_of()) // 3))
    assert found == {"torch_tensorrt.engine_cache.reason": "other_settings"}


def test_a_folder_that_cannot_be_read_says_nothing(looked_for, tmp_path, monkeypatch):
    cache = DiskEngineCache(str(tmp_path / "gone"), 1 << 20)
    (tmp_path / "gone").rmdir()
    assert cache_neighbors.facts(Call(None, (), {"hash_val": hash_of(), "engine_cache": cache, "settings": None})) == {}


# --- disabled --------------------------------------------------------------------------------------------------------


def test_without_a_request_the_cache_is_disabled_and_the_conversion_reports_it(instrument, exporter):
    instrument()
    compiled()
    assert outcome(exporter.get_finished_spans()) == ("disabled", "not_requested")


def test_each_engine_reports_it(instrument, exporter):
    instrument()
    compiled(model=models.seeded(models.Fallback), x=models.image())
    conversions = [span for span in exporter.get_finished_spans() if span.name == "torch_tensorrt.convert"]
    assert [of_cache(span) for span in conversions] == [{"result": "disabled", "reason": "not_requested"}] * 2


def test_storing_alone_is_not_a_looking(instrument, exporter):
    instrument()
    compiled(Memory(), reuse_cached_engines=False)
    assert outcome(exporter.get_finished_spans()) == ("disabled", "not_requested")
    assert of_cache(named(exporter.get_finished_spans(), INSERT))["insert.result"] == "inserted"


def test_immutable_weights_disable_a_cache_that_was_asked_for(instrument, exporter):
    instrument()
    cache = Memory()
    compiled(cache, immutable_weights=True)
    assert outcome(exporter.get_finished_spans()) == ("disabled", "immutable_weights")
    assert cache.calls == []


def test_a_conversion_without_a_cache(instrument, exporter, monkeypatch):
    monkeypatch.setattr(_compiler, "DiskEngineCache", lambda *args: None)
    instrument()
    compiled(**CACHED)
    assert outcome(exporter.get_finished_spans()) == ("disabled", "no_cache_given")


def test_an_installation_that_cannot_refit(instrument, exporter, monkeypatch):
    features = torch_tensorrt.ENABLED_FEATURES._replace(refit=False)
    for module in (_conversion, torch_tensorrt._features):
        monkeypatch.setattr(module, "ENABLED_FEATURES", features)
    instrument()
    with contextlib.suppress(NotImplementedError) if VERSION < (2, 13) else contextlib.nullcontext():
        compiled(Memory())  # to 2.12 mapping the weights raises afterwards (upstream)
    assert outcome(exporter.get_finished_spans()) == ("disabled", "refit_unavailable")


def test_a_cache_that_gives_no_hash(instrument, exporter):
    class NoHash(Memory):
        @staticmethod
        def get_hash(gm, input_specs, settings):
            return None

    instrument()
    compiled(NoHash())
    spans = exporter.get_finished_spans()
    assert outcome(spans) == ("disabled", "no_hash")
    assert of_cache(named(spans, INSERT)) == {"insert.result": "refused", "reason": "no_hash"}


# --- rejected --------------------------------------------------------------------------------------------------------


def rejected(exporter, raised):
    """The cache's attributes of a lookup that an exception of this class passed."""
    spans = exporter.get_finished_spans()
    lookup = named(spans, LOOKUP)
    for span in (lookup, named(spans, "torch_tensorrt.convert"), named(spans, "torch_tensorrt.compile")):
        assert span.status.status_code is StatusCode.ERROR
        assert span.attributes["error.type"] == raised
        assert "torch_tensorrt.fallback.reason_classes" not in span.attributes
    assert outcome(spans)[0] == "rejected"
    return of_cache(lookup)


def test_an_entry_built_with_other_settings_names_them_and_no_value(instrument, exporter, filled):
    cache = filled(OneKey(), optimization_level=1)
    instrument()
    with pytest.raises(AssertionError, match="incompatible settings"):
        compiled(cache, optimization_level=2, disable_tf32=True)
    attributes = rejected(exporter, "AssertionError")
    assert attributes["reason"] == "settings"
    assert attributes["rejected.settings"] == ("disable_tf32", "optimization_level")
    assert attributes["entry.size"] == len(cache.blobs["0" * 64])


def test_an_entry_built_for_other_inputs(instrument, exporter, filled):
    cache = filled(OneKey())
    instrument()
    with pytest.raises(AssertionError, match="different input size"):
        compiled(cache, x=torch.ones(3, 16))
    assert rejected(exporter, "AssertionError")["reason"] == "inputs"


def test_torch_compile_swallows_a_rejection_and_the_compilation_says_it_failed(instrument, exporter):
    cache = OneKey()
    options = {**CACHED, "custom_engine_cache": cache, "min_block_size": 1}
    model = models.seeded(models.Mlp)
    torch.compile(model, backend="tensorrt", options={**options, "optimization_level": 1})(INPUT)
    torch._dynamo.reset()
    instrument()
    result = torch.compile(model, backend="tensorrt", options={**options, "optimization_level": 2})(INPUT)
    assert_close(result, model(INPUT), rtol=1e-5, atol=1e-8)
    spans = exporter.get_finished_spans()
    assert outcome(spans) == ("rejected", "settings")
    compilation = named(spans, "torch_tensorrt.compile")
    assert compilation.status.status_code is StatusCode.ERROR
    assert compilation.attributes["error.type"] == "AssertionError"
    assert compilation.attributes["torch_tensorrt.fallback.reason_classes"] == ("compile_failed",)
    frame = named(spans, "torch.compile_frame")
    assert frame.attributes["torch.compile.outcome"] == "fallen_back"
    assert frame.attributes["torch.compile.failure.type"] == "AssertionError"
    assert frame.status.status_code is StatusCode.UNSET


@pytest.mark.skipif(VERSION < (2, 14), reason="entries have no aliased_io before 2.14")
def test_an_entry_of_an_older_version_is_passed_over_and_the_engine_built_again(instrument, exporter, filled, log):
    cache = filled(Memory())
    cache.change(aliased_io=None)
    size = len(next(iter(cache.blobs.values())))
    instrument()
    log()
    compiled(cache)
    spans = exporter.get_finished_spans()
    assert "Ignoring engine cache entry" in log()
    assert outcome(spans) == ("rejected", "outdated_entry")
    lookup = named(spans, LOOKUP)
    assert of_cache(lookup)["entry.size"] == size
    assert lookup.status.is_unset
    assert lookup.attributes["torch_tensorrt.fallback.reason_classes"] == ("cache_entry_rejected",)
    compilation = named(spans, "torch_tensorrt.compile")
    assert compilation.status.is_unset
    assert "torch_tensorrt.fallback.reason_classes" not in compilation.attributes, "nothing runs in PyTorch"
    assert "tensorrt.build_engine" in {span.name for span in spans}


def test_a_blob_that_cannot_be_unpickled(instrument, exporter, filled):
    cache = filled(Memory())
    ((key, blob),) = cache.blobs.items()
    cache.blobs[key] = blob[: len(blob) // 2]
    instrument()
    with pytest.raises(pickle.UnpicklingError):
        compiled(cache)
    attributes = rejected(exporter, "_pickle.UnpicklingError")
    assert attributes["reason"] == "unreadable"
    assert attributes["entry.size"] == len(blob) // 2
    assert cache.calls == ["load"], "the user's cache is asked once"


@pytest.mark.fault("libraries", "a cache of engines raises")
def test_a_cache_whose_load_raises(instrument, exporter):
    error = ConnectionError("tcp://cache.internal:6379")

    class Broken(Memory):
        def load(self, key, *args, **kwargs):
            raise error

    instrument()
    with pytest.raises(ConnectionError) as caught:
        compiled(Broken())
    assert caught.value is error
    assert not hasattr(error, "__notes__")
    assert rejected(exporter, "ConnectionError")["reason"] == "unreadable"


def own_check(answer):
    """A cache with a `check` of its own, which answers or raises."""

    class OwnCheck(Memory):
        def check(self, key, *args, **kwargs):
            self.calls.append("check")
            return answer()

    return OwnCheck()


def raising(error):
    def answer():
        raise error

    return answer


def test_a_check_of_its_own_that_raises(instrument, exporter):
    cache = own_check(raising(TimeoutError("mine")))
    instrument()
    with pytest.raises(TimeoutError):
        compiled(cache)
    assert rejected(exporter, "TimeoutError")["reason"] == "unreadable"
    assert cache.calls == ["check"]


@pytest.mark.parametrize(
    "garbage",
    [
        "text",
        (1, 2),
        7,
        (b"", [], [], None, None) + (None,) * 5,
        tuple("entryent")[: 8 if VERSION >= (2, 14) or VERSION == (2, 12) else 7],
    ],
    ids=["text", "short", "number", "long", "right length"],
)
def test_a_cache_that_returns_garbage(instrument, exporter, garbage):
    instrument()
    with pytest.raises((ValueError, TypeError, AttributeError)) as caught:
        compiled(own_check(lambda: garbage))
    assert rejected(exporter, type(caught.value).__name__)["reason"] == "malformed_entry"


def test_a_check_of_its_own_that_hits(instrument, exporter, filled):
    source = filled(Memory())
    entry = BaseEngineCache.unpack(next(iter(source.blobs.values())))
    instrument()
    compiled(own_check(lambda: entry))
    spans = exporter.get_finished_spans()
    assert outcome(spans) == ("hit", None)
    assert of_cache(named(spans, LOOKUP)).keys() == {"result", "key"}


@pytest.mark.parametrize("how", ["through the library's check", "by itself"])
def test_a_check_of_its_own_that_withholds_what_it_found(instrument, exporter, filled, how):
    class Expired(Memory):
        def check(self, key, *args, **kwargs):
            entry = super().check(key) if how == "through the library's check" else self.unpack(self.load(key))
            assert entry is not None

    cache = Expired()
    cache.blobs = filled(Memory()).blobs
    instrument()
    compiled(cache)
    spans = exporter.get_finished_spans()
    assert outcome(spans) == ("rejected", "ignored_by_cache")
    assert named(spans, LOOKUP).status.is_unset


def test_an_engine_that_tensorrt_cannot_read(instrument, exporter, filled):
    cache = filled(Memory())
    cache.change(serialized_engine=b"no engine")
    instrument()
    with pytest.raises(Exception) as caught:
        compiled(cache)
    assert rejected(exporter, type(caught.value).__name__)["reason"] == "engine_unreadable"
    spans = exporter.get_finished_spans()
    (read,) = [span for span in spans if span.name == "tensorrt.deserialize_engine"]
    assert read.parent.span_id == named(spans, LOOKUP).context.span_id
    assert ON_GPU or read.attributes["torchspan.stand_in"] is True, "the waterfall's advice depends on it"


def test_a_refit_that_fails(instrument, exporter, filled, monkeypatch):
    cache = filled(Memory())
    monkeypatch.setattr(sys.modules["tensorrt"].Refitter, "refit_cuda_engine", lambda self: False)
    instrument()
    with pytest.raises(AssertionError, match="Refitting failed"):
        compiled(cache)
    assert rejected(exporter, "AssertionError")["reason"] == "refit_failed"


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, asyncio.CancelledError])
@pytest.mark.parametrize("where", ["load", "save"])
def test_an_interrupt_in_the_cache_closes_every_span_decides_nothing_and_passes(instrument, exporter, interrupt, where):
    cache, error = Memory(), interrupt()
    setattr(cache, where, lambda *args: raising(error)())
    instrument()
    with pytest.raises(interrupt) as caught:
        compiled(cache)
    assert caught.value is error
    spans = exporter.get_finished_spans()
    inside = named(spans, LOOKUP if where == "load" else INSERT)
    assert {"result", "reason", "insert.result"} & of_cache(inside).keys() == set()
    kind = inside.attributes["error.type"]
    assert kind in ("KeyboardInterrupt", "asyncio.exceptions.CancelledError")
    assert {span.name for span in spans if span.attributes.get("error.type") == kind} == {
        inside.name,
        "torch_tensorrt.convert",
        "torch_tensorrt.compile",
    }


unpickled = []


def count_unpickling():
    unpickled.append(1)
    return "counted"


class Counted:
    def __reduce__(self):
        return count_unpickling, ()


def test_nothing_is_unpickled_or_asked_for_twice(instrument, filled):
    cache = filled(Memory())
    cache.change(counts=Counted())
    unpickled.clear()
    compiled(cache)
    bare, bare_calls = len(unpickled), list(cache.calls)
    unpickled.clear()
    cache.calls.clear()
    instrument()
    compiled(cache)
    assert (len(unpickled), cache.calls) == (bare, bare_calls) == (1, ["load"])


# --- insertion -------------------------------------------------------------------------------------------------------


def test_a_custom_cache_says_the_bytes_it_was_given(instrument, exporter):
    class OwnHash(Memory):
        @staticmethod
        def get_hash(*_args, **_kwargs):
            return "alice@example.com"

    cache = OwnHash()
    instrument()
    compiled(cache)
    ((key, blob),) = cache.blobs.items()
    assert key == "alice@example.com"
    stored = of_cache(named(exporter.get_finished_spans(), INSERT))
    assert (stored["key"], stored["entry.size"], stored["insert.result"]) == (digest(key), len(blob), "inserted")
    assert cache.calls == ["load", "load", "save"], "a lookup, upstream's look before it inserts, the insertion"


def test_an_insert_of_its_own_has_no_packed_entry(instrument, exporter):
    class OwnInsert(Memory):
        def insert(self, key, entry, *args, **kwargs):
            self.entry = entry

    cache = OwnInsert()
    instrument()
    compiled(cache)
    stored = of_cache(named(exporter.get_finished_spans(), INSERT))
    assert stored["insert.result"] == "inserted"
    assert "entry.size" not in stored
    # A real engine is serialized to memory of TensorRT, which Torch-TensorRT hands on.
    assert isinstance(cache.entry[0], sys.modules["tensorrt"].IHostMemory if ON_GPU else bytes)


@pytest.mark.parametrize("method", ["save", "insert"])
def test_an_insertion_that_raises_is_refused_and_the_users_exception_passes(instrument, exporter, method):
    cache, error = Memory(), OSError("disk of the user")
    setattr(cache, method, lambda *args, **kwargs: raising(error)())
    instrument()
    with pytest.raises(OSError) as caught:
        compiled(cache)
    assert caught.value is error
    spans = exporter.get_finished_spans()
    insertion = named(spans, INSERT)
    assert (of_cache(insertion)["insert.result"], of_cache(insertion)["reason"]) == ("refused", "insert_raised")
    assert insertion.attributes["error.type"] == "OSError"
    assert outcome(spans) == ("miss", None)


def test_an_entry_larger_than_the_cache_is_refused_though_the_library_says_inserted(
    instrument, exporter, tmp_path, log
):
    instrument()
    compiled(DiskEngineCache(str(tmp_path), 100))
    assert "was successfully inserted" in log()
    stored = of_cache(named(exporter.get_finished_spans(), INSERT))
    assert (stored["insert.result"], stored["reason"]) == ("refused", "larger_than_cache")
    assert list(tmp_path.rglob("blob.bin")) == []


class Wider(torch.nn.Module):
    """Another graph than Mlp's, so that it has an entry of its own. Takes (batch, 16)."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(16, 32)

    def forward(self, x):
        return torch.sigmoid(self.first(x))


def blob_size(directory):
    compiled(DiskEngineCache(str(directory), 1 << 30))
    (file,) = directory.rglob("blob.bin")
    return file.stat().st_size


def test_an_entry_for_which_another_had_to_go_is_inserted(instrument, exporter, tmp_path):
    size = blob_size(tmp_path / "measured")
    directory = tmp_path / "small"
    cache = DiskEngineCache(str(directory), int(size * 1.5))
    instrument()
    compiled(cache)
    (first,) = directory.iterdir()
    exporter.clear()
    compiled(cache, model=models.seeded(Wider))
    stored = of_cache(named(exporter.get_finished_spans(), INSERT))
    (left,) = directory.rglob("blob.bin")
    assert not first.exists()
    assert stored["insert.result"] == "inserted"
    assert stored["entry.size"] == left.stat().st_size


def test_a_cache_that_stays_full_because_another_process_filled_it(instrument, exporter, tmp_path):
    size = blob_size(tmp_path)
    DiskEngineCache.dir2hash2size_map.pop(str(tmp_path))  # a new process knows none of the sizes
    cache = DiskEngineCache(str(tmp_path), int(size * 1.5))
    instrument()
    compiled(cache, model=models.seeded(Wider))
    stored = of_cache(named(exporter.get_finished_spans(), INSERT))
    assert (stored["insert.result"], stored["reason"]) == ("refused", "cache_full")
    assert list(tmp_path.rglob("blob.bin")) == []


def test_a_file_that_cannot_be_written(instrument, exporter, tmp_path):
    cache = DiskEngineCache(str(tmp_path), 1 << 30)

    class Blocked(DiskEngineCache):
        def save(self, key, blob, *args, **kwargs):
            (tmp_path / key / "blob.bin").mkdir(parents=True)  # a folder where the file should be
            return super().save(key, blob)

    cache.__class__ = Blocked
    instrument()
    compiled(cache)
    stored = of_cache(named(exporter.get_finished_spans(), INSERT))
    assert (stored["insert.result"], stored["reason"]) == ("refused", "write_failed")


# --- what is replaced for it -----------------------------------------------------------------------------------------


def test_pickle_itself_is_left_alone_and_the_librarys_view_of_it_restored(instrument):
    loads = pickle.loads
    instrumentor = instrument()
    assert pickle.loads is loads
    assert _engine_cache.pickle is not pickle
    assert _engine_cache.pickle.dumps is pickle.dumps
    instrumentor.uninstrument()
    assert _engine_cache.pickle is pickle
