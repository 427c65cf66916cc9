# SPDX-License-Identifier: Apache-2.0
"""Processes that torch starts: workers of a DataLoader, and those in which Inductor compiles."""

import sys
from collections import Counter

import pytest

from children.programs import HERE, INSTRUMENT, Program, by_process, measured, receiver_of


@pytest.fixture(scope="module")
def loaded(surroundings):
    with receiver_of("grpc") as receiver:
        return Program([INSTRUMENT, sys.executable, str(HERE / "loading.py")], surroundings(receiver), receiver)


def items(program, epoch=None):
    """Spans of the workers: those below the span of an epoch, or those with no parent."""
    spans = program.arrived.spans()
    above = {each.span_id for each in spans if each.name == f"{epoch} epoch"} if epoch else {""}
    return [each for each in spans if each.attributes.get("torch.model.class") == "Item" and each.parent_id in above]


def test_items_of_a_data_loader_are_below_the_epoch_that_started_its_workers(loaded):
    assert len(items(loaded, "first")) == 2


def test_later_items_of_workers_that_stay_have_no_stale_parent_and_link_to_it(loaded):
    (epoch,) = [each for each in loaded.arrived.spans() if each.name == "first epoch"]
    assert items(loaded, "second") == []
    assert [each.links for each in items(loaded)] == [[(epoch.trace_id, epoch.span_id)]] * 2


def test_metrics_of_a_data_loaders_workers_count_each_compilation_once(loaded):
    assert sorted(by_process(loaded.arrived.spans()).values(), key=str) == [
        Counter(Item=2),
        Counter(Item=2),
        Counter(Parent=1),
    ]
    assert sorted(measured(loaded.arrived).values()) == [1, 2, 2]


def test_a_data_loaders_workers_have_no_thread_of_torchspans_before_their_first_compilation(loaded):
    first, _ = loaded.reported
    assert first == [[], []]


@pytest.mark.slow  # three processes import torch
def test_inductors_compile_workers_have_no_stale_parent_and_no_thread_of_torchspans(surroundings):
    with receiver_of("grpc") as receiver:
        program = Program([INSTRUMENT, sys.executable, str(HERE / "compiling.py")], surroundings(receiver), receiver)
        first, second = program.reported
        assert first == second == {"pid": first["pid"], "threads": [], "span": 0, "variables": []}
        # The program imports torch, and so does the process that starts the workers, which is Inductor's own.
        imported = [
            span.attributes["torchspan.import.module"] for span in receiver.spans() if span.name == "torchspan.import"
        ]
        assert imported.count("torch") == 1
        (worker,) = [each for each in receiver.spans() if each.name == "torch.compile_worker"]
        (backend,) = [each for each in receiver.spans() if each.name == "torch.compile_phase backend_compile"]
        assert worker.parent_id == backend.span_id
        assert worker.attributes["torch.compile.worker.kind"] == "process"
