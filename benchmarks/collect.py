# SPDX-License-Identifier: Apache-2.0
"""What `release_host_and_device_memory` is, which is 30 to 70 % of small compilations, and what makes it shorter.

Torch-TensorRT calls it after each engine that it built (dynamo/conversion/_conversion.py). It is a full garbage collection
(`gc.collect()`); on a machine with a GPU also `torch.cuda.synchronize()`, `empty_cache()` and `ipc_collect()`; with
TORCHTRT_ENABLE_BUILDER_MALLOC_TRIM=1 also `malloc_trim(0)`. The collection looks at every object of the process, those of
imported libraries included. `gc.freeze()` after the imports takes these out of what it looks at.

Compiles the BERT of the other benchmarks in turns, with and without `gc.freeze()`, in one process, and prints medians of
processor time.
"""

import ctypes
import gc
import os
import statistics
import sys
import time

from bert import compiler
from table import NO_TARGET, Row, write

ROUNDS = 7
TRIM = "TORCHTRT_ENABLE_BUILDER_MALLOC_TRIM"


class Collections:
    """Seconds of the full collections of a compilation that code asked for."""

    def __init__(self):
        self.seconds = []
        self._collect = gc.collect
        gc.collect = self._timed

    def _timed(self, *arguments):
        start = time.process_time()
        try:
            return self._collect(*arguments)
        finally:
            self.seconds.append(time.process_time() - start)


def measured(compile_once, released, collections):
    """Seconds of processor time of one compilation, of the function in it, and of the collections in that."""
    released.clear()
    collections.seconds.clear()
    start = time.process_time()
    compile_once()
    return time.process_time() - start, sum(released), sum(collections.seconds)


def timed(function, seconds):
    """The function; how long each call took is added to `seconds`."""

    def call():
        start = time.process_time()
        function()
        seconds.append(time.process_time() - start)

    return call


def main():
    """Measure, and print the table."""
    os.environ.pop(TRIM, None)
    compile_once = compiler()
    compile_once()
    from torch_tensorrt.dynamo.conversion import _conversion

    released, collections = [], Collections()
    _conversion.release_host_and_device_memory = timed(_conversion.release_host_and_device_memory, released)
    tracked = len(gc.get_objects())
    found = {False: [], True: []}
    for _ in range(ROUNDS):
        for is_frozen, times in found.items():
            if is_frozen:
                gc.collect()
                gc.freeze()
            times.append(measured(compile_once, released, collections))
            gc.unfreeze()
    rows = [Row("objects that a collection looks at", f"{tracked:,}", "", NO_TARGET)]
    for is_frozen, times in found.items():
        whole, release, collect = (statistics.median(column) * 1000 for column in zip(*times, strict=True))
        how = "after gc.freeze(): " if is_frozen else ""
        rows += [
            Row(f"{how}compilation of one engine", f"{whole:.0f} ms", "", NO_TARGET),
            Row(f"{how}release_host_and_device_memory", f"{release:.0f} ms", "", NO_TARGET),
            Row(f"{how}of it gc.collect()", f"{collect:.0f} ms", "", NO_TARGET),
        ]
    if sys.platform == "linux":
        trims = []
        for _ in range(ROUNDS):
            compile_once()
            timed(lambda: ctypes.CDLL("libc.so.6").malloc_trim(0), trims)()
        rows.append(Row(f"malloc_trim(0), with {TRIM}=1", f"{statistics.median(trims) * 1000:.1f} ms", "", NO_TARGET))
    return write("What Torch-TensorRT does after each engine", rows)


if __name__ == "__main__":
    sys.exit(main())
