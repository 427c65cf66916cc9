# SPDX-License-Identifier: Apache-2.0
"""Lowering passes, converters, validators, engine caches and engines of the program's own."""

import contextlib
import sys

import torch
import torch_tensorrt
from torch_tensorrt.dynamo import Debugger
from torch_tensorrt.dynamo._engine_cache import BaseEngineCache
from torch_tensorrt.dynamo.conversion import _ConverterRegistry as registry
from torch_tensorrt.dynamo.conversion import dynamo_tensorrt_converter
from torch_tensorrt.dynamo.lowering.passes import _aten_lowering_pass as passes
from torch_tensorrt.dynamo.runtime import TorchTensorRTModule

OPERATOR = torch.ops.aten.special_i1e.default
"""Torch-TensorRT has no converter for it."""

X = torch.ones(2, 4)
ONE = {"min_block_size": 1}


class _Model(torch.nn.Module):
    def forward(self, x):
        return torch.special.i1e(x + 1) * 2


def plant(place):
    """What fails in a conversion fails at one node; the graph is traced once."""
    program = torch_tensorrt.dynamo.trace(_Model(), arg_inputs=[X])
    for part in (_passes, _converters, _validators, _caches, _engines, _debuggers):
        with place.part(part.__name__):
            part(place, program)


def _compile(program, **options):
    return torch_tensorrt.dynamo.compile(program, arg_inputs=[X], **{**ONE, **options})


@contextlib.contextmanager
def _converter(body, **options):
    dynamo_tensorrt_converter(OPERATOR, supports_dynamic_shapes=True, **options)(body)
    try:
        yield
    finally:
        registry.DYNAMO_ATEN_CONVERTERS.pop(OPERATOR, None)


def _raising(error):
    def body(*_args):
        raise error

    return body


# --- passes ----------------------------------------------------------------------------------------------------
def _passes(place, program):
    manager = passes.ATEN_POST_LOWERING_PASSES
    before = list(manager.passes)
    for name in ("pass.name.identifier", "pass.name.text"):

        def changes_nothing(graph, _settings):
            return graph

        changes_nothing.__name__ = changes_nothing.__qualname__ = place(name)
        manager.passes.append(changes_nothing)

    def fails(graph, _settings):
        raise ValueError(place("pass.raises"))

    manager.passes.append(fails)
    try:
        with place.raises("pass.raises"):
            _compile(program)
    finally:
        manager.passes[:] = before


# --- converters ------------------------------------------------------------------------------------------------
def _converters(place, program):
    def fails(error, *names, name=None):
        body = _raising(error)
        if name:
            body.__name__ = body.__qualname__ = name
        with _converter(body), place.raises(*names):
            _compile(program)

    fails(
        ValueError(place("converter.raises.plain")), "converter.raises.plain", name=place("converter.name.identifier")
    )
    base, groups = (Exception, [])
    if sys.version_info >= (3, 11):
        base, groups = ExceptionGroup, [[ValueError(place("converter.raises.group.member"))]]  # noqa: F821
    else:
        place("converter.raises.group.member")
    lines = place("converter.raises.lines")
    kind = type(place("converter.raises.class.text"), (base,), {"__module__": "program"})
    error = kind(f"{place('converter.raises.group.message')}\n{lines}\n{lines}", *groups)
    error.__notes__ = [place("converter.raises.note")]
    error.__cause__ = ValueError(place("converter.raises.cause"))
    error.__cause__.__context__ = KeyError(place("converter.raises.context"))
    fails(
        error,
        "converter.raises.class.text", "converter.raises.note", "converter.raises.cause", "converter.raises.context",
        "converter.raises.group.message", "converter.raises.lines",
        name=place("converter.name.text"),
    )  # fmt: skip
    kind = type(place("converter.raises.class.identifier"), (KeyError,), {"__module__": "program"})
    fails(kind(place("converter.raises.key")), "converter.raises.class.identifier", "converter.raises.key")

    def checks(*_args):
        torch._check(False, lambda: place("converter.raises.check"))

    with _converter(checks), place.raises("converter.raises.check"):
        _compile(program)

    def adds(context, _target, args, _kwargs, _name):
        layer = context.net.add_slice(args[0], (0, 0), (9, 9), (1, 1))
        layer.name = place("converter.layer.name")
        return layer.get_output(0)

    with _converter(adds), place.raises("converter.layer.name"):
        _compile(program)


def _validators(place, program):
    def refusing(name):
        def refuses(_node, _settings=None):
            return False

        refuses.__name__ = refuses.__qualname__ = name
        return refuses

    body = _raising(ValueError())
    text, identifier = (refusing(place(f"validator.name.{each}")) for each in ("text", "identifier"))
    with _converter(body, capability_validator=text), _converter(body, capability_validator=identifier):
        _compile(program)


# --- caches and engines ----------------------------------------------------------------------------------------
def _caches(place, program):
    def load_raises(_self, _hash, prefix="blob"):
        raise ValueError(place("engine_cache.load.raises"))

    hashes = iter((place("engine_cache.hash"), place("engine_cache.hash.identifier")))
    kind = type(
        place("engine_cache.class"),
        (BaseEngineCache,),
        {
            "__init__": lambda _self: None,
            "get_hash": staticmethod(lambda *_args, **_kwargs: next(hashes)),
            "save": lambda _self, _hash, _blob, prefix="blob": None,
            "load": load_raises,
        },
    )
    cache = kind()
    settings = {"cache_built_engines": True, "reuse_cached_engines": True, "immutable_weights": False}
    with contextlib.suppress(Exception):
        _compile(program, custom_engine_cache=cache, **settings)
    folder = str(place.folder / place("engine_cache.folder"))
    for level in (1, 2):
        _compile(program, engine_cache_dir=folder, optimization_level=level, **settings)


def _engines(place, _program):
    engine = b"no engine"
    for name in ("engine.name.text", "engine.name.identifier"):
        with contextlib.suppress(Exception):
            module = TorchTensorRTModule(
                serialized_engine=engine, input_binding_names=["x"], output_binding_names=["output0"], name=place(name)
            )
            module(X)


def _debuggers(place, _program):
    with place.raises("debugger.log_level"), Debugger(log_level=place("debugger.log_level")):
        pass
    folder = place.folder / place("debugger.logging_dir")
    with contextlib.suppress(Exception), Debugger(log_level="error", logging_dir=str(folder)):
        place.call(lambda: None)
