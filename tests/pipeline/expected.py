# SPDX-License-Identifier: Apache-2.0
"""Literals that every expected tree shares."""

import pytest
import tensorrt_rtx
import torch
import torch_tensorrt

from support.gpu import ON_GPU
from support.tree import POSITIVE

VERSION = tuple(int(part) for part in torch_tensorrt.__version__.split(".")[:2])


converts_methods = pytest.mark.skipif(
    VERSION < (2, 14), reason="up to 2.13 convert_method_to_trt_engine raises a NameError (upstream)"
)

OLDER_RUNTIME = (
    "up to 2.12 the Python runtime's module is traced through, and can be neither exported nor saved (upstream)"
)
since_2_13 = pytest.mark.skipif(VERSION < (2, 13), reason=OLDER_RUNTIME)


def by_version(values):
    """The literal for the installed version; `values` maps (major, minor) to what is expected from then on."""
    return values[max(version for version in values if version <= VERSION)]


KEEP = {"torchspan.keep": True}
STAND_IN = {} if ON_GPU else {"torchspan.stand_in": True}
GPU_MEMORY = {
    f"tensorrt.build.gpu_memory.{each}": POSITIVE
    for each in (("free.before", "free.after", "total", "used.peak") if ON_GPU else ())
}
"""Of a build: memory of the device, which the stand-in has not."""

VERSIONS = {
    "torch.version": torch.__version__,
    "torch_tensorrt.version": torch_tensorrt.__version__,
    "tensorrt.package": "tensorrt_rtx",
    "tensorrt.version": tensorrt_rtx.__version__,
}

SETTINGS = {
    "torch_tensorrt.settings.min_block_size": 1,
    "torch_tensorrt.settings.workspace_size": 0,
    "torch_tensorrt.settings.num_avg_timing_iters": 1,
    "torch_tensorrt.settings.require_full_compilation": False,
    "torch_tensorrt.settings.use_fast_partitioner": True,
    "torch_tensorrt.settings.enable_resource_partitioning": False,
    "torch_tensorrt.settings.pass_through_build_failures": False,
    "torch_tensorrt.settings.dryrun": False,
    "torch_tensorrt.settings.lazy_engine_init": False,
    "torch_tensorrt.settings.cache_built_engines": False,
    "torch_tensorrt.settings.reuse_cached_engines": False,
    "torch_tensorrt.settings.immutable_weights": True,
    "torch_tensorrt.settings.strip_engine_weights": False,
    "torch_tensorrt.settings.refit_identical_engine_weights": False,
    "torch_tensorrt.settings.enable_weight_streaming": False,
    "torch_tensorrt.settings.hardware_compatible": False,
    "torch_tensorrt.settings.version_compatible": False,
    "torch_tensorrt.settings.offload_module_to_cpu": False,
    "torch_tensorrt.settings.truncate_double": False,
    "torch_tensorrt.settings.disable_tf32": False,
    "torch_tensorrt.settings.use_fp32_acc": False,
    "torch_tensorrt.settings.enable_autocast": False,
    "torch_tensorrt.settings.decompose_attention": False,
    "torch_tensorrt.settings.use_distributed_mode_trace": False,
    **by_version({(2, 11): {}, (2, 13): {"torch_tensorrt.settings.fallback_data_dependent_ops": False}}),
}
"""The library's defaults, except for `min_block_size`, which the tests set to 1."""

EVERYTHING = {"torch_tensorrt.coverage": 1.0, "torch_tensorrt.compile.outcome": "complete"}
NO_CACHE = {
    "torch_tensorrt.engine_cache.result": "disabled",
    "torch_tensorrt.engine_cache.reason": "not_requested",
}
"""What a conversion says when the engine cache was not requested, which is the default."""
