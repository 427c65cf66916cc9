# SPDX-License-Identifier: Apache-2.0
"""Engines outlive their compile: save, load, copy, cache, refit."""

from __future__ import annotations

import copy
import functools
import io
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch_tensorrt

import torchspan.testing
from support.forked import held_elsewhere, in_forked_child
from support.tree import named
from testing.models import Doubles, Mlp, WithFallback, assert_close, engines, seeded
from torchspan.hooks.without_gpu import _engines, _switch

pytestmark = pytest.mark.slow

VERSION = tuple(int(part) for part in torch_tensorrt.__version__.split("+")[0].split(".")[:2])
REFITTABLE = {"min_block_size": 1, "immutable_weights": False}


def other_weights():
    torch.manual_seed(1)
    return Mlp().eval().cuda()


def compiled_from(program, x, **settings):
    return torch_tensorrt.dynamo.compile(program, arg_inputs=[x], **{"min_block_size": 1, **settings})


@functools.cache
def compiled_with_any_batch(make):
    """Model, dynamic shapes and compiled module."""
    model, shapes = seeded(make), ({0: torch.export.Dim("batch", min=2, max=8)},)
    program = torch.export.export(model, (torch.randn(2, 16, device="cuda"),), dynamic_shapes=shapes)
    spec = torch_tensorrt.Input(min_shape=(2, 16), opt_shape=(4, 16), max_shape=(8, 16))
    return model, shapes, compiled_from(program, spec)


@pytest.fixture
def x():
    return torch.randn(2, 16, device="cuda")


@torch.no_grad()
# The warning is torch_tensorrt's, when it does not retrace.
@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node:UserWarning")
@pytest.mark.skipif(VERSION < (2, 13), reason="saving runs the runtime module on fake tensors up to 2.12")
@pytest.mark.parametrize("retrace", [True, False])
def test_a_saved_module_loads_and_runs(tmp_path, x, retrace):
    model = seeded(Mlp)
    trt = compiled_from(torch.export.export(model, (x,)), x)
    torch_tensorrt.save(trt, str(tmp_path / "m.ep"), arg_inputs=[x], retrace=retrace)
    loaded = torch_tensorrt.load(str(tmp_path / "m.ep")).module()
    assert_close(loaded(x), model(x))


@torch.no_grad()
# The warning is torch_tensorrt's, when it puts the engines into the graph that it exports again.
@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node:UserWarning")
@pytest.mark.skipif(VERSION < (2, 13), reason="saving runs the runtime module on fake tensors up to 2.12")
@pytest.mark.parametrize("make", [Doubles, WithFallback])
def test_a_module_saved_with_dynamic_shapes_runs_at_other_sizes(tmp_path, x, make):
    model, shapes, trt = compiled_with_any_batch(make)
    torch_tensorrt.save(trt, str(tmp_path / "m.ep"), arg_inputs=[x], retrace=True, dynamic_shapes=shapes)
    loaded = torch_tensorrt.load(str(tmp_path / "m.ep")).module()
    for batch in (2, 5, 8):
        y = torch.randn(batch, 16, device="cuda")
        assert_close(loaded(y), model(y))


@torch.no_grad()
@pytest.mark.skipif(VERSION < (2, 13), reason="exporting runs the runtime module on fake tensors up to 2.12")
def test_sizes_of_an_exported_engines_outputs_stay_symbols(x):
    _, shapes, trt = compiled_with_any_batch(Doubles)
    nodes = torch.export.export(trt, (x,), dynamic_shapes=shapes).graph.nodes
    (batch,) = (node.meta["val"].shape[0] for node in nodes if node.name == "x")
    ((twice, flat),) = (node.meta["val"] for node in nodes if "execute_engine" in node.name)
    assert str(twice.shape[0]) == f"2*{batch}" and str(flat.shape[0]) == f"4*{batch}"


@torch.no_grad()
@pytest.mark.skipif(VERSION < (2, 14), reason="engine modules cannot be pickled: locks of 2.13, Dims of 2.12")
def test_copies_and_pickles_of_a_compiled_module_run(x):
    model = seeded(Mlp)
    trt = compiled_from(torch.export.export(model, (x,)), x)
    assert_close(copy.deepcopy(trt)(x), model(x))
    file = io.BytesIO()
    torch.save(trt, file)
    file.seek(0)
    assert_close(torch.load(file, weights_only=False)(x), model(x))


@torch.no_grad()
def test_refitting_changes_the_numbers_and_the_bytes(x):
    model, new = seeded(Mlp), other_weights()
    # Up to 2.12 only modules of the Python runtime can be refitted, and have to be asked for.
    settings = {} if VERSION >= (2, 13) else {"use_python_runtime": True}
    trt = compiled_from(torch.export.export(model, (x,)), x, immutable_weights=False, **settings)
    before = bytes(engines(trt)[0].serialized_engine)
    refitted = torch_tensorrt.dynamo.refit_module_weights(trt, torch.export.export(new, (x,)), arg_inputs=[x])
    assert_close(refitted(x), new(x))
    assert bytes(engines(refitted)[0].serialized_engine) != before
    assert_close(copy.deepcopy(refitted)(x), new(x))


@torch.no_grad()
def test_a_mutable_module_follows_its_weights_and_shapes(x):
    model, new = seeded(Mlp), other_weights()
    mutable = torch_tensorrt.MutableTorchTensorRTModule(model, **REFITTABLE)
    assert_close(mutable(x), seeded(Mlp)(x))
    mutable.load_state_dict(new.state_dict())
    assert_close(mutable(x), new(x))
    y = torch.randn(5, 16, device="cuda")
    assert_close(mutable(y), new(y))


@torch.no_grad()
@pytest.mark.parametrize("strip", [False, True])
def test_a_cache_hit_with_other_weights_returns_their_numbers(tmp_path, x, strip, monkeypatch):
    builds = []
    builder = sys.modules["tensorrt"].Builder
    build = builder.build_serialized_network
    monkeypatch.setattr(builder, "build_serialized_network", lambda *args: builds.append(1) or build(*args))
    cache = {"cache_built_engines": True, "reuse_cached_engines": True, "engine_cache_dir": str(tmp_path)}
    for model in (seeded(Mlp), other_weights()):
        program = torch.export.export(model, (x,))
        trt = compiled_from(program, x, **REFITTABLE, **cache, strip_engine_weights=strip)
        if not strip:
            assert_close(trt(x), model(x))
    assert builds == [1]


def test_bytes_that_are_not_an_engine_are_answered_as_by_tensorrt():
    trt = sys.modules["tensorrt"]
    assert trt.Runtime(torch_tensorrt.logging.TRT_LOGGER).deserialize_cuda_engine(b"not an engine") is None


class Lines(sys.modules["tensorrt"].ILogger):
    """The errors that TensorRT logs."""

    def __init__(self):
        super().__init__()
        self.errors = []

    def log(self, severity, message):
        if severity == self.Severity.ERROR:
            self.errors.append(message)


@pytest.mark.stand_in_only("refused")
def test_an_engine_that_the_stand_in_did_not_build_gives_none_and_an_error_that_names_it():
    logger = Lines()
    runtime = sys.modules["tensorrt"].Runtime(logger)
    assert runtime.deserialize_cuda_engine(b"vtrt" + bytes(100)) is None
    (message,) = logger.errors
    assert message.startswith("The stand-in for a GPU (torchspan run --without-gpu, torchspan.testing.without_gpu)")
    assert "XDG_CACHE_HOME" in message


def test_a_profile_is_a_list_of_the_least_the_optimal_and_the_largest_shape(x):
    (module,) = engines(compiled_from(torch.export.export(seeded(Mlp), (x,)), x))
    engine = (
        sys.modules["tensorrt"]
        .Runtime(torch_tensorrt.logging.TRT_LOGGER)
        .deserialize_cuda_engine(module.serialized_engine)
    )
    profile = engine.get_tensor_profile_shape("x", 0)
    assert type(profile) is list
    assert [tuple(shape) for shape in profile] == [(2, 16)] * 3


@pytest.mark.stand_in_only("real ones are not marked and refuse nothing")
def test_the_stand_ins_are_marked_and_lack_what_the_real_thing_lacks(x):
    (module,) = engines(compiled_from(torch.export.export(seeded(Mlp), (x,)), x))
    runtime = sys.modules["tensorrt"].Runtime(torch_tensorrt.logging.TRT_LOGGER)
    assert runtime.deserialize_cuda_engine.__torchspan_stand_in__
    engine = runtime.deserialize_cuda_engine(module.serialized_engine)
    context = engine.create_execution_context()
    assert type(engine).__torchspan_stand_in__ and type(context).__torchspan_stand_in__
    assert type(engine.create_runtime_config()).__torchspan_stand_in__
    assert engine.num_io_tensors == 2 and engine.get_tensor_name(0) == "x"
    assert not hasattr(engine, "no_such_method") and not hasattr(context, "__array__")
    with pytest.raises(torchspan.testing.NeedsGpuError, match=r"tensorrt.ICudaEngine.profiling_verbosity"):
        _ = engine.profiling_verbosity
    with pytest.raises(torchspan.testing.NeedsGpuError, match=r"tensorrt.IExecutionContext.set_aux_streams"):
        context.set_aux_streams([])
    with pytest.raises(torchspan.testing.NeedsGpuError, match=r"Refitter.refit_cuda_engine"):
        sys.modules["tensorrt"].Refitter(engine, None).refit_cuda_engine()


CACHED = """
import sys, warnings
warnings.simplefilter("ignore")
import torchspan.testing
torchspan.testing.without_gpu()
import torch, torch_tensorrt
sys.path.insert(0, {tests!r})
from testing.test_engines import compiled_with_cache
built, result = compiled_with_cache("cache")
loaded, x, expected = torch.load("model.pt", weights_only=False)
print(built, torch.allclose(result, expected), torch.allclose(loaded(x), expected))
"""


def compiled_with_cache(folder):
    """How many engines were built, and what the compiled module returns."""
    model, x, builds = seeded(Mlp), torch.arange(32.0, device="cuda").reshape(2, 16), []
    builder = sys.modules["tensorrt"].Builder
    build = builder.build_serialized_network
    builder.build_serialized_network = lambda *args: builds.append(1) or build(*args)
    cache = {"cache_built_engines": True, "reuse_cached_engines": True, "engine_cache_dir": str(folder)}
    try:
        with torch.no_grad():
            compiled = compiled_from(torch.export.export(model, (x,)), x, **REFITTABLE, **cache)
            return len(builds), compiled(x)
    finally:
        builder.build_serialized_network = build


@torch.no_grad()
@pytest.mark.stand_in_only("its second process enables the stand-in")
@pytest.mark.skipif(VERSION < (2, 14), reason="engine modules cannot be pickled: locks of 2.13, Dims of 2.12")
def test_engines_of_one_process_are_known_in_the_next_from_a_cache_and_from_a_file(python, tmp_path):
    built, expected = compiled_with_cache(tmp_path / "cache")
    model, x = seeded(Mlp), torch.arange(32.0, device="cuda").reshape(2, 16)
    torch.save((compiled_from(torch.export.export(model, (x,)), x), x, expected), tmp_path / "model.pt")
    program = CACHED.format(tests=str(Path(__file__).parents[1]))
    assert (built, python(program).splitlines()[-1]) == (1, "0 True True")


@pytest.fixture
def caches(tmp_path, monkeypatch):
    """The user's folder for caches, in which the stand-in keeps engines for other processes."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(_engines, "_folder", None)
    _switch._share_engines()
    return tmp_path


@torch.no_grad()
@pytest.mark.stand_in_only("real engines are not kept there")
def test_the_users_folder_for_caches_has_the_engines_of_this_process(caches, x):
    compiled_from(torch.export.export(seeded(Mlp), (x,)), x)
    folder = caches / "torchspan" / "engines-4"
    assert sorted(path.suffix for path in folder.iterdir()) == [".key", ".pt"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@torch.no_grad()
@pytest.mark.stand_in_only("real engines are not kept there")
def test_an_engine_of_a_graph_with_varying_sizes_is_stored_and_runs_from_the_folder(monkeypatch):
    model, _, trt = compiled_with_any_batch(Doubles)
    plan = bytes(engines(trt)[0].serialized_engine)
    monkeypatch.setattr(_engines, "_engines", {})
    monkeypatch.setattr(_engines, "_stored", set())
    engine = sys.modules["tensorrt"].Runtime(torch_tensorrt.logging.TRT_LOGGER).deserialize_cuda_engine(plan)
    y = torch.randn(5, 16)
    assert_close(engine.reference.run([y]), list(model(y)))


@pytest.mark.stand_in_only("real engines are not looked for")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_looks_for_engines_whatever_thread_looked_at_the_fork():
    def child():
        signal.alarm(20)
        return _engines.find(b"no engine")

    with held_elsewhere(_engines._lock):
        assert in_forked_child(child) == "None"


# --- the id of an engine ----------------------------------------------------------------------------------------------
SERVING = """
import json, sys, warnings
warnings.simplefilter("ignore")
import torchspan, torchspan.testing
torchspan.testing.without_gpu()
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
spans, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
provider.add_span_processor(SimpleSpanProcessor(spans))
torchspan.TorchspanInstrumentor().instrument(tracer_provider=provider)
import torch, torch_tensorrt
module = torch_tensorrt.load(sys.argv[1]).module()
module(torch.ones(2, 16))
print(json.dumps([(span.name, span.attributes.get("tensorrt.engine.id")) for span in spans.get_finished_spans()]))
"""


@pytest.mark.stand_in_only("its second process enables the stand-in")
@pytest.mark.skipif(VERSION < (2, 13), reason="to 2.12 a compiled module cannot be saved without a GPU")
def test_a_process_that_loads_the_saved_module_names_the_engine_that_this_one_built(
    instrument, exporter, caches, tmp_path, x
):
    instrument()
    module = compiled_from(torch.export.export(seeded(Mlp), (x,)), x)
    path = str(tmp_path / "model.ep")
    torch_tensorrt.save(module, path, arg_inputs=[x])
    built = named(exporter.get_finished_spans(), "tensorrt.build_engine").attributes["tensorrt.engine.id"]

    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "TORCHSPAN_"))}
    done = subprocess.run(
        [sys.executable, "-c", SERVING, path],
        env=clean,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    served = json.loads(done.stdout.splitlines()[-1])
    assert {name for name, _ in served} >= {"tensorrt.deserialize_engine", "torch_tensorrt.execute"}
    assert {identity for name, identity in served if name.startswith(("tensorrt.", "torch_tensorrt.execute"))} == {
        built
    }
