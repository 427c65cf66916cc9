# SPDX-License-Identifier: Apache-2.0
"""Each example runs under `torchspan run`, as a user would start it, and its trace shows what its README line says."""

import os
import re
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from support import pages, span_file
from support.child import unmeasured
from torchspan import traces

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
EVERY_ENGINE = {
    "torch_tensorrt.compile",
    "torch_tensorrt.decompose",
    "torch_tensorrt.lower",
    "torch_tensorrt.partition",
    "torch_tensorrt.convert",
    "torch_tensorrt.construct_network",
    "tensorrt.build_engine",
    "tensorrt.deserialize_engine",
    "torch_tensorrt.setup_engine",
    "torch_tensorrt.execute",
}

ENABLE_THEMSELVES = {
    "first_step.py", "in_code.py", "why_is_my_build_slow.py", "what_fell_back.py", "why_was_the_cache_not_used.py",
    "capture_graphs.py", "collect_shapes.py", "snapshot_conversions.py", "observe_generate.py",
}  # fmt: skip


@pytest.fixture
def start(tmp_path):
    """Starts a program as a user would; returns what it printed."""

    def run(*command, **environment):
        base = {name: text for name, text in unmeasured().items() if not name.startswith(("OTEL_", "TORCHSPAN_"))}
        path = f"{Path(sys.executable).parent}{os.pathsep}{base['PATH']}"
        done = subprocess.run(
            list(map(str, command)),
            cwd=tmp_path,
            env={**base, "PATH": path, **environment},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def trace(start, tmp_path):
    """Runs an example under `torchspan run`; returns what it printed and its traces."""

    def run(name):
        file = tmp_path / "trace.jsonl"
        command = ("torchspan", "run", "--without-gpu", "--quiet", "--output", file, "--", "python", EXAMPLES / name)
        return start(*command), traces.read(file)

    return run


def names(file):
    return {span.name for span in file.spans}


def test_compile_bert(trace):
    out, file = trace("compile_bert.py")

    assert out == "BERT returns (1, 16, 64)\n"
    assert names(file) >= EVERY_ENGINE | {"torch_tensorrt.trace", "torch.export"}
    compilation = file.one("torch_tensorrt.compile").attributes
    assert compilation["torch_tensorrt.entry_point"] == "torch_tensorrt.dynamo.compile"
    assert compilation["torch_tensorrt.coverage"] == 1.0
    assert compilation["torch_tensorrt.engines.count"] == 1


@pytest.mark.slow
def test_dynamic_shapes(trace):
    out, file = trace("dynamic_shapes.py")

    assert out == "batch of 2: (2, 10)\nbatch of 4: (4, 10)\nbatch of 7: (7, 10)\n"
    conversion = file.one("torch_tensorrt.convert").attributes
    assert conversion["torch.inputs.shapes"] == ["[2..4..8, 32]"]
    first_run = file.one("torch_tensorrt.execute").attributes
    assert first_run["torch_tensorrt.execute.first"] is True


@pytest.mark.slow
def test_observe_generate(trace):
    out, file = trace("observe_generate.py")

    assert (
        out
        == """\
12 calls, 2 of them with the opt shapes
input_ids (2, 5) (3, 6) (3, 9)
position_ids (2, 5) (3, 6) (3, 9)
0 findings
2 x 5 tokens: differs by less than 0.001: True
3 x 9 tokens: differs by less than 0.001: True
"""
    )
    conversion = file.one("torch_tensorrt.convert").attributes
    assert conversion["torch.inputs.shapes"] == ["[2..3..3, 5..6..9]", "[2..3..3, 5..6..9]"]


@pytest.mark.slow
def test_outside_the_profile(start, tmp_path):
    file = tmp_path / "trace.jsonl"
    command = ("torchspan", "run", "--without-gpu", "--quiet", "--output", file, "--", "python")
    inputs = {"TORCHSPAN_INPUTS": "compiled", "TORCHSPAN_INPUTS_EVERY": "10"}
    assert start(*command, EXAMPLES / "outside_the_profile.py", **inputs) == "refused\n40 requests\n"

    (span,) = (each for each in span_file.read(file) if each.name == "requests")
    (outside,) = (each.attributes for each in span.events if each.name == "torchspan.input.out_of_profile")
    assert outside == {
        "torchspan.input.module": "Classifier",
        "torchspan.input.outside.paths": ["x"],
        "torchspan.input.outside.axes": [0],
        "torchspan.input.outside.sizes": [12],
        "torchspan.input.outside.minimums": [1],
        "torchspan.input.outside.maximums": [8],
    }
    _, _, row, failure, *lines = start("torchspan", "show", file, COLUMNS="80").splitlines()[:12]
    assert row.startswith("1  requests  ")
    assert failure == "   RuntimeError in execute"
    findings = lines[next(index for index, line in enumerate(lines) if "1 call has" in line) :][:3]
    assert findings == [
        "   1 call has 12 in dimension 0 of x, but the engine was built for 1 to 8",
        "   100 % of 20 calls of Classifier have 3 in dimension 0 of x, but the engine",
        "   was built for 8",
    ]
    page = (EXAMPLES.parent / "docs" / "how-to" / "observing-inputs.md").read_text(encoding="utf-8")
    assert "\n".join(findings) in page


@pytest.mark.slow
def test_torch_compile(trace):
    out, file = trace("torch_compile.py")

    assert [line.partition(":")[0] for line in out.splitlines()] == ["first call", "second call"]
    compilation = file.one("torch_tensorrt.compile").attributes
    assert compilation["torch_tensorrt.entry_point"] == "torch.compile"
    assert names(file) >= EVERY_ENGINE


@pytest.mark.slow
def test_fallback(trace):
    out, file = trace("fallback.py")

    assert out == "result: (2, 4)\n"
    compilation = file.one("torch_tensorrt.compile").attributes
    assert compilation["torch_tensorrt.fallback.reason_classes"] == ["no_converter"]
    assert compilation["torch_tensorrt.fallback.operators.names"] == ["torch.ops.aten.special_i1e.default"]
    assert compilation["torch_tensorrt.engines.count"] == 2
    assert len(file.find("torch_tensorrt.execute")) == 2


@pytest.mark.slow
def test_ranks_of_torchrun_are_one_trace(start, tmp_path):
    (tmp_path / "examples").symlink_to(EXAMPLES)
    (recipe,) = (block for block in pages.read("docs/how-to/threads-and-workers.md") if "ranks" in block.marks)
    out = start("sh", "-e", "-c", recipe.text, TORCHSPAN_WITHOUT_GPU="1")

    assert out.startswith("2 ranks, 8 rows\n")
    spans = span_file.read(tmp_path / "ranks.jsonl")
    by_id = {span.span_id: span for span in spans}
    assert len(by_id) == len(spans)
    assert len({span.trace_id for span in spans}) == 1
    assert [span.name for span in spans if span.parent_id not in by_id] == ["torchspan.run"]
    compilations = [span for span in spans if span.name == "torch_tensorrt.compile"]
    assert sorted(by_id[span.parent_id].name for span in compilations) == ["rank 0", "rank 1"]
    for span in compilations:
        rank = int(by_id[span.parent_id].name.removeprefix("rank "))
        said = {key: value for key, value in span.resource.items() if key.startswith("torch.distributed.")}
        assert uuid.UUID(said.pop("torch.distributed.run.id"))
        assert said == {
            "torch.distributed.rank": rank,
            "torch.distributed.local_rank": rank,
            "torch.distributed.world_size": 2,
            "torch.distributed.restart_count": 0,
        }
    assert len({span.resource["process.pid"] for span in compilations}) == 2
    assert len({span.resource["host.name"] for span in compilations}) == 1


@pytest.mark.slow
def test_in_code(start, tmp_path):
    out = start("python", EXAMPLES / "in_code.py", tmp_path / "own.jsonl", TORCHSPAN_WITHOUT_GPU="1")

    printed = [line.split(" ms  ")[1] for line in out.splitlines()]
    assert [name for name in printed if name != "torchspan.import"][:2] == ["load model", "torch_tensorrt.compile"]
    assert set(printed) >= EVERY_ENGINE
    assert printed == [span.name for span in traces.read(tmp_path / "own.jsonl").spans]


@pytest.mark.slow
def test_why_is_my_build_slow(start):
    out = start("python", EXAMPLES / "why_is_my_build_slow.py", TORCHSPAN_WITHOUT_GPU="1")

    durations_and_shares = re.sub(r" *\d+%", " n%", re.sub(r" *\d+\.\d\d s", " n s", out))
    lines = durations_and_shares.splitlines()
    assert lines[0] == " n s in all, of which"
    assert {
        " n s n%  torch_tensorrt.convert _run_on_acc_0",
        " n s n%  torch_tensorrt.convert _run_on_acc_2",
        " n s n%  torch_tensorrt.decompose",
    } <= set(lines[1:6])
    assert (
        lines[lines.index("") + 2 :][:2]
        == [
            "  12 operators, 12 layers",
            " n s  converters, slowest: torch.ops.aten.convolution.default",
        ]
        or "_run_on_acc_2" in lines[lines.index("") + 1]
    )
    assert " n s  TensorRT's build" in lines
    assert " n s  Building engine" in lines
    assert " n s  release_host_and_device_memory, which is Torch-TensorRT's own housekeeping" in lines


@pytest.mark.slow
def test_what_fell_back(start):
    assert (
        start("python", EXAMPLES / "what_fell_back.py", TORCHSPAN_WITHOUT_GPU="1")
        == """\
3 of 7 operators run in TensorRT; engines: 1
  1 x torch.ops.aten.linear.default: min_block_size (lower min_block_size)
  1 x torch.ops.aten.mean.dim: user_excluded (remove it from torch_executed_ops)
  1 x torch.ops.aten.sigmoid.default: min_block_size (lower min_block_size)
  1 x torch.ops.aten.special_i1e.default: no_converter (register a converter, or replace the operator)
"""
    )


@pytest.mark.slow
def test_why_was_the_cache_not_used(start):
    out = start("python", EXAMPLES / "why_was_the_cache_not_used.py", TORCHSPAN_WITHOUT_GPU="1")

    assert (
        re.sub(r"\d+\.\d\d s", "n s", out)
        == """\
as most programs do it, _run_on_acc_0: disabled (cached engines are refitted, so compile with immutable_weights=False)
with weights that can be refitted, _run_on_acc_0: miss
  a new engine: inserted
the same again, _run_on_acc_0: hit
  the hit took n s, in which the engine got this model's weights
with another batch size, _run_on_acc_0: miss (the folder has this graph for other inputs)
  a new engine: inserted
"""
    )


OF_OBSERVERS = {
    "capture_graphs.py": """\
trace: 5 calls, aten.conv2d.default, aten.relu.default, aten.special_i1e.default, aten.mean.dim, aten.linear.default
decompose: 5 calls, aten.convolution.default, aten.relu.default, aten.special_i1e.default, aten.mean.dim, aten.linear.default
lower: 5 calls, aten.convolution.default, aten.relu.default, aten.special_i1e.default, aten.mean.dim, aten.linear.default
partition: 3 calls, _run_on_acc_0, _run_on_gpu_1, _run_on_acc_2
""",
    "collect_shapes.py": """\
_run_on_acc_0: (2, 3, 16, 16)
_run_on_acc_2: (2, 8, 14, 14)
_run_on_acc_0: (1, 3, 16, 16)..(2, 3, 16, 16)..(8, 3, 16, 16)
_run_on_acc_2: (1, 8, 14, 14)..(2, 8, 14, 14)..(8, 8, 14, 14)
""",
    "snapshot_conversions.py": """\
conversion returned: 1 input, 1 output, 8 kinds of layers
  1 x ACTIVATION
  2 x CONSTANT
  1 x CONVOLUTION
  1 x ELEMENTWISE
  1 x MATRIX_MULTIPLY
  1 x REDUCE
  1 x SHUFFLE
  1 x SOFTMAX
""",
}


@pytest.mark.parametrize(("name", "printed"), OF_OBSERVERS.items())
@pytest.mark.slow
def test_what_observers_are_for(start, name, printed):
    assert start("python", EXAMPLES / name, TORCHSPAN_WITHOUT_GPU="1") == printed


# --- torch alone ------------------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_train_recompiles(trace):
    out, file = trace("train_recompiles.py")

    assert out == "Scaled: compilations in 5 steps: 5\nScaledByTensor: compilations in 5 steps: 1\n"
    frames = [span.attributes for span in file.find("torch.compile_frame")]
    assert [frame["torch.compile.id"] for frame in frames] == ["0/0", "0/1", "0/2", "0/3", "0/4", "1/0"]
    assert [frame.get("torch.compile.recompile.class") for frame in frames] == [None, *["module_int"] * 4, None]


@pytest.mark.slow
def test_graph_breaks(trace):
    out, file = trace("graph_breaks.py")

    assert out == "rows are scaled\nthe same rows: True\n"
    frames = file.find("torch.compile_frame")
    breaks = [
        [event.attributes["torch.compile.graph_break.class"] for event in frame.events if "graph_break" in event.name]
        for frame in frames
    ]
    assert breaks == [["data_dependent_branch"], ["builtin"], ["data_dependent_value"], [], []]


@pytest.mark.slow
def test_mark_dynamic(trace):
    out, file = trace("mark_dynamic.py")

    assert out == "plain 4: 4.0\nplain 6: 6.0\nplain 9: 9.0\nmarked 4: 4.0\nmarked 6: 6.0\nmarked 9: 9.0\n"
    frames = [span.attributes for span in file.find("torch.compile_frame")]
    assert [(frame["code.function.name"], frame.get("torch.compile.recompile.class")) for frame in frames] == [
        ("plain", None),
        ("plain", "size"),
        ("marked", None),
    ]


@pytest.mark.slow
def test_warm_start(trace):
    out, file = trace("warm_start.py")

    assert re.sub(r"[\d.]+ s", "n s", out) == (
        "cold: n s, autograd_cache_miss: 1 autograd_cache_saved: 1\nwarm: n s, autograd_cache_hit: 1\n"
    )
    frames = [span.attributes for span in file.find("torch.compile_frame")]
    assert [frame["torch.compile.aotautograd_cache.result"] for frame in frames] == ["miss", "hit"]


@pytest.mark.slow
def test_threads_compile(trace):
    out, file = trace("threads_compile.py")

    assert out == "(2, 16) (2, 16) (2, 16)\n"
    assert len(file.find("torch.compile_frame")) == 3
    assert len(file.find("torch.compile_wait")) == 2


@pytest.mark.slow
def test_export_fails(trace):
    out, file = trace("export_fails.py")

    assert out == "Clipped: GuardOnDataDependentSymNode\nClippedInGraph: 7 nodes\n"
    failed, worked = file.find("torch.export")
    assert failed.attributes["torch.export.failed.reason"] == (
        "a condition depends on the result of torch.ops.aten.item.default, at export_fails.py:12 in forward"
    )
    assert "torch.export.failed.reason" not in worked.attributes


@pytest.mark.slow
def test_first_step(start):
    out = start("python", EXAMPLES / "first_step.py")

    assert (
        re.sub(r" *\d+\.\d\d s", "n s", out)
        == "n s  imports\nn s  Dynamo\nn s  AOTAutograd and Inductor\nn s  C++ compiler\n"
    )


def test_the_examples_of_torch_alone_import_nothing_of_tensorrt():
    section = (
        (EXAMPLES / "README.md").read_text(encoding="utf-8").partition("## torch.compile")[2].partition("\n## ")[0]
    )
    files = re.findall(r"^\| \[(\w+\.py)\]", section, re.MULTILINE)
    assert len(files) == 7
    assert [file for file in files if "tensorrt" in (EXAMPLES / file).read_text(encoding="utf-8")] == []


def test_each_example_has_a_line_in_the_folders_readme():
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in sorted(EXAMPLES.glob("*.py")) if text.count(f"[{path.name}]({path.name})") != 1] == []


def test_the_programs_of_users_know_nothing_of_torchspan():
    for path in EXAMPLES.glob("*.py"):
        if path.name not in ENABLE_THEMSELVES:
            assert "torchspan" not in path.read_text(encoding="utf-8")
