# SPDX-License-Identifier: Apache-2.0
"""The arguments of `torchspan.instrument` that `capture()` passes on, by which editors complete and type checkers check them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from opentelemetry._logs import LoggerProvider
    from opentelemetry.metrics import MeterProvider


class InstrumentSettings(TypedDict, total=False):
    """Every argument of `torchspan.instrument` except `tracer_provider`, with its type there (tests compare them)."""

    meter_provider: MeterProvider | None
    logger_provider: LoggerProvider | None
    detail: Literal["stages", "passes"] | None
    build_phases: Literal["auto", "on", "off"] | None
    heartbeat: float | None
    capture: Literal["none", "text"] | None
    log_correlation: bool | None
    propagation: Literal["on", "links", "off"] | None
    without_gpu: bool | None
    engine_dir: str | os.PathLike[str] | None
    ready_after: str | None
    sample_other: float | None
    sample_execute: float | None
    sample_execute_per_second: float | None
    sample_execute_target: float | None
    ranks: str | int | None
    graph_runs: bool | None
    disabled_calls: bool | None
    inputs: str | None
    inputs_every: int | None
