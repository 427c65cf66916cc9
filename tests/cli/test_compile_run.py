# SPDX-License-Identifier: Apache-2.0
"""`torchspan run` on a model whose graph breaks twice, that is compiled again for a size, and that falls back once.

The model and what is printed about it are on the page "Reading a compile trace". What is printed is held against
`torch._dynamo.utils.counters`, `CompilationMetrics` and the records of `TORCH_TRACE`, all of the same process.
"""

import json
import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest

from support import span_file
from support.child import UNMEASURED

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "reading-a-compile-trace.md").read_text(
    encoding="utf-8"
)
((PROGRAM, SHOWN),) = re.findall(
    r"^```python model\.py\n(.*?)^```$.*?^```text waterfall\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL
)
VERSION = tuple(int(part) for part in version("torch").split(".")[:2])
pytestmark = pytest.mark.skipif(VERSION < (2, 14), reason="the page shows what torch 2.14 leads to")

WITHOUT_LAZY_IMPORTS = "from torchspan.base import imports; imports.LONG_NS = 10**18"
"""Which imports of a library's modules take long depends on the machine."""

KEEPS_ITS_BOOKS = """
import json
from torch._dynamo import utils

NAMES = ("compile_id", "co_name", "recompile_reason", "guard_count", "graph_op_count", "fail_type")
metrics = [{name: getattr(each, name) for name in NAMES} for each in utils.get_compilation_metrics()]
with open("books.json", "w") as file:
    json.dump({"counters": utils.counters, "metrics": metrics}, file)
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The run: what was printed, the waterfalls of the frames, spans, Dynamo's own books, and the records of TORCH_TRACE."""
    folder = tmp_path_factory.mktemp("compiled")
    text = PROGRAM.replace("import gc\n", f"import gc; {WITHOUT_LAZY_IMPORTS}\n", 1) + KEEPS_ITS_BOOKS
    (folder / "model.py").write_text(text, encoding="utf-8")
    base = {name: text for name, text in os.environ.items() if not name.startswith(("OTEL_", "TORCHSPAN_", "COLUMNS"))}
    environ = {**base, **UNMEASURED, "TORCH_TRACE": str(folder / "records"), "PYTHONIOENCODING": "utf-8"}

    def torchspan(*words):
        done = subprocess.run(
            [sys.executable, "-c", "import sys; from torchspan.cli import main; sys.exit(main())", *words],
            cwd=folder,
            env=environ,
            capture_output=True,
            encoding="utf-8",
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done

    printed = torchspan("run", "--without-gpu", "--output", "trace.jsonl", "--", sys.executable, "model.py").stderr
    ((log,),) = [list((folder / "records").iterdir())]
    return SimpleNamespace(
        screen=re.split("^trace ", printed, maxsplit=1, flags=re.MULTILINE)[1].partition("\n\n")[0],
        waterfalls=torchspan("show", "trace.jsonl", "1", "--all").stdout.split("\n\n")[1:],
        frames=[each for each in span_file.read(folder / "trace.jsonl") if each.name == "torch.compile_frame"],
        books=json.loads((folder / "books.json").read_text()),
        records=list(records(log.read_text(encoding="utf-8"))),
    )


def records(log):
    """Each record of TORCH_TRACE: the frame's compile id, its kind or the name of the artifact, and content and payload."""
    for head, payload in re.findall(r"^V.*?\] (\{.*)\n((?:\t.*\n)*)", log, re.MULTILINE):
        record = json.loads(head)
        kind = record["artifact"]["name"] if "artifact" in record else next(iter(record))
        compile_id = f"{record.get('frame_id')}/{record.get('frame_compile_id')}"
        yield compile_id, kind, record.get(kind), payload.replace("\n\t", "\n").lstrip("\t")


TIMES = "\N{MULTIPLICATION SIGN}"
GUIDES = "│├└─ "
BAR = re.compile(r"\s+[█▏░]+ +(?:[\d.]+ (?:s|ms|µs)|stand-in)$")
TIMED = re.compile(r"\b[\d.]+ (?:s|ms|µs)\b")
SMALL = ("insert_deferred_runtime_asserts", "gc")
"""Phases that may take less than a millisecond, and then have no line."""


def tree(waterfall):
    """What the lines of the tree say, without guides, bars, times and sizes; what depends on times is left out."""
    entries, levels = [], set()
    for line in waterfall.partition("\nOwn time")[0].splitlines()[1:]:
        text = re.sub(r"\b\d+ kB", "N kB", line.lstrip(GUIDES))
        label = BAR.sub("", text)
        if label == text:
            entries[-1][1].extend(text.split(" · "))
        else:
            entries.append((len(line) - len(line.lstrip(GUIDES)), re.split(r"  +| · ", label)))
            levels.add(entries[-1][0])
    indent = {level: "  " * number for number, level in enumerate(sorted(levels))}
    builder = None
    for level, (name, *facts) in entries:
        builder = None if builder is None or level <= builder else builder
        own = re.sub(r"^(?:torch\.|…)compile_phase |^…", "", name)
        if builder is None and own not in SMALL:
            yield indent[level] + " · ".join([own, *(fact for fact in facts if fact and not TIMED.search(fact))])
        if own == "tensorrt.build_engine":
            builder = level


def head(waterfall):
    """The line of the frame and its notes, without how long it was on the processor."""
    first, *lines = waterfall.rstrip().splitlines()[1:]
    notes = [re.sub(r"^│ +|on the processor [^·]*(?:· )?", "", line) for line in lines if re.match(r"│ +[a-z]", line)]
    return [BAR.sub("", first), *(f"  {note}" for note in notes if note)]


def without_times(screen):
    """The table up to the first line that depends on the machine, without times."""
    lines = screen.partition("\n   slowest")[0].splitlines()[1:]
    return (
        "\n".join([re.sub(r"(?: +times)? +(?:time|[\d.]+ m?s)$", "", line).replace(TIMES, "x") for line in lines])
        + "\n"
    )


def by_frame(found):
    """What was found, by compile id."""
    result = {}
    for compile_id, each in found:
        result.setdefault(compile_id, []).append(each)
    return result


# --- what is printed --------------------------------------------------------------------------------------------------
def test_the_heads_of_the_waterfalls_are_those_of_the_page(ran):
    pages = [
        re.split(r"^(?:Dynamo|Fallback|Error) ", each, flags=re.MULTILINE)[0].split("\n")
        for each in SHOWN.split("\n\n")
    ]
    assert [head(each) for each in ran.waterfalls] == [[line for line in each if line] for each in pages]


def test_the_first_screen_has_the_function_with_all_that_happened_to_it(ran):
    assert (
        without_times(ran.screen)
        == """\
   what was compiled
1  forward  model.py:18            x2
   2 of 2 ops in TensorRT, 3 of 3 ops in TensorRT, runs eagerly, 2 more after
   breaks
   NotImplementedError in construct_network
   raised at model.py:10 in __main__.special_i1e
   its message is not in the table of messages; --text shows it if the file has
   it
   aten.special_i1e (%special_i1e, node 2 of 3)
   converter __main__.special_i1e
   add "torch_executed_ops": {"torch.ops.aten.special_i1e.default"} to options
   to run it in PyTorch
   in PyTorch: conversion or build failed
   Fell back to eager in forward from line 22: NotImplementedError
   Recompiled: size of argument x, axis 0 (4, then 7):
   torch._dynamo.maybe_mark_dynamic(x, 0) before each call
   Recompiled in forward from line 20: size of x, axis 0 (4, then 7)
   Graph break at model.py:20: requested by torch._dynamo.graph_break x2
   Graph break at model.py:22: Data-dependent branching x2
   Detected data-dependent branching (e.g. `if my_tensor.sum() > 0:`). Hint: For
   the common pattern `if tensor_cond: x = transform(x)` (e.g. clamping inf/nan
   values), consider making the code branchless by always applying the
   transform. Operations like torch.clamp, torch.nan_to_num, and torch.where are
   typically no-ops on well-behaved inputs and compile without graph breaks.
   engine cache: off; immutable_weights=False, cache_built_engines=True,
   reuse_cached_engines=True turn it on
"""
    )


def test_a_frames_waterfall_goes_from_dynamo_to_the_engine(ran):
    assert list(tree(ran.waterfalls[0])) == [
        "torch.compile_frame · forward 0/0 · graph break at model.py:20: requested",
        "  bytecode_tracing",
        "  bytecode_tracing",
        "  backend_compile",
        "    torch_tensorrt.compile · Net · 2 of 2 ops in TensorRT · 1 engine of N kB",
        "      torch_tensorrt.decompose · 8 → 9 nodes",
        "        create_aot_dispatcher_function",
        "          aot_collect_metadata",
        "      torch_tensorrt.lower · 9 → 6 nodes",
        "      torch_tensorrt.partition · subgraphs: 1 TensorRT, 0 PyTorch",
        "      torch_tensorrt.convert · _run_on_acc_0 · 2 ops · N kB · inputs [16, 8], [16], [4, 8]",
        "        torch_tensorrt.construct_network · 5 layers",
        "        tensorrt.build_engine · 5 layers",
        "        tensorrt.deserialize_engine",
        "        torch_tensorrt.setup_engine · _run_on_acc_0",
        "          tensorrt.deserialize_engine",
        "  build_guards",
    ]


def test_the_waterfall_of_the_frame_that_fell_back_says_where_it_failed(ran):
    assert list(tree(ran.waterfalls[2])) == [
        "torch.compile_frame · forward from line 22 2/0 · fell back to eager",
        "  bytecode_tracing",
        "  backend_compile",
        (
            "    torch_tensorrt.compile · 1 of 1 ops planned for TensorRT · 0 engines · fallback: compile_failed"
            " · NotImplementedError"
        ),
        "      torch_tensorrt.decompose · 4 nodes",
        "        create_aot_dispatcher_function",
        "          aot_collect_metadata",
        "      torch_tensorrt.lower · 4 → 3 nodes",
        "      torch_tensorrt.partition · subgraphs: 1 TensorRT, 0 PyTorch",
        "      torch_tensorrt.convert · _run_on_acc_0 · 1 op · input [16] · NotImplementedError",
        "        torch_tensorrt.construct_network · NotImplementedError",
        "  build_guards",
    ]


# --- what PyTorch itself says -----------------------------------------------------------------------------------------
def test_dynamos_counters_have_as_many_graphs_and_breaks(ran):
    breaks = [
        (event.attributes["torch.compile.graph_break.class"], frame.attributes["torch.compile.id"])
        for frame in ran.frames
        for event in frame.events
        if event.name == "torch.compile.graph_break"
    ]
    assert breaks == [
        ("requested", "0/0"),
        ("data_dependent_branch", "1/0"),
        ("requested", "0/1"),
        ("data_dependent_branch", "1/1"),
    ]
    counters = ran.books["counters"]
    assert list(counters["graph_break"].values()) == [2]  # those that were asked for
    assert list(counters["unimplemented"].values()) == [2]  # the branches
    assert len(ran.frames) == counters["stats"]["unique_graphs"] == 5


def test_compilation_metrics_say_the_same_of_each_frame(ran):
    reported = [
        {
            "compile_id": a["torch.compile.id"],
            "co_name": a["code.function.name"],
            "recompile_reason": a.get("torch.compile.recompile.reason"),
            "guard_count": a["torch.compile.guards.count"],
            "graph_op_count": a["torch.compile.graph.operators"],
            "fail_type": None,
        }
        for a in (frame.attributes for frame in ran.frames)
    ]
    entry = re.compile(r"^\d+/\d+: ")
    metrics = [
        {**each, "recompile_reason": each["recompile_reason"] and entry.sub("", each["recompile_reason"])}
        for each in ran.books["metrics"]
    ]
    assert reported == metrics


def test_torch_trace_has_the_same_frames_breaks_and_recompilations(ran):
    recorded = {
        kind: by_frame((compile_id, payload) for compile_id, each, _, payload in ran.records if each == kind)
        for kind in ("dynamo_start", "dynamo_graph_break_reason", "recompile_reasons", "fx_interpreter_error")
    }
    frames = {frame.attributes["torch.compile.id"]: frame for frame in ran.frames}
    assert list(recorded["dynamo_start"]) == list(frames) == ["0/0", "1/0", "2/0", "0/1", "1/1"]
    broke = {
        compile_id: f"Graph break in user code at {event.attributes['code.file.path']}:{event.attributes['code.line.number']}"
        for compile_id, frame in frames.items()
        for event in frame.events
        if event.name == "torch.compile.graph_break"
    }
    reasons = {name: text.partition("\n")[0] for name, (text,) in recorded["dynamo_graph_break_reason"].items()}
    assert {name: re.sub(r" at /\S*/", " at ", text) for name, text in reasons.items()} == broke
    again = {
        name: frame.attributes["torch.compile.recompile.reason"]
        for name, frame in frames.items()
        if "torch.compile.recompile.reason" in frame.attributes
    }
    assert list(again) == list(recorded["recompile_reasons"]) == ["0/1", "1/1"]
    for name, (text,) in recorded["recompile_reasons"].items():
        assert again[name] in text
    fallen = [name for name, each in frames.items() if each.attributes["torch.compile.outcome"] == "fallen_back"]
    assert list(recorded["fx_interpreter_error"]) == fallen == ["2/0"]
