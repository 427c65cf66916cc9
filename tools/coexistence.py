# SPDX-License-Identifier: Apache-2.0
"""`make test-beside`: the same program with other tools, with torchspan, and with both, in both orders; compares and records.

`coexistence.py [tool …]`: all tools of tests/coexistence/peers.py, or these. Each has an environment in .venvs on top of the one that runs this.
Compared with the program without torchspan: what it prints, its exit status, what the tool is asked for. Compared with the program without the
tool: the tree of torchspan's spans, or the trees of both orders if the tool changes the outcome of the work. Where a tool has spans, those of
torchspan must be below them.

Results are in tools/coexistence_tested.json, and `make docs` writes docs/explanation/coexistence.md. Returns 1 where something differs.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from test_versions import commit, environment_on_top, uv

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = ROOT / "tests" / "coexistence"
FILE = Path(__file__).resolve().parent / "coexistence_tested.json"
LIMIT_S = 600

BASE = ("torch", "torch-tensorrt", "torch-tensorrt-rtx", "opentelemetry-sdk")
"""Packages below all tools; those that are installed are recorded."""

sys.path[:0] = [str(ROOT / "tests"), str(PROGRAMS)]

import peers  # noqa: E402 - after the path
import spans_kept  # noqa: E402

from support import span_file  # noqa: E402


@dataclass
class Ended:
    """One way, after its program: what it printed, its status, lines of stderr about torchspan, what the tool is asked for, and spans."""

    output: str
    status: int
    complaints: list
    asked: object
    rows: list


def prepare(name, peer):
    """The Python of a tool's environment, made when it is missing. Raises RuntimeError with the reason if it cannot be installed."""
    if not peer.packages:
        return Path(sys.executable)
    python = environment_on_top(f"with-{name}")
    freeze = subprocess.run(
        [uv(), "pip", "freeze", "--exclude-editable", "--python", sys.executable],
        check=True,
        capture_output=True,
        text=True,
    )
    constraints = python.parents[1] / "constraints.txt"
    constraints.write_text(freeze.stdout, encoding="utf-8")
    install = [uv(), "pip", "install", "--quiet", "--python", python, "--constraint", constraints, *peer.packages]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["?"])[-1].strip())
    return python


def ways_of(peer):
    """Name of each way -> its order, and whether `torchspan run` starts it."""
    ways = {"bare": ("", False), "tool": ("peer", False), "torchspan": ("torchspan", False)}
    if peer.command:
        return {**ways, "torchspan in it": ("peer,torchspan", False), "torchspan run": ("peer", True)}
    return {**ways, "tool first": ("peer,torchspan", False), "torchspan first": ("torchspan,peer", False)}


def run(name, peer, python, order, is_launched, folder):
    """Run the program in one way. Raises RuntimeError if it does not end, or if the tool cannot be asked."""
    has_peer = "peer" in order
    launched = folder / "launched.jsonl"
    command = [python]
    if is_launched:
        command += ["-m", "torchspan", "run", "--quiet", "--output", launched, "--", python]
    if has_peer:
        command += [part.replace("FOLDER", str(folder)).replace("FILE", str(PROGRAMS)) for part in peer.command]
    command += [PROGRAMS / "program.py", name, order, folder]
    variables = {key: value.replace("FOLDER", str(folder)) for key, value in peer.variables.items()} if has_peer else {}
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "TORCHSPAN_"))}
    environment = {**clean, **variables, "PYTHONPATH": str(PROGRAMS)}
    output, errors, status = ended_program(command, folder, environment)
    (folder / "stderr.txt").write_text(errors, encoding="utf-8")
    # All spans of a launched program are in the file of the run, also those of its own provider.
    rows = spans_kept.read(folder / "spans.jsonl")
    if is_launched:
        rows = spans_kept.rows_of_otlp(span_file.read(launched))
    try:
        asked = peer.asked(folder, python) if has_peer and status == 0 else None
    except (OSError, ValueError, LookupError, subprocess.SubprocessError) as error:
        raise RuntimeError(f"the tool could not be asked: {error}") from error
    return Ended(output, status, complaints(errors, folder), asked, rows)


def ended_program(command, folder, environment):
    """What the program printed, its stderr and its exit status. Its processes are killed if it takes too long, which raises RuntimeError."""
    program = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = program.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired as error:
        os.killpg(program.pid, signal.SIGKILL)
        program.communicate()
        raise RuntimeError(f"no end after {LIMIT_S} s") from error
    return output, errors, program.returncode


def complaints(errors, folder):
    """The lines of stderr that name torchspan or an exception. That a folder is called torchspan does not count."""
    lines = errors.replace(str(folder), "FOLDER").replace(str(ROOT), "ROOT").splitlines()
    return [line for line in lines if "torchspan" in line or "Traceback" in line]


def compared(peer, ended):
    """What differs, as sentences. ended: name of a way -> how it ended."""
    differences = []
    bare, tool, torchspan, *both = ended.values()
    both_names = list(ended)[3:]
    orders = {name: order for name, (order, _) in ways_of(peer).items()}
    without = {"torchspan": bare, **dict.fromkeys(both_names, tool)}
    for name, expected in without.items():
        for what in ("output", "status", "complaints", "asked"):
            value, expected_value = getattr(ended[name], what), getattr(expected, what)
            if value != expected_value:
                differences.append(f"{name}: {what} is {value!r}, and without torchspan {expected_value!r}")
    tree = sorted(spans_kept.trees(torchspan.rows) * peer.repeats)
    if peer.changes_outcomes:
        tree = spans_kept.trees(both[0].rows)
    elif (expected_output := bare.output * peer.repeats) not in tool.output:
        differences.append(f"tool: output is {tool.output!r}, which lacks that without the tool: {expected_output!r}")
    if not tree:
        return [*differences, "torchspan has no spans"]
    for name in both_names:
        if (its_tree := spans_kept.trees(ended[name].rows)) != tree:
            differences.append(f"{name}: torchspan's tree is {its_tree}, and expected was {tree}")
        if (above := spans_kept.above_trees(ended[name].rows)) != (expected := peer.around_torchspan(orders[name])):
            differences.append(f"{name}: torchspan's tree is below {above}, and expected was {expected}")
        differences += [f"{name}: {sentence}" for sentence in peer.disagreements(ended[name].asked, ended[name].rows)]
    return differences


def result_of(name, kept):
    """The record of a tool: versions, numbers of spans, and differences. kept: a folder that keeps what the programs wrote."""
    peer = peers.PEERS[name]
    try:
        python = prepare(name, peer)
    except RuntimeError as reason:
        return {"tool": name, "not_installed": str(reason), "differences": []}
    ended, failures = {}, []
    for way, (order, is_launched) in ways_of(peer).items():
        folder = kept / f"{name}-{way.replace(' ', '-')}"
        folder.mkdir()
        print(f"  {way}", end="", flush=True)
        try:
            ended[way] = run(name, peer, python, order, is_launched, folder)
        except RuntimeError as reason:
            failures.append(f"{way}: {reason}")
    print(flush=True)
    return {
        "tool": name,
        "versions": versions(python, peer.packages),
        "spans": {way: len(one.rows) for way, one in ended.items()},
        "differences": failures or compared(peer, ended),
    }


def versions(python, packages):
    """Name -> version of those packages that an environment has."""
    code = """if True:
        import contextlib, importlib.metadata, json, sys
        versions = {}
        for name in sys.argv[1:]:
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                versions[name] = importlib.metadata.version(name)
        print(json.dumps(versions))
    """
    output = subprocess.run([python, "-c", code, *packages], check=True, capture_output=True, text=True)
    return json.loads(output.stdout)


def read():
    """The last results: `commit`, `date`, `versions` of what all tools ran with, and `tools`, a list of records."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def main(arguments):
    """Compare the tools that are named, or all of them, which is recorded."""
    parser = argparse.ArgumentParser(prog="coexistence", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="tool", help=", ".join(peers.PEERS))
    parser.add_argument("--keep", type=Path, help="a folder that does not exist, for what the programs write")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(peers.PEERS):
        parser.error(f"no tool {', '.join(sorted(unknown))}; there are {', '.join(peers.PEERS)}")
    kept = options.keep or Path(tempfile.mkdtemp())
    kept.mkdir(exist_ok=options.keep is None)
    results, start_s, begun_on = [], time.monotonic(), commit()
    for name in options.names or peers.PEERS:
        print(name, end=":", flush=True)
        results.append(result_of(name, kept))
        for difference in results[-1]["differences"]:
            print(f"  {difference}", flush=True)
    if options.keep is None:
        shutil.rmtree(kept)
    minutes = (time.monotonic() - start_s) / 60
    if not options.names:
        date = datetime.now(timezone.utc).date().isoformat()
        base = versions(sys.executable, BASE)
        record = {"commit": begun_on, "date": date, "minutes": round(minutes, 1), "versions": base, "tools": results}
        FILE.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    different = [result["tool"] for result in results if result["differences"] or "not_installed" in result]
    print(
        f"{len(results)} tools in {minutes:.1f} minutes; different or not installed: {', '.join(different) or 'none'}"
    )
    return int(bool(different))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
