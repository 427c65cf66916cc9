# SPDX-License-Identifier: Apache-2.0
"""Builds the programs that the tests of `collector-config` run: the Collector, Jaeger and Prometheus.

`backends.py [name …]`: all of them, or those named. They are built from Go modules whose checksums are in the repository, into a
folder for caches outside of it; one that is there already is left as it is. A program that is on the PATH, or named by
`TORCHSPAN_TEST_<PROGRAM>`, is used instead and not built. `--list` says which is used and builds none.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DISTRIBUTION = ROOT / "collector-config" / "distribution"
WRAPPERS = ROOT / "tools" / "backends"

COLLECTOR_BUILDER = "go.opentelemetry.io/collector/cmd/builder"
STRIPPED = ("-trimpath", "-ldflags=-s -w")
PROGRESS_S = 20


class BuildError(Exception):
    """A program cannot be built; the message says why and what to do."""


@dataclass(frozen=True)
class Backend:
    """A program that tests run.

    name: of its file. sources: the folder whose files decide what is built. minutes: what the build takes on two idle cores,
    the downloads apart. package: the Go package; None for the Collector, whose main package is generated. tags: of the build.
    """

    name: str
    sources: Path
    minutes: float
    package: str | None = None
    tags: str = ""

    @property
    def variable(self):
        """The environment variable that names a program, or the address of a running one, to use instead."""
        return f"TORCHSPAN_TEST_{self.name.partition('-')[0].upper()}"

    def key(self):
        """What the built file depends on."""
        digest = hashlib.sha256(f"{self.package} {self.tags} {STRIPPED}".encode())
        for path in sorted(self.sources.iterdir()):
            digest.update(path.name.encode() + path.read_bytes())
        return digest.hexdigest()[:16]

    def built(self):
        """Where the built program is, whether or not it is there yet."""
        return cache() / f"{self.name}-{self.key()}" / self.name

    def found(self):
        """The program or address to use; None where there is none."""
        given = os.environ.get(self.variable)
        on_path = shutil.which(self.name)
        built = self.built()
        return given or on_path or (str(built) if built.exists() else None)


BACKENDS = (
    Backend("otelcol-torchspan", DISTRIBUTION, 4.5, tags="grpcnotrace"),
    Backend("jaeger", WRAPPERS / "jaeger", 3, "github.com/jaegertracing/jaeger/cmd/jaeger"),
    Backend(
        "prometheus",
        WRAPPERS / "prometheus",
        2,
        "github.com/prometheus/prometheus/cmd/prometheus",
        tags="netgo,remove_all_sd",
    ),
    Backend(
        "promtool",
        WRAPPERS / "prometheus",
        0.5,
        "github.com/prometheus/prometheus/cmd/promtool",
        tags="netgo,remove_all_sd",
    ),
)


def cache():
    """The folder for built programs: TORCHSPAN_BACKENDS, or `torchspan/backends` in the user's folder for caches."""
    given = os.environ.get("TORCHSPAN_BACKENDS")
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(given) if given else Path(home) / "torchspan" / "backends"


def build(backend, say=print):
    """Build a program where it is not there. Raises BuildError."""
    target = backend.built()
    if target.exists():
        return
    if shutil.which("go") is None:
        raise BuildError(
            f"{backend.name} is built with Go 1.26 or newer, and there is no `go` on the PATH. Install Go, or name a program: "
            f"{backend.variable}=/path/to/{backend.name}"
        )
    say(f"{backend.name}: building, about {backend.minutes:g} min on two idle cores and its downloads before")
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="torchspan-backends-") as folder:
        folder = Path(folder)
        made = folder / backend.name
        if backend.package is None:
            _generate(backend, folder, say)
            package = "."
        else:
            for name in ("go.mod", "go.sum"):
                shutil.copy(backend.sources / name, folder)
            package = backend.package
        _go(backend, folder, say, "build", "-v", "-mod=readonly", *STRIPPED, "-tags", backend.tags, "-o", made, package)
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_suffix(f".{os.getpid()}")
        shutil.copy(made, part)
        part.replace(target)  # two builds at once end with one whole file
    say(f"{backend.name}: built in {_elapsed(begun)}, {target.stat().st_size / 1e6:.0f} MB")


def _generate(backend, folder, say):
    """The Collector's main package, by the project's own generator, over the go.mod and go.sum of the repository."""
    manifest = backend.sources / "manifest.yaml"
    version = next(
        line.split()[-1] for line in manifest.read_text(encoding="utf-8").splitlines() if "otlpreceiver" in line
    )
    _go(backend, folder, say, "install", f"{COLLECTOR_BUILDER}@{version}", environment={"GOBIN": str(folder / "bin")})
    shutil.copy(manifest, folder)
    generating = [folder / "bin" / "builder", "--config", "manifest.yaml", "--skip-strict-versioning=false"]
    generating += ["--skip-get-modules", "--skip-compilation"]
    _run(backend, folder, say, generating)
    for path in (folder / "_build").iterdir():
        shutil.move(path, folder / path.name)
    for name in ("go.mod", "go.sum"):
        shutil.copy(backend.sources / name, folder)


def _go(backend, folder, say, *arguments, environment=None):
    _run(backend, folder, say, ["go", *map(str, arguments)], {"CGO_ENABLED": "0", **(environment or {})})


def _run(backend, folder, say, command, environment=None):
    """Run one command with a line of progress every `PROGRESS_S` seconds. Raises BuildError with what it said."""
    begun, lines = time.monotonic(), []
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    reader = threading.Thread(target=lambda: lines.extend(process.stdout), daemon=True)
    reader.start()
    try:
        while True:
            try:
                status = process.wait(PROGRESS_S)
                break
            except subprocess.TimeoutExpired:
                downloads = sum("downloading" in each for each in list(lines))
                say(f"{backend.name}: {_elapsed(begun)}, {downloads} downloads, {len(lines) - downloads} packages")
    except BaseException:
        process.kill()
        process.wait()
        raise
    reader.join()
    if status:
        said = "".join(lines[-20:])
        shown = " ".join(map(str, command))
        raise BuildError(f"{backend.name} could not be built: `{shown}` ended with {status}:\n{said}")


def _elapsed(begun):
    minutes, seconds = divmod(round(time.monotonic() - begun), 60)
    return f"{minutes} min {seconds:02d} s"


def main(arguments):
    """Build what is asked for, or list it; the exit status is 1 where something could not be built."""
    parser = argparse.ArgumentParser(prog="backends", description=__doc__.partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="say which programs are used, and build none")
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(each.name for each in BACKENDS))
    options = parser.parse_args(arguments)
    by_name = {each.name: each for each in BACKENDS}
    unknown = set(options.names) - set(by_name)
    if unknown:
        print(f"backends: no such program: {', '.join(sorted(unknown))}; there are {', '.join(by_name)}", file=sys.stderr)
        return 2
    failed = False
    for backend in [by_name[name] for name in options.names] or BACKENDS:
        if not options.list and backend.found() is None:
            try:
                build(backend, lambda text: print(text, flush=True))
            except BuildError as error:
                print(f"backends: {error}", file=sys.stderr, flush=True)
                failed = True
        print(f"{backend.name}: {backend.found() or 'not there'}", flush=True)
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
