# SPDX-License-Identifier: Apache-2.0
"""What `torchspan compare` says of runs that are the same, what it says of runs of which one stage is slower, and what it costs.

The runs are compilations of a small model by Torch-TensorRT without a GPU, in one process: 60 as they are and 60 in which
`decompose` takes half as long again, by turns. Sides are drawn from them. False alarms: comparisons of sides of 6 runs drawn
from the 60 for which `--fail-above 10%` fails, and those with a row that is called different. Stage: comparisons in which the
row of the slower stage is called different. Cost: processor time of a comparison of two folders of 5 files of `torchspan demo`
over that of reading the files into trees, in turns; the fastest round counts.
"""

import gc
import random
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from table import Row, write
from torchspan import comparison, testing, traces
from torchspan.reading.comparison import _gates, _pairs, _sides
from torchspan.sdk import FileSpanExporter

RUNS, WARM_UP = 60, 3
A_SIDE, SAME_DRAWS, SLOW_DRAWS = 6, 500, 200
MOST_ALARMS, MOST_DIFFERENT, LEAST_FOUND = 0.01, 0.05, 0.9
FILES, ROUNDS, MOST_TIME = 5, 7, 1.3
STAGE = "decompose"


def record(folder):
    """Files of runs as they are and of runs with the slower stage, each in the order in which they ran."""
    testing.without_gpu()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the libraries warn of while they are imported is theirs
        import torch
        import torch_tensorrt
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3), torch.nn.ReLU()
    ).eval()
    image = torch.ones(1, 3, 16, 16)
    decompose = torch.export.ExportedProgram.run_decompositions

    def slower(*arguments, **options):
        begin = time.perf_counter()
        program = decompose(*arguments, **options)
        time.sleep((time.perf_counter() - begin) / 2)
        return program

    files = {"same": [], "slow": []}
    for number in range(-WARM_UP, 2 * RUNS):
        kind = "slow" if number % 2 else "same"
        torch.export.ExportedProgram.run_decompositions = slower if kind == "slow" else decompose
        path = folder / f"{kind}-{number}.jsonl"
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(FileSpanExporter(path)))
        gc.collect()
        gc.freeze()  # a program that compiles once has not the garbage of a hundred compilations
        with testing.capture(tracer_provider=provider), torch.no_grad():
            torch_tensorrt.compile(model, ir="dynamo", arg_inputs=[image], min_block_size=1)
        provider.shutdown()
        if number >= 0:
            files[kind].append(path)
    torch.export.ExportedProgram.run_decompositions = decompose
    return files


def side(name, runs):
    """A side of runs that have been read."""
    return _sides.Side(name, list(runs))


def rows_of_drawings(runs):
    """Shares of drawn comparisons: with an alarm, with a row called different, and in which the slower stage is found."""
    drawing = random.Random(0)
    alarms = different = found = 0
    for _ in range(SAME_DRAWS):
        some = drawing.sample(runs["same"], 2 * A_SIDE)
        compared = _pairs.of_sides(side("base", some[:A_SIDE]), side("new", some[A_SIDE:]))
        alarms += any(_gates.crossed_thresholds(compared, {_gates.WHOLE: 0.1}))
        different += any(row.is_different for pair in compared.pairs for row in (pair.whole, *pair.parts))
    for _ in range(SLOW_DRAWS):
        first = drawing.randrange(RUNS - A_SIDE + 1)
        turns = [side(name, runs[kind][first : first + A_SIDE]) for name, kind in (("base", "same"), ("new", "slow"))]
        rows = [row for pair in _pairs.of_sides(*turns).pairs for row in pair.parts]
        found += any(row.is_different and row.path[:1] == (STAGE,) for row in rows)
    yield _share(f"false alarms of --fail-above 10%, {SAME_DRAWS} comparisons", alarms / SAME_DRAWS, MOST_ALARMS)
    yield _share(f"a row called different, {SAME_DRAWS} comparisons", different / SAME_DRAWS, MOST_DIFFERENT)
    share = found / SLOW_DRAWS
    yield Row(
        f"{STAGE} slower by half is found, {A_SIDE} runs a side, {SLOW_DRAWS} comparisons", f"{share:.1%}",
        f"≥ {LEAST_FOUND:.0%}", share >= LEAST_FOUND,
    )  # fmt: skip


def _share(what, share, most):
    return Row(what, f"{share:.1%}", f"≤ {most:.0%}", share <= most)


def cost_rows(folder):
    """The processor time of a comparison over that of reading its files."""
    demo = folder / "demo.jsonl"
    command = [sys.executable, "-m", "torchspan", "demo", "--output", demo]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    run_id = traces.read(demo).records[0].resource["torchspan.run.id"]
    sides = [folder / "base", folder / "new"]
    for path in sides:
        path.mkdir()
        for number in range(FILES):
            text = demo.read_text(encoding="utf-8").replace(run_id, f"{path.name}{number}")
            (path / f"{number}.jsonl").write_text(text, encoding="utf-8")
    every = [file for path in sides for file in path.iterdir()]
    rounds = [
        (_seconds(lambda: [traces.read(file).traces for file in every]), _seconds(lambda: comparison.compare(*sides)))
        for _ in range(ROUNDS)
    ]
    reading, comparing = (min(column) for column in zip(*rounds, strict=True))
    ratio = comparing / reading
    yield Row(
        f"compare 2 \N{MULTIPLICATION SIGN} {FILES} files ({comparing * 1e3:.0f} ms; read {reading * 1e3:.0f} ms)", f"{ratio:.2f}",
        f"≤ {MOST_TIME}", ratio <= MOST_TIME,
    )  # fmt: skip


def _seconds(work):
    start = time.process_time()
    work()
    return time.process_time() - start


def main():
    with tempfile.TemporaryDirectory(prefix="torchspan-benchmark-") as name:
        folder = Path(name)
        files = record(folder)
        runs = {
            kind: [comparison._sides._side(file, "", texts=False).runs[0] for file in files[kind]] for kind in files
        }
        return write("torchspan compare", [*rows_of_drawings(runs), *cost_rows(folder)])


if __name__ == "__main__":
    sys.exit(main())
