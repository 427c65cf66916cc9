# SPDX-License-Identifier: Apache-2.0
"""The Collector, Jaeger, Prometheus, and Tempo where one is given, on this machine: what `make up` and `make down` do.

`local.py up`: build what is missing, start them on loopback ports with data in a temporary folder, wait until they answer, and
print their addresses. `local.py down`: end them and remove the folder. `local.py demo`: run a program, `torchspan demo` if none
is named, whose traces go there, and wait until its trace can be fetched.
"""

import argparse
import contextlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import backends
import running
import services

KINDS = (services.Jaeger, services.Tempo, services.Prometheus, services.Collector)
"""In the order in which they are started: the Collector, which sends to the others, last."""
SERVICE_NAME = "torchspan-demo"
FETCH_S = 60
"""How long a trace may take from the program's end until it can be fetched."""

STEADY_S = 0.5
"""A trace is whole when no span has come for that long: the Collector sends what it has every 0.2 s."""


ANOTHER = "Name another: TORCHSPAN_LOCAL=/path/of/a/folder"


class LocalError(Exception):
    """Something that the user can put right; the message says what and how."""


def say(text):
    """Print a line at once."""
    print(text, flush=True)


def default_folder():
    """The folder of this user's stack: TORCHSPAN_LOCAL, or one below the folder for temporary files."""
    given = os.environ.get("TORCHSPAN_LOCAL")
    return Path(given) if given else Path(tempfile.gettempdir()) / f"torchspan-local-{os.getuid()}"


@dataclass(frozen=True)
class Started:
    """A process that an earlier command started. begun: when, as the system says it: a process id is used again."""

    program: str
    pid: int
    begun: str
    stop_s: float

    def runs(self):
        """Whether it still runs."""
        return _begun(self.pid) == self.begun

    def stop(self):
        """Ask it to end, and kill it where it does not."""
        for signal, limit_s in ((15, self.stop_s), (9, running.STOP_S)):
            if self.runs():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, signal)
            until = time.monotonic() + limit_s
            while self.runs() and time.monotonic() < until:
                time.sleep(0.05)


def _begun(pid):
    """When a process began; empty where there is none, or one that only waits to be collected by its parent."""
    try:
        of = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except FileNotFoundError:
        if Path("/proc/self").exists():
            return ""
        asked = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
        of = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split()
        return "" if not of or of[0].startswith("Z") else " ".join(of[1:])
    except ProcessLookupError:
        return ""
    is_over = of[0] == "Z" and of[17] == "1"  # its other threads may hold its ports for a moment longer
    return "" if is_over else of[19]


class Stack:
    """What runs, as its folder says. addresses: name → address, of what is there."""

    def __init__(self, folder):
        """Read what an earlier command wrote. Raises LocalError where the folder is not this user's."""
        with contextlib.suppress(FileNotFoundError):
            status = folder.lstat()  # once: others may replace it between two looks
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
                raise LocalError(f"{folder} belongs to another user. {ANOTHER}")
        self.folder = folder
        self._state = folder / "state.json"
        self.started, self.addresses, self.is_made = [], {}, False
        with contextlib.suppress(OSError, ValueError, TypeError, LookupError):  # not one that `keep` wrote
            kept = json.loads(self._state.read_text(encoding="utf-8"))
            self.started, self.addresses = [Started(**each) for each in kept["started"]], kept["addresses"]
            self.is_made = True

    def keep(self):
        """Write down what was started, so that another command can end it."""
        kept = {"started": [vars(each) for each in self.started], "addresses": self.addresses}
        part = self._state.with_suffix(".part")
        part.write_text(json.dumps(kept), encoding="utf-8")
        part.replace(self._state)

    def runs(self):
        """Whether all of it runs."""
        return bool(self.started) and all(each.runs() for each in self.started)

    def make_folder(self):
        """The folder, which no other user can read or has made."""
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            self.folder.mkdir(mode=0o700)
        except FileExistsError:
            left = "left by a command that was ended: make down"
            raise LocalError(
                f"{self.folder} is there already, {left if self.is_made else f'and `make up` did not make it. {ANOTHER}'}"
            ) from None
        self.keep()
        self.is_made = True

    def stop(self):
        """End what runs, the Collector first, and remove the folder. Returns the names of what was ended.

        Raises LocalError where there is a folder that `make_folder` did not make. Nothing is removed then.
        """
        if not self.is_made and self.folder.exists():
            raise LocalError(f"`make up` did not make {self.folder}: nothing is removed. {ANOTHER}")
        ended = [each for each in reversed(self.started) if each.runs()]
        for each in ended:
            each.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
        return [each.program for each in ended]


def up(folder):
    """Start what does not run yet, and print the addresses."""
    stack = Stack(folder)
    if stack.runs():
        say("Up already.")
        _print_addresses(stack)
        return
    if any(each.runs() for each in stack.started):
        lost = ", ".join(each.program for each in stack.started if not each.runs())
        raise LocalError(
            f"{lost} has ended, and the others run; its output is in {folder}. To begin again: make down up"
        )
    if stack.started:
        stack.stop()  # left by a machine that lost power
        stack = Stack(folder)
    found = _programs()
    ports = _ports(_to_start(found))
    stack.make_folder()
    try:
        _start(stack, found, ports)
    except BaseException:
        stack.stop()
        raise
    say(f"Up, with data in {folder}; make down ends it and removes them.")
    _print_addresses(stack)


def _programs():
    """Program → path or address, of those to start; what is missing is built."""
    wanted = [backends.BY_NAME[kind.program] for kind in KINDS]
    missing = [each for each in wanted if each.found() is None and isinstance(each, backends.GoProgram)]
    if missing:
        minutes = sum(each.minutes for each in missing)
        names = ", ".join(each.name for each in missing)
        say(f"To be built first: {names}; about {minutes:g} min on two idle cores and a download of 0.8 GB. Once.")
    for each in missing:
        backends.build(each, say)
    found = {each.name: used for each in wanted if (used := each.found())}
    if backends.is_address(found["otelcol-torchspan"]):
        raise LocalError(
            "TORCHSPAN_TEST_OTELCOL is an address: the Collector is started with configurations, name a path"
        )
    return found


def _to_start(found):
    """The services that run here; what was given by an address runs already."""
    return [kind for kind in KINDS if kind.program in found and not backends.is_address(found[kind.program])]


def _ports(kinds):
    """Variable → port. Raises LocalError where one is taken, or is not a port."""
    ports, wrong = {}, []
    for name, (default, what) in {name: port for kind in kinds for name, port in kind.PORTS.items()}.items():
        given = os.environ.get(name) or str(default)
        if not (given.isascii() and given.isdecimal() and 0 < int(given) < 65536):
            wrong.append(f"{name}={given} is not a port")
        elif int(given) in ports.values():
            wrong.append(f"port {given} is asked for twice, the second time for {what}: make up {name}=…")
        elif not running.is_free(int(given)):
            wrong.append(f"port {given} ({what}) is taken by another program. Choose another: make up {name}=…")
        else:
            ports[name] = int(given)
    if wrong:
        raise LocalError("\n".join(wrong))
    return ports


def _start(stack, found, ports):
    """Start each program and wait until it answers."""
    addresses = stack.addresses
    sends_to = {}
    for name, port, otlp in (
        ("jaeger", "JAEGER_API_PORT", "JAEGER_OTLP_PORT"),
        ("tempo", "TEMPO_API_PORT", "TEMPO_OTLP_PORT"),
    ):
        used = found.get(name)
        if used and backends.is_address(used):
            addresses[name], sends_to[name] = backends.addresses(used)
        elif used:
            addresses[name], sends_to[name] = (f"http://127.0.0.1:{ports[each]}" for each in (port, otlp))
    if "PROMETHEUS_PORT" in ports:
        addresses["prometheus"] = f"http://127.0.0.1:{ports['PROMETHEUS_PORT']}"
    addresses["http"] = f"http://127.0.0.1:{ports['TORCHSPAN_HTTP_PORT']}"
    addresses["grpc"] = f"http://127.0.0.1:{ports['TORCHSPAN_GRPC_PORT']}"
    addresses["has_pages"] = found["jaeger"] != backends.BY_NAME["jaeger"].built()

    layers = ["base.yaml", "metrics.yaml", *(["local/with-tempo.yaml"] if "tempo" in sends_to else [])]
    of_collector = {
        "TORCHSPAN_OTLP_ENDPOINT": sends_to["jaeger"],
        "TORCHSPAN_TEMPO_ENDPOINT": sends_to.get("tempo", ""),
        "TORCHSPAN_METRICS_FLUSH": "5s",
    }
    for kind in _to_start(found):
        own = stack.folder / kind.program
        own.mkdir()
        arguments, variables = (), {}
        if kind is services.Collector:
            arguments, variables = (layers,), of_collector
        elif kind is services.Prometheus:
            arguments = (services.prometheus_configuration(own, ports),)
        started = kind(found[kind.program], own, {name: ports[name] for name in kind.PORTS}, *arguments).start(
            **variables
        )
        stack.started.append(Started(kind.program, started.process.pid, _begun(started.process.pid), kind.STOP_S))
        stack.keep()
        started.wait_until_ready()


def _print_addresses(stack):
    found = stack.addresses
    pages = "" if found["has_pages"] else "  (its API; the build from Go modules has no pages)"
    say(f"  Jaeger      {found['jaeger']}{pages}")
    if "tempo" in found:
        say(f"  Tempo       {found['tempo']}")
    if "prometheus" in found:
        say(f"  Prometheus  {found['prometheus']}")
    say(f"  Collector   {found['http']} (OTLP/HTTP), {found['grpc']} (OTLP/gRPC)")
    say("Send it the traces of a program, or of the demo with `make demo-up`:")
    say(f"  OTEL_SERVICE_NAME={SERVICE_NAME} OTEL_EXPORTER_OTLP_ENDPOINT={found['http']} \\")
    say("  OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf OTEL_LOGS_EXPORTER=none opentelemetry-instrument python app.py")
    _print_queries(stack)


def _print_queries(stack):
    say(f"The trace of the last compilation of {SERVICE_NAME}, as JSON of Jaeger's:")
    say(jaeger_query(stack))
    if "tempo" in stack.addresses:
        say("The same in Tempo, and then /api/v2/traces/ with the trace id:")
        say(tempo_query(stack))


def jaeger_query(stack):
    """Address of the trace with the last compilation."""
    asked = {"service": SERVICE_NAME, "operation": "torch_tensorrt.compile", "limit": 1}
    return f"{stack.addresses['jaeger']}/api/traces?{urllib.parse.urlencode(asked)}"


def tempo_query(stack):
    """Address of a search for the trace with the last compilation."""
    asked = f'{{ resource.service.name = "{SERVICE_NAME}" && name = "torch_tensorrt.compile" }}'
    return f"{stack.addresses['tempo']}/api/search?{urllib.parse.urlencode({'q': asked, 'limit': 1})}"


PAGE = Path(__file__).resolve().parents[1] / ".reports" / "demo.html"
"""The page of the last `make demo-up`, which `torchspan demo` names."""


def demo(folder, command):
    """Run a program whose traces and metrics go to the stack, and wait for its trace. Returns its exit status."""
    stack = Stack(folder)
    if not stack.runs():
        raise LocalError("nothing is up: make up")
    begun_us = time.time_ns() // 1000
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")} | {
        "OTEL_SERVICE_NAME": SERVICE_NAME,
        "OTEL_EXPORTER_OTLP_ENDPOINT": stack.addresses["http"],
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_TRACES_EXPORTER": "otlp",
        "OTEL_METRICS_EXPORTER": "otlp",
        "OTEL_LOGS_EXPORTER": "none",
    }
    status = subprocess.run(command, env=environment, check=False).returncode
    if status:
        return status
    _wait_for("Jaeger", lambda: _spans_in_jaeger(stack, begun_us))
    if "tempo" in stack.addresses:
        _wait_for("Tempo", lambda: _traces_in_tempo(stack, begun_us))
    say("")
    _print_queries(stack)
    return 0


def _wait_for(name, count):
    """Return when something has arrived and no more does."""
    before, until = 0, time.monotonic() + FETCH_S
    while not (now := count()) or now != before:
        if time.monotonic() > until:
            raise LocalError(f"the trace did not arrive in {name} within {FETCH_S} s of the program's end")
        before = now
        time.sleep(STEADY_S)


def _spans_in_jaeger(stack, since_us):
    found = _json(jaeger_query(stack)).get("data") or []
    return sum(span["startTime"] >= since_us for trace in found for span in trace["spans"])


def _traces_in_tempo(stack, since_us):
    found = _json(tempo_query(stack)).get("traces") or []
    return sum(int(trace["startTimeUnixNano"]) >= since_us * 1000 for trace in found)


def _json(url):
    """What is there; empty where it is not available yet."""
    try:
        with urllib.request.urlopen(url, timeout=10) as response:
            return json.load(response)
    except (OSError, urllib.error.URLError, ValueError):
        return {}


def main(arguments):
    """Do what is asked for; the exit status is 1 where it could not be done."""
    parser = argparse.ArgumentParser(prog="local", description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("up", help="start the programs")
    commands.add_parser("down", help="end them and remove their data")
    demonstrated = commands.add_parser("demo", help="run a program whose traces go there")
    demonstrated.add_argument("program", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    folder = default_folder()
    try:
        if options.command == "up":
            up(folder)
        elif options.command == "down":
            ended = Stack(folder).stop()
            say(f"Down: {', '.join(ended)}." if ended else "Nothing was up.")
        else:
            program = [each for each in options.program if each != "--"]
            PAGE.parent.mkdir(exist_ok=True)
            return demo(folder, program or [Path(sys.executable).with_name("torchspan"), "demo", "--html", PAGE])
    except (LocalError, backends.BuildError, running.NotReadyError) as error:
        for line in str(error).splitlines():
            print(f"local: {line}", file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
