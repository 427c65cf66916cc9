# SPDX-License-Identifier: Apache-2.0
"""The command as a program: its two outputs, what it imports and what it never prints."""

import json
import re

import pytest

FAILING = {
    "OTEL_TRACES_SAMPLER": "acme",
    "TORCHSPAN_HEARTBEAT": "soon",
    "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20s3cret",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "http://me:s3cret@127.0.0.1:1",
}


def joined(text):
    """The text on one line. How long an exporter waits before it tries again is by chance."""
    return re.sub(r"retrying in [\d.]+s", "retrying", " ".join(text.split()))


def read(text):
    """The rows of the text for people, without their line breaks: state, name, and the rest."""
    rows = []
    for line in text.partition("\n\n")[0].splitlines()[1:]:
        if line.startswith(" "):
            rows[-1][2].append(line.strip())
        else:
            rows.append((*line.split(), []))
    return [(state, name, joined(" ".join(said))) for state, name, said in rows]


@pytest.fixture
def environment(monkeypatch):
    for name, value in FAILING.items():
        monkeypatch.setenv(name, value)


def test_the_text_with_all_and_the_json_say_the_same(torchspan, environment):
    status, text, _ = torchspan("doctor", "--all")
    json_status, document, _ = torchspan("doctor", "--json")

    said = [
        (row["state"], row["name"], joined(f"{row['summary']} {row['remedy']}"))
        for row in json.loads(document)["checks"]
    ]
    assert read(text) == said
    assert (status, json_status) == (1, 1)


def test_the_text_without_all_has_the_rows_that_need_a_look_and_the_same_exit_status(torchspan, environment):
    status, text, _ = torchspan("doctor")
    rows = json.loads(torchspan("doctor", "--json")[1])["checks"]
    problems = [(row["state"], row["name"]) for row in rows if row["state"] in {"failed", "warning"}]
    assert [(state, name) for state, name, _ in read(text)] == problems
    assert ("failed", "settings.heartbeat") in problems
    assert joined(text).endswith("; torchspan doctor --all lists every check")
    assert status == 1


def test_the_exit_status_is_0_where_nothing_fails(torchspan, monkeypatch):
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "none")
    monkeypatch.setenv("OTEL_LOGS_EXPORTER", "none")

    assert torchspan("doctor")[0] == 0


def test_no_credential_is_printed(torchspan, environment):
    assert not [part for words in ([], ["--json"]) for part in torchspan("doctor", *words)[1:] if "s3cret" in part]


def test_nothing_that_is_observed_is_imported(new_python):
    program = """
import sys
from torchspan import cli
cli.main(["doctor"])
print([name for name in ("torch", "torch_tensorrt", "tensorrt", "tensorrt_rtx") if name in sys.modules])
"""
    result = new_python(program, OTEL_TRACES_EXPORTER="none", OTEL_METRICS_EXPORTER="none")

    assert result.stderr == ""
    assert result.stdout.splitlines()[-1] == "[]"
