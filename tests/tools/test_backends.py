# SPDX-License-Identifier: Apache-2.0
"""The programs that tests run: which is used, what is built again, and what is said. `go` is a script here; none is built."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import backends
from backends import BY_NAME

ROOT = Path(__file__).resolve().parents[2]
FAKE_GO = """\
#!/bin/bash
echo "$PWD: go $* (CGO_ENABLED=$CGO_ENABLED GOBIN=$GOBIN)" >> "$CALLS"
test "$1" != install || {
  mkdir -p "$GOBIN"
  printf '#!/bin/bash\\nset -e\\nmkdir _build; echo package main > _build/main.go; echo other > _build/go.mod' > "$GOBIN/builder"
  chmod +x "$GOBIN/builder"
  exit 0
}
test "$1" != list || { echo "go: downloading example.org/one v1.2.3" >&2; echo one; echo two; exit 0; }
echo "example.org/one" >&2
sleep "${SLEEP:-0}"
test -z "$FAILS" || { echo "compile: no space left on device" >&2; exit 1; }
ls > "$CALLS.files"; cat go.mod > "$CALLS.go.mod"
while [ "$1" != -o ]; do shift; done
mkdir -p "$(dirname "$2")"
printf '#!/bin/sh\\necho built' > "$2"; chmod +x "$2"
"""


@pytest.fixture(autouse=True)
def machine(tmp_path, monkeypatch):
    """A machine with a shell, a folder for caches, and none of the programs."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("TORCHSPAN_BACKENDS", str(tmp_path / "cache"))
    monkeypatch.setattr(backends.shutil, "which", lambda name, which=shutil.which: which(name, path=tmp_path / "bin"))
    for each in backends.BACKENDS:
        monkeypatch.delenv(each.variable, raising=False)


@pytest.fixture
def calls(tmp_path, monkeypatch):
    """Puts the script `go` on the PATH; the file in which it notes its calls."""
    program(tmp_path / "bin" / "go", FAKE_GO)
    file = tmp_path / "calls"
    monkeypatch.setenv("CALLS", str(file))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    return file


def program(path, text="#!/bin/sh\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def commands(calls):
    """What `go` was called with, without the folders, which are temporary."""
    return [re.sub(r"/\S*/", "…/", line.split(": ", 1)[1]) for line in calls.read_text(encoding="utf-8").splitlines()]


def test_each_program_has_a_variable_that_names_another():
    assert {each.name: each.variable for each in backends.BACKENDS} == {
        "otelcol-torchspan": "TORCHSPAN_TEST_OTELCOL",
        "jaeger": "TORCHSPAN_TEST_JAEGER",
        "prometheus": "TORCHSPAN_TEST_PROMETHEUS",
        "promtool": "TORCHSPAN_TEST_PROMTOOL",
        "benchstat": "TORCHSPAN_TEST_BENCHSTAT",
        "tempo": "TORCHSPAN_TEST_TEMPO",
        "operator-crds": "TORCHSPAN_TEST_OPERATOR",
        "weaver": "TORCHSPAN_TEST_WEAVER",
        "conventions": "TORCHSPAN_TEST_CONVENTIONS",
        "chromium": "TORCHSPAN_TEST_CHROMIUM",
        "axe-core": "TORCHSPAN_TEST_AXE",
    }


def test_the_variable_wins_over_the_path_and_the_path_over_what_was_built(tmp_path, monkeypatch):
    jaeger = BY_NAME["jaeger"]
    assert jaeger.found() is None
    built = program(jaeger.target())
    assert jaeger.found() == built
    on_path = program(tmp_path / "bin" / "jaeger")
    assert jaeger.found() == on_path
    given = program(tmp_path / "given" / "jaeger-2.20")
    monkeypatch.setenv("TORCHSPAN_TEST_JAEGER", given)
    assert jaeger.found() == given
    monkeypatch.setenv("TORCHSPAN_TEST_JAEGER", "http://127.0.0.1:16686")
    assert jaeger.found() == "http://127.0.0.1:16686"


def test_a_given_path_is_one_from_the_folder_in_which_the_tests_begin(tmp_path, monkeypatch):
    program(tmp_path / "my tempo")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TORCHSPAN_TEST_TEMPO", "./my tempo")
    assert BY_NAME["tempo"].found() == str(tmp_path / "my tempo")


@pytest.mark.parametrize("given", ["/not/there", "127.0.0.1:16686", "/"])
def test_a_variable_that_names_no_program_is_an_error_and_not_a_program_that_is_missing(monkeypatch, given):
    monkeypatch.setenv("TORCHSPAN_TEST_JAEGER", given)
    with pytest.raises(backends.BuildError, match=f"TORCHSPAN_TEST_JAEGER={given} names neither a program nor an"):
        BY_NAME["jaeger"].found()


def test_schemas_are_a_folder(tmp_path, monkeypatch):
    schemas = BY_NAME["operator-crds"]
    assert schemas.found() is None
    monkeypatch.setenv("TORCHSPAN_TEST_OPERATOR", str(tmp_path))
    assert schemas.found() == str(tmp_path)
    monkeypatch.setenv("TORCHSPAN_TEST_OPERATOR", f"{tmp_path}/not-there")
    with pytest.raises(backends.BuildError, match="not-there names no folder"):
        schemas.found()


@pytest.mark.parametrize(
    ("given", "api", "otlp"),
    [
        ("http://127.0.0.1:16686", "http://127.0.0.1:16686", "http://127.0.0.1:4318"),
        ("http://[::1]:3200/", "http://[::1]:3200", "http://[::1]:4318"),
        ("https://tempo.example:3200,http://127.0.0.1:14318/", "https://tempo.example:3200", "http://127.0.0.1:14318"),
    ],
)
def test_an_address_is_of_the_api_and_may_be_followed_by_that_for_spans(given, api, otlp):
    assert backends.is_address(given)
    assert backends.addresses(given) == (api, otlp)


def test_the_key_of_a_program_changes_with_its_sources_and_its_options(tmp_path):
    (tmp_path / "go.mod").write_text("module a\n")
    (tmp_path / "go.sum").write_text("")
    one = backends.GoProgram("one", tmp_path, 1, "example.org/one")
    first = one.key()
    assert re.fullmatch("[0-9a-f]{16}", first)
    assert one.key() == first
    (tmp_path / "README.md").write_text("no source")
    assert one.key() == first
    assert backends.GoProgram("one", tmp_path, 1, "example.org/one", tags="x").key() != first
    (tmp_path / "go.sum").write_text("example.org/two v1.0.0 h1:x=\n")
    assert one.key() != first


def test_the_folder_for_caches_is_outside_of_the_repository(monkeypatch, tmp_path):
    monkeypatch.delenv("TORCHSPAN_BACKENDS")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert backends.cache() == tmp_path / "xdg" / "torchspan" / "backends"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert backends.cache() == tmp_path / ".cache" / "torchspan" / "backends"


def test_a_program_is_built_from_the_modules_of_the_repository_once(calls, capsys):
    assert backends.main(["jaeger"]) == 0

    assert commands(calls) == [
        "go list -deps -tags  github.com…/jaeger (CGO_ENABLED=0 GOBIN=)",
        "go build -v -trimpath -ldflags=-s -w -tags  -o …/jaeger github.com…/jaeger (CGO_ENABLED=0 GOBIN=)",
    ]
    wrapper = ROOT / "tools" / "backends" / "jaeger"
    assert Path(f"{calls}.go.mod").read_bytes() == (wrapper / "go.mod").read_bytes()
    assert Path(f"{calls}.files").read_text().split() == ["go.mod", "go.sum"]
    target = BY_NAME["jaeger"].target()
    assert subprocess.run([target], capture_output=True, text=True, check=True).stdout == "built\n"
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "jaeger: building; about 3 min on two idle cores, after its downloads"
    assert re.fullmatch(r"jaeger: built in 0 min \d\d s \(\d s of processor time\), 0 MB", said[1])
    assert said[2:] == [f"jaeger: {target}"]

    assert backends.main(["jaeger"]) == 0
    assert len(commands(calls)) == 2
    assert capsys.readouterr().out == f"jaeger: {target}\n"


def test_the_collectors_main_package_is_generated_and_its_modules_are_those_of_the_repository(calls):
    assert backends.main(["otelcol-torchspan"]) == 0

    install, _, build = commands(calls)
    version = re.search(r"/otlpreceiver (v\S+)", (backends.DISTRIBUTION / "manifest.yaml").read_text())[1]
    assert install.startswith(f"go install go.opentelemetry.io…/builder@{version} ")
    assert build.startswith("go build -v -trimpath -ldflags=-s -w -tags grpcnotrace -o …/otelcol-torchspan . ")
    assert Path(f"{calls}.go.mod").read_bytes() == (backends.DISTRIBUTION / "go.mod").read_bytes()
    assert "main.go" in Path(f"{calls}.files").read_text().split()


@pytest.mark.parametrize("file", ["chromium", "chromium-browser", "google-chrome"])
def test_chromium_is_found_under_each_of_its_names(tmp_path, file):
    assert BY_NAME["chromium"].found() is None
    on_path = program(tmp_path / "bin" / file)
    assert BY_NAME["chromium"].found() == on_path


def test_a_program_that_is_found_elsewhere_is_not_built(calls, tmp_path, capsys):
    on_path = program(tmp_path / "bin" / "prometheus")
    assert backends.main(["prometheus"]) == 0
    assert capsys.readouterr().out == f"prometheus: {on_path}\n"
    assert not calls.exists()


def test_without_go_it_is_said_what_to_install_or_to_name_and_the_status_is_1(capsys):
    assert backends.main([]) == 1
    said = capsys.readouterr()
    assert said.err.splitlines()[0] == (
        "backends: otelcol-torchspan is built with Go 1.26 or newer, and there is no `go` on the PATH. Install Go, or name a "
        "program: TORCHSPAN_TEST_OTELCOL=/path/to/otelcol-torchspan"
    )
    assert [line.split()[1] for line in said.err.splitlines()] == [
        "otelcol-torchspan",
        "jaeger",
        "prometheus",
        "promtool",
        "benchstat",
        "axe-core",
    ]
    assert said.out == (
        "tempo: not here; TORCHSPAN_TEST_TEMPO=/path/to/tempo, or the address of one that runs\n"
        "operator-crds: not here; TORCHSPAN_TEST_OPERATOR=/path/to/opentelemetry-operator/config/crd/bases\n"
        "weaver: not here; put it on PATH, or TORCHSPAN_TEST_WEAVER=/path/to/weaver\n"
        "conventions: not here; Weaver downloads them, or TORCHSPAN_TEST_CONVENTIONS=/path/to/semantic-conventions/model\n"
        "chromium: not here; install Chromium, or TORCHSPAN_TEST_CHROMIUM=/path/to/chromium\n"
    )


def test_a_file_of_npm_that_cannot_be_downloaded_is_named_and_the_status_is_0(capsys):
    assert backends.main(["axe-core"]) == 0
    said = capsys.readouterr()
    assert said.err.startswith(
        "backends: axe-core is built with npm, and there is no `npm` on the PATH. Install npm, or name a"
    )
    assert BY_NAME["axe-core"].found() is None


def test_a_file_of_npm_that_a_variable_names_is_used(tmp_path, monkeypatch):
    (tmp_path / "axe.js").write_text("")
    monkeypatch.setenv("TORCHSPAN_TEST_AXE", str(tmp_path / "axe.js"))
    assert BY_NAME["axe-core"].found() == str(tmp_path / "axe.js")
    monkeypatch.setenv("TORCHSPAN_TEST_AXE", str(tmp_path / "not-there.js"))
    with pytest.raises(backends.BuildError, match=r"not-there\.js names no file"):
        BY_NAME["axe-core"].found()


def test_a_build_that_fails_says_the_command_and_the_end_of_its_output_and_leaves_nothing(calls, monkeypatch, capsys):
    monkeypatch.setenv("FAILS", "1")
    assert backends.main(["jaeger"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("backends: jaeger could not be built: `go build -v ")
    assert "ended with 1:\n" in said
    assert said.endswith("compile: no space left on device\n\n")
    assert not backends.cache().exists()


def test_a_download_that_fails_is_tried_again(calls, monkeypatch, capsys):
    monkeypatch.setattr(backends, "RETRY_S", 0)
    unreachable = (
        'test "$1" != list || test -e "$CALLS.again" || { touch "$CALLS.again"; echo "dial tcp: refused"; exit 1; }'
    )
    program(calls.parent / "bin" / "go", FAKE_GO.replace("\n", f"\n{unreachable}\n", 1))
    assert backends.main(["jaeger"]) == 0
    said = capsys.readouterr().out
    assert "ended with 1:\ndial tcp: refused\njaeger: again in 0 s\n" in said
    assert [each.split()[1] for each in commands(calls)] == ["list", "build"]


def test_a_download_that_fails_three_times_ends_the_build(calls, monkeypatch, capsys):
    monkeypatch.setattr(backends, "RETRY_S", 0)
    program(calls.parent / "bin" / "go", '#!/bin/bash\necho "$PWD: go $*" >> "$CALLS"\necho refused\nexit 1\n')
    assert backends.main(["jaeger"]) == 1
    assert "jaeger could not be built: `go list -deps" in capsys.readouterr().err
    assert len(commands(calls)) == 3


def test_a_build_that_fails_keeps_no_other_program_from_being_built(calls, monkeypatch, capsys):
    program(calls.parent / "bin" / "go", FAKE_GO.replace("$FAILS", "$(grep ^module.*jaeger go.mod)"))
    assert backends.main([]) == 1
    assert "jaeger could not be built" in capsys.readouterr().err
    assert [each.name for each in backends.BACKENDS if each.found()] == [
        "otelcol-torchspan",
        "prometheus",
        "promtool",
        "benchstat",
    ]


def test_a_build_says_every_few_seconds_how_far_it_is(calls, monkeypatch, capsys):
    monkeypatch.setattr(backends, "PROGRESS_S", 0.1)
    monkeypatch.setenv("SLEEP", "1")
    assert backends.main(["jaeger"]) == 0
    assert re.search(
        r"^jaeger: 0 min 0\d s, 1 downloads, 1 of at most 2 packages compiled$", capsys.readouterr().out, re.MULTILINE
    )


def test_a_list_builds_none(calls, capsys):
    assert backends.main(["--list"]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == [
        "otelcol-torchspan: not here; `make backends` builds it, and TORCHSPAN_TEST_OTELCOL=/path/to/otelcol-torchspan names another",
        "jaeger: not here; `make backends` builds it, and TORCHSPAN_TEST_JAEGER=/path/to/jaeger names another",
    ]
    assert not calls.exists()


def test_an_unknown_name_is_a_usage_error(capsys):
    assert backends.main(["grafana"]) == 2
    assert "no such program: grafana; there are otelcol-torchspan, jaeger, " in capsys.readouterr().err


def test_it_runs_with_a_python_that_has_nothing_installed(tmp_path):
    environment = {"PATH": os.environ["PATH"], "TORCHSPAN_BACKENDS": str(tmp_path)}
    command = [sys.executable, "-I", "-S", ROOT / "tools" / "backends.py", "--list"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("otelcol-torchspan: ")


def test_the_modules_of_the_collector_are_those_of_its_manifest():
    """What `builder` would write: it was not run by hand with other versions."""
    listed = re.findall(r"gomod: (\S+ \S+)", (backends.DISTRIBUTION / "manifest.yaml").read_text(encoding="utf-8"))
    required = (backends.DISTRIBUTION / "go.mod").read_text(encoding="utf-8")
    assert [each for each in listed if f"\t{each}\n" not in required] == []


def test_neither_generated_sources_nor_programs_are_in_the_repository():
    folders = (backends.DISTRIBUTION, backends.WRAPPERS)
    kept = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert {path.name for path in kept} == {"manifest.yaml", "go.mod", "go.sum"}
