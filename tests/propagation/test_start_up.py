# SPDX-License-Identifier: Apache-2.0
"""What a process was started with, as a CI job, Kubernetes or torchspan on the other side sets it."""

import os
import subprocess
import sys

import pytest

PARENT = "00-0000000000000000000000000000000a-000000000000000b-01"
VARIABLES = {"TRACEPARENT": PARENT, "TRACESTATE": "vendor=x", "BAGGAGE": "tenant=a"}


@pytest.fixture
def program(instrumented):
    """Run a text as a program under `opentelemetry-instrument`; what it printed."""

    def run(text, **variables):
        done = subprocess.run(
            ["opentelemetry-instrument", sys.executable, "-c", f"from support import work\n{text}"],
            env={**instrumented, **variables},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.strip()

    return run


IN_MAIN_THREAD_AND_OTHERS = """
import threading
from concurrent.futures import ThreadPoolExecutor
work.both("main")
thread = threading.Thread(target=work.both, args=("thread",)); thread.start(); thread.join()
with ThreadPoolExecutor(1) as pool:
    pool.submit(work.both, "pool").result()
from opentelemetry import baggage, trace
print(baggage.get_baggage("tenant"), trace.get_current_span().get_span_context().trace_state.to_header())
"""


def test_it_is_the_parent_of_the_processs_roots_in_every_thread(program, arrived, parents):
    assert program(IN_MAIN_THREAD_AND_OTHERS, **VARIABLES) == "a vendor=x"
    for label in ("main", "thread", "pool"):
        assert parents(label) == ("000000000000000b",) * 2
        assert arrived().torchspans[label].trace_id == "0000000000000000000000000000000a"
        assert arrived().torchspans[label].links == []


def test_a_long_lived_process_can_ask_for_links(program, parents, links):
    program(IN_MAIN_THREAD_AND_OTHERS, **VARIABLES, TORCHSPAN_PROPAGATION="links")
    for label in ("main", "thread"):
        assert (parents(label), links(label)) == (("", ""), ([], ["000000000000000b"]))


@pytest.mark.parametrize("value", ["", "nonsense", "00-0-0-00", PARENT.replace("000b", "0000")])
def test_a_value_that_means_nothing_is_none(value, program, parents, links):
    program("work.both('main')", TRACEPARENT=value)
    assert (parents("main"), links("main")) == (("", ""), ([], []))


def test_disabled_it_is_not_read(program, parents, links):
    program("work.both('main')", **VARIABLES, TORCHSPAN_PROPAGATION="off")
    assert (parents("main"), links("main")) == (("", ""), ([], []))


def test_other_propagators_than_w3cs_are_read_in_their_own_words(program, parents):
    program("work.both('main')", **VARIABLES, OTEL_PROPAGATORS="baggage")
    assert parents("main") == ("", "")


def test_a_child_started_outside_of_spans_is_in_the_trace_too(program, parents):
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'from support import work; work.both(1)'])"
    child = child.replace("work.both(1)", 'work.both(\\"child\\")')
    program(child, **VARIABLES)
    assert parents("child") == ("000000000000000b",) * 2


SERVER = """
from opentelemetry import context, trace
from opentelemetry.instrumentation.utils import _start_internal_or_server_span as starts
from opentelemetry.propagators.textmap import default_getter
work.both("before")
headers = {"traceparent": "00-0000000000000000000000000000000c-000000000000000d-01"}
span, token = starts(trace.get_tracer("user"), "GET /", None, headers, default_getter)
span.end()
print(span.kind.name)
context.detach(token)
work.both("after")
"""


def test_a_process_that_begins_to_serve_has_it_as_no_parent_any_more(program, arrived, parents, links):
    assert program(SERVER, **VARIABLES) == "SERVER"
    request = arrived().users["GET /"]
    assert (request.trace_id, request.parent_id) == ("0000000000000000000000000000000c", "000000000000000d")
    assert parents("before") == ("000000000000000b",) * 2
    assert (parents("after"), links("after")) == (("", ""), ([], ["000000000000000b"]))


def test_enabling_inside_a_span_leaves_that_the_parent(instrument, tracer, both, parents, monkeypatch):
    monkeypatch.setitem(os.environ, "TRACEPARENT", PARENT)
    with tracer.start_as_current_span("request") as request:
        instrument()
        both("inside")
    both("outside")
    assert parents("inside") == (format(request.get_span_context().span_id, "016x"),) * 2
    assert parents("outside") == ("", "")


def test_disabling_takes_it_back(instrument, both, parents, links, monkeypatch):
    monkeypatch.setitem(os.environ, "TRACEPARENT", PARENT)
    instrumentor = instrument()
    both("on")
    instrumentor.uninstrument()
    both("off")
    assert parents("on") == ("000000000000000b",) * 2
    assert (parents("off"), links("off")) == (("", ""), ([], []))
