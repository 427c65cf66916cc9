# SPDX-License-Identifier: Apache-2.0
"""What the routes of `tests/routes.py` do. Each function prepares, and returns what is then run under the bridge."""

import contextlib
import io

import torch
import torch.nn.functional as F
import torch_tensorrt
from torch_tensorrt import _features
from torch_tensorrt.dynamo.backend import backends

from support import models

X = torch.ones(2, 16)
ONE = {"min_block_size": 1}


def mlp(seed=0):
    torch.manual_seed(seed)
    return models.Mlp().eval()


def program(seed=0):
    return torch_tensorrt.dynamo.trace(mlp(seed), arg_inputs=[X])


def compiled(**settings):
    return torch_tensorrt.compile(mlp(), ir="dynamo", inputs=[X], **ONE, **settings)


# --- compile -----------------------------------------------------------------------------------------------------


def dynamo_compile(**settings):
    def prepare(_tmp_path, _monkeypatch):
        exported = program()
        return lambda: torch_tensorrt.dynamo.compile(exported, arg_inputs=[X], **{**ONE, **settings})

    return prepare


def compile_with(model=models.Mlp, x=X, **settings):
    """torch_tensorrt.compile of a model; `ir` is one of the settings."""

    def prepare(_tmp_path, _monkeypatch):
        module = models.seeded(model)
        return lambda: torch_tensorrt.compile(module, inputs=[x], **{**ONE, **settings})

    return prepare


def compile_and_call(**settings):
    def prepare(_tmp_path, _monkeypatch):
        module = mlp()
        return lambda: torch_tensorrt.compile(module, inputs=[X], **ONE, **settings)(X)

    return prepare


def attention_of_the_cpu(_tmp_path, _monkeypatch):
    attend = torch.compile(lambda x: F.scaled_dot_product_attention(x, x, x), backend="tensorrt", options=ONE)
    return lambda: attend(torch.ones(1, 2, 4, 8))


def dry_run(_tmp_path, _monkeypatch):
    module = mlp()

    def plan():
        with contextlib.redirect_stdout(io.StringIO()):  # the library prints its report
            torch_tensorrt.compile(module, ir="dynamo", inputs=[X], dryrun=True, **ONE)

    return plan


def fast_partitioner_fails(_tmp_path, monkeypatch):
    """What upstream catches when its fast partitioner cannot split a graph, raised inside that partitioner."""
    from torch.fx.passes.splitter_base import FxNetSplitterInternalError
    from torch_tensorrt.dynamo.partitioning import _adjacency_partitioner

    def cannot_split(self):
        raise FxNetSplitterInternalError("cannot split")

    monkeypatch.setattr(_adjacency_partitioner.TRTPartitioner, "partition_graph", cannot_split)
    module = mlp()
    return lambda: torch_tensorrt.compile(module, ir="dynamo", inputs=[X], **ONE)


# --- torch.compile -------------------------------------------------------------------------------------------------


def torch_compile_made_before(_tmp_path, _monkeypatch):
    made = torch.compile(mlp(), backend="tensorrt", options=ONE)
    return lambda: made(X)


def torch_compile(backend):
    def prepare(_tmp_path, _monkeypatch):
        module = mlp()
        return lambda: torch.compile(module, backend=backend, options=ONE)(X)

    return prepare


def torch_compile_by_function(_tmp_path, _monkeypatch):
    backend = backends.torch_tensorrt_backend  # as a program that took it before we came
    return torch_compile(backend)(_tmp_path, _monkeypatch)


# --- bytes of an engine, other platforms ---------------------------------------------------------------------------


def convert_method(_tmp_path, _monkeypatch):
    module = mlp()
    return lambda: torch_tensorrt.convert_method_to_trt_engine(module, "forward", inputs=[X], ir="dynamo", **ONE)


def convert_program(_tmp_path, _monkeypatch):
    exported = program()
    return lambda: torch_tensorrt.dynamo.convert_exported_program_to_serialized_trt_engine(
        exported, arg_inputs=(X,), **ONE
    )


def cross_compile_refused(tmp_path, _monkeypatch):
    module = mlp()
    return lambda: torch_tensorrt.cross_compile_for_windows(module, str(tmp_path / "w.ep"), inputs=[X], **ONE)


def cross_compile(tmp_path, monkeypatch):
    """With the feature enabled that asks for a library of Windows: what is compiled is as real as elsewhere."""
    enabled = _features.ENABLED_FEATURES._replace(windows_cross_compile=True)
    monkeypatch.setattr(_features, "ENABLED_FEATURES", enabled)
    return cross_compile_refused(tmp_path, monkeypatch)


# --- modules that compile themselves ----------------------------------------------------------------------------------


def mutable(calls):
    """A mutable module; `calls` names what was done before, and last what is run: first, again, weights, shape."""

    def prepare(_tmp_path, _monkeypatch):
        module = torch_tensorrt.MutableTorchTensorRTModule(mlp(), **ONE)
        *before, last = (_mutable_call(module, each) for each in calls)
        for each in before:
            each()
        return last

    return prepare


def _mutable_call(module, what):
    if what == "weights":
        return lambda: (module.load_state_dict(mlp(5).state_dict()), module(X))
    x = torch.ones(3, 16) if what == "shape" else X
    return lambda: module(x)


def mutable_save(tmp_path, _monkeypatch):
    module = torch_tensorrt.MutableTorchTensorRTModule(mlp(), **ONE)
    module(X)
    return lambda: torch_tensorrt.MutableTorchTensorRTModule.save(module, str(tmp_path / "m.pkl"))


def mutable_load(tmp_path, monkeypatch):
    mutable_save(tmp_path, monkeypatch)()
    return lambda: torch_tensorrt.MutableTorchTensorRTModule.load(str(tmp_path / "m.pkl"))


def refit(**options):
    def prepare(_tmp_path, _monkeypatch):
        module, new = compiled(immutable_weights=False), program(5)
        return lambda: torch_tensorrt.dynamo.refit_module_weights(module, new, arg_inputs=[X], **options)

    return prepare


# --- files -------------------------------------------------------------------------------------------------------


def save(**options):
    def prepare(tmp_path, _monkeypatch):
        module = compiled()
        return lambda: torch_tensorrt.save(module, str(tmp_path / "m.pt2"), arg_inputs=[X], **options)

    return prepare


def load(tmp_path, monkeypatch):
    save(retrace=True)(tmp_path, monkeypatch)()
    return lambda: torch_tensorrt.load(str(tmp_path / "m.pt2"))


# --- the engine cache ------------------------------------------------------------------------------------------------


def cached(before=0, **settings):
    """The compilation after `before` others with the same cache."""

    def prepare(tmp_path, _monkeypatch):
        cache = {
            "cache_built_engines": True,
            "reuse_cached_engines": True,
            "immutable_weights": False,
            "engine_cache_dir": str(tmp_path),
            **settings,
        }

        def build():
            exported = program()
            return lambda: torch_tensorrt.dynamo.compile(exported, arg_inputs=[X], **ONE, **cache)

        for _ in range(before):
            build()()
        return build()

    return prepare


# --- runs --------------------------------------------------------------------------------------------------------


def call(_tmp_path, _monkeypatch):
    module = compiled()
    return lambda: module(X)


def call_again(_tmp_path, _monkeypatch):
    module = compiled()
    module(X)
    return lambda: module(X)


def call_loaded(tmp_path, monkeypatch):
    loaded = load(tmp_path, monkeypatch)().module()
    return lambda: loaded(X)
