# SPDX-License-Identifier: Apache-2.0
"""Each span is in the file when its `end()` returns, whatever happens to the program."""

import contextlib
import gc
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import traceback

import pytest
from opentelemetry import context as context_api
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Decision, Sampler, SamplingResult
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from support import span_file
from support.child import unmeasured
from torchspan.base.files.opening import system
from torchspan.output.sdk import _file_processor
from torchspan.output.sdk._open_spans import MOST_OPEN
from torchspan.output.sdk._span_file import SpanFile
from torchspan.sdk import RunFileProcessor

ATTRIBUTES = {"torchspan.keep": True, "torch.model.class": "Net"}
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
forks = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")  # from 3.12 on


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.jsonl"


@pytest.fixture
def processor(path):
    processor = RunFileProcessor(path, "0123456789abcdef")
    yield processor
    processor.shutdown()


def provider_with(*processors, **options):
    provider = TracerProvider(shutdown_on_exit=False, **options)
    for each in processors:
        provider.add_span_processor(each)
    return provider


@pytest.fixture
def provider(processor):
    return provider_with(processor)


@pytest.fixture
def user(provider):
    """A tracer of the program's own."""
    return provider.get_tracer("user")


@pytest.fixture
def own(provider):
    """torchspan's tracer."""
    return provider.get_tracer("torchspan")


def names(path):
    return [span.name for span in span_file.read(path)]


def without_progress(path):
    return [span for span in span_file.read(path) if span.name != "torchspan.progress"]


# --- one write at each end ---------------------------------------------------------------------------------------


def test_a_span_is_in_the_file_when_its_end_returns(user, path):
    span = user.start_span("work")
    assert not path.exists()
    span.end()
    assert names(path) == ["work"]


def test_each_span_is_a_line_of_its_own(user, path):
    for name in ("a", "b", "c"):
        user.start_span(name).end()
    assert [(span.line, span.name) for span in span_file.read(path)] == [(0, "a"), (1, "b"), (2, "c")]


def test_every_line_says_which_run_and_which_process_wrote_it(processor, path):
    provider = provider_with(processor, resource=Resource({"service.name": "app", "process.pid": 1}))
    provider.get_tracer("user").start_span("work").end()
    (span,) = span_file.read(path)
    assert span.resource == {
        "service.name": "app",
        "process.pid": os.getpid(),
        "torchspan.run.id": "0123456789abcdef",
    }


def test_other_exporters_of_the_provider_get_what_they_get_without_it(provider, own):
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with own.start_as_current_span("torch_tensorrt.compile", attributes=ATTRIBUTES):
        own.start_span("torch_tensorrt.lower").end()
    lower, whole = exporter.get_finished_spans()
    assert (lower.name, dict(lower.attributes)) == ("torch_tensorrt.lower", {})
    assert (whole.name, dict(whole.attributes)) == ("torch_tensorrt.compile", ATTRIBUTES)
    assert not {"torchspan.run.id", "process.pid"} & set(whole.resource.attributes)


def test_spans_that_the_sampler_refuses_are_not_written(processor, path):
    provider_with(processor, sampler=ALWAYS_OFF).get_tracer("user").start_span("work").end()
    assert not path.exists()


class RecordOnly(Sampler):
    def should_sample(self, parent_context, trace_id, name, *args, **kwargs):
        return SamplingResult(Decision.RECORD_ONLY if name == "unsampled" else Decision.RECORD_AND_SAMPLE)

    def get_description(self):
        return "RecordOnly"


def test_spans_that_record_without_being_sampled_are_neither_written_nor_named(processor, path):
    tracer = provider_with(processor, sampler=RecordOnly()).get_tracer("torchspan")
    with tracer.start_as_current_span("outer"), tracer.start_as_current_span("unsampled"):
        tracer.start_span("inner").end()
    inner, outer = span_file.read(path)
    assert (inner.name, inner.around(), outer.name) == ("inner", ["outer"], "outer")


def test_a_span_that_is_ended_twice_is_written_once(user, path):
    span = user.start_span("work")
    span.end()
    span.end()
    assert names(path) == ["work"]


def test_a_span_that_another_thread_ends_is_written_and_no_longer_open(own, processor, path):
    span = own.start_span("torch_tensorrt.lower")
    thread = threading.Thread(target=span.end)
    thread.start()
    thread.join()
    assert names(path) == ["torch_tensorrt.lower"]
    assert len(processor._open) == 0


def test_sixteen_threads_leave_every_span_on_a_whole_line(own, processor, path):
    def work(number):
        for turn in range(50):
            with own.start_as_current_span(f"{number} outer {turn}"):
                own.start_span(f"{number} inner {turn}").end()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spans = span_file.read(path)
    expected = {
        f"{number} {which} {turn}" for number in range(16) for which in ("inner", "outer") for turn in range(50)
    }
    assert (len(spans), {span.name for span in spans}) == (1600, expected)
    inner = [span for span in spans if "inner" in span.name]
    assert all(span.around() == [span.name.replace("inner", "outer")] for span in inner)
    assert len(processor._open) == 0


@pytest.mark.fault("threads", "a signal handler ends a span while another one is written")
@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="there are no signals")
def test_a_signal_handler_that_ends_a_span_while_another_is_written_does_not_wait_for_itself(user, path, monkeypatch):
    real = os.write

    def interrupted(descriptor, data):
        monkeypatch.undo()
        signal.raise_signal(signal.SIGUSR1)
        return real(descriptor, data)

    before = signal.signal(signal.SIGUSR1, lambda *_: user.start_span("in the handler").end())
    try:
        monkeypatch.setattr(system, "write", interrupted)
        user.start_span("interrupted").end()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert names(path) == ["interrupted", "in the handler"]


@contextlib.contextmanager
def interrupted_at(function, instruction, handler):
    """Has `handler` run once inside the block, before an instruction of the function, as a signal handler may."""
    run = []

    def before_each(frame, event, _):
        if event == "call" and frame.f_code is not function.__code__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            run.append(event)
            if len(run) == instruction:
                handler()
        return before_each

    before = sys.gettrace()
    sys.settrace(before_each)
    try:
        yield run
    finally:
        sys.settrace(before)


def test_a_signal_handler_between_any_two_instructions_of_a_write_loses_and_miscounts_nothing(
    user, own, processor, path, stopped
):
    """It found the list of waiting spans half emptied, and the file that had every span was said to lack some."""
    instruction, expected = 1, []
    while True:
        for _ in range(2):
            own.start_span("torch_tensorrt.execute").end()  # waits
        with interrupted_at(SpanFile.write, instruction, lambda: user.start_span("in the handler").end()) as run:
            user.start_span("work").end()
        expected += ["torch_tensorrt.execute"] * 2 + ["work"] + ["in the handler"] * (len(run) >= instruction)
        if len(run) < instruction:
            break
        instruction += 1
    processor.force_flush()
    assert instruction > 50
    assert (processor.lost, processor.errors, processor.ended) == (0, [], len(expected))
    assert sorted(names(path)) == sorted(expected)


@pytest.mark.fault("interpreter", "Ctrl-C while a span is written")
@pytest.mark.parametrize("is_written", [True, False])
def test_a_span_whose_writing_control_c_interrupts_is_in_the_file_with_the_next(user, path, monkeypatch, is_written):
    real = os.write

    def interrupted(descriptor, data):
        monkeypatch.undo()
        if is_written:
            real(descriptor, data)
        raise KeyboardInterrupt

    monkeypatch.setattr(system, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        user.start_span("interrupted").end()
    user.start_span("next").end()
    assert names(path) == ["interrupted"] * is_written + ["interrupted", "next"]


@pytest.mark.fault("clock", "set back while the file is written")
def test_a_clock_that_is_set_back_changes_nothing(user, path, monkeypatch):
    monkeypatch.setattr("opentelemetry.sdk.trace.time_ns", lambda: 2_000_000_000)
    with user.start_as_current_span("outer"):
        monkeypatch.setattr("opentelemetry.sdk.trace.time_ns", lambda: 1_000_000_000)
        user.start_span("inner").end()
    assert [(span.name, span.start_ns, span.end_ns) for span in span_file.read(path)] == [
        ("inner", 1_000_000_000, 1_000_000_000),
        ("outer", 2_000_000_000, 1_000_000_000),
    ]


@pytest.mark.fault("the SDK", "spans are of another SDK", lost="1 span", counted="the last line of torchspan run")
def test_a_span_of_another_kind_of_sdk_raises_nothing_and_is_counted(processor, caplog):
    processor.on_start(object())
    processor.on_end(object())
    assert processor.errors == [
        "the start of a span could not be written (AttributeError)",
        "a span could not be written (AttributeError); 1 lost",
    ]
    assert len(caplog.messages) == 1


# --- runs of engines may be written later ------------------------------------------------------------------------


@pytest.fixture
def stopped(monkeypatch):
    """The timer's sleeps, none of which ends before the test lets it."""
    sleeps, may_end = [], threading.Event()

    def sleep(seconds):
        sleeps.append(seconds)
        assert may_end.wait(60)

    monkeypatch.setattr(_file_processor, "sleep", sleep)
    yield sleeps
    may_end.set()


def eventually(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.parametrize("name", ["torch_tensorrt.execute", "tensorrt.execute"])
def test_runs_are_written_within_a_tenth_of_a_second_and_together(own, path, monkeypatch, name):
    sleeps, may_end = [], threading.Event()
    monkeypatch.setattr(_file_processor, "sleep", lambda seconds: (sleeps.append(seconds), may_end.wait(60)))
    own.start_span(name).end()
    own.start_span(name).end()
    eventually(lambda: sleeps)
    assert (sleeps, path.exists()) == ([0.1], False)
    may_end.set()
    eventually(path.exists)
    eventually(lambda: path.read_bytes().endswith(b"\n"))
    assert [(span.line, span.name) for span in span_file.read(path)] == [(0, name), (0, name)]


def test_after_that_nothing_runs_and_the_next_runs_get_a_thread_of_their_own(own, processor, path):
    before = threading.active_count()
    own.start_span("torch_tensorrt.execute").end()
    eventually(path.exists)
    own.start_span("torch_tensorrt.execute").end()
    eventually(lambda: path.read_bytes().count(b"\n") == 2)
    eventually(lambda: not processor._is_timed)
    eventually(lambda: threading.active_count() == before)


def test_runs_that_wait_are_written_with_the_next_span_and_before_it(own, user, path, stopped):
    own.start_span("torch_tensorrt.execute").end()
    user.start_span("work").end()
    assert names(path) == ["torch_tensorrt.execute", "work"]


def test_a_flush_that_fails_raises_nothing_and_the_next_span_writes_what_waits(
    own, processor, path, stopped, caplog, monkeypatch
):
    own.start_span("torch_tensorrt.execute").end()
    with monkeypatch.context() as patch:
        patch.setattr(processor, "_write_all", None)
        assert processor.force_flush() is False
    assert [message.partition(" Cause")[0] for message in caplog.messages] == [
        "The file of torchspan run could not be flushed."
    ]
    own.start_span("work").end()
    assert names(path) == ["torch_tensorrt.execute", "work"]


@pytest.mark.parametrize("method", ["force_flush", "shutdown"])
def test_runs_that_wait_are_written_at_a_flush_and_at_the_shutdown(own, provider, path, stopped, method):
    own.start_span("torch_tensorrt.execute").end()
    getattr(provider, method)()
    assert names(path) == ["torch_tensorrt.execute"]


def test_no_more_than_five_hundred_runs_wait(own, path, stopped):
    for _ in range(501):
        own.start_span("torch_tensorrt.execute").end()
    assert len(names(path)) == 501


@pytest.mark.fault("threads", "none can be started for the file")
def test_where_no_thread_can_be_started_runs_are_written_at_once(own, path, monkeypatch):
    def no_thread(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_file_processor, "start_new_thread", no_thread)
    own.start_span("torch_tensorrt.execute").end()
    assert names(path) == ["torch_tensorrt.execute"]


def test_the_first_run_of_an_engine_is_written_at_once(own, path, stopped):
    own.start_span("torch_tensorrt.execute", attributes={"torch_tensorrt.execute.first": True}).end()
    assert names(path) == ["torchspan.progress", "torch_tensorrt.execute"]


def test_a_span_of_the_user_with_the_name_of_a_run_is_written_at_once(user, path, stopped):
    user.start_span("torch_tensorrt.execute").end()
    assert names(path) == ["torch_tensorrt.execute"]


def test_an_observed_function_is_written_at_once(own, path, stopped):
    own.start_span("torchspan.observed load").end()
    assert names(path) == ["torchspan.observed load"]


# --- open ancestors ----------------------------------------------------------------------------------------------


def test_a_span_of_torchspan_names_the_open_spans_around_it_innermost_first(own, user, path):
    with user.start_as_current_span("request", start_time=1) as request:
        with own.start_as_current_span("torch_tensorrt.compile", start_time=2) as whole:
            own.start_span("torch_tensorrt.lower", start_time=3).end()
    lower, compilation, of_the_user = span_file.read(path)
    ids = {span: f"{span.get_span_context().span_id:016x}" for span in (request, whole)}
    assert lower.ancestors() == [("torch_tensorrt.compile", ids[whole], 2), ("request", ids[request], 1)]
    assert compilation.ancestors() == [("request", ids[request], 1)]
    assert of_the_user.name == "request"


def test_spans_of_other_scopes_and_roots_name_nothing(own, user, path):
    with own.start_as_current_span("torch_tensorrt.compile"):
        user.start_span("inner").end()
    keys = {key for span in span_file.read(path) for key in span.attributes}
    assert [key for key in keys if "ancestors" in key] == []


def test_an_ancestor_that_has_ended_is_left_out(own, user, path):
    with user.start_as_current_span("outer"):
        middle = user.start_span("middle")
        with trace.use_span(middle):
            inner = own.start_span("inner")
        middle.end()
        inner.end()
    inner = span_file.read(path)[1]
    assert (inner.name, inner.around()) == ("inner", ["outer"])


def test_a_parent_that_only_its_ids_name_is_known(own, path):
    outer = own.start_span("outer")
    context = trace.set_span_in_context(NonRecordingSpan(outer.get_span_context()))
    own.start_span("inner", context).end()
    assert span_file.read(path)[0].around() == ["outer"]


@pytest.mark.parametrize("is_remote", [True, False])
def test_below_a_parent_that_is_not_known_the_chain_is_shorter(own, path, is_remote):
    above = SpanContext(1, 2, is_remote=is_remote, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    with own.start_as_current_span("outer", trace.set_span_in_context(NonRecordingSpan(above))):
        own.start_span("inner").end()
    inner, outer = span_file.read(path)
    assert (inner.around(), outer.around(), outer.parent_id) == (["outer"], [], "0000000000000002")


def test_spans_that_were_open_when_it_was_added_are_named_and_written(processor, path):
    provider = provider_with()
    user, own = provider.get_tracer("user"), provider.get_tracer("torchspan")
    with user.start_as_current_span("first"), user.start_as_current_span("second", start_time=7):
        provider.add_span_processor(processor)
        with own.start_as_current_span("third"):
            own.start_span("fourth").end()
    fourth, third, second, first = span_file.read(path)
    assert fourth.around() == ["third", "second"]
    assert third.ancestors() == [("second", second.span_id, 7)]
    assert (second.name, first.name) == ("second", "first")


def test_a_span_that_was_open_when_it_was_added_is_named_as_long_as_it_is(processor, path):
    provider = provider_with()
    user, own = provider.get_tracer("user"), provider.get_tracer("torchspan")
    outer = user.start_span("request")
    provider.add_span_processor(processor)
    with trace.use_span(outer), own.start_as_current_span("torch_tensorrt.compile"):
        own.start_span("before").end()
        outer.end()
        own.start_span("after").end()
    before, _outer, after, _whole = span_file.read(path)
    assert before.around() == ["torch_tensorrt.compile", "request"]
    assert after.around() == ["torch_tensorrt.compile"]


def test_a_span_whose_end_never_comes_here_is_not_named(own, path):
    elsewhere = provider_with().get_tracer("user")
    with elsewhere.start_as_current_span("request"), own.start_as_current_span("torch_tensorrt.compile"):
        own.start_span("torch_tensorrt.lower").end()
    assert [span.around() for span in span_file.read(path)] == [["torch_tensorrt.compile"], []]


def test_a_span_that_is_renamed_while_it_is_open_has_the_name_of_then(own, user, path):
    with user.start_as_current_span("GET") as request:
        request.update_name("GET /items/{id}")
        own.start_span("torch_tensorrt.lower").end()
    assert span_file.read(path)[0].around() == ["GET /items/{id}"]


def test_of_a_deep_chain_the_64_innermost_are_named(own, path):
    with contextlib.ExitStack() as stack:
        for depth in range(100):
            stack.enter_context(own.start_as_current_span(str(depth)))
        own.start_span("innermost").end()
        assert span_file.read(path)[0].around() == [str(depth) for depth in range(99, 35, -1)]


def test_spans_that_never_end_are_forgotten_oldest_first(own, processor, path):
    kept = [own.start_span(str(number)) for number in range(MOST_OPEN + 15)]
    assert len(processor._open) == MOST_OPEN
    own.start_span("below", trace.set_span_in_context(NonRecordingSpan(kept[-1].get_span_context()))).end()
    own.start_span("below", trace.set_span_in_context(NonRecordingSpan(kept[0].get_span_context()))).end()
    assert [span.around() for span in span_file.read(path)] == [[str(MOST_OPEN + 14)], []]


def test_spans_that_nothing_else_holds_are_not_kept_alive(user, processor):
    user.start_span("never ended")
    gc.collect()
    (remembered,) = processor._open._open.values()
    assert (remembered._span(), remembered.name) == (None, "never ended")


def test_a_chain_in_which_each_span_begins_the_next_and_ends_holds_none_of_them(own, processor):
    span = own.start_span("0")
    for number in range(1, 1000):
        following = own.start_span(str(number), trace.set_span_in_context(span))
        span.end()
        span = following
    (last,) = processor._open._open.values()
    length = 0
    while last is not None:
        last, length = last.parent, length + 1
    assert length <= 2
    span.end()


@pytest.mark.fault("the SDK", "two spans have the same ids")
def test_two_spans_with_the_same_ids_harm_nothing(processor, path):
    class Fixed:
        def generate_span_id(self):
            return 1

        def generate_trace_id(self):
            return 2

        def is_trace_id_random(self):
            return True

    own = provider_with(processor, id_generator=Fixed()).get_tracer("torchspan")
    with own.start_as_current_span("outer"):
        own.start_span("inner").end()
    assert names(path) == ["inner", "outer"]
    assert len(processor._open) == 0


# --- what is written at the start --------------------------------------------------------------------------------


def test_work_worth_keeping_is_in_the_file_from_its_start_on(own, user, path):
    with user.start_as_current_span("request", start_time=5):
        whole = own.start_span("torch_tensorrt.compile", attributes=ATTRIBUTES, start_time=7)
    written, _request = span_file.read(path)
    whole.end()
    ids = {name: span_id for name, span_id, _ in written.ancestors()}
    own_id = f"{whole.get_span_context().span_id:016x}"
    assert (written.name, written.scope, written.parent_id) == ("torchspan.progress", "torchspan", own_id)
    assert (written.start_ns, written.end_ns) == (7, 7)
    assert written.trace_id == f"{whole.get_span_context().trace_id:032x}"
    assert written.attributes == {
        "torchspan.keep": True,
        "torchspan.progress.work": "torch_tensorrt.compile",
        "torchspan.progress.elapsed": 0.0,
        "torchspan.progress.running": "torch_tensorrt.compile",
        "torchspan.progress.running_elapsed": 0.0,
        "torchspan.progress.number": 0,
        "torch.model.class": "Net",
        "torchspan.open_ancestors.ids": [own_id, ids["request"]],
        "torchspan.open_ancestors.names": ["torch_tensorrt.compile", "request"],
        "torchspan.open_ancestors.starts": [7, 5],
    }


def test_the_start_of_work_obeys_the_limits_of_the_environment(processor, path, monkeypatch):
    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "2")
    monkeypatch.setenv("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "4")
    tracer = provider_with(processor).get_tracer("torchspan")
    tracer.start_span("torch_tensorrt.compile", attributes={"torch.model.class": "Model", "torchspan.keep": True})
    (written,) = span_file.read(path)
    own = {key: value for key, value in written.attributes.items() if not key.startswith("torchspan.open_ancestors")}
    assert own == {"torchspan.progress.number": 0, "torch.model.class": "Mode"}


def test_the_first_run_of_an_engine_is_in_the_file_from_its_start_on_and_the_others_are_not(own, path):
    own.start_span("torch_tensorrt.execute", attributes={"torch_tensorrt.execute.first": True})
    own.start_span("torch_tensorrt.execute")
    (written,) = span_file.read(path)
    assert written.attributes["torchspan.progress.work"] == "torch_tensorrt.execute"
    assert written.around() == ["torch_tensorrt.execute"]


def test_heartbeats_spans_of_the_user_and_details_are_not_announced(own, user, path):
    own.start_span("torchspan.progress", attributes={"torchspan.keep": True})
    own.start_span("torchspan.observed load")
    user.start_span("mine", attributes={"torchspan.keep": True})
    assert not path.exists()


# --- a program that ends as it likes -----------------------------------------------------------------------------

PROGRAM = """
import os, signal, sys, threading
from opentelemetry.sdk.trace import TracerProvider
from torchspan.sdk import RunFileProcessor

provider = TracerProvider(shutdown_on_exit=False)
provider.add_span_processor(RunFileProcessor(sys.argv[1], "0123456789abcdef"))
own = provider.get_tracer("torchspan")
with own.start_as_current_span("torch_tensorrt.compile", attributes={"torchspan.keep": True}):
    for number in range(20):
        own.start_span(f"ended {number}").end()
    {ending}
"""
ENDINGS = {
    "SIGKILL": "os.kill(os.getpid(), signal.SIGKILL)",
    "os._exit": "os._exit(7)",
    "SIGSEGV": "os.kill(os.getpid(), signal.SIGSEGV)",
    "abort": "os.abort()",
}
STATUSES = {"SIGKILL": -signal.SIGKILL, "os._exit": 7, "SIGSEGV": -signal.SIGSEGV, "abort": -signal.SIGABRT}


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_has_ended_is_in_the_file_however_the_program_ends(path, ending):
    program = PROGRAM.replace("{ending}", ENDINGS[ending])
    done = subprocess.run([sys.executable, "-c", program, path], timeout=60, check=False)
    assert done.returncode == STATUSES[ending]
    begun, *ended = span_file.read(path)
    assert (begun.name, begun.around()) == ("torchspan.progress", ["torch_tensorrt.compile"])
    assert [span.name for span in ended] == [f"ended {number}" for number in range(20)]


def test_a_run_that_waits_when_the_program_ends_is_in_the_file(path):
    ending = "own.start_span('torch_tensorrt.execute').end(); provider.shutdown()"
    program = PROGRAM.replace("{ending}", ending)
    subprocess.run([sys.executable, "-c", program, path], timeout=60, check=True)
    assert "torch_tensorrt.execute" in names(path)


def in_child(act):
    """Runs `act` in a forked child, which must not fail, and returns its process id."""
    pid = os.fork()
    if pid == 0:
        try:
            act()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    assert status == 0
    return pid


@needs_fork
@forks
def test_a_forked_child_writes_a_file_of_its_own_and_knows_the_spans_around_it(tmp_path):
    own = provider_with(RunFileProcessor(f"{tmp_path}/%p.jsonl", "ab")).get_tracer("torchspan")
    with own.start_as_current_span("outer"):
        pid = in_child(lambda: own.start_span("in the child").end())
    (inner,) = span_file.read(tmp_path / f"{pid}.jsonl")
    assert (inner.name, inner.around(), inner.resource["process.pid"]) == ("in the child", ["outer"], pid)
    (outer,) = span_file.read(tmp_path / f"{os.getpid()}.jsonl")
    assert (outer.name, outer.resource["process.pid"]) == ("outer", os.getpid())


@needs_fork
@forks
def test_what_waits_is_written_once_before_a_fork(own, path, stopped):
    own.start_span("torch_tensorrt.execute").end()
    in_child(lambda: own.start_span("in the child").end())
    own.start_span("in the parent").end()
    assert names(path) == ["torch_tensorrt.execute", "in the child", "in the parent"]


def test_a_signal_handler_that_shuts_down_in_the_middle_of_a_write_waits_for_nothing(own, processor, path, monkeypatch):
    write = os.write

    def interrupted(descriptor, data):
        monkeypatch.setattr(system, "write", write)
        done = write(descriptor, data)
        own.start_span("of the handler").end()
        processor.shutdown()
        return done

    monkeypatch.setattr(system, "write", interrupted)
    thread = threading.Thread(target=lambda: own.start_span("work").end(), daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive(), "it waits for itself"
    processor.shutdown()
    assert names(path) == ["work", "of the handler"]


@pytest.mark.fault("processes", "a fork while another thread writes the file")
@needs_fork
@forks
def test_a_child_that_is_forked_while_another_thread_writes_does_not_wait_for_it(own, processor, path):
    holding, may_go = threading.Event(), threading.Event()

    def hold():
        with processor._file._lock:
            holding.set()
            assert may_go.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    assert holding.wait(60)
    in_child(lambda: own.start_span("in the child").end())
    may_go.set()
    thread.join()
    assert names(path) == ["in the child"]


# --- a file that cannot be written -------------------------------------------------------------------------------


WRITES = {"the disk is full": 28, "the quota is used up": 122, "the file system is read-only": 30, "the disk fails": 5}


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(
            number,
            id=what,
            marks=pytest.mark.fault("files", what, lost="3 spans", counted="the last line of torchspan run"),
        )
        for what, number in WRITES.items()
    ],
)
def test_a_write_that_the_system_refuses_is_one_warning_and_every_span_is_counted(path, monkeypatch, caplog, number):
    def refuse(_descriptor, _data):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(system, "write", refuse)
    reported = []
    processor = RunFileProcessor(path, "ab", failed=lambda: reported.append(processor.lost))
    user = provider_with(processor).get_tracer("user")
    for _ in range(3):
        user.start_span("work").end()
    reason = f"{path} cannot be written: {os.strerror(number)}"
    assert caplog.messages == [f"torchspan: {reason}. Spans are missing from the file of torchspan run."]
    assert (processor.errors, processor.lost, processor.ended, reported) == ([f"{reason}; 3 lost"], 3, 3, [1, 2])


@pytest.mark.fault(
    "files",
    "the limit of the process for files, with and without SIGXFSZ",
    lost="the spans beyond",
    counted="the last line of torchspan run",
)
@pytest.mark.parametrize("handler", ["SIG_IGN", "SIG_DFL"])
def test_at_the_limit_of_the_process_the_file_ends_with_a_whole_line(tmp_path, handler):
    """Python ignores SIGXFSZ. A program that has restored its default was killed by the write."""
    pytest.importorskip("resource", reason="there are no limits")
    program = PROGRAM.replace("{ending}", "print(provider._active_span_processor._span_processors[0].lost)")
    limit = f"signal.signal(signal.SIGXFSZ, signal.{handler}); resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))"
    limited = f"import resource, signal\n{limit}\n{program}"
    path = tmp_path / "run.jsonl"
    command = [sys.executable, "-c", limited, path]
    done = subprocess.run(command, env=unmeasured(), capture_output=True, text=True, timeout=60, check=True)
    spans = span_file.read(path)
    assert 0 < len(spans) < 21
    assert int(done.stdout) == 21 - len(spans)
    limit = "this process may write files of at most 4000 bytes (RLIMIT_FSIZE, ulimit -f)"
    assert f"cannot be written: File too large: {limit}. Spans are missing" in done.stderr


@pytest.mark.fault(
    "files", "it is at its largest size", lost="the spans beyond", counted="the last line of torchspan run"
)
def test_at_its_own_limit_it_stops_with_one_warning(path, caplog):
    processor = RunFileProcessor(path, "ab", max_size=1000)
    user = provider_with(processor).get_tracer("user")
    for _ in range(5):
        user.start_span("work").end()
    written = len(names(path))
    assert (written, processor.lost, len(caplog.messages)) == (1, 4, 1)
    assert f"{path} has reached its limit of 1000 bytes (TORCHSPAN_FILE_MAX_SIZE)" in caplog.messages[0]


def test_a_file_that_is_deleted_is_made_again(user, path):
    user.start_span("a").end()
    path.unlink()
    user.start_span("b").end()
    assert names(path) == ["b"]


@pytest.mark.fault("files", "the program closes every descriptor")
def test_a_program_that_closes_every_descriptor_loses_nothing(user, processor, path):
    user.start_span("a").end()
    os.close(processor._file._descriptor.number)
    user.start_span("b").end()
    assert names(path) == ["a", "b"]


def test_a_file_of_the_program_that_got_the_number_of_a_closed_descriptor_is_left_alone(
    user, processor, path, tmp_path
):
    user.start_span("a").end()
    number = processor._file._descriptor.number
    os.close(number)
    with open(tmp_path / "of the program", "w") as file:
        os.dup2(file.fileno(), number)
        user.start_span("b").end()
        processor.shutdown()
        assert os.path.sameopenfile(number, file.fileno())
    os.close(number)
    assert (tmp_path / "of the program").read_text() == ""
    assert names(path) == ["a", "b"]


def test_a_program_without_a_stdout_does_not_print_into_the_file(path):
    program = PROGRAM.replace("{ending}", "os.write(1, b'printed')")
    streams = "import os\nfor number in (0, 1, 2): os.close(number)\n"
    done = subprocess.run([sys.executable, "-c", f"{streams}{program}", path], timeout=60, check=False)
    assert done.returncode != 0, "there is no stdout to write to"
    assert len(span_file.read(path)) == 22


def test_a_log_handler_that_ends_a_span_in_another_thread_is_not_a_deadlock(tmp_path, caplog):
    (tmp_path / "file").touch()
    user = provider_with(RunFileProcessor(tmp_path / "file" / "run.jsonl", "ab")).get_tracer("user")

    class Handler(logging.Handler):
        def emit(self, record):
            thread = threading.Thread(target=lambda: user.start_span("logged").end())
            thread.start()
            thread.join(60)
            ended.append(not thread.is_alive())

    ended, handler = [], Handler()
    logging.getLogger("torchspan.sdk").addHandler(handler)
    try:
        user.start_span("work").end()
    finally:
        logging.getLogger("torchspan.sdk").removeHandler(handler)
    assert ended == [True]


def test_after_the_shutdown_of_one_provider_another_continues(processor, path):
    first, second = provider_with(processor), provider_with(processor)
    first.shutdown()
    second.get_tracer("user").start_span("work").end()
    assert names(path) == ["work"]


def test_suppressed_work_that_is_recorded_all_the_same_is_written(user, path):
    token = context_api.attach(context_api.set_value("suppress_instrumentation", True))
    user.start_span("work").end()
    context_api.detach(token)
    assert names(path) == ["work"]


def test_a_line_is_what_readers_of_otlp_json_take(user, path):
    user.start_span("\udce9", attributes={"seed": 2**64 - 1, "bad": "\ud800"}).end()
    (line,) = path.read_text(encoding="ascii").splitlines()
    (span,) = json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert span["name"] == "?"
    assert span["attributes"] == [
        {"key": "seed", "value": {"stringValue": "18446744073709551615"}},
        {"key": "bad", "value": {"stringValue": "?"}},
    ]
