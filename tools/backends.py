# SPDX-License-Identifier: Apache-2.0
"""Builds the programs that tests run: the Collector, Jaeger, Prometheus and benchstat, and the script axe-core.

`backends.py [name …]`: all of them, or those named. They are built from Go modules whose checksums are in the repository, or come
from npm, into a folder for caches outside of it; one that is there already is left as it is. A program that is named by `TORCHSPAN_TEST_<PROGRAM>`,
or is on the PATH, is used instead and not built. `--list` says which is used and builds none.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import urllib.parse
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DISTRIBUTION = ROOT / "collector-config" / "distribution"
WRAPPERS = ROOT / "tools" / "backends"

COLLECTOR_BUILDER = "go.opentelemetry.io/collector/cmd/builder"
SOURCES = ("manifest.yaml", "go.mod", "go.sum")
BUILD_OPTIONS = ("-trimpath", "-ldflags=-s -w")
PROGRESS_S = 20
DOWNLOAD_TRIES = 3
RETRY_S = 5


class BuildError(Exception):
    """A program cannot be built; the message says why and what to do."""


@dataclass(frozen=True)
class Program:
    """A program that tests run, and that is found or not: it cannot be built here. name: of its file."""

    name: str

    @property
    def variable(self):
        """The environment variable that names a program, or the address of a running one, to use instead."""
        return f"TORCHSPAN_TEST_{self.name.partition('-')[0].upper()}"

    @property
    def how_to_get(self):
        """A clause for those who do not have it."""
        return f"{self.variable}=/path/to/{self.name}, or the address of one that runs"

    def found(self):
        """The program or address to use; None where there is none. Raises BuildError where the variable names no program."""
        given = os.environ.get(self.variable)
        if not given:
            return shutil.which(self.name) or self.built()
        if is_address(given):
            return given
        path = shutil.which(str(Path(given).expanduser().absolute()))
        if path is None:
            raise BuildError(f"{self.variable}={given} names neither a program nor an address (http://…)")
        return path

    def built(self):
        """The path of the built program; None where it is not built, or cannot be."""


class Schemas(Program):
    """No program: a folder of schemas that tests hold resources of Kubernetes against."""

    @property
    def how_to_get(self):
        return f"{self.variable}=/path/to/opentelemetry-operator/config/crd/bases"

    def found(self):
        given = os.environ.get(self.variable)
        if given and not Path(given).expanduser().is_dir():
            raise BuildError(f"{self.variable}={given} names no folder")
        return str(Path(given).expanduser().absolute()) if given else None


class Weaver(Program):
    """OpenTelemetry's tool for registries."""

    @property
    def how_to_get(self):
        return f"put it on PATH, or {self.variable}=/path/to/{self.name}"


class Conventions(Schemas):
    """No program: a folder with the model of OpenTelemetry's conventions, which Weaver downloads otherwise."""

    @property
    def how_to_get(self):
        return f"Weaver downloads them, or {self.variable}=/path/to/semantic-conventions/model"


@dataclass(frozen=True)
class GoProgram(Program):
    """A program that is built from Go modules.

    sources: the folder with its go.mod and go.sum. minutes: what the build takes on two idle cores, the downloads apart.
    package: the Go package. tags: of the build.
    """

    sources: Path
    minutes: float
    package: str
    tags: str = ""
    TOOL = ("go", "Go 1.26 or newer")

    @property
    def how_to_get(self):
        return f"`make backends` builds it, and {self.variable}=/path/to/{self.name} names another"

    def key(self):
        """What the built file depends on."""
        digest = hashlib.sha256(f"{self.package} {self.tags} {BUILD_OPTIONS}".encode())
        for path in (self.sources / name for name in SOURCES):
            digest.update(path.name.encode() + (path.read_bytes() if path.exists() else b""))
        return digest.hexdigest()[:16]

    def target(self):
        """Where the built program is, whether or not it is there yet."""
        return cache() / f"{self.name}-{self.key()}" / self.name

    def built(self):
        return str(self.target()) if self.target().exists() else None

    def make(self, folder, run):
        """Build it in an empty folder, and return the path of what was built. run: runs a command there."""
        for name in ("go.mod", "go.sum"):
            shutil.copy(self.sources / name, folder)
        made = folder / "bin" / self.name
        packages = run("go", "list", "-deps", "-tags", self.tags, self.package, tries=DOWNLOAD_TRIES)
        run("go", "build", "-v", *BUILD_OPTIONS, "-tags", self.tags, "-o", made, self.package, packages=len(packages))
        return made


@dataclass(frozen=True)
class NpmFile(Program):
    """A script that tests run in a browser: a file of a package of npm.

    version: of the package. file: its path in the package. minutes: what the download takes.
    """

    version: str
    file: str
    minutes: float
    TOOL = ("npm", "npm")

    @property
    def how_to_get(self):
        return (
            f"`make backends` downloads it from npm, and {self.variable}=/path/to/{Path(self.file).name} names another"
        )

    def found(self):
        given = os.environ.get(self.variable)
        if given and not Path(given).expanduser().is_file():
            raise BuildError(f"{self.variable}={given} names no file")
        return str(Path(given).expanduser().absolute()) if given else self.built()

    def target(self):
        """Where the file is, whether or not it is there yet."""
        return cache() / f"{self.name}-{self.version}" / Path(self.file).name

    def built(self):
        return str(self.target()) if self.target().exists() else None

    def make(self, folder, run):
        """Download it into an empty folder, and return its path. run: runs a command there."""
        run("npm", "pack", "--silent", f"{self.name}@{self.version}", tries=DOWNLOAD_TRIES)
        with tarfile.open(next(folder.glob("*.tgz"))) as archive:
            path = folder / Path(self.file).name
            path.write_bytes(archive.extractfile(f"package/{self.file}").read())
        return path


class Collector(GoProgram):
    """The Collector: its main package is generated from a manifest, by the project's own generator."""

    def make(self, folder, run):
        manifest = self.sources / "manifest.yaml"
        rows = manifest.read_text(encoding="utf-8").splitlines()
        version = next(row.split()[-1] for row in rows if "otlpreceiver" in row)
        builder = f"{COLLECTOR_BUILDER}@{version}"
        run("go", "install", builder, environment={"GOBIN": str(folder / "bin")}, tries=DOWNLOAD_TRIES)
        shutil.copy(manifest, folder)
        options = ("--skip-strict-versioning=false", "--skip-get-modules", "--skip-compilation")
        run(folder / "bin" / "builder", "--config", "manifest.yaml", *options)
        for path in (folder / "_build").iterdir():
            path.replace(folder / path.name)
        return super().make(folder, run)


class Browser(Program):
    """Chromium, whatever its file is called, for tests that look at the site."""

    FILES = ("chromium", "chromium-browser", "google-chrome")

    @property
    def how_to_get(self):
        return f"install Chromium, or {self.variable}=/path/to/chromium"

    def built(self):
        return next(filter(None, map(shutil.which, self.FILES)), None)


_PROMETHEUS = "github.com/prometheus/prometheus/cmd"
BACKENDS = (
    Collector("otelcol-torchspan", DISTRIBUTION, 5, ".", tags="grpcnotrace"),
    GoProgram("jaeger", WRAPPERS / "jaeger", 3, "github.com/jaegertracing/jaeger/cmd/jaeger"),
    GoProgram("prometheus", WRAPPERS / "prometheus", 2, f"{_PROMETHEUS}/prometheus", tags="netgo,remove_all_sd"),
    GoProgram("promtool", WRAPPERS / "prometheus", 1, f"{_PROMETHEUS}/promtool", tags="netgo,remove_all_sd"),
    GoProgram("benchstat", WRAPPERS / "benchstat", 0.5, "golang.org/x/perf/cmd/benchstat"),
    Program("tempo"),
    Schemas("operator-crds"),
    Weaver("weaver"),
    Conventions("conventions"),
    Browser("chromium"),
    NpmFile("axe-core", "4.14.1", "axe.min.js", 0.1),
)
BUILT = (GoProgram, NpmFile)
"""Kinds of programs that this builds."""
BY_NAME = {each.name: each for each in BACKENDS}


def is_address(given):
    """Whether a variable has the address of a running program, and no path."""
    return given.startswith(("http://", "https://"))


def addresses(given):
    """(address of the API, address for OTLP/HTTP) of `API` or `API,OTLP`; without the second, port 4318 of the same host."""
    api, _, otlp = given.partition(",")
    split = urllib.parse.urlsplit(api)
    host = f"[{split.hostname}]" if ":" in split.hostname else split.hostname
    return api.rstrip("/"), otlp.rstrip("/") or f"{split.scheme}://{host}:4318"


def cache():
    """The folder for built programs: TORCHSPAN_BACKENDS, or `torchspan/backends` in the user's folder for caches."""
    given = os.environ.get("TORCHSPAN_BACKENDS")
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(given) if given else Path(home) / "torchspan" / "backends"


def build(program, say=print):
    """Build a program where it is missing. say: called with each line of progress. Raises BuildError."""
    target = program.target()
    if target.exists():
        return
    tool, tool_name = program.TOOL
    if shutil.which(tool) is None:
        raise BuildError(
            f"{program.name} is built with {tool_name}, and there is no `{tool}` on the PATH. Install {tool_name.split()[0]}, or name "
            f"a program: {program.variable}=/path/to/{program.name}"
        )
    say(f"{program.name}: building; about {program.minutes:g} min on two idle cores, after its downloads")
    begun, cpu_begun = time.monotonic(), _cpu_seconds()
    with tempfile.TemporaryDirectory(prefix="torchspan-backends-") as name:
        made = program.make(Path(name), _Commands(program.name, name, say).run)
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_suffix(f".{os.getpid()}")
        shutil.copy(made, part)
        part.replace(target)  # two builds at once end with one whole file
    cpu = round(_cpu_seconds() - cpu_begun)
    say(f"{program.name}: built in {_elapsed(begun)} ({cpu} s of processor time), {target.stat().st_size / 1e6:.0f} MB")


class _Commands:
    """Runs the commands of one build in its folder, with a line of progress every `PROGRESS_S` seconds."""

    def __init__(self, name, folder, say):
        self._name, self._folder, self._say = name, folder, say
        self._begun = time.monotonic()
        self._downloads = 0

    def run(self, *command, environment=None, packages=0, tries=1):
        """Run one command to its end, and return the lines that it wrote, those on downloads apart. Raises BuildError.

        packages: how many it names as it compiles them, at most; those that earlier builds compiled are not named. tries: how
        often it may fail; Go does not ask a registry again, but keeps what it has.
        """
        command = list(map(str, command))
        for _ in range(tries - 1):
            try:
                return self._once(command, environment or {}, packages)
            except BuildError as error:
                self._say(f"{error}{self._name}: again in {RETRY_S} s")
                time.sleep(RETRY_S)
        return self._once(command, environment or {}, packages)

    def _once(self, command, environment, packages):
        try:
            process = subprocess.Popen(
                command,
                cwd=self._folder,
                env={**os.environ, "CGO_ENABLED": "0", **environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
        except OSError as error:
            raise BuildError(
                f"{self._name} could not be built: `{' '.join(command)}` does not start: {error}"
            ) from error
        lines = []
        reader = threading.Thread(target=self._read, args=(process.stdout, lines), daemon=True)
        reader.start()
        try:
            while reader.is_alive():
                reader.join(PROGRESS_S)
                if reader.is_alive():
                    compiled = f", {len(lines)} of at most {packages} packages compiled" if packages else ""
                    self._say(f"{self._name}: {_elapsed(self._begun)}, {self._downloads} downloads{compiled}")
            status = process.wait()
        finally:
            process.kill()
            process.wait()
        if status:
            said = "".join(lines[-20:])
            raise BuildError(f"{self._name} could not be built: `{' '.join(command)}` ended with {status}:\n{said}")
        return lines

    def _read(self, output, lines):
        with output:
            for line in output:
                if line.startswith("go: downloading "):
                    self._downloads += 1
                else:
                    lines.append(line)


def _elapsed(begun):
    minutes, seconds = divmod(round(time.monotonic() - begun), 60)
    return f"{minutes} min {seconds:02d} s"


def _cpu_seconds():
    """Of the children that have ended, and of theirs."""
    times = os.times()
    return times.children_user + times.children_system


def main(arguments):
    """Build what is asked for, or list it; the exit status is 1 where something could not be built."""
    parser = argparse.ArgumentParser(prog="backends", description=__doc__.partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="say which programs are used, and build none")
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(BY_NAME))
    options = parser.parse_args(arguments)
    unknown = set(options.names) - set(BY_NAME)
    if unknown:
        print(
            f"backends: no such program: {', '.join(sorted(unknown))}; there are {', '.join(BY_NAME)}", file=sys.stderr
        )
        return 2
    failed = False
    for program in [BY_NAME[name] for name in options.names] or BACKENDS:
        try:
            if program.found() is None and isinstance(program, BUILT) and not options.list:
                build(program, lambda text: print(text, flush=True))
            found = program.found()
            print(
                f"{program.name}: {found}" if found else f"{program.name}: not here; {program.how_to_get}", flush=True
            )
        except BuildError as error:
            print(f"backends: {error}", file=sys.stderr, flush=True)
            failed = failed or not isinstance(program, NpmFile)  # without it, the tests that need it are listed
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
