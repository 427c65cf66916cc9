# SPDX-License-Identifier: Apache-2.0
"""`make failing-calls`: lets each call of torchspan's functions fail, one in each try, and records what was different.

The scripts are those of tests/failing/scripts.py. Two processes share the tries, and a third one has the script that mostly waits. The
results are in tools/failing_calls_tested.json, and `make docs` puts them into docs/explanation/faults.md. With arguments it runs these
scripts alone. From a clean checkout, with a record of all of them, it replaces their results in it.
"""

import json
import subprocess
import sys
import threading
import time
from datetime import datetime, timezone
from pathlib import Path

from test_versions import commit

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = ROOT / "tests" / "failing" / "program.py"
FILE = Path(__file__).resolve().parent / "failing_calls_tested.json"
WAITING = "heartbeats"
"""The script whose tries wait most of their time. With all scripts, it has a process of its own."""


def read():
    """The last results: `commit`, `date`, `seconds`, and `scripts`, a list of reports."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def reports_of(scripts, options=()):
    """The report on each script, from all processes. Prints each as it comes."""
    reports, lock = {}, threading.Lock()

    def follow(process):
        for line in process.stdout:
            report = json.loads(line)
            with lock:
                whole = reports.setdefault(report["script"], {**report, "tries": 0, "different": []})
                whole["tries"] += report["tries"]
                whole["different"] += report["different"]
            print(f"{report['script']}: {report['tries']} tries, {len(report['different'])} differences", flush=True)

    shares = [[*(scripts or ["--without", WAITING]), "--part", part] for part in ("1/2", "2/2")]
    processes = [
        subprocess.Popen([sys.executable, PROGRAM, *share, *options], stdout=subprocess.PIPE, text=True)
        for share in (shares if scripts else [*shares, [WAITING]])
    ]
    threads = [threading.Thread(target=follow, args=(process,)) for process in processes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    statuses = [process.wait() for process in processes]
    if any(statuses):
        raise SystemExit(f"a process ended with status {max(statuses)}")
    return list(reports.values())


def keep(reports, seconds, *, is_whole):
    """Record the results of all scripts. Those of some replace theirs in the last record, where there is one and the checkout is clean."""
    tested_on = commit()
    if is_whole:
        date = datetime.now(timezone.utc).date().isoformat()
        result = {"commit": tested_on, "date": date, "seconds": seconds, "scripts": reports}
    elif tested_on and FILE.exists():
        by_name = {report["script"]: report | {"again_on": tested_on} for report in reports}
        result = read()
        result["scripts"] = [by_name.get(report["script"], report) for report in result["scripts"]]
    else:
        return
    FILE.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def main(arguments):
    """Run the scripts that are named, or all of them. Returns 1 where something was different."""
    # Operators are recorded where their library is built. Without a compiler, the scripts run without it.
    subprocess.run([sys.executable, "-m", "torchspan.native", "build"], check=False)
    start_s = time.monotonic()
    reports = reports_of(arguments)
    seconds = round(time.monotonic() - start_s)
    print(f"{sum(report['tries'] for report in reports)} tries in {seconds} s")
    keep(reports, seconds, is_whole=not arguments)
    for report in reports:
        for place, error, kind, number in report["different"]:
            print(f"{report['script']}: {error} in {place}: {kind} ({number} times)")
    return int(any(report["different"] for report in reports))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
