# SPDX-License-Identifier: Apache-2.0
"""`torchspan.layers`: which engines the program wants timed layer by layer."""

from __future__ import annotations

from torchspan.base.logs import Log
from torchspan.engine import RUNNING
from torchspan.hooks.device._layers import EACH, MOST_RUNS, request_layers

logger = Log("torchspan")


def layers(engine: str | None = None, runs: int = 20) -> None:
    """Have TensorRT time the layers of an engine in its next runs that are spans.

        torchspan.layers("_run_on_acc_0", runs=50)

    The last of these runs has the table as `tensorrt.layers.*`: the layers, slowest first, the median time of each, and its share.
    TensorRT waits for the device at the end of each of these runs, so they do not overlap with what the program does next. Nothing else
    about a run changes, and runs without a span are left alone. A profiler that the program has set receives every report as before.

    The engine need not exist yet, and any thread may call this. Each engine of that name has a table of its own, once. A further call
    with the same name has them timed again. A first run, which makes the execution context, is not timed. Nothing is recorded while
    torchspan is not instrumented, in Torch-TensorRT's C++ runtime, with its CUDA graphs, and where a context reports nothing by itself
    (`enqueue_emits_profile`); a line in the log says which.

    Args:
        engine: The name of the engine, as spans have it. None: each engine.
        runs: The number of runs, 1 to 10000. Fewer are timed once there are 500,000 times of layers.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: `engine` is empty, or `runs` is out of range.
    """
    if engine is not None and type(engine) is not str:
        raise TypeError(f"engine must be a str, the name of an engine, or None for each engine, not {engine!r}")
    if type(runs) is not int:
        raise TypeError(f"runs must be an int, not {runs!r}")
    if engine == "":
        raise ValueError("engine must be the name of an engine, or None for each engine, not ''")
    if not 1 <= runs <= MOST_RUNS:
        raise ValueError(f"runs must be 1 to {MOST_RUNS}, not {runs}")
    if RUNNING.engine is None:
        logger.warning(
            "torchspan.layers records nothing, because torchspan is not instrumented. Call torchspan.instrument() before it."
        )
        return
    request_layers(EACH if engine is None else engine, runs)
