# SPDX-License-Identifier: Apache-2.0
"""Processes of `multiprocessing` by each start method: `program.py` starts them, a receiver on a socket gets the spans."""

import json
import math
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import work
from support.forked import in_forked_child
from support.receiver import Receiver
from torchspan.hooks.propagation._processes import PATIENCE

PROGRAM = Path(__file__).parent / "program.py"


class Run:
    """What the program printed, and what arrived."""

    def __init__(self, method, environment, endpoint):
        self.method = method
        done = subprocess.run(
            [sys.executable, str(PROGRAM), method],
            env={**environment, "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        self.reported, self.err = json.loads(done.stdout.splitlines()[-1]), done.stderr

    def take(self, spans):
        self.spans = spans
        arrived = work.Arrived(spans)
        self.users, self.torchspans = arrived.users, arrived.torchspans
        return self

    def parents(self, label):
        """Names of the parents of the user's span and of torchspan's."""
        names = {span.span_id: span.name for span in self.spans}
        return tuple(names.get(each.parent_id, each.parent_id) for each in (self.users[label], self.torchspans[label]))


@pytest.fixture(scope="module", params=multiprocessing.get_all_start_methods())
def ran(request, clean):
    with Receiver() as receiver:
        run = Run(request.param, clean, receiver.endpoint)
        return run.take(receiver.spans())


@pytest.mark.parametrize("label", ["process", "subclass", "fails", "leaves"])
def test_a_process_has_the_span_in_which_it_was_started_as_its_parent(ran, label):
    assert ran.parents(label) == ("request process", "request process")


def test_the_processes_end_as_they_do_without_us(ran):
    ends = {label: ran.reported[label][0] for label in ("process", "subclass", "fails", "leaves", "alone")}
    assert ends == {"process": 0, "subclass": 0, "fails": 1, "leaves": 7, "alone": 0}
    assert ran.err.count("RuntimeError: the program's own") == 1


def test_nothing_is_left_on_the_programs_objects_or_in_its_environment(ran):
    assert ran.reported["process"][1] == [False, []]
    assert ran.reported["environment changed"] is False


@pytest.mark.parametrize("label", ["alone", "item alone", "pool alone"])
def test_outside_of_spans_no_span_has_a_parent(ran, label):
    assert ran.parents(label) == ("", "")
    assert ran.torchspans[label].links == []


def test_items_of_a_process_pool_have_the_parents_of_who_submitted_them_in_one_worker(ran):
    assert ran.parents("item 1") == ("request item 1",) * 2
    assert ran.parents("item 2") == ("request item 2",) * 2
    assert ran.parents("executor map 1") == ran.parents("executor map 2") == ("request executor map",) * 2
    (worker,) = set(ran.reported["executor"])
    assert worker != ran.reported["own"]


@pytest.mark.parametrize("label", ["apply", "apply_async", "map", "imap", "imap_unordered", "starmap"])
def test_items_of_a_multiprocessing_pool_too(ran, label):
    assert ran.parents(label) == (f"request pool {label}",) * 2


def test_a_long_lived_process_has_a_parent_while_that_is_open_and_links_to_it_afterwards(ran):
    assert ran.parents("worker during") == ("request of the worker's start",) * 2
    assert ran.parents("worker after") == ("", "")
    (start,) = [span for span in ran.spans if span.name == "request of the worker's start"]
    assert ran.torchspans["worker after"].links == [(start.trace_id, start.span_id)]


def test_a_bare_fork_continues_in_the_span_in_which_it_happened(ran):
    forked = {"forked"} if ran.method == "fork" else set()
    assert {"forked"} & ran.torchspans.keys() == forked
    assert [ran.parents(label) for label in forked] == [("request forked",) * 2] * len(forked)


def test_children_have_ids_of_their_own_though_the_program_seeds_its_generator(ran):
    ids = [span.span_id for span in ran.spans]
    assert len(set(ids)) == len(ids)
    own = [ran.torchspans[f"ids {child} {number}"].trace_id for child in range(2) for number in range(3)]
    assert len(set(own)) == 6


def test_a_child_is_instrumented_as_its_parent_is(ran):
    assert ran.reported["child is instrumented"] is True


HANGS = """
import multiprocessing, os, threading
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
import torchspan

class Hanging(SpanExporter):
    def export(self, spans):
        threading.Event().wait()

trace.set_tracer_provider(TracerProvider())
trace.get_tracer_provider().add_span_processor(BatchSpanProcessor(Hanging()))
torchspan.instrument()

def work():
    with trace.get_tracer("app").start_as_current_span("in a fork"):
        pass

for _ in range(2):
    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join()
print(process.exitcode, flush=True)
os._exit(0)
"""
NOT_TAKEN = "an exporter of metrics or of the program's own did not take all that was recorded before a process ended\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_each_forked_process_says_that_an_exporter_of_the_program_did_not_take_its_spans(clean):
    done = subprocess.run(
        [sys.executable, "-c", HANGS], env=clean, capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.stdout, done.stderr) == ("0\n", NOT_TAKEN * 2)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_processes_of_one_program_wait_the_whole_time_once():
    PATIENCE._note(-math.inf)
    assert PATIENCE.limit_s() == 2.0
    try:
        in_forked_child(PATIENCE.gave_up)
        assert PATIENCE.limit_s() == 0.05
    finally:
        PATIENCE._note(-math.inf)
