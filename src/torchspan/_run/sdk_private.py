# SPDX-License-Identifier: Apache-2.0
"""Every use that torchspan's part in `torchspan run` makes of private names of OpenTelemetry's SDK.

They read what the program's `OTEL_*` variables name through entry points, as the SDK's configurator does.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Literal

from torchspan._base import forks

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


def sampler() -> Any:
    """The sampler that OTEL_TRACES_SAMPLER names through an entry point; None for the SDK's own samplers."""
    name = os.environ.get("OTEL_TRACES_SAMPLER", "").strip()
    if not name or name.lower() in _BUILT_IN:
        return None
    with forks.uncut():
        from opentelemetry.sdk import _configuration

        return _configuration._import_sampler(name)


def id_generator() -> Any:
    """The generator that OTEL_PYTHON_ID_GENERATOR names; None if it is not set, or names the SDK's default."""
    name = os.environ.get("OTEL_PYTHON_ID_GENERATOR", "").strip()
    if name in ("", "random"):
        return None
    with forks.uncut():
        from opentelemetry.sdk import _configuration

        return _configuration._import_id_generator(name)


def resource() -> Resource:
    """The resource that the program's variables describe, as `Resource.create` makes it.

    `Resource.create` runs detectors in threads of a pool. The pool refuses work once the main thread has ended, although other threads
    may continue for hours. Then the detectors run one after the other in this thread.
    """
    from opentelemetry.sdk import resources

    try:
        return resources.Resource.create({})
    except RuntimeError:
        found = resources.Resource(dict(getattr(resources, "_DEFAULT_RESOURCE", resources.Resource({})).attributes))
        for detector in resources._build_resource_detectors():
            with contextlib.suppress(Exception):
                found = found.merge(detector.detect())
        return found


def exporter_names(signal: Signal) -> list[str]:
    """The entry points of the exporters that OTEL_TRACES_EXPORTER or OTEL_METRICS_EXPORTER names, `none` left out.

    Raises RuntimeError for an unknown protocol of OTLP.
    """
    names = os.environ.get(f"OTEL_{signal.upper()}_EXPORTER", "").split(",")
    wanted = [name.strip() for name in names if name.strip().lower() not in ("", "none")]
    if not wanted:
        return []
    with forks.uncut():
        from opentelemetry.sdk import _configuration

    return [_configuration._get_exporter_entry_point(name, signal) for name in wanted]


def exporter_class(signal: Signal, name: str) -> Any:
    """The class behind an exporter's entry point. Raises RuntimeError if none has that name."""
    with forks.uncut():
        from opentelemetry.sdk import _configuration

        traces, metrics, _ = _configuration._import_exporters(
            [name] if signal == "traces" else [], [name] if signal == "metrics" else [], []
        )
    return (traces if signal == "traces" else metrics)[name]
