# SPDX-License-Identifier: Apache-2.0
"""Forked processes below `torchspan run`, which sends to the exporters that the variables name, and to its file."""

import json
import os
import subprocess
import sys
from collections import Counter

import pytest

from children.programs import HERE, by_process, measured, receiver_of
from support.child import unmeasured

RUN = [sys.executable, "-c", "import sys; from torchspan.cli import main; sys.exit(main())", "run", "--quiet"]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")


@pytest.fixture(scope="module")
def arrived(surroundings, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    with receiver_of("http") as receiver:
        done = subprocess.run(
            [*RUN, "--output", str(folder / "run.jsonl"), "--", sys.executable, str(HERE / "forking.py"), "fork"],
            env=surroundings(receiver, "http", OTEL_TRACES_EXPORTER="otlp", OTEL_METRICS_EXPORTER="otlp"),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        receiver.reported = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
        receiver.file = (folder / "run.jsonl").read_text()
        return receiver


def test_each_compilation_of_a_forked_process_is_sent_once(arrived):
    assert sorted(by_process(arrived.spans()).values(), key=str) == [Counter(Child=2), Counter(Parent=4)]


def test_metrics_of_forked_processes_count_each_compilation_once_below_run(arrived):
    assert sorted(measured(arrived).values()) == [2, 4]


def test_the_file_has_every_compilation_once(arrived):
    assert arrived.file.count('"name":"torch_tensorrt.compile"') == 6


def test_a_forked_process_below_run_has_no_thread_of_torchspans_before_it_does_any_work(arrived):
    assert arrived.reported["children"] == [[], []]
    assert arrived.reported["exits"] == [0, 0]


@pytest.mark.parametrize(("speed", "spans"), [("1", 2), ("100", 1)], ids=["waited for", "cut"])
def test_a_child_that_is_forked_during_the_first_span_of_another_thread_ends(tmp_path, speed, spans):
    file = tmp_path / "run.jsonl"
    done = subprocess.run(
        [*RUN, "--output", str(file), "--", sys.executable, str(HERE / "forking_while_importing.py"), "2", speed],
        env=unmeasured(),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
    assert file.read_text().count('"name":"work"') == spans
    said = "forked while another thread imported the OpenTelemetry SDK" in done.stderr
    assert said == (spans == 1)
