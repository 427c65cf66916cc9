# SPDX-License-Identifier: Apache-2.0
"""What torchspan's sampler costs a run that is not a span, and whether a target rate is met in real time.

Imports neither torch nor needs a GPU: the hot path is the real one, over an empty function.
"""

import threading
import time

from opentelemetry import context as context_api
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.trace import NonRecordingSpan, SpanContext

from hot_path import PASSES, Hooks, TheEngine, at_most, best_ns, execute_engine
from table import Row, write
from torchspan.sdk import TorchspanSampler

UNSAMPLED_NS = 250
CLOCK_NS = 60
"""A target rate reads the clock at each run that nothing surrounds: it has to be met when the load changes as well."""

WHERE = {
    "outside every span": None,
    "below an unsampled span": trace.set_span_in_context(
        NonRecordingSpan(SpanContext(trace_id=1, span_id=1, is_remote=False))
    ),
}

RULES = (
    ("no rule", ""),
    ("execute=0.0001", "execute=0.0001,execute_per_second=1000000"),
    ("execute_target=1", "execute_target=1"),
)

TARGET, SECONDS = 10, 10
LOADS = (1, 5, 10, 100, 1_000, 10_000)
"""Runs a second."""


def costs():
    """Rows: a run below an unsampled span, and one that nothing surrounds, by the rules."""
    for name, rules in RULES:
        provider = TracerProvider(sampler=TorchspanSampler(rules), shutdown_on_exit=False)
        for where, context in WHERE.items():
            found = []
            for _ in range(PASSES):
                hooks = Hooks(provider)
                token = None if context is None else context_api.attach(context)
                bare_ns, hooked_ns = best_ns(execute_engine, hooks.execute)
                if token is not None:
                    context_api.detach(token)
                hooks.engine.stop()
                found.append(hooked_ns - bare_ns)
            reads_clock = "target" in rules and context is None
            limit_ns = UNSAMPLED_NS + CLOCK_NS if reads_clock else UNSAMPLED_NS
            yield at_most(f"{name}: run {where}", round(min(found)), limit_ns, " ns")


class Counted(SpanProcessor):
    """How many spans began."""

    def __init__(self):
        self.count = 0

    def on_start(self, span, parent_context=None):  # noqa: ARG002 - the SDK's signature
        self.count += 1


def spans(load):
    """How many spans so many runs a second are, over `SECONDS`, with a target."""
    counted = Counted()
    provider = TracerProvider(sampler=TorchspanSampler(f"execute_target={TARGET}"), shutdown_on_exit=False)
    provider.add_span_processor(counted)
    hooks, engine = Hooks(provider), TheEngine()
    begin_s = time.perf_counter()
    for number in range(load * SECONDS):
        wait_s = begin_s + number / load - time.perf_counter()
        if wait_s > 0:
            time.sleep(wait_s)
        hooks.execute([], engine)
    took_s = time.perf_counter() - begin_s
    hooks.engine.stop()
    return counted.count, took_s


def rates():
    """Rows: spans a second by runs a second; the loads run side by side, since all of them mostly wait."""
    found = {}

    def work(load):
        found[load] = spans(load)

    threads = [threading.Thread(target=work, args=(load,)) for load in LOADS]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    for load, (count, took_s) in sorted(found.items()):
        # Where the machine was too slow for the load, what it managed counts.
        expected = min(TARGET * max(took_s, SECONDS), load * SECONDS)
        is_met = abs(count - expected) <= 0.1 * expected
        yield Row(f"{load:,} runs a second", f"{count} spans", f"{expected:.0f} ± 10 %", is_met)


def main():
    cost = write("Runs that are not spans under torchspan's sampler, over the bare call", list(costs()))
    rate = write(f"Spans in {SECONDS} s with execute_target={TARGET}, in real time", list(rates()))
    return max(cost, rate)


if __name__ == "__main__":
    raise SystemExit(main())
