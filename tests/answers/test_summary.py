# SPDX-License-Identifier: Apache-2.0
"""The document of `show --json`: its schema, its version, and that it says what the spans say."""

import hashlib
import json
from pathlib import Path

import jsonschema
import pytest
import torch
from torch import nn

import generate_summary_schema
from support.dynamo import clean_dynamo
from torchspan import answers, cli, phase
from torchspan.sdk import FileSpanExporter
from torchspan.testing import capture

SCHEMA = json.loads(Path(generate_summary_schema.SCHEMA).read_text(encoding="utf-8"))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(16, 16), nn.Linear(16, 4)

    def forward(self, x):
        return self.second(torch.special.i1e(self.first(x)) + 1)


def doubled(x):
    if x.sum() > 0:
        return x * 2
    return x


def refuses(_graph, _inputs):
    raise ValueError("no")


@pytest.fixture(scope="module")
def everything():
    """A trace with a fallback, two engines, a recompilation, a graph break and an exception."""
    import torch_tensorrt

    with clean_dynamo(), capture() as trace, torch.no_grad():
        inputs = [torch.randn(2, 16)]
        torch_tensorrt.compile(Net().eval(), ir="dynamo", arg_inputs=inputs, min_block_size=1)
        for size in (3, 4):
            torch.compile(doubled, backend="eager")(torch.ones(size))
        with pytest.raises(torch._dynamo.exc.BackendCompilerFailed):
            torch.compile(torch.sin, backend=refuses)(torch.ones(1))
    return trace


def shape(part):
    """The schema without what people read."""
    if isinstance(part, dict):
        return {key: shape(value) for key, value in part.items() if key not in {"description", "title"}}
    return list(map(shape, part)) if isinstance(part, list) else part


def test_a_field_that_changes_has_a_new_version():
    digest = hashlib.sha256(json.dumps(shape(SCHEMA), sort_keys=True).encode()).hexdigest()
    assert (SCHEMA["title"], digest[:16]) == ("torchspan.summary/1", "04039caf3fa37cbe")


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_the_document_of_real_compilations_is_valid_and_is_json(everything):
    document = json.loads(json.dumps(everything.answers.document(), allow_nan=False))
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    assert [key for key, value in document.items() if value == [] or value is None] == [
        "run",
        "time",
        "sizes",
        "operators",
        "gpu_times",
        "layers",
    ]


def test_a_field_that_the_schema_does_not_name_is_invalid(everything):
    document = {**everything.answers.document(), "more": 1}
    assert not jsonschema.Draft202012Validator(SCHEMA).is_valid(document)


def test_the_figures_are_those_of_the_spans(everything):
    document = everything.answers.document()
    frames = everything.find(phase.COMPILE_FRAME.name)
    assert sorted(frame["s"] for frame in document["frames"]) == sorted(frame.duration_ns / 1e9 for frame in frames)
    conversions = everything.find(phase.CONVERT.name)
    assert {(engine["name"], engine["bytes"]) for engine in document["engines"]} == {
        (span.attributes["torch_tensorrt.engine.name"], span.attributes["tensorrt.engine.size"]) for span in conversions
    }


def test_every_answer_has_its_sentence_and_its_remedy(everything):
    document = everything.answers.document()
    said = {
        key: [(part["sentence"], part["remedy"]) for part in document[key]]
        for key in ("fallbacks", "recompiles", "breaks", "errors")
    }
    assert said == {
        "fallbacks": [
            (
                "aten.special_i1e \N{MULTIPLICATION SIGN}1 at answers/test_summary.py:28: no converter",
                "",
            )
        ],
        "recompiles": [
            ("Recompiled in doubled: size of argument x, axis 0 (3, then 4)", ""),
            ("Recompiled in doubled from line 32: size of x, axis 0 (3, then 4)", ""),
        ],
        "breaks": [
            (
                "Graph break at answers/test_summary.py:32: Data-dependent branching \N{MULTIPLICATION SIGN}2",
                "",
            )
        ],
        "errors": [("torch._dynamo.exc.BackendCompilerFailed in backend_compile: backend=? raised:", "")],
    }


def test_the_command_prints_the_same_document_as_the_report(everything, tmp_path, capsys):
    file = tmp_path / "trace.jsonl"
    FileSpanExporter(file).export([span for span, *_ in everything._ended])
    assert cli.main(["show", "--json", str(file)]) == 0
    assert json.loads(capsys.readouterr().out) == answers.read(str(file)).answers.document()
