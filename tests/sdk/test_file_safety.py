# SPDX-License-Identifier: Apache-2.0
"""What others have put at the name of a file, and who holds its lock: nothing is followed, nothing hangs."""

import fcntl
import json
import os
import stat
import subprocess
import sys

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult

from support.descriptors import no_more_descriptors
from torchspan.base.files import opening
from torchspan.output.sdk import _span_file
from torchspan.output.sdk._path import is_literal
from torchspan.sdk import FileSpanExporter, RunFileProcessor

SUCCESS, FAILURE = SpanExportResult.SUCCESS, SpanExportResult.FAILURE


def spans(name="work", **attributes):
    span = TracerProvider(resource=Resource({}), shutdown_on_exit=False).get_tracer("tests").start_span(name)
    span.set_attributes(attributes)
    span.end()
    return [span]


def names(text):
    """The span name of each line; `torn` where a line is not JSON."""
    found = []
    for line in text.splitlines():
        try:
            found.append(json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["name"])
        except ValueError:
            found.append("torn")
    return found


@pytest.fixture
def path(tmp_path):
    return tmp_path / "trace.jsonl"


# --- what is at the name ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda path: FileSpanExporter(path).export(spans()), lambda path: processed(path)])
def test_a_file_that_is_made_is_for_its_owner_alone(path, make):
    before = os.umask(0)
    try:
        make(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def processed(path):
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(RunFileProcessor(path, "ab"))
    provider.get_tracer("tests").start_span("work").end()


def test_the_variable_and_the_argument_give_a_file_to_the_group(path, monkeypatch):
    monkeypatch.setenv("TORCHSPAN_FILE_MODE", "0640")
    FileSpanExporter(path).export(spans())
    FileSpanExporter(f"{path}2", mode=0o660).export(spans())
    processed(f"{path}3")
    assert [stat.S_IMODE(os.stat(f"{path}{each}").st_mode) for each in ("", "2", "3")] == [0o640, 0o660, 0o640]


@pytest.mark.parametrize("value", ["rw", "888", "755", "440", "4600", "-600", "٦٠٠", "0x180"])
def test_a_mode_that_is_none_is_named_and_the_default_holds(path, monkeypatch, caplog, value):
    monkeypatch.setenv("TORCHSPAN_FILE_MODE", value)
    FileSpanExporter(path).export(spans())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert caplog.messages == [
        (
            f"Invalid TORCHSPAN_FILE_MODE={value!r}, using default 600 "
            "(expected a file's permissions in octal digits, such as 640)"
        )
    ]


@pytest.mark.parametrize("function", ["identity", "_high", "check_is_of_traces"])
def test_a_file_that_could_not_be_opened_leaves_no_descriptor_and_is_opened_again(path, monkeypatch, function):
    module = _span_file if hasattr(_span_file, function) else opening

    def failing(*_arguments):
        raise MemoryError

    exporter = FileSpanExporter(path)
    with no_more_descriptors(), monkeypatch.context() as patch:
        patch.setattr(module, function, failing)
        assert exporter.export(spans("lost")) is FAILURE
    assert exporter.export(spans("written")) is SUCCESS
    assert names(path.read_text()) == ["written"]


def test_a_link_is_not_followed_and_the_message_names_it(path, tmp_path, caplog):
    path.symlink_to(tmp_path / "elsewhere")
    assert FileSpanExporter(path).export(spans()) is FAILURE
    assert not (tmp_path / "elsewhere").exists()
    assert caplog.messages == [
        (
            f"torchspan: cannot write {path}: it is a link, which torchspan does not follow. Spans are lost until it can be "
            "written. Name a file in a folder where you may write: TORCHSPAN_FILE=<file>."
        )
    ]


PROGRAM = """
import os, sys
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from torchspan.sdk import FileSpanExporter, RunFileProcessor

provider = TracerProvider()
provider.add_span_processor({processor})
provider.get_tracer("t").start_span("work").end()
print("program is done", flush=True)
"""


def program(processor, path, **options):
    text = PROGRAM.replace("{processor}", processor)
    return subprocess.run([sys.executable, "-c", text, path], text=True, timeout=60, check=False, **options)


@pytest.mark.parametrize(
    "processor",
    [
        "SimpleSpanProcessor(FileSpanExporter(sys.argv[1]))",
        "BatchSpanProcessor(FileSpanExporter(sys.argv[1]))",
        'RunFileProcessor(sys.argv[1], "ab")',
    ],
)
def test_a_pipe_does_not_keep_the_program_from_ending(path, processor):
    os.mkfifo(path)
    done = program(processor, path, capture_output=True)
    assert (done.returncode, done.stdout) == (0, "program is done\n")
    assert f"{path}" in done.stderr
    assert "it is a named pipe, and not a regular file" in done.stderr


@pytest.mark.parametrize(
    ("name", "why"), [("/dev/null", "it is a device"), ("/dev/stdout", "it is a link, which torchspan does not follow")]
)
def test_a_device_and_a_descriptor_are_refused(name, why, caplog):
    assert FileSpanExporter(name).export(spans()) is FAILURE
    assert f"cannot write {name}: {why}" in caplog.messages[0]


@pytest.fixture
def pauses(monkeypatch):
    """How long each pause was that the program made, without making it."""
    made, now = [], [0.0]

    def sleep(seconds):
        made.append(seconds)
        now[0] += seconds

    monkeypatch.setattr(_span_file, "sleep", sleep)
    monkeypatch.setattr(_span_file, "monotonic", lambda: now[0])
    return made


# --- a file of the program's that has the inode of one that was deleted ----------------------------------------------


@pytest.mark.parametrize("is_empty", [True, False])
def test_a_file_of_the_program_that_has_number_and_inode_of_the_trace_is_left_alone(path, tmp_path, is_empty):
    """As where the trace was deleted and its inode given to the program's file: what is at its path is no longer this file."""
    exporter = FileSpanExporter(path)
    exporter.export(spans("before"))
    mine = tmp_path / "mine.db"
    path.rename(mine)
    mine.write_text("" if is_empty else '{"resourceType":"Patient"}\n' * 100)
    content = mine.read_text()
    number = exporter._file._descriptor.number
    assert exporter.export(spans("after")) is SUCCESS
    assert (mine.read_text(), names(path.read_text())) == (content, ["after"])
    os.close(number)  # the program's, which torchspan has not closed


def test_a_trace_that_is_renamed_is_written_on(path, tmp_path):
    exporter = FileSpanExporter(path)
    exporter.export(spans("before"))
    path.rename(tmp_path / "renamed.jsonl")
    assert exporter.export(spans("after")) is SUCCESS
    assert names((tmp_path / "renamed.jsonl").read_text()) == ["before", "after"]


@pytest.mark.parametrize(
    "content",
    [
        '{"resourceType":"Patient","id":"1"}\n',
        '{"resources": [{"type": "Microsoft.Storage/storageAccounts"}]}\n',
        '{"resource": "aws_instance"}\n',
        '{"resourceSpansOf": 1}\n',
    ],
)
def test_json_of_another_kind_that_begins_alike_is_left_alone(path, content):
    path.write_text(content)
    assert FileSpanExporter(path).export(spans()) is FAILURE
    assert path.read_text() == content


@pytest.mark.parametrize("key", ["resourceSpans", "resourceLogs", "resourceMetrics"])
def test_a_file_of_otlp_json_is_appended_to(path, key):
    path.write_text(f'{{"{key}": []}}\n')
    assert FileSpanExporter(path).export(spans()) is SUCCESS
    assert path.read_text().startswith(f'{{"{key}": []}}\n{{"resourceSpans":[')


@pytest.mark.parametrize("content", ["\n", '{"resourceSp', "{"])
def test_what_a_write_that_was_cut_off_has_left_is_appended_to(path, content):
    path.write_text(content)
    assert FileSpanExporter(path).export(spans()) is SUCCESS
    assert path.read_text().startswith(content)


def test_a_write_that_takes_nothing_fails_and_is_not_repeated_forever(path, monkeypatch):
    monkeypatch.setattr(opening.system, "write", lambda *_: 0)
    assert FileSpanExporter(path).export(spans()) is FAILURE


# --- a lock that another process holds -----------------------------------------------------------------------------


@pytest.fixture
def held(path):
    """The lock of the file, held by an open file that is not the exporter's."""
    with open(path, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file


@pytest.mark.fault("files", "another process holds its lock")
def test_a_lock_that_is_held_costs_a_tenth_of_a_second_once_and_nothing_is_lost(path, held, pauses, caplog):
    exporter = FileSpanExporter(path)
    results = [exporter.export(spans(name)) for name in ("a", "b", "c")]

    assert results == [SUCCESS] * 3
    assert 0.1 <= sum(pauses) < 0.11
    assert (names(path.read_text()), caplog.messages) == (["a", "b", "c"], [])


def test_a_lock_that_is_released_in_time_changes_nothing(path, held, pauses, monkeypatch, caplog):
    def release_now(seconds):
        pauses.append(seconds)
        fcntl.flock(held, fcntl.LOCK_UN)

    monkeypatch.setattr(_span_file, "sleep", release_now)
    assert FileSpanExporter(path).export(spans()) is SUCCESS
    assert (names(path.read_text()), len(pauses), caplog.messages) == (["work"], 1, [])


def test_the_processor_of_a_run_loses_nothing_either(path, held, pauses, caplog):
    processor = RunFileProcessor(path, "ab")
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor)
    for name in ("a", "b"):
        provider.get_tracer("t").start_span(name).end()
    assert (names(path.read_text()), processor.lost, processor.errors) == (["a", "b"], 0, [])
    assert (0.1 <= sum(pauses) < 0.11, caplog.messages) == (True, [])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_waits_no_more(path, held, pauses):
    exporter = FileSpanExporter(path)
    exporter.export(spans("parent"))
    before = len(pauses)
    pid = os.fork()
    if pid == 0:
        os._exit(exporter.export(spans("child")) is not SUCCESS or len(pauses) != before)
    assert os.waitpid(pid, 0)[1] == 0
    exporter.export(spans("parent"))
    assert names(path.read_text()) == ["parent", "child", "parent"]


def test_a_name_is_whole_where_neither_the_process_nor_the_time_is_in_it():
    assert [is_literal(each) for each in ("/a", "/a%%p", "/%", "/a%p", "/%t")] == [True, True, True, False, False]
