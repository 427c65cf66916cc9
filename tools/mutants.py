# SPDX-License-Identifier: Apache-2.0
"""`make mutants`: changes the code in small ways, 200 in each of five folders, and counts how many of the changes a test notices.

`mutants.py [folder …]`: all folders, or these. mutmut makes the changes ("mutants"); a seeded sample of them is tried. First all tests of a
folder run once, so that it is known which of them run a line. Each mutant then has a process of its own, a fork of one that has imported
PyTorch, with these tests, fastest first, until one fails. That test must pass without the mutant, in such a process and after the same tests.
A mutant that no test notices has survived. One whose tests take far longer than usual, because something waits or repeats forever, is noticed.

The results of each folder are in tools/mutants_tested.json, and `make docs` puts them into docs/explanation/faults.md.
tools/mutants_survivors.json says of survivors why they cannot matter; these count as survivors and are not tried. Returns 1 where a survivor
has no such reason, or where too few were noticed.
"""

import argparse
import json
import math
import subprocess
import sys
import threading
import time
from datetime import datetime, timezone
from pathlib import Path

from test_versions import commit, environment_on_top, uv

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "torchspan"
FILE = Path(__file__).resolve().parent / "mutants_tested.json"
SURVIVORS = Path(__file__).resolve().parent / "mutants_survivors.json"
WORKER = Path(__file__).resolve().parent / "mutants_worker.py"
SEED, SAMPLE, PROCESSES = 34, 200, 2

LEFT_OUT = ("privacy/test_canaries.py", "pipeline/test_progress.py", "pipeline/test_budget.py")
"""Files of tests that take minutes, and work in programs that they start, where there is no mutant."""

FOLDERS = {
    "words/redaction": (0.98, ("redaction", "semconv", "tools/test_tools.py", "sdk/test_operator_spans.py", "privacy", "probes", "writer")),
    "words/semconv": (0.92, ("semconv", "test_semantic_conventions.py", "registry", "tools/test_tools.py", "tools/test_contract.py", "tools/test_registry_changes.py", "tools/test_registry_rules.py", "test_public_api.py")),
    "engine": (0.93, ("engine", "adapters", "writer", "callbacks", "observers", "propagation", "test_flush.py", "test_what_grows.py", "test_public_api.py")),
    "reading/comparison": (0.92, ("comparison", "cli/test_compare.py", "cli/test_compare_hostile.py", "test_public_api.py")),
    "hooks/probes/describe": (0.92, ("probes", "dynamo/test_graph_breaks.py", "pipeline/test_what_runs.py", "adapters", "plain", "dynamo", "pipeline", "test_public_api.py")),
}  # fmt: skip
"""Folder of src/torchspan -> the least share that tests must notice, and the tests that may notice a mutant of it."""


def interval(killed, tried):
    """The 95 % interval of a share, by Wilson's method."""
    if not tried:
        return 0.0, 1.0
    z, share = 1.96, killed / tried
    centre = share + z * z / (2 * tried)
    half = z * math.sqrt(share * (1 - share) / tried + z * z / (4 * tried * tried))
    return max(0.0, (centre - half) / (1 + z * z / tried)), min(1.0, (centre + half) / (1 + z * z / tried))


def environment():
    """The Python of the environment that has mutmut."""
    python = environment_on_top("mutants")
    subprocess.run([uv(), "pip", "install", "--quiet", "--python", python, "mutmut>=3.8"], check=True)
    return python


def lines_noted(python, folders, since=None):
    """Run the tests of the folders, half of their files in each of two processes, and note which of them run which line.

    since: a commit whose tests have been noted; only files of tests that have changed since run, and are added.
    """
    tests = sorted({f"tests/{name}" for folder in folders for name in FOLDERS[folder][1]})
    what = "map" if since is None else "add"
    if since is not None:
        tests = [file for file in test_files_changed(since) if any(Path(file).is_relative_to(name) for name in tests)]
    left_out = [f"--ignore=tests/{name}" for name in LEFT_OUT]
    processes = [
        subprocess.Popen([python, WORKER, what, f"{number}/{PROCESSES}", *tests, *left_out], cwd=ROOT)
        for number in range(PROCESSES if tests else 0)
    ]
    if {process.wait() for process in processes} - {0}:
        raise SystemExit("the tests could not run")


def test_files_changed(since):
    """The files of tests that differ from those of a commit."""
    command = ["git", "diff", "--name-only", "--diff-filter=d", since, "--", "tests/**/test_*.py", "tests/test_*.py"]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.split()


def log_of(folder):
    """The file with the outcomes of a folder's mutants, one line of JSON each."""
    return ROOT / ".bench" / f"mutants-{folder.replace('/', '-')}.jsonl"


def noticed_before(folder):
    """What identifies the mutants that a test noticed in the last run of the folder -> the outcome of each."""
    mutants = [json.loads(line) for line in log_of(folder).read_text(encoding="utf-8").splitlines()]
    survivors = {change_of(mutant) for mutant in mutants if mutant["outcome"] == "survived"}
    return {change_of(mutant): mutant["outcome"] for mutant in mutants if change_of(mutant) not in survivors}


def tried(folder, python, sample, noticed):
    """The mutants of a sample, each with its outcome, from all processes. Prints how far it is, and keeps the outcomes in .bench.

    noticed: what `noticed_before` returns, of mutants that are not tried; none of those with a reason is tried either.
    """
    mutants, lock, log = [], threading.Lock(), log_of(folder)
    outcomes = noticed | dict.fromkeys(survivors_explained(SURVIVORS), "survived")
    known = json.dumps([[*change, outcome] for change, outcome in outcomes.items()])
    log.write_text("", encoding="utf-8")

    def follow(process):
        for line in process.stdout:
            with lock, log.open("a", encoding="utf-8") as file:
                file.write(line)
                mutants.append(json.loads(line))
                print(f"\r{folder}: {len(mutants)} of {sample}", end="", file=sys.stderr, flush=True)

    processes = [
        subprocess.Popen(
            [python, WORKER, "try", folder, str(SEED), str(sample), f"{number}/{PROCESSES}", *FOLDERS[folder][1]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for number in range(PROCESSES)
    ]
    for process in processes:
        process.stdin.write(known)
        process.stdin.close()
    threads = [threading.Thread(target=follow, args=(process,)) for process in processes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(file=sys.stderr)
    if {process.wait() for process in processes} != {0}:
        raise SystemExit("a process that tries mutants failed")
    return mutants


def change_of(mutant):
    """What identifies a mutant when lines above it change."""
    return mutant["file"], mutant["before"], mutant["after"]


def survivors_explained(file):
    """Mutants that no test notices, by what identifies them, and why they cannot matter."""
    return {change_of(entry): entry["reason"] for entry in json.loads(file.read_text(encoding="utf-8"))}


def summary_of(folder, mutants):
    """The record of a folder: numbers, interval, and survivors with their reasons."""
    keys = ("file", "line", "before", "after")
    reasons = survivors_explained(SURVIVORS)
    survivors = [
        {**{key: mutant[key] for key in keys}, "reason": reasons.get(change_of(mutant))}
        for mutant in mutants
        if mutant["outcome"] == "survived"
    ]
    killed = len(mutants) - len(survivors)
    return {
        "folder": folder,
        "tried": len(mutants),
        "killed": killed,
        "timed_out": sum(mutant["outcome"] == "timed out" for mutant in mutants),
        "interval": [round(bound, 3) for bound in interval(killed, len(mutants))],
        "least": FOLDERS[folder][0],
        "survivors": sorted(survivors, key=lambda mutant: (mutant["file"], mutant["line"])),
    }


def read():
    """Folder -> its last results, with `commit`, `date` and `minutes`."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def keep(record, begun_on, minutes):
    """Record the results of a folder. minutes: of a run of the whole sample, with those of noting lines if the folder is the first."""
    results = read() if FILE.exists() else {}
    date = datetime.now(timezone.utc).date().isoformat()
    results[record["folder"]] = {**record, "commit": begun_on, "date": date, "minutes": round(minutes)}
    in_order = {folder: results[folder] for folder in FOLDERS if folder in results}
    FILE.write_text(json.dumps(in_order, indent=2) + "\n", encoding="utf-8")


def main(arguments):
    """Try the mutants of the folders, print and record."""
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="*", help=", ".join(FOLDERS))
    parser.add_argument(
        "--sample", type=int, default=SAMPLE, help="mutants of each folder; another number is not recorded"
    )
    parser.add_argument("--noted", action="store_true", help="with the lines that the last run noted; not recorded")
    parser.add_argument(
        "--survivors", action="store_true", help="try only those that survived the last run, after tests were added"
    )
    options = parser.parse_args(arguments)
    if unknown := set(options.folders) - set(FOLDERS):
        parser.error(f"no folder {', '.join(sorted(unknown))}; there are {', '.join(FOLDERS)}")
    earlier = read() if FILE.exists() else {}
    if options.survivors and (
        missing := [name for name in options.folders or FOLDERS if name not in earlier or not log_of(name).exists()]
    ):
        parser.error(f"--survivors needs an earlier run of {', '.join(missing)}; run it without the option first")
    begun_on, python, records = commit(), environment(), []
    start_s = time.monotonic()
    if not options.noted:
        since = [earlier[folder]["commit"] for folder in options.folders or FOLDERS] if options.survivors else []
        lines_noted(python, options.folders or FOLDERS, since[0] if len(set(since)) == 1 else None)
    for folder in options.folders or FOLDERS:
        noticed = noticed_before(folder) if options.survivors else {}
        record = summary_of(folder, tried(folder, python, options.sample, noticed))
        records.append(record)
        low, high = record["interval"]
        print(f"{folder}: {record['killed']} of {record['tried']} noticed ({low:.1%} to {high:.1%})", flush=True)
        for mutant in record["survivors"]:
            if mutant["reason"] is None:
                print(f"  {mutant['file']}:{mutant['line']}: {mutant['before']}  ->  {mutant['after']}", flush=True)
        if not options.noted and options.sample == SAMPLE:
            minutes = (time.monotonic() - start_s) / 60
            keep(record, begun_on, earlier[folder]["minutes"] if options.survivors else minutes)
        start_s = time.monotonic()
    return int(
        any(
            record["killed"] < record["least"] * record["tried"]
            or any(mutant["reason"] is None for mutant in record["survivors"])
            for record in records
        )
    )


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
