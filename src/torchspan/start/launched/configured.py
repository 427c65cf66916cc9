# SPDX-License-Identifier: Apache-2.0
"""What the program's `OTEL_*` variables name, found through entry points, as the SDK's configurator finds it."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import os
from functools import partial
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Literal

from torchspan.base import forks
from torchspan.base.thread_starts import without_signals

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource

Signal = Literal["traces", "metrics"]

_BUILT_IN = {
    "always_on",
    "always_off",
    "traceidratio",
    "parentbased_always_on",
    "parentbased_always_off",
    "parentbased_traceidratio",
}
PROTOCOLS = {"grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http"}
"""Values of OTEL_EXPORTER_OTLP_PROTOCOL -> the entry point of the exporter `otlp`."""


def load() -> None:
    """Import the classes of the sampler, the id generator and the detectors. Those that cannot be imported are reported when they are made."""
    for group, variable in (
        ("traces_sampler", "OTEL_TRACES_SAMPLER"),
        ("id_generator", "OTEL_PYTHON_ID_GENERATOR"),
        ("resource_detector", "OTEL_EXPERIMENTAL_RESOURCE_DETECTORS"),
    ):
        for name in filter(None, map(str.strip, os.environ.get(variable, "").split(","))):
            with contextlib.suppress(Exception):
                _load(f"opentelemetry_{group}", name)


def sampler() -> Any:
    """The sampler that OTEL_TRACES_SAMPLER names through an entry point; None for the SDK's own samplers, which the SDK reads."""
    name = os.environ.get("OTEL_TRACES_SAMPLER", "").strip()
    if not name or name.lower() in _BUILT_IN or not entry_points(group="opentelemetry_traces_sampler", name=name):
        return None
    return _load("opentelemetry_traces_sampler", name)(os.environ.get("OTEL_TRACES_SAMPLER_ARG"))


def id_generator() -> Any:
    """The generator that OTEL_PYTHON_ID_GENERATOR names; None if it is not set, or names the SDK's default."""
    name = os.environ.get("OTEL_PYTHON_ID_GENERATOR", "").strip()
    return None if name in ("", "random") else _load("opentelemetry_id_generator", name)()


def resource() -> Resource:
    """The resource that the program's variables describe.

    The SDK runs detectors in threads of a pool, which refuses work once the main thread has ended, although other threads may
    continue for hours. Then the resource is empty. Pools are numbered. The program's are numbered as without that one.
    """
    from opentelemetry.sdk.resources import Resource

    with contextlib.suppress(RuntimeError):  # of the pool, or of the first import of its module
        pools: Any = importlib.import_module("concurrent.futures.thread").ThreadPoolExecutor
        numbers = pools._counter
        pools._counter = itertools.count().__next__
        try:
            return without_signals(partial(Resource.create, {}))
        finally:
            pools._counter = numbers
    return Resource({})


def exporter_names(signal: Signal) -> list[str]:
    """The entry points of the exporters that OTEL_TRACES_EXPORTER or OTEL_METRICS_EXPORTER names, `none` left out.

    Raises RuntimeError for an unknown protocol of OTLP.
    """
    names = (name.strip() for name in os.environ.get(f"OTEL_{signal.upper()}_EXPORTER", "").split(","))
    return [_otlp(signal) if name == "otlp" else name for name in names if name.lower() not in ("", "none")]


def _otlp(signal: Signal) -> str:
    variables = (f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    protocol = next((text for name in variables if (text := os.environ.get(name, "").strip())), "grpc")
    if protocol not in PROTOCOLS:
        raise RuntimeError(f"Unsupported OTLP protocol '{protocol}' is configured")
    return PROTOCOLS[protocol]


def exporter_class(signal: Signal, name: str) -> Any:
    """The class behind an exporter's entry point. Raises RuntimeError if none has that name."""
    return _load(f"opentelemetry_{signal}_exporter", name)


def _load(group: str, name: str) -> Any:
    named = list(entry_points(group=group, name=name))
    if not named:
        raise RuntimeError(f"Requested component '{name}' not found in entry point '{group}'")
    with forks.uncut():
        return named[0].load()
