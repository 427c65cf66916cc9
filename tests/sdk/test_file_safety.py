# SPDX-License-Identifier: Apache-2.0
"""What others have put at the name of a file, and who holds its lock: nothing is followed, nothing hangs."""

import fcntl
import json
import os
import pty
import shlex
import stat
import subprocess
import sys
import threading

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult

from torchspan.sdk import FileSpanExporter, RunFileProcessor, _append_file
from torchspan.sdk._path import expand, is_literal, written_files

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


@pytest.fixture
def reader(path):
    """The reading end of a pipe at the path."""
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    yield reader
    os.close(reader)


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


def test_a_link_is_not_followed_and_the_message_names_it(path, tmp_path, caplog):
    path.symlink_to(tmp_path / "elsewhere")
    assert FileSpanExporter(path).export(spans()) is FAILURE
    assert not (tmp_path / "elsewhere").exists()
    assert caplog.messages == [
        (
            f"torchspan: cannot write {path}: is a link, which torchspan does not follow. Spans are lost until it can be "
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
def test_a_pipe_that_nothing_reads_does_not_keep_the_program_from_ending(path, processor):
    os.mkfifo(path)
    done = program(processor, path, capture_output=True)
    assert (done.returncode, done.stdout) == (0, "program is done\n")
    assert f"{path}" in done.stderr
    assert "is a pipe that no process reads" in done.stderr


def test_a_pipe_at_a_name_that_was_not_given_as_a_whole_is_refused(tmp_path, caplog):
    exporter = FileSpanExporter(tmp_path / "trace-%p.jsonl")
    os.mkfifo(exporter.path)
    reader = os.open(exporter.path, os.O_RDONLY | os.O_NONBLOCK)
    assert exporter.export(spans()) is FAILURE
    assert f"cannot write {exporter.path}: is a named pipe, and not a regular file." in caplog.messages[0]
    os.close(reader)


# --- pipes and devices that are asked for --------------------------------------------------------------------------


def test_a_pipe_that_is_asked_for_gets_a_line_that_is_longer_than_the_pipe(path, reader):
    received = []

    def read():
        os.set_blocking(reader, True)
        while not (received and received[-1].endswith(b"\n")):
            received.append(os.read(reader, 1 << 16))

    exporter = FileSpanExporter(path)
    exporter.export(spans("first"))
    thread = threading.Thread(target=read)
    assert names(os.read(reader, 1 << 16).decode()) == ["first"]
    thread.start()
    assert exporter.export(spans("long", text="x" * 1_000_000)) is SUCCESS
    thread.join(60)
    assert names(b"".join(received).decode()) == ["long"]


@pytest.fixture
def pauses(monkeypatch):
    """How long each pause was that the program made, without making it."""
    made, now = [], [0.0]

    def sleep(seconds):
        made.append(seconds)
        now[0] += seconds

    monkeypatch.setattr(_append_file, "sleep", sleep)
    monkeypatch.setattr(_append_file, "monotonic", lambda: now[0])
    return made


def test_a_pipe_whose_reader_stops_is_waited_for_once_until_it_reads_again(path, reader, pauses, caplog):
    exporter = FileSpanExporter(path)
    assert exporter.export(spans("too long", text="x" * 1_000_000)) is FAILURE
    assert 0.1 <= sum(pauses) < 0.11
    assert "its reader does not read from it" in caplog.messages[0]
    pauses.clear()
    assert [exporter.export(spans("lost")) for _ in range(100)] == [FAILURE] * 100
    assert pauses == []
    received = b""
    while len(received) < 1_000_000:
        try:
            received += os.read(reader, 1 << 16)
        except BlockingIOError:
            break
    assert exporter.export(spans("next")) is SUCCESS
    received += os.read(reader, 1 << 16)
    assert names(received.decode()) == ["torn", "next"]


def test_a_line_may_not_take_longer_than_a_second_however_little_its_reader_takes(path, reader, pauses, monkeypatch):
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:1]) if dripping() else blocked())
    turns = []

    def dripping():
        turns.append(None)
        return len(turns) % 10 == 1

    def blocked():
        raise BlockingIOError

    assert FileSpanExporter(path).export(spans("long", text="x" * 100_000)) is FAILURE
    assert 1.0 <= sum(pauses) < 1.01


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="there are no names of descriptors")
def test_process_substitution_gets_the_spans(tmp_path):
    command = f"{shlex.quote(sys.executable)} -c '{PROGRAM}' >(cat > {tmp_path}/received; touch {tmp_path}/done)"
    command = command.replace("{processor}", "SimpleSpanProcessor(FileSpanExporter(sys.argv[1]))")
    subprocess.run(["bash", "-c", f"{command}; wait $!"], timeout=60, check=True, stdout=subprocess.DEVNULL)
    assert names((tmp_path / "received").read_text()) == ["work"]


@pytest.mark.skipif(not os.path.exists("/dev/stdout"), reason="there are no names of descriptors")
def test_standard_output_may_be_the_file_whether_it_is_a_pipe_or_a_file(tmp_path):
    processor = "SimpleSpanProcessor(FileSpanExporter(sys.argv[1]))"
    piped = program(processor, "/dev/stdout", stdout=subprocess.PIPE)
    with open(tmp_path / "out", "a") as file:
        program(processor, "/dev/stdout", stdout=file)
    for text in (piped.stdout, (tmp_path / "out").read_text()):
        first, second = text.splitlines()
        assert (names(first), second) == (["work"], "program is done")


def test_a_terminal_may_be_the_file_and_stays_as_it_is():
    leader, terminal = pty.openpty()
    exporter = FileSpanExporter(os.ttyname(terminal))
    assert exporter.export(spans()) is SUCCESS
    assert names(os.read(leader, 1 << 16).decode()) == ["work"]
    assert os.get_blocking(terminal)
    exporter.shutdown()
    os.close(leader)
    os.close(terminal)


def test_the_null_device_may_be_the_file():
    assert FileSpanExporter(os.devnull).export(spans()) is SUCCESS


# --- a lock that another process holds -----------------------------------------------------------------------------


@pytest.fixture
def held(path):
    """The lock of the file, held by an open file that is not the exporter's."""
    with open(path, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def test_a_lock_that_is_held_costs_a_tenth_of_a_second_once_and_another_file_is_used(path, held, pauses, caplog):
    exporter = FileSpanExporter(path)
    results = [exporter.export(spans(name)) for name in ("a", "b", "c")]
    (other,) = set(path.parent.iterdir()) - {path}

    assert results == [SUCCESS] * 3
    assert 0.1 <= sum(pauses) < 0.11
    assert (path.read_text(), names(other.read_text())) == ("", ["a", "b", "c"])
    assert exporter.path == str(other)
    assert caplog.messages == [f"torchspan: {path} is locked by another process, so this process writes to {other}."]
    assert stat.S_IMODE(other.stat().st_mode) == 0o600
    assert written_files(str(path)) == sorted([str(path), str(other)])


def test_a_lock_that_is_released_in_time_changes_nothing(path, held, pauses, monkeypatch, caplog):
    def release_now(seconds):
        pauses.append(seconds)
        fcntl.flock(held, fcntl.LOCK_UN)

    monkeypatch.setattr(_append_file, "sleep", release_now)
    assert FileSpanExporter(path).export(spans()) is SUCCESS
    assert (names(path.read_text()), len(pauses), caplog.messages) == (["work"], 1, [])


def test_the_processor_of_a_run_uses_another_file_and_loses_nothing(path, held, pauses, caplog):
    processor = RunFileProcessor(path, "ab")
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor)
    for name in ("a", "b"):
        provider.get_tracer("t").start_span(name).end()
    (other,) = set(path.parent.iterdir()) - {path}
    assert (names(other.read_text()), processor.lost, processor.errors) == (["a", "b"], 0, [])
    assert caplog.messages == [f"torchspan: {path} is locked by another process, so this process writes to {other}."]


def test_where_no_other_file_can_be_made_it_continues_without_the_lock(path, held, pauses, monkeypatch, caplog):
    real = _append_file.open_for_appending

    def in_a_folder_without_permission(name, *arguments):
        if name != str(path):
            raise PermissionError(13, "Permission denied")
        return real(name, *arguments)

    monkeypatch.setattr(_append_file, "open_for_appending", in_a_folder_without_permission)
    exporter = FileSpanExporter(path)
    assert [exporter.export(spans(name)) for name in ("a", "b")] == [SUCCESS] * 2
    assert 0.1 <= sum(pauses) < 0.11
    assert (names(path.read_text()), exporter.path, caplog.messages) == (["a", "b"], str(path), [])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_waits_no_more_and_uses_a_file_of_its_own(path, held, pauses):
    exporter = FileSpanExporter(path)
    exporter.export(spans("parent"))
    before = len(pauses)
    pid = os.fork()
    if pid == 0:
        os._exit(exporter.export(spans("child")) is not SUCCESS or len(pauses) != before)
    assert os.waitpid(pid, 0)[1] == 0
    exporter.export(spans("parent"))
    others = set(path.parent.iterdir()) - {path}
    assert sorted(names(each.read_text()) for each in others) == [["child"], ["parent", "parent"]]


@pytest.mark.parametrize(
    ("template", "other"),
    [
        ("/t/trace.jsonl", "/t/trace-00112233.jsonl"),
        ("/t/run.%p", "/t/run.7-00112233"),
        ("/t/%p.jsonl", "/t/7-00112233.jsonl"),
        ("/t/.%p/x", "/t/.7/x-00112233"),
        ("/t/100%%.jsonl", "/t/100%-00112233.jsonl"),
        ("/t/x.jsonl/", "/t/x.jsonl/-00112233"),
    ],
)
def test_the_other_file_keeps_the_suffix_that_the_template_gives(template, other):
    assert expand(template, pid=7, time="T", mark="-00112233") == other


def test_the_files_of_a_template_are_those_with_a_mark_as_well(tmp_path):
    for name in ("a-1.jsonl", "a-1-0011aabb.jsonl", "a-1-0011aabbcc.jsonl", "a-1-x.jsonl"):
        (tmp_path / name).touch()
    found = [f"{tmp_path}/a-1-0011aabb.jsonl", f"{tmp_path}/a-1.jsonl"]
    assert written_files(f"{tmp_path}/a-%p.jsonl") == written_files(f"{tmp_path}/a-1.jsonl") == found


def test_a_name_is_whole_where_neither_the_process_nor_the_time_is_in_it():
    assert [is_literal(each) for each in ("/a", "/a%%p", "/%", "/a%p", "/%t")] == [True, True, True, False, False]
