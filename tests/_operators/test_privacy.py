# SPDX-License-Identifier: Apache-2.0
"""Who gets the names of the program's ranges and operators."""

import subprocess
import sys

import pytest
import torch
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import torchspan
from support.child import unmeasured
from support.operators import BLOCK, names, operators
from torchspan.sdk import OperatorSpanProcessor
from torchspan.testing import capture
from torchspan.traces import read

SECRET = "ulterior secret of the program"


@pytest.fixture(scope="module")
def ranges(native_library):
    """Ranges of the program in a block, by `TORCHSPAN_CAPTURE`: the captured trace, and what exporters got."""
    recorded = {}
    for setting in ("none", "local", "text"):
        exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(OperatorSpanProcessor(exporter))
        with capture(tracer_provider=provider, capture=setting) as trace, torchspan.operators(min_duration=0):
            with torch.profiler.record_function(SECRET):
                torch.ones(3).sin()
        provider.shutdown()
        recorded[setting] = trace, exporter.get_finished_spans()
    return recorded


@pytest.mark.parametrize("setting", ["none", "local", "text"])
def test_the_name_of_a_range_is_not_in_the_name_of_its_span(ranges, setting):
    trace, exported = ranges[setting]
    expected = {"torch.operator ?", "torch.operator aten.ones", "torch.operator aten.sin"}
    assert {span.name for span in exported} == {span.name for span in operators(trace)} == expected


@pytest.mark.parametrize(("setting", "name"), [("none", "?"), ("local", "?"), ("text", SECRET)])
def test_exporters_get_the_name_of_a_range_with_text_alone(ranges, setting, name):
    trace, exported = ranges[setting]
    attributes = {
        "torch.operator.name": name,
        "torch.operator.scope": "user_scope",
    }
    assert [dict(span.attributes) for span in exported if span.name == "torch.operator ?"] == [attributes]
    assert [span.attributes for span in operators(trace) if span.name == "torch.operator ?"] == [attributes]


@pytest.mark.parametrize(("setting", "name"), [("none", "?"), ("local", "?"), ("text", SECRET)])
def test_the_table_has_the_name_of_a_range_with_text_alone(ranges, setting, name):
    trace, _ = ranges[setting]
    assert name in trace.one(BLOCK).attributes["torch.operators.names"]


@pytest.mark.parametrize(
    ("setting", "texts"), [("none", []), ("local", [{"torch.operator.name": SECRET}]), ("text", [])]
)
def test_the_users_own_trace_has_the_whole_name_where_it_is_local(ranges, setting, texts):
    trace, _ = ranges[setting]
    assert [span.texts for span in operators(trace) if span.texts] == texts


@pytest.mark.parametrize("setting", ["none", "local"])
def test_nothing_else_that_is_exported_has_the_name(ranges, setting):
    trace, exported = ranges[setting]
    assert SECRET not in "".join(span.to_json() for span in exported)
    assert SECRET not in repr([*operators(trace), trace.one(BLOCK)])


def test_names_of_operators_are_the_same_for_all(ranges):
    for trace, exported in ranges.values():
        expected = {"aten.ones", "aten.sin"}
        assert {span.attributes["torch.operator.name"] for span in exported} >= expected
        assert {span.attributes["torch.operator.name"] for span in operators(trace)} >= expected


# --- a program that `torchspan run` runs --------------------------------------------------------------------------------
PROGRAM = """\
import torch, torchspan
with torchspan.operators(min_duration=0):
    with torch.profiler.record_function("ulterior secret of the program"):
        torch.ones(3).sin()
"""


@pytest.fixture(scope="module")
def run(native_library, tmp_path_factory):
    """The traces of the user's own file, and what the program printed, spans of an exporter among that."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "app.py").write_text(PROGRAM, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "torchspan",
        "run",
        "--quiet",
        "--output",
        "run.jsonl",
        "--",
        sys.executable,
        "app.py",
    ]
    environment = {**unmeasured(), "OTEL_TRACES_EXPORTER": "console"}
    done = subprocess.run(
        command, check=False, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return read(folder / "run.jsonl"), done.stdout


def test_the_file_of_a_run_has_the_operators_and_the_whole_name_of_the_range(run):
    captured, _ = run
    assert names(operators(captured))[:1] == ["?"]
    assert {"aten.ones", "aten.sin"} <= set(names(operators(captured)))
    assert [span.texts for span in operators(captured) if span.texts] == [{"torch.operator.name": SECRET}]


def test_an_exporter_of_a_run_gets_the_operators_without_the_name_of_the_range(run):
    _, printed = run
    assert '"name": "torch.operator aten.sin"' in printed
    assert '"name": "torch.operator ?"' in printed
    assert SECRET not in printed
