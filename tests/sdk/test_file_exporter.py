# SPDX-License-Identifier: Apache-2.0

import json
import logging
import multiprocessing
import os
import subprocess
import sys
import threading

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator

from torchspan.base.files.opening import system
from torchspan.output.sdk._path import absolute, escape, expand, expand_time, written_files
from torchspan.sdk import FileSpanExporter

START = 1_795_257_760_000_000_000


class FixedIds(IdGenerator):
    def generate_span_id(self):
        return 0xAB

    def generate_trace_id(self):
        return 0xCD


def spans(count=1, name="work", **attributes):
    tracer = TracerProvider(resource=Resource({}), id_generator=FixedIds(), shutdown_on_exit=False).get_tracer("tests")
    made = []
    for _ in range(count):
        span = tracer.start_span(name, start_time=START, attributes=attributes)
        span.end(START + 5)
        made.append(span)
    return made


def names(path):
    """The span names of each line; fails where a line is not JSON."""
    lines = path.read_bytes().split(b"\n")
    assert lines[-1] == b""
    return [
        [span["name"] for span in json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]] for line in lines[:-1]
    ]


def test_a_batch_is_one_line_of_otlp_json_as_the_collector_reads_it(tmp_path):
    exporter = FileSpanExporter(tmp_path / "trace.jsonl")

    assert exporter.export(spans(name="ä", count=1, n=3, seed=2**64 - 1, ok=True)) is SpanExportResult.SUCCESS

    assert (tmp_path / "trace.jsonl").read_text(encoding="ascii") == (
        '{"resourceSpans":[{"resource":{},"scopeSpans":[{"scope":{"name":"tests"},"spans":[{'
        '"traceId":"000000000000000000000000000000cd","spanId":"00000000000000ab","flags":256,"name":"\\u00e4","kind":1,'
        '"startTimeUnixNano":"1795257760000000000","endTimeUnixNano":"1795257760000000005","attributes":['
        '{"key":"n","value":{"intValue":"3"}},{"key":"seed","value":{"stringValue":"18446744073709551615"}},'
        '{"key":"ok","value":{"boolValue":true}}],"status":{}}]}]}]}\n'
    )


def test_each_batch_is_appended_to_what_is_there(tmp_path):
    path = tmp_path / "trace.jsonl"
    FileSpanExporter(path).export(spans(2, "a"))
    FileSpanExporter(path).export(spans(1, "b"))

    assert names(path) == [["a", "a"], ["b"]]


def test_a_torn_last_line_of_another_program_is_closed_first(tmp_path):
    path = tmp_path / "trace.jsonl"
    path.write_bytes(b'{"resourceSp')
    FileSpanExporter(path).export(spans(1, "a"))

    torn, whole, end = path.read_bytes().split(b"\n")
    assert (torn, json.loads(whole)["resourceSpans"] != [], end) == (b'{"resourceSp', True, b"")


def test_folders_are_created_and_the_pid_and_the_time_are_in_the_name(tmp_path):
    exporter = FileSpanExporter(f"{tmp_path}/new folder/%p/%t.jsonl")
    exporter.export(spans())

    (file,) = (tmp_path / "new folder" / str(os.getpid())).iterdir()
    assert str(file) == exporter.path
    assert len(file.stem) == len("20261121T104240Z")
    assert file.stem.endswith("Z")


def test_a_relative_path_belongs_to_the_folder_in_which_the_exporter_was_made(tmp_path, monkeypatch):
    first, second = tmp_path / "100%p", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    monkeypatch.chdir(first)
    exporter = FileSpanExporter("trace.jsonl")
    monkeypatch.chdir(second)
    exporter.export(spans())

    assert [file.name for file in first.iterdir()] == ["trace.jsonl"]


def test_without_arguments_the_variables_name_the_file_and_its_limit(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHSPAN_FILE", str(tmp_path / "named.jsonl"))
    monkeypatch.setenv("TORCHSPAN_FILE_MAX_SIZE", "10")
    exporter = FileSpanExporter()

    assert exporter.path == str(tmp_path / "named.jsonl")
    assert exporter.export(spans()) is SpanExportResult.FAILURE


def test_a_limit_that_is_not_a_number_is_named_and_the_default_holds(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("TORCHSPAN_FILE_MAX_SIZE", "1 GB")

    assert FileSpanExporter(tmp_path / "a").export(spans()) is SpanExportResult.SUCCESS
    assert caplog.messages == [
        "Invalid TORCHSPAN_FILE_MAX_SIZE='1 GB', using default 268435456 (expected a positive number of bytes)"
    ]


def test_at_its_limit_the_file_ends_with_a_whole_line_and_the_consequence_is_said_once(tmp_path, caplog):
    path = tmp_path / "trace.jsonl"
    exporter = FileSpanExporter(path, max_size=700)
    results = [exporter.export(spans()) for _ in range(5)]

    assert results == [SpanExportResult.SUCCESS] * 2 + [SpanExportResult.FAILURE] * 3
    assert names(path) == [["work"], ["work"]]
    assert caplog.messages == [
        (
            f"torchspan: {path} has reached its limit of 700 bytes. What this process records from now on is not written "
            "to it. A larger limit: TORCHSPAN_FILE_MAX_SIZE=<bytes>."
        )
    ]


def test_after_its_limit_a_smaller_batch_is_not_written_either(tmp_path):
    exporter = FileSpanExporter(tmp_path / "trace.jsonl", max_size=700)
    results = [exporter.export(batch) for batch in (spans() * 5, spans())]
    assert results == [SpanExportResult.FAILURE] * 2


def test_a_file_that_cannot_be_written_is_one_warning_and_nothing_is_raised(tmp_path, caplog):
    (tmp_path / "file").touch()
    exporter = FileSpanExporter(tmp_path / "file" / "trace.jsonl")

    assert [exporter.export(spans()) for _ in range(3)] == [SpanExportResult.FAILURE] * 3
    assert caplog.record_tuples == [
        (
            "torchspan.sdk",
            logging.WARNING,
            (
                f"torchspan: cannot write {tmp_path}/file/trace.jsonl: {tmp_path}/file is not a folder. Spans are lost "
                "until it can be written. Name a file in a folder where you may write: TORCHSPAN_FILE=<file>."
            ),
        )
    ]


def test_a_file_that_can_be_written_later_is_written_later(tmp_path):
    blocker = tmp_path / "folder"
    blocker.touch()
    exporter = FileSpanExporter(blocker / "trace.jsonl")
    exporter.export(spans(1, "lost"))
    blocker.unlink()
    exporter.export(spans(1, "kept"))

    assert names(blocker / "trace.jsonl") == [["kept"]]


def test_a_full_disk_is_a_warning(tmp_path, monkeypatch, caplog):
    def full(_descriptor, _data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(system, "write", full)
    assert FileSpanExporter(tmp_path / "trace.jsonl").export(spans()) is SpanExportResult.FAILURE
    assert "No space left on device" in caplog.messages[0]


def test_a_line_that_a_full_disk_cut_off_is_taken_back(tmp_path, monkeypatch):
    path = tmp_path / "trace.jsonl"
    exporter = FileSpanExporter(path)
    exporter.export(spans(1, "whole"))
    real = os.write

    def half_then_full(descriptor, data):
        if len(data) < 100:
            raise OSError(28, "No space left on device")
        return real(descriptor, data[: len(data) - 50])

    with monkeypatch.context() as patch:
        patch.setattr(system, "write", half_then_full)
        assert exporter.export(spans(1, "cut")) is SpanExportResult.FAILURE
    assert names(path) == [["whole"]]


def test_a_deleted_file_is_made_again(tmp_path):
    path = tmp_path / "trace.jsonl"
    exporter = FileSpanExporter(path)
    exporter.export(spans(1, "a"))
    path.unlink()
    exporter.export(spans(1, "b"))

    assert names(path) == [["b"]]


@pytest.mark.parametrize("content", ["print(1)\n", '{"hidden_size": 4}\n', "\x1f\x8b\x08"])
def test_nothing_is_appended_to_a_file_that_contains_something_else_than_traces(tmp_path, caplog, content):
    path = tmp_path / "app.py"
    path.write_text(content)
    exporter = FileSpanExporter(path)

    assert [exporter.export(spans()) for _ in range(2)] == [SpanExportResult.FAILURE] * 2
    assert path.read_text() == content
    (message,) = caplog.messages
    assert message.startswith(
        f"torchspan: cannot write {path}: it is not a file of traces, and torchspan appends to no other"
    )


def test_a_name_with_a_nul_character_is_the_reason_that_the_file_cannot_be_written(tmp_path, caplog):
    exporter = FileSpanExporter(f"{tmp_path}/a\0b.jsonl")

    assert exporter.export(spans()) is SpanExportResult.FAILURE
    (message,) = caplog.messages
    reason = "open: embedded null character in path" if sys.version_info >= (3, 13) else "embedded null byte"
    assert message.startswith(
        f"torchspan: cannot write {tmp_path}/a\\x00b.jsonl: it is not a name that a file can have ({reason}). "
    )


def test_what_another_program_appends_while_a_write_fails_is_not_taken_back(tmp_path, monkeypatch):
    """The line that the full disk cut off was removed together with all that came after it."""
    path = tmp_path / "trace.jsonl"
    exporter = FileSpanExporter(path)
    exporter.export(spans(1, "before"))
    write = os.write

    def cut_off(descriptor, data):
        if len(data) < 100:
            with path.open("ab") as other:
                other.write(b'\n{"resourceSpans":[]}\n')
            raise OSError(28, "No space left on device")
        return write(descriptor, data[:-50])

    monkeypatch.setattr(system, "write", cut_off)
    assert exporter.export(spans(1, "cut off")) is SpanExportResult.FAILURE
    assert path.read_text().endswith('\n{"resourceSpans":[]}\n')


def test_after_shutdown_nothing_is_written(tmp_path):
    exporter = FileSpanExporter(tmp_path / "trace.jsonl")
    exporter.shutdown()

    assert exporter.export(spans()) is SpanExportResult.FAILURE
    assert exporter.force_flush()
    assert list(tmp_path.iterdir()) == []


WRITER = """
import sys
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from torchspan.sdk import FileSpanExporter
from torchspan.output.sdk import _span_file
provider = TracerProvider(shutdown_on_exit=False)
provider.add_span_processor(SimpleSpanProcessor(FileSpanExporter(sys.argv[1])))
for _ in range(200):
    provider.get_tracer("t").start_span(sys.argv[2], attributes={"text": "x" * 9000}).end()
"""


@pytest.mark.fault("files", "two processes write it")
def test_two_processes_writing_one_file_leave_whole_lines(tmp_path):
    path = tmp_path / "trace.jsonl"
    writers = [subprocess.Popen([sys.executable, "-W", "error", "-c", WRITER, path, name]) for name in ("a", "b")]

    assert [writer.wait(timeout=60) for writer in writers] == [0, 0]
    assert sorted(name for line in names(path) for name in line) == ["a"] * 200 + ["b"] * 200


def test_threads_writing_one_file_leave_whole_lines(tmp_path):
    path = tmp_path / "trace.jsonl"
    exporter = FileSpanExporter(path)
    threads = [threading.Thread(target=lambda: [exporter.export(spans(3)) for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert names(path) == [["work"] * 3] * 200


def interrupted(monkeypatch, handler):
    """Has `handler` run once, in the middle of the next write, as a signal handler does."""
    write = os.write

    def written(descriptor, data):
        monkeypatch.setattr(system, "write", write)
        done = write(descriptor, data)
        handler()
        return done

    monkeypatch.setattr(system, "write", written)


def on_a_thread(function):
    """Calls it where a deadlock is seen instead of suffered."""
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive(), "it waits for itself"


def test_a_signal_handler_that_shuts_down_in_the_middle_of_a_write_waits_for_nothing(tmp_path, monkeypatch):
    path = tmp_path / "trace.jsonl"
    exporter = FileSpanExporter(path)
    interrupted(monkeypatch, exporter.shutdown)
    on_a_thread(lambda: exporter.export(spans(1, "work")))

    assert names(path) == [["work"]]
    assert exporter._file._descriptor is None
    assert exporter.export(spans(1, "later")) is SpanExportResult.FAILURE


def test_what_a_signal_handler_writes_in_the_middle_of_a_write_comes_after_it(tmp_path, monkeypatch):
    path = tmp_path / "trace.jsonl"
    exporter = FileSpanExporter(path)
    interrupted(monkeypatch, lambda: exporter.export(spans(1, "of the handler")))
    on_a_thread(lambda: exporter.export(spans(1, "work")))

    assert names(path) == [["work"], ["of the handler"]]


def test_what_a_signal_handler_wrote_that_ended_the_program_is_there_after_the_shutdown(tmp_path, monkeypatch):
    path = tmp_path / "trace.jsonl"
    exporter = FileSpanExporter(path)

    def handler():
        exporter.export(spans(1, "of the handler"))
        raise SystemExit

    interrupted(monkeypatch, handler)
    with pytest.raises(SystemExit):
        exporter.export(spans(1, "work"))
    exporter.shutdown()

    assert names(path) == [["work"], ["work", "of the handler"]]  # a reader takes what is there twice once


def test_a_forked_child_writes_a_file_of_its_own_even_while_the_parent_holds_the_lock(tmp_path):
    exporter = FileSpanExporter(f"{tmp_path}/%p.jsonl")
    exporter.export(spans(1, "parent"))
    with exporter._file._lock:
        child = multiprocessing.get_context("fork").Process(target=lambda: exporter.export(spans(1, "child")))
        child.start()
    child.join(30)

    assert child.exitcode == 0
    assert names(tmp_path / f"{os.getpid()}.jsonl") == [["parent"]]
    assert names(tmp_path / f"{child.pid}.jsonl") == [["child"]]


def test_a_forked_child_shares_a_file_without_pid(tmp_path):
    path = tmp_path / "trace.jsonl"
    exporter = FileSpanExporter(path)
    exporter.export(spans(1, "parent"))
    child = multiprocessing.get_context("fork").Process(target=lambda: exporter.export(spans(1, "child")))
    child.start()
    child.join(30)
    exporter.export(spans(1, "parent"))

    assert names(path) == [["parent"], ["child"], ["parent"]]


def test_the_sdk_finds_the_exporter_by_its_name(tmp_path):
    program = "from opentelemetry import trace; trace.get_tracer('t').start_span('by name').end()"
    environ = {
        **os.environ,
        "OTEL_TRACES_EXPORTER": "torchspan_file",
        "OTEL_METRICS_EXPORTER": "none",
        "OTEL_LOGS_EXPORTER": "none",
        "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "*",
        "TORCHSPAN_FILE": str(tmp_path / "found.jsonl"),
    }
    command = [sys.executable, "-c", "from opentelemetry.instrumentation.auto_instrumentation import run; run()"]
    subprocess.run([*command, sys.executable, "-c", program], env=environ, check=True, timeout=60)

    assert names(tmp_path / "found.jsonl") == [["by name"]]


def test_spans_reach_the_file_through_a_provider(tmp_path):
    path = tmp_path / "trace.jsonl"
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(FileSpanExporter(path)))
    with provider.get_tracer("t").start_as_current_span("outer"):
        provider.get_tracer("t").start_span("inner").end()

    assert names(path) == [["inner"], ["outer"]]


def test_placeholders_expand_and_other_percent_signs_stay():
    assert expand("%t-%p-%%p-100%-%x", pid=7, time="T") == "T-7-%p-100%-%x"
    assert expand_time("%t-%p-%%t", "T") == "T-%p-%%t"
    assert expand(escape("50%p%"), pid=7, time="T") == "50%p%"
    assert absolute("/a/%p") == "/a/%p"


def test_the_files_of_a_template_are_those_with_numbers_in_place_of_the_pid(tmp_path):
    for name in ("a-1.jsonl", "a-23.jsonl", "a-x.jsonl", "a-1.jsonl.bak", "%p.jsonl", "[1].jsonl"):
        (tmp_path / name).touch()

    assert written_files(f"{tmp_path}/a-%p.jsonl") == [f"{tmp_path}/a-1.jsonl", f"{tmp_path}/a-23.jsonl"]
    assert written_files(f"{tmp_path}/%%p.jsonl") == [f"{tmp_path}/%p.jsonl"]
    assert written_files(f"{tmp_path}/[%p].jsonl") == [f"{tmp_path}/[1].jsonl"]
    assert written_files(f"{tmp_path}/none.jsonl") == []
