# SPDX-License-Identifier: Apache-2.0
"""What tracing adds to a compilation, in instructions of the processor, which valgrind counts.

The compilation is one by torch.compile, or (`--of tensorrt`) one by Torch-TensorRT.

Where a machine's speed changes by more than a hundredth from second to second, `compile.py` cannot see a hundredth, and this can: two runs of one program differ by less than a thousandth. Two processes compile side by side as there, one that is
instrumented with everything on and one that has imported the same packages. Each compiles twice before it is counted. What other
threads of the process execute meanwhile is counted too.

It needs valgrind, and takes ten minutes for each. Instructions say nothing of waits.
"""

import argparse
import contextlib
import gc
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from compile import IMPORTS, SUBJECTS, TRACED, call, prepare
from table import NO_TARGET, Row, write

ROUNDS, WARM_UP = 2, 2
TARGETS = {"torch": 1.003, "tensorrt": 1.008}
"""How many times as many instructions a compilation may have, for each subject."""
SLOWER = 50
"""How many times as long work takes below valgrind, about. What torchspan does by the clock is done that much more seldom there."""
SPANS = {"torch": "torch.compile_frame", "tensorrt": "torch_tensorrt.compile"}
"""The span that the instrumented process must have recorded, for each subject."""


# --- in a process below valgrind ---------------------------------------------------------------------------------------
def work(subject, kind, rounds, folder):
    """Compile, with each round's instructions in a file of its own."""
    slow_the_clock()
    prepare(subject, kind, Path(folder, "trace.jsonl"))
    compile_once = importlib.import_module(SUBJECTS[subject].module).compiler()
    for _ in range(WARM_UP):
        compile_once()
    for _ in range(rounds):
        gc.collect()
        with counted():
            call(compile_once)


def slow_the_clock():
    """Have heartbeats, and samples of the memory, as often in a compilation as outside of valgrind."""
    heartbeats, memory = (
        importlib.import_module(f"torchspan.output.writer.{name}") for name in ("_heartbeats", "_memory")
    )
    heartbeats.FIRST_S *= SLOWER
    heartbeats._GAPS_S = tuple(gap_s * SLOWER for gap_s in heartbeats._GAPS_S)
    heartbeats._LONGEST_GAP_S *= SLOWER
    memory.Sampler.__init__.__defaults__ = (memory.INTERVAL_S * SLOWER,)


@contextlib.contextmanager
def counted():
    """Count instructions inside, and write their number."""
    control("--instr=on")
    try:
        yield
    finally:
        control("--dump")
        control("--instr=off")


def control(command):
    """Give callgrind a command about this process."""
    subprocess.run(["callgrind_control", command, str(os.getpid())], check=True, capture_output=True)


# --- in the process that starts them -----------------------------------------------------------------------------------
def start(subject, kind, rounds, folder):
    """A process of one kind below valgrind."""
    command = ["valgrind", "--quiet", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={folder}/counts"]
    options = ["--of", subject, "--rounds", str(rounds), "--worker", kind, "--folder", str(folder)]
    program = [sys.executable, __file__, *options]
    return subprocess.Popen(
        ["setarch", "-R", *command, *program], env={**os.environ, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
    )


def counts(folder, rounds):
    """The instructions of each round that a process has written."""
    texts = [Path(folder, f"counts.{number}").read_text(encoding="utf-8") for number in range(1, rounds + 1)]
    return [int(text.rpartition("totals:")[2].split()[0]) for text in texts]


def measured(subject, rounds):
    """The instructions of each round, for each kind."""
    with tempfile.TemporaryDirectory() as base:
        folders = {kind: Path(base, kind) for kind in (IMPORTS, TRACED)}
        for folder in folders.values():
            folder.mkdir()
        processes = {kind: start(subject, kind, rounds, folder) for kind, folder in folders.items()}
        failed = [kind for kind, process in processes.items() if process.wait()]
        if failed:
            raise SystemExit(f"a process below valgrind has failed: {', '.join(failed)}")
        if SPANS[subject] not in Path(folders[TRACED], "trace.jsonl").read_text(encoding="utf-8"):
            raise SystemExit(f"the instrumented process has recorded no span {SPANS[subject]}")
        return {kind: counts(folder, rounds) for kind, folder in folders.items()}


def main():
    parser = argparse.ArgumentParser(description="The instructions that tracing adds to a compilation.")
    parser.add_argument("--of", choices=SUBJECTS, default="torch", help="what compiles (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="compilations of each kind (default: %(default)s)")
    parser.add_argument("--worker", choices=(IMPORTS, TRACED), help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker is not None:
        return work(options.of, options.worker, options.rounds, options.folder)
    missing = [each for each in ("valgrind", "callgrind_control", "setarch") if shutil.which(each) is None]
    if missing:
        print(f"\nInstructions of a compilation are not counted: {', '.join(missing)} is not on the PATH.")
        return 0
    found = measured(options.of, options.rounds)
    ratios = [traced / bare for traced, bare in zip(found[TRACED], found[IMPORTS], strict=True)]
    rows = [
        Row(f"instrumented, recording into a file / not instrumented, compilation {number}", f"{ratio:.4f}",
            f"≤ {TARGETS[options.of]}", ratio <= TARGETS[options.of])
        for number, ratio in enumerate(ratios, start=1)
    ]  # fmt: skip
    rows.append(
        Row("added instructions, millions", f"{(found[TRACED][-1] - found[IMPORTS][-1]) / 1e6:.1f}", "", NO_TARGET)
    )
    return write(f"A compilation of {SUBJECTS[options.of].what}, instructions", rows)


if __name__ == "__main__":
    raise SystemExit(main())
