# SPDX-License-Identifier: Apache-2.0
"""Providers that a program sets after `instrument()`, or exchanges."""

import json

import pytest

from support.receiver import Receiver

PROVIDERS = """
import json
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
import torchspan
from torchspan.observers import observable

def provider():
    made, exporter = TracerProvider(shutdown_on_exit=False), InMemorySpanExporter()
    made.add_span_processor(SimpleSpanProcessor(exporter))
    return made, lambda: [span.name.removeprefix("torchspan.observed ") for span in exporter.get_finished_spans()]

def observed(name):
    def work():
        with_parent = trace.get_current_span().get_span_context().is_valid
        return with_parent
    work.__name__ = work.__qualname__ = name
    return observable()(work)
"""

LATER = f"""{PROVIDERS}
torchspan.instrument()
is_current = [observed("before")()]
first, of_first = provider()
trace.set_tracer_provider(first)
is_current.append(observed("first")())
second, of_second = provider()
trace.set_tracer_provider(second)  # OpenTelemetry refuses it
is_current.append(observed("refused")())
trace._TRACER_PROVIDER = second  # as programs do all the same
is_current.append(observed("second")())
torchspan.uninstrument()
is_current.append(observed("off")())
third, of_third = provider()
torchspan.instrument(tracer_provider=third)
is_current.append(observed("third")())
torchspan.uninstrument()
torchspan.instrument()
is_current.append(observed("again")())
print(json.dumps([of_first(), of_second(), of_third(), is_current]))
"""


@pytest.fixture(scope="module")
def later(ran):
    done = ran(LATER)
    assert done.status == 0, done.err
    of_first, of_second, of_third, is_current = json.loads(done.out)
    return {"first": of_first, "second": of_second, "third": of_third, "current": is_current, "err": done.err}


def test_spans_go_to_a_provider_from_when_it_is_set(later):
    assert later["first"] == ["first", "refused"]


@pytest.mark.fault("the SDK", "its provider is replaced")
def test_spans_follow_a_provider_that_takes_the_place_of_another(later):
    assert later["second"] == ["second", "again"]


def test_a_provider_that_is_given_holds_until_torchspan_is_disabled(later):
    assert later["third"] == ["third"]


def test_a_span_is_current_where_one_is_recorded_and_nowhere_else(later):
    assert later["current"] == [False, True, True, True, False, True, True]


def test_what_is_logged_is_opentelemetrys_refusal_alone(later):
    assert later["err"] == "Overriding of current TracerProvider is not allowed\n"


REPLACED_BY_THE_PROGRAM = f"""{PROVIDERS}
provider_of_the_program, of_program = provider()
observed("automatic")()
torchspan.instrument(tracer_provider=provider_of_the_program)
observed("own")()
torchspan.uninstrument()
torchspan.uninstrument()
observed("off")()
print(json.dumps(of_program()))
"""


def test_the_programs_own_provider_wins_over_that_of_opentelemetry_instrument(instrumented):
    with Receiver() as receiver:
        done = instrumented(REPLACED_BY_THE_PROGRAM, **receiver.environment())
        assert (done.status, json.loads(done.out), done.err) == (0, ["own"], "")
        assert [span.name for span in receiver.spans()] == ["torchspan.observed automatic"]
