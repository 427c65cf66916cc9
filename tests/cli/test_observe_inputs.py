# SPDX-License-Identifier: Apache-2.0
"""`torchspan run --observe-inputs`, and `torchspan inputs`, which reads what it leaves."""

import json
import subprocess
import sys

import pytest

from torchspan.inputs import InputObserver

NET = """
import torch

class Net(torch.nn.Module):
    def forward(self, x, scale=1.0, **named):
        return x * scale

class Derived(Net):
    def forward(self, x):
        return super().forward(x)
"""

PROGRAM = """
import multiprocessing, os, subprocess, sys
import torch
from net import Derived, Net

net, other = Net(), Net()
net(torch.ones(2, 3))
net(torch.ones(4, 3), scale=0.123456)
other(torch.ones(4, 3), secret_keyword=torch.ones(1))
Derived()(torch.ones(1, 7))

def in_child():
    net(torch.ones(9, 3))

if __name__ == "__main__":
    child = multiprocessing.get_context("fork").Process(target=in_child)
    child.start()
    child.join()
    if os.fork() == 0:  # it calls nothing, and ends as Python ends
        sys.exit()
    os.wait()
    raise SystemExit(3)
"""


READ = "to read them: torchspan inputs traces.inputs.json"


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """The folder of a program that was run, and how it ended."""
    folder = tmp_path_factory.mktemp("observed")
    (folder / "net.py").write_text(NET)
    (folder / "app.py").write_text(PROGRAM)
    command = [
        sys.executable, "-c", "import sys; from torchspan.cli import main; sys.exit(main())",
        "run", "--quiet", "--output", "traces.jsonl",
        "--observe-inputs", "net:Net", "--observe-inputs", "net:Nets", "--observe-inputs", "other:Net",
        "--", sys.executable, "app.py",
    ]  # fmt: skip
    return folder, subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


def test_the_calls_of_all_processes_are_in_one_file_alongside_the_traces(ended):
    folder, process = ended
    assert process.returncode == 3, process.stderr
    assert sorted(each.name for each in folder.glob("traces*")) == ["traces.inputs.json", "traces.jsonl"]
    observer = InputObserver.from_json(folder / "traces.inputs.json", "net.Net.forward")
    assert observer.num_obs() == 4
    assert [line.split() for line in observer.report().splitlines()[3:5]] == [
        ["x", "float32", "4", "2", "0", "2", "4", "9", "3", "▄·█····▄"],
        ["1", "3", "3", "3", "1"],
    ]


def test_a_run_that_observed_calls_is_not_said_to_have_recorded_nothing(ended):
    _, process = ended
    assert "was recorded" not in process.stderr


def test_objects_of_a_derived_class_are_observed_apart(ended):
    folder, _ = ended
    found = json.loads((folder / "traces.inputs.json").read_text())["observations"]
    assert [(each["class"], each["counts"]["completed"]) for each in found] == [("net.Net", 4), ("net.Derived", 1)]


def test_the_end_says_where_the_file_is_and_which_classes_were_not_seen(ended):
    _, process = ended
    assert [line for line in process.stderr.splitlines() if "observe" in line] == [
        "torchspan: --observe-inputs net:Nets: the module net has no class Nets; name the module that defines the class",
        "torchspan: --observe-inputs other:Net: the program did not import the module other",
        "torchspan: observed calls are in traces.inputs.json (4 of net.Net.forward, 1 of net.Derived.forward); " + READ,
    ]


def test_no_value_of_the_program_is_in_the_file(ended):
    text = (ended[0] / "traces.inputs.json").read_text()
    assert "0.123456" not in text
    assert "secret_keyword" not in text


def test_a_text_that_names_no_class_is_a_usage_error(torchspan, capsys):
    with pytest.raises(SystemExit) as exit_:
        torchspan("run", "--observe-inputs", "net", "--", "true")
    assert exit_.value.code == 2
    assert (
        "'net' is not a class: expected module:Class, of a module that the program imports" in capsys.readouterr().err
    )


def test_a_program_that_ends_by_an_exception_leaves_its_file(shell):
    (shell.folder / "net.py").write_text(NET)
    (shell.folder / "app.py").write_text("from net import Net\nNet()(1)\nraise KeyError('x')\n")
    result = shell(
        "run", "--quiet", "--output", "x.jsonl", "--observe-inputs", "net:Net", "--", sys.executable, "app.py"
    )
    assert result.returncode == 1
    assert json.loads((shell.folder / "x.inputs.json").read_text())["observations"][0]["counts"]["completed"] == 1


def test_a_users_file_with_the_name_of_the_inputs_is_kept_and_they_go_alongside_it(shell):
    (shell.folder / "net.py").write_text(NET)
    (shell.folder / "x.inputs.json").write_text('{"input": "the user\'s"}')
    call = "from net import Net; Net()(1)"
    command = ["run", "--quiet", "--output", "x.jsonl", "--observe-inputs", "net:Net", "--", sys.executable, "-c", call]
    result = shell(*command)
    assert (shell.folder / "x.inputs.json").read_text() == '{"input": "the user\'s"}'
    (other,) = shell.folder.glob("x-*.inputs.json")
    assert f"torchspan: observed calls are in {other.name} (" in result.stderr
    assert json.loads(other.read_text())["observations"][0]["class"] == "net.Net"


# --- reading ---------------------------------------------------------------------------------------------------------
def test_files_are_shown_as_if_one_process_had_observed_all(ended, torchspan):
    file = ended[0] / "traces.inputs.json"
    status, out, err = torchspan("inputs", file, file)
    assert (status, err) == (0, "")
    assert [line for line in out.splitlines() if "calls," in line] == [
        "net.Net.forward: 8 calls, 4 shapes",
        "net.Derived.forward: 2 calls, 1 shape",
    ]


def test_reading_imports_no_torch(ended):
    program = (
        "import sys; from torchspan.cli import main; main(['inputs', 'traces.inputs.json', '--output', 'merged.json']);"
        "print([each for each in ('torch', 'torch_tensorrt', 'numpy', 'opentelemetry.sdk') if each in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program], cwd=ended[0], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[]"
    assert (ended[0] / "merged.json").read_text() == (ended[0] / "traces.inputs.json").read_text()


def test_the_text_to_paste_is_that_of_the_inferred_profile(ended, torchspan):
    file = ended[0] / "traces.inputs.json"
    status, out, err = torchspan("inputs", file, file, "--torch-tensorrt")
    derived = InputObserver.from_json(file, "net.Derived.forward")
    assert out == f"# net.Derived.forward\n{derived.merge(derived).infer_profile().to_python()}"
    assert status == 1
    assert err.startswith("torchspan inputs: net.Net.forward: ")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "FILE is torn, or is not a file of observed inputs: it is not complete JSON."),
        ('{"torchspan_inputs": 9}', "FILE has version 9 of the format, but this torchspan reads version 1."),
        (
            '{"torchspan_inputs": 1, "observations": [], "unseen": {}}',
            "no calls were observed in FILE (the observed model was not called)",
        ),
        (
            '{"torchspan_inputs": 1, "observations": [], "unseen": {"net:Net": "the program made no object of net:Net"}}',
            "no calls were observed in FILE (net:Net: the program made no object of net:Net)",
        ),
        ("", "FILE is empty. Write it again with InputObserver.to_json, or with torchspan run --observe-inputs."),
        (None, "cannot read FILE: No such file or directory"),
    ],
)
def test_a_file_that_has_no_calls_is_refused(torchspan, tmp_path, content, said):
    file = tmp_path / "x.json"
    if content is not None:
        file.write_text(content)
    status, out, err = torchspan("inputs", file)
    assert (status, out) == (2, "")
    assert err.startswith(f"torchspan inputs: {said.replace('FILE', str(file))}")


def test_merged_calls_replace_no_file_that_is_read_and_no_file_of_traces(torchspan, tmp_path, ended):
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_bytes((ended[0] / "traces.inputs.json").read_bytes())
    (tmp_path / "trace.jsonl").write_text('{"resourceSpans":[]}\n')
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for name, why in (
        ("b.json", "it is one of the files that are read"),
        ("trace.jsonl", "it is not a file of observed inputs, and torchspan replaces no other file"),
    ):
        assert torchspan("inputs", tmp_path / "a.json", tmp_path / "b.json", "--output", tmp_path / name) == (
            2,
            "",
            f"torchspan inputs: cannot write {tmp_path / name}: {why}; name another file: --output <file>\n",
        )
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_what_a_file_holds_cannot_act_on_the_terminal(torchspan, tmp_path, ended):
    document = json.loads((ended[0] / "traces.inputs.json").read_text())
    document["observations"][0]["values"] = True
    document["observations"][0]["shapes"] = [
        {"calls": 1, "first": 0, "arguments": {"named.\x1b[31m": {"class": "net.X", "unknown": "\x1b[2J\u202e"}}}
    ]
    (tmp_path / "x.json").write_text(json.dumps(document))
    status, out, _ = torchspan("inputs", tmp_path / "x.json")
    assert status == 0
    assert out.replace("\n", "").isprintable()
