# SPDX-License-Identifier: Apache-2.0
"""What `instrument()` costs in a program that has imported its libraries already, and what a cycle leaves behind.

Other modules may then hold functions of the library under names of their own, so all modules are looked through. The cost is
shown for the modules that are there and with 2,000 more, and as microseconds for each further module: the library's own
hooks cost the same whatever else is imported. The fastest of some cycles counts, as processor time of the thread.
"""

import gc
import sys
import time
import types

from bert import compiler
from table import NO_TARGET, Row, write
from torchspan import TorchspanInstrumentor

FURTHER, NAMES = 2_000, 50
"""Modules, and functions in each."""
CYCLES = 3


def cycles_ms():
    """Milliseconds of the fastest `instrument()` and of the fastest `uninstrument()`."""
    found = []
    for _ in range(CYCLES):
        instrumentor = TorchspanInstrumentor()
        gc.collect()
        start = time.thread_time()
        instrumentor.instrument()
        middle = time.thread_time()
        instrumentor.uninstrument()
        found.append((middle - start, time.thread_time() - middle))
    return [min(column) * 1000 for column in zip(*found, strict=True)]


def add_modules():
    """Modules that hold nothing of the library."""
    for number in range(FURTHER):
        module = types.ModuleType(f"further_{number}")
        vars(module).update({f"function_{each}": add_modules for each in range(NAMES)})
        sys.modules[module.__name__] = module


def left_behind():
    """Objects that each cycle leaves."""
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(CYCLES):
        TorchspanInstrumentor().instrument()
        TorchspanInstrumentor().uninstrument()
    gc.collect()
    return (len(gc.get_objects()) - before) / CYCLES


def main():
    compiler()  # imports the libraries
    cycles_ms()  # imports the bridge
    objects = left_behind()
    modules = len(sys.modules)
    few_on, few_off = cycles_ms()
    add_modules()
    many_on, many_off = cycles_ms()
    each_us = (many_on - few_on) / FURTHER * 1000
    more = modules + FURTHER
    return write(
        "Instrumented late",
        [
            Row(f"instrument(), {modules:,} modules", f"{few_on:.1f} ms", "", NO_TARGET),
            Row(f"instrument(), {more:,} modules", f"{many_on:.1f} ms", "", NO_TARGET),
            Row("  each further module of fifty names", f"{each_us:.1f} µs", "", NO_TARGET),
            Row(f"uninstrument(), {modules:,} modules", f"{few_off:.1f} ms", "", NO_TARGET),
            Row(f"uninstrument(), {more:,} modules", f"{many_off:.1f} ms", "", NO_TARGET),
            Row("objects that a cycle leaves", f"{objects:.1f}", "≤ 1", objects <= 1),
        ],
    )


if __name__ == "__main__":
    raise SystemExit(main())
