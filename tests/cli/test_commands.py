# SPDX-License-Identifier: Apache-2.0

import subprocess
import sys

import pytest

import torchspan
from torchspan import cli
from torchspan.cli import probes
from torchspan.cli.probes import summary, table
from torchspan.hooks.adapters import ResolvedProbe
from torchspan.hooks.probes import Function, Probe, Record, Step
from torchspan.phase import COMPILE


def test_importing_the_command_line_imports_nothing_that_is_observed_and_no_sdk():
    program = (
        "import sys, torchspan.cli; print([m for m in ('torch', 'torch_tensorrt', 'tensorrt') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True)

    assert (result.stdout, result.stderr) == ("[]\n", "")


def test_python_m_torchspan_is_the_command_line(shell):
    result = shell("--version")
    assert (result.returncode, result.stdout, result.stderr) == (0, f"torchspan {torchspan.__version__}\n", "")


@pytest.mark.parametrize("word", cli.COMMANDS)
def test_every_command_explains_itself(word, capsys):
    with pytest.raises(SystemExit) as exit_:
        cli.main([word, "--help"])

    assert exit_.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: torchspan {word}")


@pytest.mark.parametrize("words", [[], *([word] for word in cli.COMMANDS if word != "inputs")], ids=" ".join)
def test_help_names_torch_compile_as_well_as_torch_tensorrt(words, capsys):
    with pytest.raises(SystemExit):
        cli.main([*words, "--help"])
    text = capsys.readouterr().out
    assert "torch.compile" in text
    assert "Torch-TensorRT" in text


def test_where_torch_alone_is_installed_its_modules_with_hook_points_are_imported(monkeypatch):
    imported = []
    monkeypatch.setattr(probes.importlib.util, "find_spec", lambda name: name if name == "torch" else None)
    monkeypatch.setattr(probes, "_import", imported.append)

    probes.import_libraries()

    assert imported == [
        "torch._dynamo",
        "torch._inductor.async_compile",
        "torch.export._trace",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["shwo"], "argument COMMAND: invalid choice: 'shwo'"),
        ([], "the following arguments are required: COMMAND"),
        (["show", "--alll", "trace.jsonl"], "unrecognized arguments: --alll"),
        (["run", "--outptu", "x", "--", "true"], "unrecognized arguments: --outptu"),
    ],
)
def test_a_command_or_an_option_that_is_unknown_or_missing_is_a_usage_error(words, message, capsys):
    with pytest.raises(SystemExit) as exit_:
        cli.main(words)

    assert exit_.value.code == 2
    assert f"torchspan: error: {message}" in capsys.readouterr().err


def text(lines):
    return "\n".join("".join(piece for piece, _ in line) for line in lines)


ROWS = [
    ResolvedProbe(
        Probe(
            library="torch_tensorrt",
            target=Function("torch_tensorrt._compile:compile"),
            action=Record(COMPILE),
            why="the entry point most programs call, and a reason that is longer than one line of this terminal",
        ),
        "resolved",
    ),
    ResolvedProbe(
        Probe(library="torch_tensorrt", target=Function("m:f"), why="gone", action=Step(), detail="passes"),
        "absent",
        "f is missing",
    ),
    ResolvedProbe(
        Probe(library="tensorrt", target=Function("m:g"), why="old", action=Step(), until=(2, 12)),
        "out of range",
        "until 2.12",
    ),
]


def test_the_table_of_hook_points_says_what_resolved_and_why_each_is_there():
    assert text(table(ROWS, 60)) == (
        "torch_tensorrt._compile:compile\n"
        "  resolved; record torch_tensorrt.compile\n"
        "  the entry point most programs call, and a reason that is\n"
        "  longer than one line of this terminal\n"
        "m:f\n"
        "  absent: f is missing; step (at detail passes)\n"
        "  gone\n"
        "m:g\n"
        "  out of range: until 2.12; step\n"
        "  old"
    )


def test_the_summary_says_how_many_resolved_and_whether_the_version_is_supported():
    versions = {"torch": "2.14.1", "torch_tensorrt": "2.15.0"}
    lines = text(summary(ROWS, versions, 80)).splitlines()

    assert lines[1] == "3 hook points: 1 resolved, 1 absent, 1 out of range"
    assert lines[2].startswith("torch 2.14.1, torch_tensorrt 2.15.0, Python 3.")
    assert lines[3] == "torch_tensorrt is outside the range that torchspan is tested with, 2.11 to 2.14"
