# SPDX-License-Identifier: Apache-2.0
"""What a call of a module costs more while torchspan follows it (`TORCHSPAN_INPUTS`), or an observer records it.

The module returns its argument: what is left is the call. Bare and followed calls take turns, and of each the fastest round counts.
"""

import contextlib
import time
import timeit

import torch
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider

from followed_model import Model
from noise import noise_of
from table import NO_TARGET, Row, write
from torchspan import TorchspanInstrumentor
from torchspan.inputs import InputObserver

SAMPLED_US, RECORDED_US, OFF_US = 3, 12, 0.1
CALLS, ROUNDS, FEW_ROUNDS = 100, 500, 20
EVENTS = 20
"""Calls that one span has as events."""
PROVIDER = TracerProvider(shutdown_on_exit=False)
TRACER = PROVIDER.get_tracer("bench")


ONE = torch.ones(8, 128)
BARE = Model()
"""Made before any bridge: it has no hook."""
MANY = [(torch.ones(8, 2), torch.ones(8, 2)) for _ in range(16)]


def enabled(**options):
    """A bridge with providers that record; returns the instrumentor."""
    instrumentor = TorchspanInstrumentor()
    instrumentor.instrument(
        tracer_provider=PROVIDER,
        meter_provider=MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False),
        **options,
    )
    return instrumentor


def over_bare(what, model, argument, target_us=None, *, rounds=ROUNDS, spans=False):
    """A row: microseconds a call over the same call of a module without a hook. spans: each round has a span of its own."""
    calls = EVENTS if spans else CALLS
    timers = [
        timeit.Timer("model(x)", timer=time.thread_time, globals={"model": each, "x": argument})
        for each in (BARE, model)
    ]
    found = [[], []]
    for _ in range(rounds):
        for timer, times in zip(timers, found, strict=True):
            with TRACER.start_as_current_span("request") if spans else contextlib.nullcontext():
                times.append(timer.timeit(calls) / calls * 1e6)
    figure = min(found[1]) - min(found[0])
    noise = max(noise_of(times, lambda one, other: one - other) for times in found)
    shown = f"{figure:.2f} ± {noise:.2f} µs"
    if target_us is None:
        return Row(what, shown, "", NO_TARGET)
    return Row(what, shown, f"≤ {target_us} µs", None if abs(figure - target_us) <= noise else figure <= target_us)


def rows():
    """Each row of the table."""
    instrumentor = enabled()
    yield over_bare("TORCHSPAN_INPUTS is off", Model(), ONE, OFF_US)
    instrumentor.uninstrument()
    for every, target_us in ((100, SAMPLED_US), (1, RECORDED_US)):
        instrumentor = enabled(inputs="followed_model:Model", inputs_every=every)
        sampled = f"one call in {every} is sampled" if every > 1 else "each call is sampled"
        yield over_bare(f"one tensor, {sampled}, no span around it", Model(), ONE, target_us)
        yield over_bare(f"one tensor, {sampled}, events on a span", Model(), ONE, target_us, spans=True)
        yield over_bare(f"32 tensors in containers, {sampled}, no span around it", Model(), MANY, rounds=FEW_ROUNDS)
        instrumentor.uninstrument()
    for what, argument in (("one tensor", ONE), ("32 tensors in containers", MANY)):
        model = Model()
        with InputObserver()(model):
            yield over_bare(f"{what}, InputObserver", model, argument, rounds=FEW_ROUNDS)


if __name__ == "__main__":
    raise SystemExit(write("Calls of a followed module, over the same call", rows()))
