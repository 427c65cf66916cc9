# SPDX-License-Identifier: Apache-2.0
"""Checks what a release would upload: `release_check.py [step …]`, all steps or those named, in their order.

committed: no file is left to commit; the source distribution has every file that git does not ignore. build: the source
distribution, and the wheel from it, into dist/. metadata: what the package index shows, with the version. changes: the
version's section in CHANGELOG.md. registry: no stable name has changed since the last release; registry/released.json is
written with the names of this version, to be committed. versions: the results of `make test-versions` are of one commit and of
the newest releases that can be installed, and failures are explained. install: the wheel in empty environments of each Python
that is here, with its dependencies from the package index; the command line, and a traced program. demo: `torchspan demo` from
the wheel, with the PyTorch and Torch-TensorRT of
.venv, which would be 3 GB to download. A step fails with the command that failed and what it printed.
"""

import argparse
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import registry_changes
import versions_tested
from test_versions import uv

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"

PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
"""The versions on which the wheel is installed."""

INSTALL = """\
eval "$("$0" tools/pip_config_for_uv.py)"
exec "$1" pip install --quiet ${uv_options[@]+"${uv_options[@]}"} --python "$2" "$3"
"""
"""With what the user has configured for pip, as `make setup`. Arguments: this Python, uv, the environment's Python, what to install."""

NEWEST = """\
eval "$("$0" tools/pip_config_for_uv.py)"
exec "$1" pip compile --quiet --upgrade --no-header --no-annotate ${uv_options[@]+"${uv_options[@]}"} --python "$0" \\
  --extra otlp --extra rtx pyproject.toml
"""
"""Prints `package==version` of all that an installation would get now. Arguments: this Python, uv."""

PROGRAM = """\
from torchspan.observers import observable

@observable()
def work():
    pass

work()
"""


class CheckError(Exception):
    """A step failed; the message says which command or file, and why."""


def committed():
    """Look for files that are not committed."""
    left = _run(["git", "status", "--porcelain"], cwd=ROOT)
    if left:
        raise CheckError(f"these files are not committed and would be released; commit or remove them:\n{left}")
    return "no file that is not committed"


def build():
    """Build both distributions. The wheel is built from the source distribution, so that one is complete."""
    for old in DIST.glob("torchspan-*"):
        old.unlink()
    _run([sys.executable, "-m", "build", "--no-isolation", "--outdir", DIST], cwd=ROOT)
    return ", ".join(path.name for path in (_sdist(), _wheel()))


def metadata():
    """Compare the version everywhere, and have twine check the rest."""
    _run([sys.executable, "-m", "twine", "check", "--strict", _sdist(), _wheel()], cwd=ROOT)
    version = _version()
    for path, text in ((_sdist(), _of_sdist("PKG-INFO")), (_wheel(), _of_wheel("METADATA"))):
        found = HeaderParser().parsestr(text)["Version"]
        if found != version:
            raise CheckError(
                f"{path.name} says version {found}; src/torchspan/base/version.py says {version}: build it again"
            )
    return f"version {version}"


def changes():
    """Look for the version's section in CHANGELOG.md."""
    check_changes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), _version())
    return "CHANGELOG.md has the version"


def check_changes(text, version):
    """Raise CheckError unless the changelog has a dated section of this version, and nothing that is unreleased."""
    sections = re.findall(r"^## \[(.+?)\](?: - (.*))?\n((?:(?!## ).*\n?)*)", text, re.MULTILINE)
    dates = {name: date for name, date, _ in sections}
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", dates.get(version, "")):
        raise CheckError(f"CHANGELOG.md has no section “## [{version}] - YYYY-MM-DD”: write what changed, and the date")
    if any(name == "Unreleased" and entries.strip() for name, _, entries in sections):
        raise CheckError(f"CHANGELOG.md has entries below “Unreleased”: move them to the section of {version}")


def registry():
    """Compare the names with those of the last release, and record them as those of this version."""
    version, facts = _version(), registry_changes.facts_of(registry_changes.documents())
    released, before = registry_changes.read_released()
    found = list(registry_changes.changes(before, facts)) if released else []
    broken = list(registry_changes.broken(found))
    if broken:
        raise CheckError(f"registry/ breaks what {released} promised:\n" + "\n".join(broken))
    if released == version and found:
        raise CheckError(
            f"the names have changed since registry/released.json recorded those of {version}: raise the version, or remove that file "
            f"if {version} is not published"
        )
    if released == version:
        return f"{sum(map(len, facts.values()))} names, those of registry/released.json"
    registry_changes.write_released(version, facts)
    raise CheckError(f"registry/released.json has the names of {version} now: commit it, and run this again")


def versions():
    """Look at the results that docs/reference/compatibility.md shows."""
    newest = dict(line.split("==") for line in _run(["bash", "-euc", NEWEST, sys.executable, uv()], cwd=ROOT).split())
    check_versions({package: newest[package] for package in versions_tested.PACKAGES})
    return "tested on one commit and on the newest releases"


def check_versions(newest):
    """Raise CheckError unless all rows are of one commit, with a note on failures, and none of `newest` is newer. newest: package -> version."""
    rows = versions_tested.read().values()
    commits = {row["commit"][:12] for row in rows}
    problems = [*versions_tested.not_tested(newest)]
    problems += [f"row {row['row']} has failures and no note" for row in rows if row.get("failed") and not row["note"]]
    if len(commits) != 1:
        problems.append(f"the rows are of {len(commits)} commits: {', '.join(sorted(commits))}")
    if problems:
        raise CheckError("\n".join(["run `make test-versions`, then `make docs`:", *problems]))


def install():
    """Install the wheel into empty environments of each Python, and use it there."""
    present, missing = pythons(PYTHONS)
    if not present:
        raise CheckError(f"none of Python {', '.join(missing)} is here: install one that uv finds")
    for interpreter in present.values():
        _install_and_use(interpreter)
    return f"core and [cli], a program traced, on Python {', '.join(present)}" + (
        f"; not on Python {', '.join(missing)}, which is not here" if missing else ""
    )


def pythons(versions):
    """Version -> interpreter for the versions that uv finds on this machine, and the versions that it does not find."""
    present, missing = {}, []
    for version in versions:
        done = subprocess.run(
            [uv(), "python", "find", "--system", "--no-python-downloads", version],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            missing.append(version)
        else:
            present[version] = Path(done.stdout.strip())
    return present, missing


def _install_and_use(interpreter):
    """Without extras, and with the command line."""
    with tempfile.TemporaryDirectory(prefix="torchspan-release-") as folder:
        for extras in ("", "[cli]"):
            python = _environment(Path(folder, f"venv{len(extras)}"), interpreter)
            _run(
                ["bash", "-euc", INSTALL, sys.executable, uv(), python, f"torchspan{extras} @ {_wheel().as_uri()}"],
                cwd=ROOT,
            )
            _run([uv(), "pip", "check", "--python", python])
            _run(
                [python, "-c", "import torchspan, torchspan.callbacks, torchspan.observers, torchspan.inputs"],
                cwd=folder,
            )
            printed = _run([python.with_name("torchspan"), "--version"], cwd=folder)
            if printed.split()[-1] != _version():
                raise CheckError(f"torchspan --version printed {printed.strip()!r}; expected {_version()}")
            _run([python.with_name("torchspan"), "registry", f"names{len(extras)}"], cwd=folder)
        Path(folder, "app.py").write_text(PROGRAM, encoding="utf-8")
        printed = _run([python.with_name("torchspan"), "run", "--", python, "app.py"], cwd=folder)
        if "torchspan.observed work" not in printed:
            raise CheckError(f"torchspan run drew no span of the program:\n{printed}")


def demo():
    """Run `torchspan demo` from the wheel, over the other packages of the environment that runs this."""
    with tempfile.TemporaryDirectory(prefix="torchspan-release-") as folder:
        python = _environment(Path(folder, "venv"), sys.executable)
        _run([uv(), "pip", "install", "--quiet", "--offline", "--no-deps", "--python", python, _wheel()])
        packages = _run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).strip()
        Path(packages, "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
        found = _run([python, "-c", "import torchspan; print(torchspan.__file__)"], cwd=folder).strip()
        if not Path(found).is_relative_to(packages):
            raise CheckError(f"torchspan was imported from {found}, not from the wheel in {packages}")
        printed = _run([python.with_name("torchspan"), "demo"], cwd=folder)
        missing = {"torch_tensorrt.compile", "tensorrt.build_engine"} - set(re.findall(r"[a-z_]+\.[a-z_]+", printed))
        if missing:
            raise CheckError(f"torchspan demo drew no {', '.join(sorted(missing))}:\n{printed}")
    return "two models compiled and drawn"


STEPS = {each.__name__: each for each in (committed, build, metadata, changes, registry, versions, install, demo)}


def main(arguments):
    """Run the steps that are asked for, until one fails. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="release_check", description=__doc__.partition("\n")[0])
    parser.add_argument("steps", nargs="*", choices=[*STEPS, []], metavar="step", help=", ".join(STEPS))
    for name in parser.parse_args(arguments).steps or STEPS:
        try:
            print(f"passed  {name:<9}  {STEPS[name]()}", flush=True)
        except CheckError as error:
            print(f"FAILED  {name:<9}  {error}", file=sys.stderr)
            return 1
    return 0


def _version():
    return re.search(r'__version__ = "(.+)"', (ROOT / "src/torchspan/base/version.py").read_text(encoding="utf-8"))[1]


def _sdist():
    return _only("torchspan-*.tar.gz")


def _wheel():
    return _only("torchspan-*.whl")


def _only(pattern):
    found = list(DIST.glob(pattern))
    if len(found) != 1:
        raise CheckError(f"dist/ has {len(found)} files {pattern}, expected 1: run the step build first")
    return found[0]


def _of_sdist(name):
    with tarfile.open(_sdist()) as archive:
        (member,) = (
            each for each in archive.getmembers() if each.name.count("/") == 1 and each.name.endswith(f"/{name}")
        )
        return archive.extractfile(member).read().decode()


def _of_wheel(name):
    with zipfile.ZipFile(_wheel()) as archive:
        (member,) = (each for each in archive.namelist() if each.endswith(f".dist-info/{name}"))
        return archive.read(member).decode()


def _environment(folder, interpreter):
    """The Python of a new, empty environment."""
    _run([uv(), "venv", "--quiet", "--python", interpreter, folder])
    return folder / "bin" / "python"


def _run(command, cwd=None):
    """What a command printed; CheckError where its exit status is not 0. Nothing of this checkout is on its path."""
    left_out = ("OTEL_", "TORCHSPAN_", "COVERAGE_", "PYTHONPATH", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    done = subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    printed = done.stdout + done.stderr
    if done.returncode:
        shown = " ".join(map(str, command))
        raise CheckError(f"{shown} ended with status {done.returncode}:\n{printed[-4000:]}")
    return printed


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
