# SPDX-License-Identifier: Apache-2.0
"""`make soak`: the same work for a quarter of an hour with torchspan and without it, side by side, and what each side takes.

At least 100 compilations by `torch.compile` and 30 by Torch-TensorRT, 2,000,000 runs of engines, 20,000 trees of events and 500 forks: 100
rounds, and more until the time is over. The provider is exchanged every minute. Both programs do one round after the other. The last tenth of
the rounds is compared with the first, after five that are not counted: the median of memory, and the fastest round, because a machine that
others share is slow for seconds or minutes, while a program that becomes slower is so in each round. Returns 1 where a limit is crossed.

The results are in tools/soak_tested.json, and `make docs` puts them into docs/explanation/faults.md. `--rounds N` makes it shorter, records
nothing, and compares counts alone.
"""

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

from test_versions import commit

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = ROOT / "tests" / "soak" / "program.py"
FILE = Path(__file__).resolve().parent / "soak_tested.json"

ROUNDS, WARM_UP, DURATION_S = 100, 5, 15 * 60
WORK = {"compiles": 1, "tensorrt": 0.3, "runs": 20_000, "trees": 200, "forks": 5}
"""Of one round."""

PROVIDER_S = 60
MEMORY, LATENCY = 1.02, 1.05
"""The most that the ratio of last to first with torchspan may be over that without it."""

EQUAL = ("threads", "descriptors", "objects")
"""What must be equal in the last rounds and in the first ones: the most of them."""


class Side:
    """One of the two programs."""

    def __init__(self, name, work):
        self.name = name
        self.samples = []
        self._process = subprocess.Popen(
            [sys.executable, PROGRAM, name, *map(str, work.values())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tell(self, line):
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def answer(self):
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the program ended: {self.name}, status {self._process.wait()}")
        return json.loads(line)

    def names(self):
        """The names that are bound to something else once torchspan is uninstrumented, after which the program has no more work."""
        self.tell("names")
        return self.answer()["names"]

    def close(self):
        """End the program."""
        self._process.kill()
        self._process.communicate()

    def median(self, key, rounds):
        return statistics.median(sample[key] for sample in self.samples[rounds])

    def least(self, key, rounds):
        return min(sample[key] for sample in self.samples[rounds])

    def most(self, key, rounds):
        """The most of these rounds: a thread starts with the first work after the provider was exchanged."""
        return max(sample[key] for sample in self.samples[rounds])


def soak(rounds, work=None, provider_s=PROVIDER_S, duration_s=0):
    """Both sides after so many rounds and seconds, and the names that are not as before."""
    with contextlib.ExitStack() as programs:
        sides = [programs.enter_context(contextlib.closing(Side(name, work or WORK))) for name in ("bare", "traced")]
        start_s = changed_s = time.monotonic()
        while len(sides[0].samples) < rounds or time.monotonic() - start_s < duration_s:
            if time.monotonic() - changed_s > provider_s:
                changed_s = time.monotonic()
                for side in sides:
                    side.tell("provider")
            for side in sides:
                side.tell("round")
                side.samples.append(side.answer())
            if sys.stderr.isatty():
                print(f"\rround {len(sides[0].samples)}", end="", file=sys.stderr, flush=True)
        return *sides, [name for side in sides for name in side.names()]


def compared(bare, traced, names):
    """What the sides took, and sentences about limits that are crossed."""
    tenth = max((len(traced.samples) - WARM_UP) // 10, 1)
    first, last = slice(WARM_UP, WARM_UP + tenth), slice(-tenth, None)
    ratios, crossed = {}, [f"a name is not as before: {name}" for name in names]
    for key, typical, limit in (("memory", Side.median, MEMORY), ("run_s", Side.least, LATENCY)):
        of_side = [typical(side, key, last) / typical(side, key, first) for side in (bare, traced)]
        ratios[key] = {"bare": of_side[0], "traced": of_side[1], "limit": limit}
        if of_side[1] / of_side[0] > limit:
            crossed.append(f"{key}: {of_side[1]:.3f} with torchspan, {of_side[0]:.3f} without it")
    counts = {key: [traced.most(key, first), traced.most(key, last)] for key in EQUAL}
    crossed += [
        f"{key}: {before:g} in the first rounds, {after:g} in the last"
        for key, (before, after) in counts.items()
        if before != after
    ]
    return {"ratios": ratios, "counts": counts}, crossed


def read():
    """The last results."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def main(arguments):
    """Soak, and print what was compared."""
    parser = argparse.ArgumentParser(description="torchspan for a quarter of an hour and the same program without it")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args(arguments)
    is_whole, start_s, begun_on = options.rounds == ROUNDS, time.monotonic(), commit()
    bare, traced, names = soak(options.rounds, duration_s=DURATION_S if is_whole else 0)
    result, crossed = compared(bare, traced, names)
    minutes, rounds = (time.monotonic() - start_s) / 60, len(traced.samples)
    print(json.dumps(result, indent=2))
    print(*crossed, f"{rounds} rounds in {minutes:.1f} minutes", sep="\n")
    if is_whole:
        date = datetime.now(timezone.utc).date().isoformat()
        record = {"commit": begun_on, "date": date, "minutes": round(minutes, 1), "rounds": rounds, "crossed": crossed}
        FILE.write_text(json.dumps({**record, **result}, indent=2) + "\n", encoding="utf-8")
    return int(bool(crossed))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
