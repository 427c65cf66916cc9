# SPDX-License-Identifier: Apache-2.0
"""`make hostile`: programs that use torchspan while what interrupts them comes at the worst moment, for two minutes.

Each round is a process (hostile_program.py), two at a time: now with all entries of `ENTRIES`, now with three of them. A round fails if it does
not end, if a span has a wrong parent, if something is lost and not counted, or if an exception reaches the program. Returns 1 if one failed.

`--only gc` switches on this entry alone; it can be given several times. `--seed` repeats the seeds of a run, which it prints.
`--without-torchspan` is the control: the same program without it. The results are in tools/hostile_scheduler_tested.json, and `make docs`
puts them into docs/explanation/faults.md. With options, nothing is recorded.
"""

import argparse
import ast
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from datetime import datetime, timezone
from pathlib import Path

from test_versions import commit

PROGRAM = Path(__file__).resolve().parent / "hostile_program.py"
FILE = Path(__file__).resolve().parent / "hostile_scheduler_tested.json"
SECONDS, ROUND_S = 120, 5
LIMIT_S = 60
"""What a round may take beyond its seconds: imports and checks. A round that takes longer hangs."""

(ENTRIES,) = (
    ast.literal_eval(statement.value)
    for statement in ast.parse(PROGRAM.read_text(encoding="utf-8")).body
    if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "ENTRIES"
)
"""Entry -> what it does. The program is not imported: it begins to work at once."""


def result_of(entries, seed, *, seconds=ROUND_S, limit_s=LIMIT_S, options=(), program=PROGRAM):
    """What a round found: `entries`, `seed`, `problems`, and counts. What hangs is killed, once it has printed its stacks."""
    command = [sys.executable, program, *entries, "--seed", str(seed), "--seconds", str(seconds), *options]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=out, stderr=errors, start_new_session=True)
        try:
            process.wait(seconds + limit_s)
            hung = None
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGUSR1)
            time.sleep(2)  # to print the stacks
            hung = f"it did not end within {seconds + limit_s} s"
        if hung:
            os.killpg(process.pid, signal.SIGKILL)  # a forked child may hang, too
            process.wait()
        out.seek(0)
        errors.seek(0)
        lines, printed = out.read().splitlines(), errors.read()
    found = {"entries": list(entries), "seed": seed, "problems": []}
    if hung or not lines:
        found["problems"] = [f"{hung or f'it ended with status {process.returncode}'}\n{printed}"]
    else:
        found |= json.loads(lines[-1])
        if found["problems"] and printed:
            found["problems"].append(printed)
    return found


def rounds(rng, only):
    """(entries, seed) of each round, without end."""
    while True:
        yield only or tuple(ENTRIES), rng.randrange(10**6)
        for _ in range(0 if only else 3):
            yield tuple(rng.sample(list(ENTRIES), 3)), rng.randrange(10**6)


def storm(seconds, seed, only=(), options=()):
    """The results of the rounds that begin within `seconds`. Each is printed when it ends. A failed one ends the storm."""
    results, turn, end_s = [], threading.Lock(), time.monotonic() + seconds
    planned = rounds(random.Random(seed), only)

    def work():
        while time.monotonic() < end_s and not any(result["problems"] for result in results):
            with turn:
                entries, number = next(planned)
            result = result_of(entries, number, seconds=min(ROUND_S, seconds), options=options)
            results.append(result)
            counts = ", ".join(f"{key} {value}" for key, value in result.items() if isinstance(value, int))
            print(f"{'FAILED' if result['problems'] else 'passed'}  {' '.join(entries)}: {counts}", flush=True)

    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return results


def read():
    """The last results: `commit`, `date`, `seconds`, `rounds`, `entries` with the number of their rounds, and `problems`."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def main(arguments):
    """Run, print the problems, and record the results."""
    parser = argparse.ArgumentParser(description="programs under a hostile scheduler")
    parser.add_argument("--seconds", type=int, default=SECONDS)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--only", action="append", choices=ENTRIES, default=[], metavar=f"{{{','.join(ENTRIES)}}}")
    parser.add_argument("--without-torchspan", action="store_true")
    options = parser.parse_args(arguments)
    tested_on, start_s = commit(), time.monotonic()
    print(f"--seed {options.seed}", flush=True)
    control = ["--without-torchspan"] if options.without_torchspan else []
    results = storm(options.seconds, options.seed, tuple(options.only), control)
    problems = [(result, text) for result in results for text in result["problems"]]
    for result, text in problems:
        print(f"\n{PROGRAM.name} {' '.join(result['entries'])} --seed {result['seed']} --seconds {ROUND_S}: {text}")
    if not arguments:
        record = {
            "commit": tested_on,
            "date": datetime.now(timezone.utc).date().isoformat(),
            "seconds": round(time.monotonic() - start_s),
            "rounds": len(results),
            "entries": {entry: sum(entry in result["entries"] for result in results) for entry in ENTRIES},
            "problems": [text for _, text in problems],
        }
        FILE.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return int(bool(problems))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
