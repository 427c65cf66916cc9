# SPDX-License-Identifier: Apache-2.0
"""Prints the seconds that the last run of the tests took, by folder and for the slowest files, and compares shares.

`suite_times.py [--write]`: `--write` makes the shares of the last run the committed ones. Shares of processor time are
compared, not seconds, so that the table holds on every machine.
"""

import argparse
import json
import sys
from collections import Counter, defaultdict
from pathlib import PurePosixPath

from suite_run import ROOT, SuiteRun

SHARES = ROOT / "tests" / "shares.json"
"""`folders`: folder -> its share of the processor time of the whole suite. `files`: each file that takes long -> its share
of the time that the tests took one after the other; `tests/conftest.py` begins with these."""
SLOWEST = 10
TOO_MUCH = 1.5
"""A folder whose share is more than this times the committed one is warned of."""
TOO_SMALL = 0.01
"""Shares below this are as good as none: a second more is half of them."""


def seconds_by_file(run):
    """File -> (wall seconds, processor seconds)."""
    wall, cpu = Counter(), Counter()
    for row in run["seconds"]:
        wall[row["file"]] += row["wall"]
        cpu[row["file"]] += row["cpu"]
    return {file: (wall[file], cpu[file]) for file in wall}


def seconds_by_folder(files):
    """The same by folder below tests; a file that lies in tests itself is a folder of its own."""
    folders = defaultdict(lambda: (0.0, 0.0))
    for file, (wall, cpu) in files.items():
        parts = PurePosixPath(file).parts
        folder = parts[1] if len(parts) > 1 else file
        folders[folder] = (folders[folder][0] + wall, folders[folder][1] + cpu)
    return dict(folders)


def shares(folders):
    """Folder -> its part of the processor time, 0 to 1."""
    total = sum(cpu for _, cpu in folders.values()) or 1.0
    return {folder: cpu / total for folder, (_, cpu) in folders.items()}


def warnings(now, committed):
    """Sentences: the folders that take a larger part of the processor time than the committed table says."""
    for folder, share in sorted(now.items(), key=lambda each: -each[1]):
        allowed = committed.get(folder, 0.0)
        if share > max(allowed, TOO_SMALL) * TOO_MUCH:
            yield (
                f"{folder} took {share:.1%} of the processor time, {SHARES.name} says {allowed:.1%}: make it cheaper, or "
                "write the new shares with `python tools/suite_times.py --write`"
            )


def main(arguments=()):
    """Print them, or write the table; the status is 0 unless there is no run to look at."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help=f"write {SHARES.name} from the last run")
    options = parser.parse_args(arguments)
    run = SuiteRun.read()
    files = seconds_by_file(run)
    if not files:
        print("suite_times: no run of the tests to look at")
        return 1
    folders = seconds_by_folder(files)
    now = shares(folders)
    if options.write:
        whole = sum(wall for wall, _ in files.values()) or 1.0
        long = {file: round(wall / whole, 4) for file, (wall, _) in sorted(files.items()) if wall / whole >= TOO_SMALL}
        table = {"folders": {folder: round(share, 4) for folder, share in sorted(now.items())}, "files": long}
        SHARES.write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")
        print(f"suite_times: wrote {SHARES.relative_to(ROOT)}")
        return 0
    print("\nSeconds by folder (waited, processor, share of the processor time):")
    for folder, (wall, cpu) in sorted(folders.items(), key=lambda each: -each[1][1]):
        print(f"  {wall:6.0f} {cpu:6.0f} {now[folder]:6.1%}  {folder}")
    print(f"\nThe {SLOWEST} slowest files:")
    for file, (wall, cpu) in sorted(files.items(), key=lambda each: -each[1][0])[:SLOWEST]:
        print(f"  {wall:6.0f} {cpu:6.0f}  {file}")
    if run["asked"] and not all(row["whole"] for row in run["asked"]):
        print("\nOnly some files were asked for: shares are not compared.")
        return 0
    for sentence in warnings(now, json.loads(SHARES.read_text(encoding="utf-8"))["folders"]):
        print(f"warning: {sentence}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
