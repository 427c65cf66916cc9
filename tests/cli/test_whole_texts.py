# SPDX-License-Identifier: Apache-2.0
"""Whole texts of messages, which the file of a run has and no exporter gets: shown on a terminal, and left out of a copy."""

import gzip
import json
import os
import pty
import stat
import subprocess
import sys

import pytest

from support.operator_tables import table
from support.recording import Recording
from torchspan.words import semconv as s

SECRET = "the patient has pain in the left hand"
PARSER = f"Failed to parse ONNX model from file: {SECRET}!"
REDUCED = "Failed to parse ONNX model from file: ?!"
OTHERS = {"torchspan.local": "a", "torchspan.localized": "b", "app.torchspan.local.x": "c"}
"""Keys that are none of whole texts."""


def attribute(key, text):
    return {"key": str(key), "value": {"stringValue": text}}


def request(name, facts, *, scope="torchspan", **fields):
    """A document with one span."""
    span = {
        "traceId": "ab" * 16,
        "spanId": "01" * 8,
        "name": name,
        "startTimeUnixNano": "1000",
        "endTimeUnixNano": "3000",
    }
    span |= {"attributes": [attribute(key, text) for key, text in facts.items()], **fields}
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {"name": scope}, "spans": [span]}]}]}


def failed():
    """A line of a file of a run: a message with a row, and one without."""
    facts = {
        s.ERROR_TYPE: "ValueError",
        s.PARSER_ERROR: REDUCED,
        f"{s.LOCAL}{s.PARSER_ERROR}": PARSER,
        f"{s.LOCAL}{s.event_text_key(0, s.EXCEPTION_MESSAGE)}": SECRET,
    }
    exception = {"name": "exception", "timeUnixNano": "1500", "attributes": [attribute(s.EXCEPTION_TYPE, "ValueError")]}
    return request("tensorrt.parse", facts, events=[exception], status={"code": 2})


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_text(f"{json.dumps(failed())}\n")
    return path


# --- show ---------------------------------------------------------------------------------------------------------
def shown_on_a_terminal(path, *words):
    """What the command writes where its stdout is a terminal."""
    own, other = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "torchspan", "show", *words, str(path)],
        stdin=other,
        stdout=other,
        stderr=subprocess.PIPE,
        env={**os.environ, "COLUMNS": "200", "NO_COLOR": "1"},
        timeout=60,
        check=False,
    )
    os.close(other)
    assert (done.returncode, done.stderr) == (0, b"")
    pieces = []
    while True:
        try:
            piece = os.read(own, 65_536)
        except OSError:  # Linux: the other end is closed
            piece = b""
        if not piece:
            break
        pieces.append(piece)
    os.close(own)
    return b"".join(pieces).decode()


def test_on_a_terminal_the_texts_are_shown(path):
    assert SECRET in shown_on_a_terminal(path)


@pytest.mark.parametrize(("words", "is_shown"), [([], False), (["--text"], True)])
def test_in_a_pipe_the_texts_are_shown_on_request(torchspan, path, words, is_shown):
    status, out, err = torchspan("show", *words, path)
    assert (status, err) == (0, "")
    assert (SECRET in out) == is_shown
    assert "ValueError" in out
    assert s.LOCAL not in out


@pytest.mark.parametrize(("words", "is_shown"), [([], False), (["--text"], True)])
def test_a_picture_has_the_texts_on_request(torchspan, path, tmp_path, words, is_shown):
    picture = tmp_path / "trace.svg"
    assert torchspan("show", "--svg", picture, *words, path)[0] == 0
    assert (SECRET in picture.read_text()) == is_shown


def test_a_picture_that_is_made_on_a_terminal_has_no_texts(path, tmp_path):
    picture = tmp_path / "trace.svg"
    shown_on_a_terminal(path, "--svg", str(picture))
    assert SECRET not in picture.read_text()


@pytest.mark.parametrize(("words", "name"), [([], "(range of the program)"), (["--text"], SECRET)])
def test_a_range_of_the_program_among_operators_has_its_name_on_request(torchspan, tmp_path, words, name):
    recording = Recording(tmp_path / "run.jsonl")
    facts = table(("?", 1, 40, 40, 40)) | {f"{s.LOCAL}{s.OPERATORS_NAMES}": [SECRET]}
    recording.span("torch.run_graph", 0, 100, facts)
    assert f"Operators  {name} \N{MULTIPLICATION SIGN}1 40 %\n" in torchspan("show", *words, recording.path)[1]
    (row,) = json.loads(torchspan("show", "--json", *words, recording.path)[1])["operators"]
    assert (row["root"], row["name"], row["self_s"]) == ("torch.run_graph", name, 0.04)


# --- show --redact ------------------------------------------------------------------------------------------------
def keys(path):
    """The keys of the attributes of each span in the file."""
    documents = [json.loads(line) for line in path.read_text().splitlines()]
    return [
        {each["key"] for each in written["attributes"]}
        for document in documents
        for of_resource in document["resourceSpans"]
        for scope in of_resource["scopeSpans"]
        for written in scope["spans"]
    ]


def test_a_copy_lacks_the_texts_and_nothing_else(torchspan, path, tmp_path):
    copy = tmp_path / "copy.jsonl"
    with path.open("a") as file:
        file.write(f"{json.dumps(request('work', OTHERS, scope='app'))}\n")
    before = path.read_bytes()
    assert torchspan("show", "--redact", path, copy) == (0, "", "")
    assert SECRET not in copy.read_text()
    assert keys(copy) == [{str(s.PARSER_ERROR), str(s.ERROR_TYPE)}, set(OTHERS)]
    of_copy, of_file = json.loads(copy.read_text().splitlines()[0]), json.loads(before.splitlines()[0])
    ((written,),) = [each["scopeSpans"][0]["spans"] for each in of_file["resourceSpans"]]
    written["attributes"] = [each for each in written["attributes"] if not each["key"].startswith(s.LOCAL)]
    assert of_copy == of_file
    assert path.read_bytes() == before


def test_a_copy_is_its_owners_alone(torchspan, path, tmp_path):
    torchspan("show", "--redact", path, tmp_path / "copy.jsonl")
    assert stat.S_IMODE((tmp_path / "copy.jsonl").stat().st_mode) == 0o600


def test_a_file_that_exists_is_not_overwritten(torchspan, path, tmp_path):
    copy = tmp_path / "copy.jsonl"
    copy.write_text("mine")
    status, out, err = torchspan("show", "--redact", path, copy)
    assert (status, out) == (2, "")
    assert err == f"torchspan show: cannot write {copy} from {path}: {copy}: File exists\n"
    assert copy.read_text() == "mine"


def test_a_file_is_not_its_own_copy(torchspan, path):
    before = path.read_bytes()
    assert torchspan("show", "--redact", path, path)[0] == 2
    assert path.read_bytes() == before


def test_a_link_is_not_followed(torchspan, path, tmp_path):
    (tmp_path / "copy.jsonl").symlink_to(tmp_path / "elsewhere.jsonl")
    assert torchspan("show", "--redact", path, tmp_path / "copy.jsonl")[0] == 2
    assert not (tmp_path / "elsewhere.jsonl").exists()


def test_without_a_file_to_read_no_copy_is_left(torchspan, tmp_path):
    missing, copy = tmp_path / "missing.jsonl", tmp_path / "copy.jsonl"
    status, out, err = torchspan("show", "--redact", missing, copy)
    assert (status, out) == (2, "")
    assert err == f"torchspan show: cannot write {copy} from {missing}: {missing}: No such file or directory\n"
    assert not copy.exists()


@pytest.mark.parametrize("files", [["a"], ["a", "b", "c"]])
def test_it_takes_two_files(torchspan, files):
    status, out, err = torchspan("show", "--redact", *files)
    assert (status, out) == (2, "")
    assert err == "torchspan show: --redact takes two files: torchspan show --redact FILE COPY\n"


def test_a_line_that_is_torn_is_left_out_and_counted(torchspan, path, tmp_path):
    copy = tmp_path / "copy.jsonl"
    whole = path.read_text()
    path.write_text(f"{whole}{whole[: whole.index(SECRET) + 5]}\n{whole}")
    status, out, err = torchspan("show", "--redact", path, copy)
    assert (status, out) == (1, "")
    assert err == f"torchspan: 1 line could not be read, and {copy} lacks them\n"
    assert len(keys(copy)) == 2
    assert SECRET[:5] not in copy.read_text()


def test_a_packed_file_has_a_copy_that_is_not(torchspan, path, tmp_path):
    packed, copy = tmp_path / "run.jsonl.gz", tmp_path / "copy.jsonl"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert torchspan("show", "--redact", packed, copy) == (0, "", "")
    assert keys(copy) == [{str(s.PARSER_ERROR), str(s.ERROR_TYPE)}]


@pytest.mark.parametrize(
    "line", ["[]", "1", '"text"', '{"attributes": 1}', '{"attributes": [1, null, {"key": 2}, []]}']
)
def test_a_line_of_another_form_is_copied(torchspan, path, tmp_path, line):
    copy = tmp_path / "copy.jsonl"
    path.write_text(f"{line}\n")
    assert torchspan("show", "--redact", path, copy) == (0, "", "")
    assert json.loads(copy.read_text()) == json.loads(line)


# --- show --what-leaves -------------------------------------------------------------------------------------------
def test_whole_texts_are_listed_as_what_is_in_this_file_alone(torchspan, path):
    status, out, err = torchspan("show", "--what-leaves", "--text", path)
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert f'    = "{PARSER}"' in lines
    assert f'    = "{SECRET}"' in lines
    assert lines[-1] == "= 2 in this file alone: torchspan show --redact FILE COPY writes a copy without them"


def test_where_the_output_is_not_a_terminal_they_are_listed_as_a_number(torchspan, path):
    status, out, err = torchspan("show", "--what-leaves", path)
    assert (status, err) == (0, "")
    assert SECRET not in out
    assert out.splitlines().count("    = 1 text; --text shows them") == 2
    assert out.splitlines()[-1].startswith("= 2 in this file alone: ")


def test_a_message_that_is_not_in_the_table_is_marked_and_is_not_an_error(torchspan, path):
    path.write_text(json.dumps(request("tensorrt.parse", {s.PARSER_ERROR: "a constant of the library"})))
    status, out, _ = torchspan("show", "--what-leaves", path)
    assert status == 0
    assert '    ~ "a constant of the library"' in out.splitlines()
    assert out.splitlines()[-1].startswith("~ 1 not in the table of messages: ")


def test_a_copy_has_nothing_that_is_in_this_file_alone(torchspan, path, tmp_path):
    copy = tmp_path / "copy.jsonl"
    torchspan("show", "--redact", path, copy)
    status, out, _ = torchspan("show", "--what-leaves", copy)
    assert status == 0
    assert not [line for line in out.splitlines() if "=" in line]


def test_on_a_span_of_the_program_such_a_key_is_the_programs(torchspan, path):
    path.write_text(json.dumps(request("work", {f"{s.LOCAL}x": "mine"}, scope="app")))
    _, out, _ = torchspan("show", "--what-leaves", path)
    assert '    * "mine"' in out.splitlines()


# --- run ----------------------------------------------------------------------------------------------------------
PROGRAM = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter()))
trace.set_tracer_provider(provider)
from torchspan.observers import observable

@observable
def work():
    raise ValueError("the patient has pain in the left hand")

try:
    work()
except ValueError:
    pass
"""


def ran(shell, *words, env=()):
    (shell.folder / "app.py").write_text(PROGRAM)
    file = shell.folder / "run.jsonl"
    command = [sys.executable, "app.py"]
    environ = {**os.environ, **dict(env)}
    return shell("run", "--output", file, *words, "--", *command, env=environ), file


def test_the_file_of_a_run_has_the_text_and_the_programs_exporter_does_not(shell):
    done, file = ran(shell)
    assert done.returncode == 0, done.stderr
    assert '"name": "torchspan.observed' in done.stdout
    assert SECRET not in done.stdout
    assert SECRET in file.read_text()
    assert SECRET not in done.stderr, "stderr is not a terminal"


def test_on_request_the_text_is_on_stderr_that_is_not_a_terminal(shell):
    done, file = ran(shell, "--text")
    assert SECRET in file.read_text()
    assert SECRET in done.stderr
    assert SECRET not in done.stdout


@pytest.mark.parametrize(("words", "env"), [(["--redact"], {}), ([], {"TORCHSPAN_CAPTURE": "none"})])
def test_with_redact_and_with_none_the_text_is_nowhere(shell, words, env):
    done, file = ran(shell, *words, env=env)
    assert '"name":"torchspan.observed' in file.read_text()
    assert SECRET not in done.stdout + done.stderr + file.read_text()


def test_redact_counts_more_than_the_environment(shell):
    done, file = ran(shell, "--redact", env={"TORCHSPAN_CAPTURE": "text"})
    assert SECRET not in done.stdout + done.stderr + file.read_text()


def test_text_and_redact_exclude_each_other(torchspan):
    with pytest.raises(SystemExit) as ended:
        torchspan("run", "--text", "--redact", "--", "true")
    assert ended.value.code == 2
