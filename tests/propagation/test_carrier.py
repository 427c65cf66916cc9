# SPDX-License-Identifier: Apache-2.0
"""What a propagator of the program's returns is checked before it becomes an environment or a context."""

import json
import multiprocessing.pool
import os
import subprocess
import sys

import pytest
from opentelemetry import context, propagate, trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from torchspan.hooks.propagation import _carrier

SHOW = [sys.executable, "-S", "-c", "import json, os; print(json.dumps(dict(os.environ)))"]


class Text(str):
    """A text of the program's own class."""

    __slots__ = ()

    def __str__(self):
        raise SystemExit("its text")

    __repr__ = __format__ = __str__


class Own(TextMapPropagator):
    """A propagator of the program's: sets what a test wants, alongside the usual entries."""

    def __init__(self, entries=(), fields=("x-own",), extracted=None):
        self.entries, self.names, self.extracted = entries, fields, extracted

    def inject(self, carrier, context=None, setter=None):
        TraceContextTextMapPropagator().inject(carrier, context, setter)
        for key, value in self.entries:
            setter.set(carrier, key, value)

    def extract(self, carrier, context=None, getter=None):
        if isinstance(self.extracted, Exception):
            raise self.extracted
        return self.extracted

    @property
    def fields(self):
        return self.names


@pytest.fixture
def propagating(monkeypatch):
    """Makes a propagator the one that is set, until the test's end."""
    before = propagate.get_global_textmap()
    yield propagate.set_global_textmap
    propagate.set_global_textmap(before)


REFUSED = [
    ("x-own", "with a \0 in it"),
    ("x-own", 4711),
    ("x-own", None),
    ("x-own", b"bytes"),
    ("x-own", Text("of another class")),
    ("x-own", "a lone \ud834 surrogate"),
    ("x-own", "long" * 100_000),
    ("", "no key"),
    (5, "a number for a key"),
    (Text("x-own"), "a key of another class"),
]


@pytest.mark.parametrize("entry", REFUSED, ids=range(len(REFUSED)))
def test_what_could_not_be_a_variable_is_left_out_and_the_child_starts(entry, instrument, tracer, propagating):
    instrument()
    propagating(Own([entry], fields=("traceparent", "x-own")))
    with tracer.start_as_current_span("request"):
        environment = json.loads(subprocess.check_output(SHOW))
    assert "X_OWN" not in environment
    assert "TRACEPARENT" in environment


def test_what_can_be_one_is_passed(instrument, tracer, propagating):
    instrument()
    propagating(Own([("x-own", "é a=b")], fields=("traceparent", "x-own")))
    with tracer.start_as_current_span("request"):
        assert json.loads(subprocess.check_output(SHOW))["X_OWN"] == "é a=b"


def test_a_propagator_that_names_a_variable_of_the_programs_does_not_replace_it(instrument, tracer, propagating):
    instrument()
    propagating(Own([("path", "/tmp/planted")], fields=("traceparent", "path")))
    with tracer.start_as_current_span("request"):
        assert json.loads(subprocess.check_output(SHOW))["PATH"] == os.environ["PATH"]


@pytest.mark.parametrize("fields", [None, 5, ("x-own", 5), [b"x-own"]], ids=range(4))
def test_fields_that_are_not_texts_are_left_out(fields, tracer, propagating):
    propagating(Own(fields=fields))
    assert _carrier.fields() <= {"X_OWN"}


def test_a_flood_of_entries_is_cut(propagating):
    propagating(Own([(f"x-{number}", "value") for number in range(100_000)]))
    assert len(_carrier.pack(Context())) == _carrier.VALUES_LIMIT


@pytest.mark.parametrize("extracted", [None, 5, {}, "text", LookupError("theirs")], ids=range(5))
def test_a_context_that_is_none_is_an_empty_one(extracted, propagating):
    propagating(Own(extracted=extracted))
    found = _carrier.unpack({"TRACEPARENT": "00-0000000000000000000000000000000a-000000000000000b-01"})
    assert type(found) is Context
    assert found == {}


@pytest.mark.fault("the SDK", "a propagator makes nonsense")
@pytest.mark.parametrize("extracted", [5, LookupError("theirs")], ids=range(2))
def test_work_items_run_whatever_a_propagator_makes_of_their_context(extracted, instrument, tracer, propagating):
    instrument()
    propagating(Own(extracted=extracted))
    with multiprocessing.get_context("fork").Pool(1) as pool, tracer.start_as_current_span("request"):
        assert pool.apply_async(len, ("abc",)).get(60) == 3


def test_a_value_that_does_not_pickle_keeps_no_work_item(instrument, tracer, propagating):
    instrument()
    propagating(Own([("x-own", lambda: None)]))
    with multiprocessing.get_context("fork").Pool(1) as pool, tracer.start_as_current_span("request"):
        assert pool.apply_async(len, ("abc",)).get(60) == 3


def test_what_is_current_is_what_it_was(tracer, propagating):
    propagating(Own([("x-own", "value")]))
    with tracer.start_as_current_span("request") as request:
        _carrier.pack(context.get_current())
        assert trace.get_current_span() is request
