# SPDX-License-Identifier: Apache-2.0
"""What `torchspan doctor` says of the file that traces are to be written to."""

import os

import pytest

from torchspan.cli.doctor import _exporters as files
from torchspan.cli.doctor._check import Context, State

OWN = {"OTEL_TRACES_EXPORTER": "torchspan_file"}


def rows(**environment):
    return list(files.writable(Context(environment)))


def row(**environment):
    (found,) = rows(**environment)
    return found


def test_where_no_file_is_named_there_is_no_row():
    assert rows(OTEL_TRACES_EXPORTER="otlp") == []


def test_a_file_that_can_be_written_is_ok_and_is_not_made(tmp_path):
    found = row(**OWN, TORCHSPAN_FILE=f"{tmp_path}/new/trace-%p.jsonl")

    assert (found.name, found.state) == ("file.path", State.OK)
    assert found.summary == f"torchspan_file can write {tmp_path}/new/trace-%p.jsonl (TORCHSPAN_FILE)."
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_keeps_its_content(tmp_path):
    (tmp_path / "trace.jsonl").write_text('{"resourceSpans":[]}\n')

    assert row(**OWN, TORCHSPAN_FILE=f"{tmp_path}/trace.jsonl").state is State.OK
    assert (tmp_path / "trace.jsonl").read_text() == '{"resourceSpans":[]}\n'


def test_the_default_is_a_file_in_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert row(**OWN).summary == "torchspan_file can write torchspan-%t-%p.jsonl (default)."
    assert list(tmp_path.iterdir()) == []


def folder(path):
    path.mkdir()
    return path


def below_a_file(path):
    path.write_text("")
    return path / "trace.jsonl"


def link(path):
    path.with_name("target").write_text("")
    path.symlink_to(path.with_name("target"))
    return path


def pipe(path):
    os.mkfifo(path)
    return path


HOSTILE = {
    folder: "Is a directory",
    below_a_file: "is not a folder",
    link: "it is a link, which torchspan does not follow",
    pipe: "it is a named pipe, and not a regular file",
}


@pytest.mark.parametrize("made", HOSTILE, ids=lambda each: each.__name__)
def test_what_the_exporter_would_not_write_to_fails_with_the_reason(made, tmp_path):
    found = row(**OWN, TORCHSPAN_FILE=str(made(tmp_path / "place")))

    assert found.state is State.FAILED
    assert HOSTILE[made] in found.summary
    assert found.remedy == "Name a file in a folder where you may write: TORCHSPAN_FILE=<file>."


def test_a_device_cannot_be_written():
    found = row(**OWN, TORCHSPAN_FILE=os.devnull)
    assert (found.state, "it is a device, and not a regular file" in found.summary) == (State.FAILED, True)


def test_a_name_that_no_file_system_takes_fails():
    assert row(**OWN, TORCHSPAN_FILE=f"/{'x' * 5000}").state is State.FAILED


def test_without_the_exporter_the_file_is_that_of_run_alone(tmp_path):
    found = row(TORCHSPAN_FILE=f"{tmp_path}/trace.jsonl", OTEL_TRACES_EXPORTER="otlp")

    assert found.state is State.NOTE
    assert found.summary == (
        f"TORCHSPAN_FILE={tmp_path}/trace.jsonl: `torchspan run` alone writes it: no exporter of traces is torchspan_file."
    )
    assert found.remedy == "To write it without `run`: OTEL_TRACES_EXPORTER=torchspan_file."


def test_a_file_that_contains_something_else_than_traces_is_a_failure(tmp_path):
    (tmp_path / "app.py").write_text("print(1)\n")
    why = "it is not a file of traces, and torchspan appends to no other file."
    found = row(**OWN, TORCHSPAN_FILE=f"{tmp_path}/app.py")
    assert (found.state, found.summary.endswith(f"{tmp_path}/app.py: {why}")) == (State.FAILED, True)
