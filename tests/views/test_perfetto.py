# SPDX-License-Identifier: Apache-2.0
"""Traces as files for Perfetto, read with the messages of Perfetto's own package."""

import json
import random
import subprocess
import sys

import pytest
import torch

from support.perfetto_file import PerfettoFile
from support.recording import Recording
from support.run_recording import START_NS, at
from torchspan import traces
from torchspan.reading.answers.drawing import Drawing
from torchspan.reading.views._perfetto import PERFETTO_MARK, perfetto
from torchspan.traces import Link, Span, SpanEvent, UnfinishedSpan
from torchspan.words import semconv as s

TRACE = "0" * 31 + "1"
APP = {"service.name": "app.py", "host.name": "here", "process.pid": 7}
ZERO_NS = START_NS - START_NS % 7_889_238_000_000_000


def span(number, name, start_ms, end_ms, attributes=None, *, parent="", kind=Span, **options):
    """A span in milliseconds since START_NS; its id and that of the span above are numbers."""
    ids = (TRACE, f"{number:016x}", f"{parent:016x}" if parent else "")
    options = {"scope": "app", "resource": APP, **options}
    return kind(*ids, name, at(start_ms), at(end_ms), attributes or {}, **options)


def written(*spans):
    return b"".join(perfetto(Drawing.of(spans)))


def read(*spans):
    return PerfettoFile(written(*spans))


def said(track):
    """What is on a track, in words, with times in milliseconds since START_NS."""
    return [f"{event.kind} {event.name}".rstrip() + f" {ms(event):g}" for event in track.events]


def ms(event):
    return (event.time_ns + ZERO_NS - START_NS) / 1e6


# --- tracks -----------------------------------------------------------------------------------------------------------
def test_a_process_is_a_group_of_tracks_and_each_of_its_threads_a_track():
    file = read(span(1, "main", 0, 9), span(2, "job", 1, 8, {"thread.id": 50, "thread.name": "pool-1"}))
    assert [(track.name, track.above) for track in file.tracks] == [
        ("app.py", None),
        ("main thread", "app.py"),
        ("pool-1", "app.py"),
    ]
    assert file.tracks[0].descriptor.process.pid == 7


def test_a_span_begins_and_ends_around_the_spans_below_it():
    file = read(span(1, "main", 0, 9), span(2, "first", 1, 4, parent=1), span(3, "second", 4, 9, parent=1))
    assert said(file.track("main thread")) == [
        "begin main 0",
        "begin first 1",
        "end 4",
        "begin second 4",
        "end 9",
        "end 9",
    ]


def test_spans_that_overlap_are_on_further_tracks_of_their_thread():
    file = read(span(1, "main", 0, 9), span(2, "left", 1, 6, parent=1), span(3, "right", 5, 8, parent=1))
    assert {track.name: said(track) for track in file.tracks} == {
        "app.py": [],
        "main thread": ["begin main 0", "begin left 1", "end 6", "end 9"],
        "main thread (2)": ["begin right 5", "end 8"],
    }


def test_threads_of_one_name_have_tracks_that_perfetto_does_not_merge():
    pool = {"thread.name": "worker"}
    file = read(span(1, "a", 0, 9, {**pool, "thread.id": 1}), span(2, "b", 1, 8, {**pool, "thread.id": 2}))
    workers = [track.descriptor for track in file.tracks if track.name == "worker"]
    assert [track.sibling_merge_behavior for track in workers] == [2, 2]  # SIBLING_MERGE_BEHAVIOR_NONE


def test_processes_of_two_hosts_that_have_one_pid_stay_apart():
    file = read(span(1, "a", 0, 9), span(2, "b", 1, 8, resource={**APP, "host.name": "there"}))
    here, there = (track.descriptor for track in file.tracks if track.above is None)
    assert (here.process.pid, there.HasField("process"), there.name) == (7, False, "app.py 7")


@pytest.mark.parametrize("pid", [0, -1, 2**31, 2**63 - 1, "7"])
def test_a_pid_that_no_process_can_have_is_part_of_the_name_only(pid):
    file = read(span(1, "a", 0, 9, resource={**APP, "process.pid": pid}))
    assert not file.tracks[0].descriptor.HasField("process")


def test_two_files_have_different_tracks_so_that_they_can_be_opened_together():
    spans = [span(1, "a", 0, 9)], [Span("f" * 32, "1" * 16, "", "a", at(0), at(9), {})]
    first, second = ({track.descriptor.uuid for track in read(*members).tracks} for members in spans)
    assert not first & second


# --- what a slice says ------------------------------------------------------------------------------------------------
def test_a_slice_has_the_name_the_scope_the_ids_and_the_attributes_of_its_span():
    name = "torch.compile_frame"
    frame = span(2, name, 1, 8, {"code.function.name": "forward"}, parent=1, scope="torchspan")
    event = read(span(1, "main", 0, 9), frame).begin(name)
    assert event.categories == ["torchspan"]
    assert event.facts == {
        "code.function.name": "forward",
        "subject": "forward",
        "otel.scope.name": "torchspan",
        "trace_id": TRACE,
        "span_id": f"{2:016x}",
        "parent_id": f"{1:016x}",
    }


def test_attributes_keep_their_types_and_those_without_a_value_are_left_out():
    values = {
        "text": "té",
        "true": True,
        "false": False,
        "least": -(2**63),
        "most": 2**63 - 1,
        "half": 0.5,
        "list": ["a", 1, None, [2.5]],
        "map": {"x": {"y": "z"}, "none": None},
        "none": None,
    }
    facts = read(span(1, "main", 0, 9, values)).begin("main").facts
    expected = {**values, "list": ["a", 1, [2.5]], "map": {"x": {"y": "z"}}}
    del expected["none"]
    assert {key: facts.get(key) for key in values if key in facts} == expected
    assert [type(facts[key]) for key in ("true", "least", "half")] == [bool, int, float]


def test_an_attribute_cannot_pass_for_the_id_of_its_span():
    assert read(span(1, "main", 0, 9, {"span_id": "f" * 16})).begin("main").facts["span_id"] == f"{1:016x}"


def test_a_span_that_failed_has_its_status_and_the_reason():
    facts = read(span(1, "main", 0, 9, is_error=True, status_message="no memory")).begin("main").facts
    assert (facts["otel.status_code"], facts["otel.status_description"]) == ("ERROR", "no memory")


def test_an_event_is_an_instant_on_the_track_of_its_span_with_its_attributes():
    events = (SpanEvent("cache miss", {"key": "k", "size": 3}, at(4)), SpanEvent("without a time", {}))
    file = read(span(1, "main", 0, 9, events=events))
    assert said(file.track("main thread")) == [
        "begin main 0",
        "instant cache miss 4",
        "instant without a time 0",
        "end 9",
    ]
    assert file.track("main thread").events[1].facts == {"key": "k", "size": 3}


def test_a_span_that_did_not_end_is_a_begin_alone():
    file = read(span(1, "main", 0, 9, kind=UnfinishedSpan), span(2, "done", 1, 4, parent=1))
    assert said(file.track("main thread")) == ["begin main 0", "begin done 1", "end 4"]


# --- links ------------------------------------------------------------------------------------------------------------
def linked(*numbers, trace_id=TRACE):
    return tuple(Link(trace_id, f"{number:016x}", {}) for number in numbers)


def test_a_link_to_another_span_of_the_file_is_a_flow_between_the_two():
    file = read(span(1, "one", 0, 9), span(2, "two", 1, 8), span(3, "batch", 2, 7, links=linked(1, 2)))
    one, two, batch = (file.begin(name).flows for name in ("one", "two", "batch"))
    assert len(one) == len(two) == 1
    assert batch == one + two
    assert one != two


def test_a_link_out_of_the_file_or_to_the_span_itself_is_an_annotation_only():
    links = linked(1, 99) + linked(1, trace_id="e" * 32)
    event = read(span(1, "one", 0, 9, links=links)).begin("one")
    assert event.flows == []
    assert event.facts["links"] == [f"{TRACE}-{1:016x}", f"{TRACE}-{99:016x}", f"{'e' * 32}-{1:016x}"]


# --- counters ---------------------------------------------------------------------------------------------------------
def counted(file, name):
    return [(ms(event), event.value) for event in file.track(name).events]


def test_running_compilations_are_counted_and_what_they_contain_is_not():
    file = read(
        span(1, "torch.compile_frame", 0, 6),
        span(2, "tensorrt.build_engine", 2, 3, parent=1),
        span(3, "torch_tensorrt.compile", 4, 8),
        span(4, "other work", 9, 10),
    )
    assert counted(file, "running compilations") == [(0, 1), (4, 2), (6, 1), (8, 0)]


def test_a_compilation_that_did_not_end_is_counted_as_running_until_the_end():
    file = read(span(1, "torch.compile_frame", 0, 6, kind=UnfinishedSpan))
    assert counted(file, "running compilations") == [(0, 1)]


def test_the_memory_of_a_build_is_a_counter():
    memory = {s.MEMORY_BEFORE: 100, s.MEMORY_PEAK: 900, s.GPU_MEMORY_FREE_BEFORE: 50, s.GPU_MEMORY_FREE_AFTER: 20}
    file = read(span(1, "tensorrt.build_engine", 0, 6, {str(key): value for key, value in memory.items()}))
    assert counted(file, "process memory: before a build, at its end the peak") == [(0, 100), (6, 900)]
    assert counted(file, "free GPU memory") == [(0, 50), (6, 20)]


def test_the_peak_of_the_used_gpu_memory_is_at_the_end_of_the_build():
    memory = {s.GPU_MEMORY_TOTAL: 80, s.GPU_MEMORY_FREE_BEFORE: 50, s.GPU_MEMORY_USED_PEAK: 70}
    file = read(span(1, "tensorrt.build_engine", 0, 6, {str(key): value for key, value in memory.items()}))
    assert counted(file, "used GPU memory: before a build, at its end the peak") == [(0, 30), (6, 70)]


def test_a_process_without_compilations_has_no_counters():
    assert [track.name for track in read(span(1, "main", 0, 9)).tracks] == ["app.py", "main thread"]


# --- the device -------------------------------------------------------------------------------------------------------
def test_the_slice_of_a_run_has_the_time_of_the_device_and_no_instant_if_it_had_finished():
    file = read(span(1, "torch_tensorrt.execute", 0, 6, {str(s.EXECUTE_GPU_DURATION): 0.0045}))
    assert file.begin("torch_tensorrt.execute").facts["device ms"] == 4.5
    assert said(file.track("main thread")) == ["begin torch_tensorrt.execute 0", "end 6"]


@pytest.mark.parametrize("facts", [{s.EXECUTE_GPU_DURATION: 0.012}, {s.GPU_TIME_MISSING: "running"}])
def test_a_device_that_was_still_running_at_the_end_of_the_slice_has_an_instant_there(facts):
    file = read(span(1, "torch_tensorrt.execute", 0, 6, {str(key): value for key, value in facts.items()}))
    assert said(file.track("main thread")) == [
        "begin torch_tensorrt.execute 0",
        "instant launched, still running 6",
        "end 6",
    ]


# --- operators --------------------------------------------------------------------------------------------------------
def operator(number, name, start_ms, end_ms, attributes=None, **options):
    facts = {s.OPERATOR_NAME: name, **(attributes or {})}
    return span(number, f"torch.operator {name}", start_ms, end_ms, facts, scope="torchspan", **options)


def test_operators_are_slices_inside_that_of_their_root_on_its_track():
    run = span(1, "torch_tensorrt.execute", 0, 9, {"thread.id": 50, "thread.name": "pool-1"}, scope="torchspan")
    file = read(operator(3, "aten.addmm", 2, 3, parent=2), operator(2, "aten.linear", 1, 4, parent=1), run)
    assert said(file.track("pool-1")) == [
        "begin torch_tensorrt.execute 0",
        "begin torch.operator aten.linear 1",
        "begin torch.operator aten.addmm 2",
        "end 3",
        "end 4",
        "end 9",
    ]


def test_an_operator_of_another_thread_is_on_the_track_of_that_thread():
    run = span(1, "torch.run_graph", 0, 9, scope="torchspan")
    file = read(run, operator(2, "aten.relu", 1, 4, {"thread.id": 77}, parent=1))
    assert said(file.track("thread 77")) == ["begin torch.operator aten.relu 1", "end 4"]


def test_the_link_of_an_operator_is_a_flow():
    run = span(1, "torch.run_graph", 0, 9, scope="torchspan")
    forward = operator(2, "aten.relu", 1, 4, parent=1)
    file = read(run, forward, operator(3, "ReluBackward0", 5, 6, parent=1, links=linked(2)))
    (flow,) = file.begin("torch.operator ReluBackward0").flows
    assert file.begin("torch.operator aten.relu").flows == [flow]


# --- the file ---------------------------------------------------------------------------------------------------------
def test_every_file_begins_with_the_mark_of_torchspan():
    for content in (written(), written(span(1, "main", 0, 9))):
        assert PERFETTO_MARK.match(content)
        assert b"torchspan" in content[:64]


def test_the_mark_matches_no_other_file_of_perfettos():
    content = written(span(1, "main", 0, 9))
    first = PERFETTO_MARK.match(content).end()
    assert not PERFETTO_MARK.match(content[first:])
    assert not PERFETTO_MARK.match(b"\n" + content)


def test_nothing_drawn_is_a_file_without_tracks():
    assert PerfettoFile(written()).tracks == []


def test_a_text_that_occurs_often_is_written_twice_at_most():
    text = "x" * 1000
    content = written(*(span(number, "main", 0, 9, {"text": text, "more": [text]}) for number in range(1, 100)))
    assert content.count(text.encode()) == 2
    assert len({tuple(event.facts["more"]) for event in PerfettoFile(content).events if event.facts}) == 1


def test_whole_texts_stay_in_the_users_own_file(tmp_path):
    recording = Recording(tmp_path / "trace.jsonl")
    event = ("exception", {f"{s.LOCAL}x": "of the event"})
    recording.span("torch.compile_frame", 0, 9, {f"{s.LOCAL}guards": "secret guard", "kept": "kept"}, events=[event])
    (record,) = traces.read(recording.path).records
    content = written(record)
    assert record.texts
    assert b"kept" in content
    assert b"secret guard" not in content


def test_writing_imports_neither_protobuf_nor_torch_nor_the_sdk():
    program = (
        "import sys; from torchspan.reading.answers.drawing import Drawing; from torchspan.reading.views._perfetto import perfetto; "
        "list(perfetto(Drawing.of([]))); "
        "print({'google.protobuf', 'perfetto', 'torch', 'opentelemetry.sdk'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


# --- the clock --------------------------------------------------------------------------------------------------------
def test_the_clock_is_that_of_the_file_of_torch_profiler(tmp_path):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiled:
        torch.ones(1)
    profiled.export_chrome_trace(str(tmp_path / "profile.json"))
    profile = json.loads((tmp_path / "profile.json").read_text())
    start_ns = profiled.profiler.kineto_results.trace_start_ns()
    file = PerfettoFile(written(Span(TRACE, "1" * 16, "", "main", start_ns, start_ns + 1, {})))
    assert file.base_ns == profile["baseTimeNanoseconds"]
    assert file.begin("main").time_ns == start_ns - profile["baseTimeNanoseconds"]


CLOCKS = [(0, 0), (0, 2**64 - 1), (2**64 - 1, 0), (2**64 - 1, 2**64 - 1), (2**63, 2**63 + 5), (5, START_NS)]


@pytest.mark.parametrize("others", [(), (START_NS, START_NS + 9)], ids=["alone", "with-others"])
def test_times_of_wrong_clocks_are_times_that_perfetto_can_compute_with(others):
    times = [*CLOCKS, others] if others else CLOCKS
    spans = [Span(TRACE, f"{n:016x}", "", "main", *both, {}) for n, both in enumerate(times, 1)]
    file = read(*spans)
    assert 0 <= file.base_ns <= 2**62
    assert len(file.events) == 2 * len(times)
    assert all(0 <= event.time_ns <= 2**62 for event in file.events)


def test_an_event_before_the_clock_began_is_at_its_begin():
    file = read(span(1, "main", 0, 9, events=(SpanEvent("early", {}, 1),)))
    assert [event.time_ns for event in file.events if event.kind == "instant"] == [0]


# --- hostile files ----------------------------------------------------------------------------------------------------
HOSTILE = ("\ud800", "a\u2028b", "nul \0", "\x1b[31m", "x" * 10_000_000, "", "\U0010ffff", "\u202e")


@pytest.mark.parametrize("text", HOSTILE, ids=[ascii(text[:9]) for text in HOSTILE])
def test_any_text_in_any_place_makes_a_file_that_can_be_read(text):
    events = (SpanEvent(text, {text: text}, at(1)),)
    links = (Link(text, text, {text: text}),)
    options = {"scope": text, "status_message": text, "is_error": True, "events": events, "links": links}
    resource = {"service.name": text, "process.pid": text, "host.name": text}
    file = read(span(1, text, 0, 9, {text: text, "in": [{text: [text]}]}, resource=resource, **options))
    assert [event.kind for event in file.events] == ["begin", "instant", "end"]
    assert all(len(event.name) <= 4_096 for event in file.events)


def test_a_chain_of_ten_thousand_spans_is_on_tracks_of_as_many_slices_as_perfetto_can_nest():
    file = read(*(span(n, "main", 0, 9, parent=n - 1) for n in range(1, 10_001)))
    assert [len(track.events) for track in file.tracks if track.events] == [1_000] * 20
    assert len({row for track in file.tracks for row in slices(track)}) == 10_000


def test_spans_with_one_id_are_all_written():
    file = read(span(1, "a", 0, 9), span(1, "b", 1, 8), span(1, "c", 2, 7, parent=1, links=linked(1)))
    assert sorted(event.name for event in file.events if event.kind == "begin") == ["a", "b", "c"]


def slices(track):
    """The slices that Perfetto makes of a track: by time, and in the file's order where times are equal."""
    opened, ended = [], []
    for event in sorted(track.events, key=lambda event: event.time_ns):
        if event.kind == "begin":
            opened.append(event)
        elif event.kind == "end":
            begin = opened.pop()
            ended.append((begin.facts["span_id"], begin.time_ns, event.time_ns))
    assert opened == []
    return ended


@pytest.mark.parametrize("seed", range(20))
def test_the_slices_of_any_tree_have_the_times_of_their_spans(seed):
    dice = random.Random(seed)
    spans = []
    for number in range(1, 60):
        start, parent = dice.randrange(20), dice.randrange(number)
        thread = {"thread.id": 5} if dice.random() < 0.2 else {}
        spans.append(span(number, "work", start, start + dice.choice([0, 0, 1, 3, 20]), thread, parent=parent))
    file = read(*spans)
    expected = {(each.span_id, each.start_ns - ZERO_NS, each.end_ns - ZERO_NS) for each in spans}
    assert {row for track in file.tracks for row in slices(track)} == expected
