# SPDX-License-Identifier: Apache-2.0
"""Ranks that have no spans: what they leave out, what they count, and what continues."""

import threading

import pytest
from opentelemetry import trace

from support.tree import outline
from torchspan import phase
from torchspan.output.writer._heartbeats import NAME
from torchspan.start.bridge import Bridge
from torchspan.words.settings import Settings


@pytest.fixture(autouse=True)
def no_rank(monkeypatch):
    for name in (
        "RANK",
        "OMPI_COMM_WORLD_RANK",
        "MV2_COMM_WORLD_RANK",
        "PMI_RANK",
        "SLURM_PROCID",
        "JOB_COMPLETION_INDEX",
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def engine(provider, metrics):
    """`engine(ranks)`: the engine of a bridge with that setting."""
    bridges = []

    def make(ranks, heartbeat=0):
        settings = Settings(ranks=ranks, heartbeat=heartbeat)
        providers = {"tracer_provider": provider, "meter_provider": metrics.provider}
        bridges.append(Bridge(settings, providers, run=None))
        return bridges[-1]._engine

    yield make
    metrics.read()
    for bridge in bridges:
        bridge.close()


def compile_with_a_stage(engine):
    compilation = engine.open(phase.COMPILE, {})
    engine.close(engine.open(phase.LOWER, {}))
    engine.close(compilation)


TREE = ["torch_tensorrt.compile\n  torch_tensorrt.lower"]


@pytest.mark.parametrize(
    ("ranks", "rank", "expected"),
    [
        ("all", "3", TREE),
        ("3", "3", TREE),
        ("0-7", "3", TREE),
        ("0,3", "3", TREE),
        ("0", "3", []),
        ("4-7", "3", []),
        ("0", "0", TREE),
    ],
)
def test_the_ranks_that_are_named_have_spans(engine, exporter, monkeypatch, ranks, rank, expected):
    monkeypatch.setenv("RANK", rank)
    compile_with_a_stage(engine(ranks))
    assert outline(exporter.get_finished_spans()) == expected


def test_a_process_without_a_rank_has_spans(engine, exporter, metrics):
    compile_with_a_stage(engine("7"))
    assert outline(exporter.get_finished_spans()) == TREE
    assert metrics.values("torchspan.span.dropped", "torchspan.dropped.reason") == {}


@pytest.mark.parametrize("name", ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "JOB_COMPLETION_INDEX"])
def test_the_rank_is_that_of_any_launcher(engine, exporter, monkeypatch, name):
    monkeypatch.setenv(name, "1")
    compile_with_a_stage(engine("0"))
    assert exporter.get_finished_spans() == ()


def test_a_rank_that_a_program_sets_late_counts_from_there_on(engine, exporter, monkeypatch):
    made = engine("0")
    compile_with_a_stage(made)
    monkeypatch.setenv("RANK", "1")
    compile_with_a_stage(made)
    assert outline(exporter.get_finished_spans()) == TREE


def test_spans_of_the_program_stay_as_they_are(engine, exporter, tracer, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    made = engine("0")
    with tracer.start_as_current_span("step") as step:
        compilation = made.open(phase.COMPILE, {})
        with tracer.start_as_current_span("inside"):
            pass
        assert trace.get_current_span() is step
        made.close(compilation)
        assert trace.get_current_span() is step
    assert outline(exporter.get_finished_spans()) == ["step\n  inside"]
    assert dict(step.attributes) == {}


def test_metrics_come_from_every_rank_and_count_what_was_left_out(engine, metrics, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    made = engine("0")
    for _ in range(3):
        compile_with_a_stage(made)
    assert metrics.values("torchspan.span.dropped", "torchspan.dropped.reason") == {"rank": 6}
    assert metrics.counts("torch_tensorrt.compile.duration") == {(): 3}
    assert metrics.counts("torch_tensorrt.phase.duration", "torchspan.phase") == {"torch_tensorrt.lower": 3}


@pytest.mark.parametrize(("rank", "expected"), [("0", {NAME}), ("1", set())])
def test_a_rank_that_is_left_out_has_no_thread_for_progress_and_no_progress(engine, monkeypatch, rank, expected):
    monkeypatch.setenv("RANK", rank)
    before = {each.name for each in threading.enumerate()}
    made = engine("0", heartbeat=60)
    compilation = made.open(phase.COMPILE, {})
    assert {each.name for each in threading.enumerate()} - before == expected
    made.close(compilation)


def test_an_event_that_fails_is_left_out_as_any_other(engine, exporter, metrics, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    made = engine("0")
    made.close(made.open(phase.COMPILE, {}), ValueError("broken"))
    assert exporter.get_finished_spans() == ()
    assert metrics.counts("torch_tensorrt.compile.duration", "error.type") == {"ValueError": 1}


def test_a_rank_that_changes_inside_an_event_does_not_leave_its_span_open(engine, exporter, monkeypatch):
    made = engine("0")
    compilation = made.open(phase.COMPILE, {})
    monkeypatch.setenv("RANK", "1")
    made.close(compilation)
    assert outline(exporter.get_finished_spans()) == ["torch_tensorrt.compile"]
    assert trace.get_current_span() is trace.INVALID_SPAN
