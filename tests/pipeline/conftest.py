# SPDX-License-Identifier: Apache-2.0
"""Real compilations, in one process: importing torch_tensorrt costs seconds."""

import functools
import gc
import warnings

import pytest

from support.gpu import ON_GPU

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what the libraries warn of while they are imported is theirs
    import torch
    import torch_tensorrt
    from torch_tensorrt.dynamo import _compiler
    from torch_tensorrt.dynamo.conversion import _ConverterRegistry as registry
    from torch_tensorrt.dynamo.conversion import dynamo_tensorrt_converter


@pytest.fixture(scope="module", autouse=True)
def tensors_on_the_gpu(request):
    """On a GPU, tensors and modules are made there, and the tensors are moved that a file made when it was imported.

    At import they would initialize CUDA in every process that collects the file. The stand-in keeps them on the CPU.
    """
    if not ON_GPU:
        yield
        return
    torch.set_default_device("cuda")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in list(vars(request.module).items()):
            if isinstance(value, torch.Tensor):
                patch.setattr(request.module, name, value.cuda())
        yield
    torch.set_default_device(None)


@pytest.fixture(scope="session")
def recorded():
    """`recorded(work, **settings)`: what a function of `support.recorded` left under the bridge; done once, then known.

    For tests that only read: nothing of it may be changed.
    """
    from support.recorded import record

    return functools.cache(record)


@pytest.fixture(autouse=True)
def fresh_compilers():
    """Dynamo remembers compiled functions and Torch-TensorRT its last settings; every test starts without.

    Garbage is collected between tests, and within one where Torch-TensorRT does so itself: its runtime cache makes a
    tensor when it is finalised (torch_tensorrt/runtime/_runtime_cache.py), which in the middle of a trace becomes a
    node of that trace and breaks it. What is left then is looked at no more.
    """
    torch._dynamo.reset()
    gc.collect()
    gc.freeze()
    gc.disable()
    with torch.no_grad():
        yield
    gc.enable()
    torch._dynamo.reset()


@pytest.fixture
def version():
    """(major, minor) of torch_tensorrt."""
    major, minor = torch_tensorrt.__version__.split(".")[:2]
    return int(major), int(minor)


OPERATOR = torch.ops.aten.special_i1e.default
"""Torch-TensorRT has no converter for it."""


@pytest.fixture
def converter():
    """Gives the operator that has no converter one that runs the function a test passes."""

    def register(body):
        dynamo_tensorrt_converter(OPERATOR, supports_dynamic_shapes=True)(lambda *_args: body())

    yield register
    registry.DYNAMO_ATEN_CONVERTERS.pop(OPERATOR, None)


@pytest.fixture
def trackers(monkeypatch):
    """The library's own report of each compilation."""
    seen = []
    display = _compiler.dryrun_stats_display
    monkeypatch.setattr(
        _compiler, "dryrun_stats_display", lambda tracker, enabled: seen.append(tracker) or display(tracker, enabled)
    )
    return seen
