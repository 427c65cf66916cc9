# SPDX-License-Identifier: Apache-2.0
"""A program below `torchspan run` that has its own provider and exporter: 500 sentences are in its file, and nowhere else."""

import json
import subprocess
import sys

import pytest

from privacy.sentences import COUNT, SENTENCES
from support.child import unmeasured
from support.pages_of_traces import spans_of
from support.receiver import Receiver
from torchspan import cli, traces
from torchspan.words import semconv

PROGRAM = """
import json
import random
from pathlib import Path

import torch
from opentelemetry import context, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from torchspan.observers import observable

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(), max_queue_size=4096))
trace.set_tracer_provider(provider)
modules = torch.nn.ModuleDict({})


def of_the_program(sentence):
    raise ValueError(sentence)


def of_pytorch(sentence):
    modules[sentence]


def of_a_request():
    ids = random.getrandbits(128), random.getrandbits(64)
    request = trace.SpanContext(*ids, is_remote=True, trace_flags=trace.TraceFlags(trace.TraceFlags.SAMPLED))
    return trace.set_span_in_context(trace.NonRecordingSpan(request))


for sentence in json.loads(Path("sentences.json").read_text(encoding="utf-8")):
    token = context.attach(of_a_request())
    for work in (of_the_program, of_pytorch):
        try:
            observable(lambda: work(sentence))()  # one function may have ten spans a second
        except (ValueError, KeyError):
            pass
    context.detach(token)
provider.shutdown()
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The spans of the run's file, what arrived at the program's endpoint, and what was printed."""
    folder = tmp_path_factory.mktemp("sentences")
    (folder / "app.py").write_text(PROGRAM)
    (folder / "sentences.json").write_text(json.dumps(SENTENCES), encoding="utf-8")
    file = folder / "run.jsonl"
    with Receiver() as receiver:
        environment = {
            **unmeasured(),
            **receiver.environment(),
        }
        command = [sys.executable, "-m", "torchspan", "run", "--output", file, "--", sys.executable, "app.py"]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", timeout=120, check=False
        )
    assert done.returncode == 0, done.stderr
    bodies = b"".join(str(headers).encode() + body for _, headers, body in receiver.bodies)
    return file, receiver.spans(), bodies, done.stdout + done.stderr


def test_the_file_of_the_run_has_every_sentence(run):
    file, *_ = run
    texts = [
        text
        for span in traces.read(file).spans
        for key, text in span.texts.items()
        if key.endswith(semconv.EXCEPTION_MESSAGE)
    ]
    assert sorted(texts) == sorted(2 * SENTENCES)


def test_no_byte_that_the_programs_exporter_sends_has_a_sentence(run):
    _, sent, bodies, _ = run
    assert len([span for span in sent if span.name.startswith("torchspan.observed")]) == 2 * COUNT
    assert [sentence for sentence in SENTENCES if sentence.encode() in bodies] == []
    assert semconv.LOCAL.encode() not in bodies


def test_no_sentence_is_printed_where_the_output_is_not_a_terminal(run):
    *_, printed = run
    assert "ValueError" in printed
    assert [sentence for sentence in SENTENCES if sentence in printed] == []


@pytest.mark.parametrize(("words", "expected"), [((), []), (("--text",), list(SENTENCES))], ids=["json", "json-text"])
def test_the_summary_as_json_has_the_sentences_on_request_alone(run, capsys, words, expected):
    file, *_ = run
    assert cli.main(["show", "--json", *words, str(file)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["errors"]) == 2 * COUNT
    said = json.dumps(document, ensure_ascii=False)
    assert [sentence for sentence in SENTENCES if json.dumps(sentence, ensure_ascii=False)[1:-1] in said] == expected


@pytest.mark.parametrize("option", ["--html", "--perfetto", "--markdown"])
def test_a_view_for_others_has_the_sentences_on_request_alone(run, capsys, tmp_path, option):
    file, *_ = run
    target = () if option == "--markdown" else (str(tmp_path / "out"),)

    def sentences(*words):
        assert cli.main(["show", option, *target, *words, str(file), "--all"]) == 0
        printed = capsys.readouterr().out
        content = (tmp_path / "out").read_bytes().decode("utf-8", "replace") if target else printed
        shown = f"{content}{json.dumps(spans_of(content), ensure_ascii=False)}" if option == "--html" else content
        return [sentence for sentence in SENTENCES if json.dumps(sentence, ensure_ascii=False)[1:-1] in shown]

    assert sentences() == []
    assert len(sentences("--text")) > (0 if option == "--markdown" else COUNT - 1)  # it has eight findings
