# SPDX-License-Identifier: Apache-2.0
"""Files for Perfetto in Perfetto itself: its UI in Chromium, and its trace processor's answers to SQL."""

import io
import itertools
import json
import subprocess
import sys
import zipfile
from dataclasses import dataclass

import pytest

from support.child import unmeasured
from support.perfetto_ui import PerfettoUI
from support.run_recording import START_NS, RunRecording, as_process
from torchspan import traces
from torchspan.reading.answers.drawing import Drawing
from torchspan.reading.views._perfetto import perfetto
from torchspan.reading.views._timeline import whole_traces
from torchspan.traces import Link, Span, SpanEvent, UnfinishedSpan

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.slow, pytest.mark.once("Perfetto shows the file")]

TRACE = "0" * 31 + "1"
PROFILED = """
import torch
from torch.profiler import profile, record_function


def scaled(x):
    return torch.relu(x) * 2


compiled = torch.compile(scaled, backend="aot_eager")
with profile() as profiled:
    with record_function("first call"):
        compiled(torch.randn(8, 8))
    with record_function("second call"):
        compiled(torch.randn(4, 8))
profiled.export_chrome_trace("profile.json")
"""


@pytest.fixture(scope="module")
def ui():
    with PerfettoUI() as ui:
        yield ui


@dataclass
class Shown:
    """A file of traces, and Perfetto with what was written of it."""

    ui: PerfettoUI
    drawing: Drawing

    def nodes(self):
        return [node for trace in whole_traces(self.drawing) for node in trace.nodes]


def content(drawing):
    return b"".join(perfetto(drawing))


# --- files ------------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def profiled(tmp_path_factory):
    """The folder of a program that compiled a function under torch.profiler and `torchspan run`."""
    folder = tmp_path_factory.mktemp("profiled")
    (folder / "train.py").write_text(PROFILED)
    command = [sys.executable, "-m", "torchspan", "run", "--output", "compile.jsonl", "--", sys.executable, "train.py"]
    subprocess.run(command, cwd=folder, env=unmeasured(), capture_output=True, timeout=240, check=True)
    return folder


def real(folder):
    return traces.read(folder / "compile.jsonl").records


def simple(number, start, end, parent=0, **options):
    ids = (TRACE, f"{number:016x}", f"{parent:016x}" if parent else "")
    kind = options.pop("kind", Span)
    return kind(*ids, f"work {number}", START_NS + start, START_NS + end, options.pop("attributes", {}), **options)


def overlapping():
    """Siblings at once, children that outlast their parents, spans without a duration, and two threads of one name."""
    thread = {"thread.name": "worker"}
    return [
        simple(1, 0, 100),
        simple(2, 10, 60, 1),
        simple(3, 50, 90, 1),
        simple(4, 90, 130, 1),
        simple(5, 20, 20, 2),
        simple(6, 20, 60, 2),
        simple(7, 60, 60, 2),
        simple(8, 60, 70, 2),
        simple(9, 0, 50, attributes={**thread, "thread.id": 1}),
        simple(10, 20, 80, attributes={**thread, "thread.id": 2}),
    ]


def linked():
    """A batch that is linked to the requests before it and after it, one of them twice, and to a span that does not exist."""
    links = [Link(TRACE, f"{number:016x}", {}) for number in (1, 1, 2, 4, 99)]
    return [simple(1, 0, 50), simple(2, 10, 60), simple(3, 20, 40, links=tuple(links)), simple(4, 30, 70)]


def hostile():
    """Texts, ids and times that no program has."""
    texts = ("\ud800", "a\u2028b", "nul \0", "\x1b[31m", "x" * 10_000_000, "", "\U0010ffff", "'); DROP TABLE slice; --")
    spans = []
    for number, text in enumerate(texts, 1):
        facts = {text: text, "nested": {text: [text, {}]}, "nan": float("nan"), "list": [], "least": -(2**63)}
        resource = {"service.name": text, "process.pid": 2**40, "host.name": text}
        events = (SpanEvent(text, facts, START_NS + 5), SpanEvent("", {}, 2**64 - 1), SpanEvent("e", {}))
        ids = ("f" * 32, f"{number:016x}", f"{number:016x}")
        spans.append(Span(*ids, text, START_NS, START_NS + 10, facts, events, True, text, text, resource))
    spans += [Span("f" * 32, "1" * 16, "", "double id", START_NS, START_NS + 1, {}) for _ in range(3)]
    return [*spans, Span("f" * 32, "2" * 16, "", "years", START_NS, START_NS + 2**60, {})]


def unfinished(folder):
    """A program that was killed in its second build, and a process of the same pid on another host."""
    run = RunRecording(folder / "run.jsonl")
    main = run.start("main", 0)
    compiled = run.start("torch_tensorrt.compile", 10, parent=main)
    run.span("tensorrt.build_engine", 130, 300, parent=compiled)
    build = run.start("tensorrt.build_engine", 330, parent=compiled)
    run.heartbeat(build, 5330, "tensorrt.build_engine", 5000)
    as_process(folder / "run.jsonl", 77)
    there = {"service.name": "app.py", "host.name": "there", "process.pid": 77}
    return [*traces.read(folder / "run.jsonl").records, simple(1, 0, 100, resource=there)]


def chain():
    """Spans of which each is inside the one before."""
    return [simple(number, number, 10_000 - number, number - 1) for number in range(1, 3_001)]


FILES = ["real", "overlapping", "chain", "linked", "hostile", "unfinished", "empty"]


@pytest.fixture(scope="module", params=FILES)
def shown(request, ui, tmp_path_factory):
    spans = {
        "real": lambda: real(request.getfixturevalue("profiled")),
        "overlapping": overlapping,
        "chain": chain,
        "linked": linked,
        "hostile": hostile,
        "unfinished": lambda: unfinished(tmp_path_factory.mktemp("unfinished")),
        "empty": list,
    }[request.param]()
    drawing = Drawing.of(spans)
    ui.open(file_pftrace=content(drawing))
    return Shown(ui, drawing)


# --- one file ---------------------------------------------------------------------------------------------------------
SLICES = """
SELECT name, dur, extract_arg(arg_set_id, 'debug.span_id'), ts FROM slice
WHERE extract_arg(arg_set_id, 'debug.span_id') IS NOT NULL
"""


def test_each_span_is_a_slice_of_its_name_and_duration(shown):
    spans = [node.span for node in shown.nodes()]
    rows = shown.ui.query(SLICES)
    assert sorted(row[:3] for row in rows) == sorted(
        (span.name, -1 if isinstance(span, UnfinishedSpan) else span.duration_ns, span.span_id) for span in spans
    )
    if spans:
        first_ns = min(span.start_ns for span in spans)
        starts = sorted(ts for *_, ts in rows)
        assert [ts - starts[0] for ts in starts] == sorted(span.start_ns - first_ns for span in spans)


def test_each_slice_is_inside_the_slice_above_it_on_one_track(shown):
    outside = """
    SELECT child.name FROM slice child JOIN slice above ON child.parent_id = above.id
    WHERE child.track_id != above.track_id OR child.ts < above.ts
       OR (above.dur >= 0 AND child.dur >= 0 AND child.ts + child.dur > above.ts + above.dur)
    """
    assert shown.ui.query(outside) == []


def test_a_slice_is_below_the_slice_of_the_span_around_it_or_at_the_top_of_a_track(shown):
    above = """
    SELECT extract_arg(child.arg_set_id, 'debug.span_id'), extract_arg(above.arg_set_id, 'debug.span_id')
    FROM slice child JOIN slice above ON child.parent_id = above.id
    WHERE extract_arg(child.arg_set_id, 'debug.span_id') IS NOT NULL
    """
    expected = {(node.span.span_id, node.parent.span.span_id) for node in shown.nodes() if node.parent is not None}
    assert set(shown.ui.query(above)) <= expected


def test_each_event_is_an_instant(shown):
    instants = shown.ui.query("SELECT name FROM slice WHERE extract_arg(arg_set_id, 'debug.span_id') IS NULL")
    assert sorted(instants) == sorted((event.name,) for node in shown.nodes() for event in node.span.events)


def test_each_link_within_the_file_is_a_flow(shown):
    spans = [node.span for node in shown.nodes()]
    ids = {(span.trace_id, span.span_id) for span in spans}
    links = [link for span in spans for link in span.links if (link.trace_id, link.span_id) in ids]
    assert shown.ui.query("SELECT COUNT(*) FROM flow") == [(len(links),)]


def test_perfetto_finds_no_error_and_asks_nothing(shown):
    assert shown.ui.errors() == {}
    assert shown.ui.dialog() == ""


# --- what one of the files shows --------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def run_file(profiled):
    return content(Drawing.of(real(profiled)))


def test_the_file_is_at_most_two_fifths_of_the_trace(profiled, run_file):
    lines = (profiled / "compile.jsonl").read_text().splitlines()
    size = sum(len(line) + 1 for line in lines if '"torchspan.progress"' not in line)
    assert len(run_file) <= 0.4 * size


def test_attributes_are_arguments_of_slices_and_scopes_their_categories(ui, run_file):
    ui.open(run_pftrace=run_file)
    frames = ui.query(
        "SELECT category, extract_arg(arg_set_id, 'debug.subject') FROM slice WHERE name = 'torch.compile_frame' ORDER BY ts"
    )
    assert [(category, subject.split()[0]) for category, subject in frames] == [("torchspan", "scaled")] * 2


def test_running_compilations_are_a_counter_of_their_process(ui, run_file):
    ui.open(run_pftrace=run_file)
    samples = "SELECT value FROM counter JOIN process_counter_track t ON t.id = track_id WHERE t.name = 'running compilations' ORDER BY ts"
    assert ui.query(samples) == [(1,), (0,), (1,), (0,)]


def test_processes_of_one_pid_on_two_hosts_are_two_groups(ui, tmp_path):
    ui.open(file_pftrace=content(Drawing.of(unfinished(tmp_path))))
    named = "SELECT name FROM track WHERE name LIKE 'app.py%' OR name = 'main thread' ORDER BY name"
    assert ui.query(named) == [("app.py 77",), ("main thread",), ("main thread",)]
    assert ui.query("SELECT name FROM process WHERE pid = 77") == [("app.py",)]


def test_two_files_are_shown_together_and_nothing_of_them_is_merged(ui, run_file):
    others = content(Drawing.of(overlapping()))
    ui.open(run_pftrace=run_file)
    alone = ui.query("SELECT COUNT(*) FROM slice")[0][0]
    ui.open(run_pftrace=run_file, others_pftrace=others)
    assert ui.query("SELECT COUNT(*) FROM slice") == [(alone + 10,)]
    assert ui.errors() == {}


# --- with torch.profiler ----------------------------------------------------------------------------------------------
def names_and_times(ui, condition):
    return ui.query(f"SELECT name, ts, ts + dur FROM slice WHERE {condition} ORDER BY ts")


@pytest.fixture(params=["torchspan first", "profiler first", "archive"])
def pair(request, ui, profiled, run_file):
    """Both files in one timeline, whichever is named first, or in an archive as `python -m zipfile -c` makes it."""
    files = {"run.pftrace": run_file, "profile.json": (profiled / "profile.json").read_bytes()}
    if request.param == "archive":
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as opened:
            for name, written in files.items():
                opened.writestr(name, written)
        files = {"both.zip": archive.getvalue()}
    names = reversed(files) if request.param == "profiler first" else files
    ui.open(**{name.replace(".", "_"): files[name] for name in names})
    return ui


MILLISECOND = 1_000_000


def inside(inner, outer):
    return outer[1] - MILLISECOND <= inner[1] and inner[2] <= outer[2] + MILLISECOND


def test_compilations_are_inside_the_blocks_of_torch_profiler_that_called_them(pair):
    blocks = names_and_times(pair, "name IN ('first call', 'second call')")
    frames = names_and_times(pair, "name = 'torch.compile_frame'")
    assert [inside(*both) for both in itertools.product(frames, blocks)] == [True, False, False, True]


def test_what_torch_profiler_saw_of_the_backend_is_inside_torchspans_phase(pair):
    phases = names_and_times(pair, "name = 'torch.compile_phase backend_compile'")
    seen = names_and_times(pair, "name = 'OutputGraph.call_user_compiler (dynamo_timed)'")
    assert [inside(*both) for both in itertools.product(seen, phases)] == [True, False, False, True]


def test_only_torch_profilers_own_slices_are_refused(pair, profiled):
    pair_errors = pair.errors()
    pair.open(profile_json=(profiled / "profile.json").read_bytes())
    assert pair_errors == pair.errors()


def test_the_base_of_the_profile_is_the_date_at_which_the_clock_of_the_file_is_0(ui, run_file, profiled):
    ui.open(run_pftrace=run_file)
    clocks = ui.query("SELECT clock_name, clock_value FROM clock_snapshot")
    base_ns = json.loads((profiled / "profile.json").read_text())["baseTimeNanoseconds"]
    assert dict(clocks) == {"BOOTTIME": 0, "REALTIME": base_ns}
