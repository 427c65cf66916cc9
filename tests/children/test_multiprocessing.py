# SPDX-License-Identifier: Apache-2.0
"""Processes of `multiprocessing` by each start method: parents of spans, metrics counted once, threads."""

import multiprocessing
import os
import sys
from collections import Counter

import pytest

from children.programs import HERE, INSTRUMENT, Program, by_process, measured, receiver_of

DELTA = {"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "delta"}
RUNS = {
    "fork flushed over gRPC": ("grpc", DELTA),
    "fork flushed over HTTP": ("http", {}),
    "spawn": ("http", {}),
    "forkserver": ("grpc", DELTA),
}
"""Arguments of `forking.py`, how it exports, and variables: what could differ is in one of them at least."""

METHODS = [
    pytest.param(each, marks=pytest.mark.slow) if each == "spawn" else each
    for each in RUNS
    if each.split()[0] in multiprocessing.get_all_start_methods()
]


@pytest.fixture(scope="module", params=METHODS)
def program(request, surroundings):
    protocol, variables = RUNS[request.param]
    with receiver_of(protocol) as receiver:
        command = [INSTRUMENT, sys.executable, str(HERE / "forking.py"), *request.param.split()]
        yield Program(command, surroundings(receiver, protocol, **variables), receiver)


def test_each_compilation_is_one_span_of_the_process_in_which_it_was(program):
    found = by_process(program.arrived.spans())
    assert sorted(found.values(), key=str) == [Counter(Child=2), Counter(Parent=4)]


def test_compilations_of_children_are_below_the_span_in_which_they_were_started(program):
    spans = program.arrived.spans()
    (request,) = [each for each in spans if each.name == "request"]
    children = [each for each in spans if each.attributes.get("torch.model.class") == "Child"]
    assert [(each.trace_id, each.parent_id) for each in children] == [(request.trace_id, request.span_id)] * 2


def test_metrics_count_each_compilation_once(program):
    spans = by_process(program.arrived.spans())
    assert measured(program.arrived) == {process: sum(models.values()) for process, models in spans.items()}


def test_a_child_exports_its_metrics_once_at_its_end(program):
    (child,) = [process for process, models in by_process(program.arrived.spans()).items() if "Child" in models]
    exported = Counter(
        attribute.value.string_value
        for request in program.arrived.metrics()
        for resource in request.resource_metrics
        for attribute in resource.resource.attributes
    )
    assert exported[child] == 1


def test_a_child_in_which_nothing_happens_exports_no_metrics_of_torchspans(program):
    assert sorted(measured(program.arrived).values()) == [2, 4]


def test_a_child_has_no_thread_of_torchspans_before_it_does_any_work(program):
    assert program.reported["parent"] == ["torchspan memory", "torchspan-heartbeats"]
    assert program.reported["children"] == [[], []]


@pytest.mark.fault("processes", "fork, spawn, forkserver")
def test_the_children_end_well(program):
    assert program.reported["exits"] == [0, 0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_child_with_nothing_to_export_starts_no_thread_and_ends_without_one(surroundings):
    with receiver_of("http") as receiver:
        program = Program([sys.executable, str(HERE / "exporting_nothing.py")], surroundings(receiver), receiver)
        assert program.reported == []
        assert receiver.requests == 0
