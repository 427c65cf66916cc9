# SPDX-License-Identifier: Apache-2.0
"""How a started process knows that its parent's span is over, and what happens where it cannot, or cannot export."""

import contextlib
import functools
import gc
import multiprocessing.spawn
import os
import sys
import threading

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import Span, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from support import work
from support.no_ends import close_what_is_left
from support.receiver import Receiver
from support.work import span_id
from torchspan import TorchspanInstrumentor
from torchspan.base.context.span_ends import SpanEnds
from torchspan.hooks.propagation import _processes
from torchspan.hooks.propagation._processes import Liveness, LivenessTable

FORK = multiprocessing.get_context("fork")


@pytest.fixture(scope="module", autouse=True)
def nothing_is_watched():
    close_what_is_left()


@pytest.fixture
def table():
    ends = SpanEnds()
    yield LivenessTable(ends)
    ends.close()


def run(process):
    process.start()
    process.join(120)
    return process.exitcode


def test_it_ends_with_its_span_and_with_no_other(table, tracer):
    first, second = tracer.start_span("first"), tracer.start_span("second")
    one, other = table.of(first), table.of(second)
    assert table.of(first) is one
    assert (one.is_over(), other.is_over()) == (False, False)
    first.end()
    assert (one.is_over(), other.is_over()) == (True, False)
    second.end()


def test_a_copy_of_the_span_that_ends_in_a_fork_ends_nothing(table, tracer):
    span = tracer.start_span("request")
    liveness = table.of(span)
    assert run(FORK.Process(target=span.end)) == 0
    assert not liveness.is_over()
    span.end()


def test_a_span_that_is_released_without_an_end_is_over(table, tracer):
    class Seen(Liveness):
        ends = 0

        def end(self):
            super().end()
            Seen.ends += 1

    span = tracer.start_span("request")
    table._of[span] = Seen.new()
    del span
    gc.collect()
    assert Seen.ends == 1


def test_the_span_class_is_restored(tracer):
    before, ends = vars(Span)["end"], SpanEnds()
    LivenessTable(ends).of(tracer.start_span("request"))
    assert vars(Span)["end"] is not before
    ends.close()
    assert vars(Span)["end"] is before


def files():
    """The open ones of this process. Other threads may open and close sockets meanwhile."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # closed by now
            found.add((number, os.readlink(f"/proc/self/fd/{number}")))
    return {(number, target) for number, target in found if target.startswith("/memfd:torchspan")}


def test_files_are_closed_when_the_span_is_over(table, tracer):
    before = files()
    span = tracer.start_span("request")
    table.of(span)
    assert files() > before
    span.end()
    gc.collect()
    assert files() == before


def test_files_of_the_program_that_got_the_number_of_its_own_are_neither_written_nor_closed(table, tracer, tmp_path):
    before = files()
    span = tracer.start_span("request")
    liveness = table.of(span)
    with open(tmp_path / "of the program", "w") as file:
        numbers = [int(number) for number, _ in files() - before]
        for number in numbers:
            os.dup2(file.fileno(), number)
        assert not liveness.is_over()
        span.end()
        del liveness
        gc.collect()
        assert [os.path.sameopenfile(number, file.fileno()) for number in numbers] == [True]
        for number in numbers:
            os.close(number)
    assert (tmp_path / "of the program").read_text() == ""


def _is_over(liveness):
    return liveness.is_over()


def test_the_end_of_a_spawned_process_is_not_the_end_of_the_span(table, tracer):
    span = tracer.start_span("request")
    liveness = table.of(span)
    assert run(multiprocessing.get_context("spawn").Process(target=_is_over, args=(liveness,))) == 0
    assert not liveness.is_over()
    span.end()


def test_pickled_outside_of_a_start_it_is_left_behind(table, tracer):
    span = tracer.start_span("request")
    restore, arguments = table.of(span).__reduce__()
    assert restore(*arguments) is None
    span.end()


@pytest.mark.fault("processes", "no room for the byte that tells a child of its parent's end")
def test_without_room_for_it_the_process_has_its_parent_all_the_same(
    instrument, tracer, both, parents, monkeypatch, caplog
):
    def refuse(_name):
        raise OSError("Too many open files")

    instrument()
    monkeypatch.setattr(os, "memfd_create", refuse)
    with tracer.start_as_current_span("request") as request:
        assert run(FORK.Process(target=both, args=("work",))) == 0
    assert parents("work") == (span_id(request),) * 2
    assert len(caplog.records) == 1


@pytest.mark.slow
def test_a_child_that_cannot_export_ends_all_the_same():
    with Receiver(answers=False) as silent:
        provider = TracerProvider(shutdown_on_exit=False)
        exporter = OTLPSpanExporter(f"{silent.endpoint}/v1/traces", timeout=600)
        provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=3_600_000))
        instrumentor = TorchspanInstrumentor()
        instrumentor.instrument(tracer_provider=provider)
        try:
            assert run(FORK.Process(target=functools.partial(work.both, "work", provider))) == 0
        finally:
            instrumentor.uninstrument()
        assert silent.requests == 1


def test_for_another_interpreter_nothing_is_put_into_the_process(monkeypatch):
    assert _processes._same_interpreter()
    multiprocessing.spawn.set_executable("/usr/bin/another-python")
    try:
        assert not _processes._same_interpreter()
    finally:
        multiprocessing.spawn.set_executable(sys.executable)
    assert _processes._same_interpreter()


def test_of_two_threads_that_start_processes_in_one_span_both_get_its_file(table, tracer, monkeypatch):
    both_make = threading.Barrier(2)
    original = Liveness.new

    def new():
        with contextlib.suppress(threading.BrokenBarrierError):
            both_make.wait(1)
        return original()

    monkeypatch.setattr(Liveness, "new", new)
    span, received = tracer.start_span("request"), []
    threads = [threading.Thread(target=lambda: received.append(table.of(span))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    span.end()
    assert [liveness.is_over() for liveness in received] == [True, True]
