# SPDX-License-Identifier: Apache-2.0
"""The attributes of a process for its resource: its rank, its host, the versions of the libraries."""

from __future__ import annotations

import contextlib
import os
import platform
import socket
import string
import sys
from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

from opentelemetry.sdk.resources import Resource, ResourceDetector

from torchspan.words.sampling.ranks import launched

with contextlib.suppress(Exception):  # a module of the program may have that name
    import email.message
    import email.parser  # noqa: F401 - `version` does so, which may be called where another thread's import waits

# Every Python that an instrumented program starts runs this: the table of attributes, whose rows the keys below are,
# takes longer to load than a start may. What is let through is what the rows' kinds let through; a test holds them
# together.
_PLAIN = string.ascii_letters + string.digits
_LONGEST_NAME, _LONGEST_HOST_NAME = 64, 253

_TORCH = ("torch",)
_TORCH_TENSORRT = ("torch-tensorrt",)
_TORCH_TENSORRT_RTX = ("torch-tensorrt-rtx",)
_TENSORRT = ("tensorrt", "tensorrt-cu13", "tensorrt-cu12")
_TENSORRT_RTX = ("tensorrt-rtx", "tensorrt-rtx-cu13", "tensorrt-rtx-cu12")


class TorchspanResourceDetector(ResourceDetector):
    """Adds the rank of the process, its host, and the versions of the libraries to the resource.

    Enable it with ``OTEL_EXPERIMENTAL_RESOURCE_DETECTORS=torchspan``. It reads only the environment and the metadata of installed
    packages: it imports neither torch nor TensorRT, and queries neither CUDA nor NVML. What is not known is left out.

    - ``torch.distributed.rank``, ``.local_rank``, ``.world_size``: from torchrun's variables, otherwise from those of Open MPI,
      MVAPICH2, MPICH or Intel MPI, Slurm; otherwise the index of a pod in an Indexed Job of Kubernetes.
    - ``torch.distributed.restart_count``, ``torch.distributed.run.id``: torchrun's, otherwise those of the Slurm job.
    - ``host.name``, ``process.pid``, ``process.runtime.name``, ``process.runtime.version``.
    - ``torch.version``, ``torch_tensorrt.version``, ``tensorrt.version``, ``tensorrt.package``: of the installed packages. If
      both TensorRT and TensorRT-RTX are installed, the one for which the installed Torch-TensorRT is made.

    Attributes of OTEL_RESOURCE_ATTRIBUTES win. A forked child has its own process id. Nothing is raised.

    Args:
        raise_on_error: Not used; OpenTelemetry's SDK passes it to every detector.
    """

    def __init__(self, raise_on_error: bool = False) -> None:
        super().__init__(raise_on_error=raise_on_error)

    def detect(self) -> Resource:
        """The current resource."""
        attributes: dict[str, Any] = {}
        for detected in (_process, _job, _versions):
            with contextlib.suppress(Exception):
                attributes.update((key, value) for key, value in detected() if value is not None)
        with contextlib.suppress(Exception):
            for key in _set_by_user():
                attributes.pop(key, None)
        return Resource(attributes)

    def is_process_dependent(self) -> bool:
        """True: a forked child has another process id."""
        return True


Found = Iterable[tuple[str, Any]]


def _process() -> Found:
    yield "process.pid", os.getpid()
    yield "process.runtime.name", sys.implementation.name
    yield "process.runtime.version", _version(platform.python_version())
    yield "host.name", _name(socket.gethostname(), _LONGEST_HOST_NAME)


def _job() -> Found:
    job = launched(os.environ)
    yield "torch.distributed.rank", job.rank
    yield "torch.distributed.local_rank", job.local_rank
    yield "torch.distributed.world_size", job.world_size
    yield "torch.distributed.restart_count", job.restart_count
    yield "torch.distributed.run.id", _name(job.run_id or "", _LONGEST_NAME)


def _versions() -> Found:
    yield "torch.version", _installed(_TORCH)
    plain, rtx = _installed(_TORCH_TENSORRT), _installed(_TORCH_TENSORRT_RTX)
    yield "torch_tensorrt.version", plain or rtx
    versions = {"tensorrt": _installed(_TENSORRT), "tensorrt_rtx": _installed(_TENSORRT_RTX)}
    preferred = ("tensorrt_rtx", "tensorrt") if rtx and not plain else ("tensorrt", "tensorrt_rtx")
    package = next((package_name for package_name in preferred if versions[package_name]), None)
    if package is not None:
        yield "tensorrt.package", package
        yield "tensorrt.version", versions[package]


def _installed(names: Iterable[str]) -> str | None:
    """The version of the first of the distributions that is installed."""
    for name in names:
        with contextlib.suppress(Exception):  # not installed, or metadata that cannot be read
            return _version(version(name))
    return None


def _name(text: str, longest: int) -> str | None:
    return text if text[:1].isalnum() and len(text) <= longest and not text.strip(_PLAIN + "_.-") else None


def _version(text: str) -> str | None:
    plain = text[:1] in string.digits and 0 < len(text) <= _LONGEST_NAME
    return text if plain and not text.strip(_PLAIN + ".+_-") else None


def _set_by_user() -> Iterable[str]:
    """The keys in OTEL_RESOURCE_ATTRIBUTES: after a fork the SDK would have this detector's win."""
    for pair in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "").split(","):
        yield pair.partition("=")[0].strip()
