# SPDX-License-Identifier: Apache-2.0
"""What a call of compiled code costs more while torchspan counts it, or may record it: microseconds over the same call.

Both calls take turns, and of each the fastest round counts. The graph is one operator on nine numbers and the backend is PyTorch
itself: what is left is the call. What a hook takes alone is measured alongside it, because a call takes a hundred times as long.
"""

import time
import timeit

import torch
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from torch._C._dynamo.eval_frame import set_guard_complete_hook

from noise import noise_of
from table import NO_TARGET, Row, write
from torchspan import TorchspanInstrumentor

COUNTED_US = 0.2
CALLS, ROUNDS = 200, 600
ONES = torch.ones(3, 3)


def fitting():
    """A function that is compiled and called with what it was compiled for; its code is its own."""
    namespace = {}
    exec("def add(x):\n    return x + 1\n", namespace)
    compiled = torch.compile(namespace["add"], backend="eager")
    compiled(ONES)
    return lambda: compiled(ONES)


def disabled():
    def identity(x):
        return x

    left_out = torch.compiler.disable(identity)
    return lambda: left_out(ONES)


def enabled(**options):
    """torchspan with providers that record; returns the instrumentor."""
    instrumentor = TorchspanInstrumentor()
    instrumentor.uninstrument() if instrumentor.is_instrumented_by_opentelemetry else None
    instrumentor.instrument(
        tracer_provider=PROVIDER,
        meter_provider=MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False),
        **options,
    )
    return instrumentor


PROVIDER = TracerProvider(shutdown_on_exit=False)


def rounds_us(*calls, prepare=None):
    """Microseconds a call, round by round, of calls that take turns. prepare: called before each round with which it is."""
    timers = [timeit.Timer(call, timer=time.thread_time) for call in calls]
    found = [[] for _ in calls]
    for _ in range(ROUNDS):
        for index, timer in enumerate(timers):
            if prepare is not None:
                prepare(index)
            found[index].append(timer.timeit(CALLS) / CALLS * 1e6)
    return found


def over(what, bare, more, target=None):
    figure = min(more) - min(bare)
    noise = max(noise_of(times, lambda one, other: one - other) for times in (bare, more))
    shown = f"{figure:.2f} ± {noise:.2f} µs"
    if target is None:
        return Row(what, shown, "", NO_TARGET)
    met = None if abs(figure - target) <= noise else figure <= target
    return Row(what, shown, f"≤ {target} µs", met)


def alone(what, hook, fits):
    ns = min(timeit.repeat(lambda: None, number=1000, repeat=1))  # warms up
    ns = min(timeit.repeat("hook(fits)", globals={"hook": hook, "fits": fits}, number=1000, repeat=ROUNDS))
    return Row(what, f"{ns * 1000:.2f} µs", f"≤ {COUNTED_US} µs", ns * 1000 <= COUNTED_US)


def rows():
    """Each row of the table."""
    enabled()
    bare = fitting()
    hook = set_guard_complete_hook(None)
    hooks = (None, hook)
    plain, counted = rounds_us(bare, bare, prepare=lambda index: set_guard_complete_hook(hooks[index]))
    yield over("call of a compiled frame, counted", plain, counted, COUNTED_US)
    yield alone("  the hook alone, code fits", hook, True)
    yield alone("  the hook alone, none fits", hook, False)
    set_guard_complete_hook(hook)
    bare_disabled = disabled()
    instrumentor = enabled(graph_runs=True, disabled_calls=True)
    set_guard_complete_hook(None)
    for what, one, other in (
        ("run of a graph", bare, fitting()),
        ("call of a disabled function", bare_disabled, disabled()),
    ):
        yield over(f"{what} with its setting, no span around it", *rounds_us(one, other))
        with PROVIDER.get_tracer("bench").start_as_current_span("request"):
            for _ in range(100):
                other()  # what the rate limits allow has been recorded
            yield over(f"{what} with its setting, counted on a span", *rounds_us(one, other))
    instrumentor.uninstrument()


def main():
    return write("Calls of compiled code, over the same call", list(rows()))


if __name__ == "__main__":
    raise SystemExit(main())
