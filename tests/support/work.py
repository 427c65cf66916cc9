# SPDX-License-Identifier: Apache-2.0
"""Work whose place in a trace tests ask for: a span of the user's, and one of torchspan's from a real engine and writer."""

import os
import re

from opentelemetry import trace

from support.engines import extend
from torchspan import phase
from torchspan.engine import Engine
from torchspan.output.writer import SpanWriter
from torchspan.words import semconv


def users(label, provider=None):
    """The user's tracer opens and closes a span called `label`. Returns the process it ran in."""
    (provider or trace.get_tracer_provider()).get_tracer("user").start_span(label).end()
    return os.getpid()


def torchspans(label, provider=None):
    """A compilation passes by, of a model called `label`. Returns the process it ran in."""
    engine = Engine()
    extend(engine, SpanWriter(provider))
    engine.close(engine.open(phase.COMPILE, {semconv.MODEL_CLASS: _as_class(label)}))
    return os.getpid()


def both(label, provider=None):
    users(label, provider)
    return torchspans(label, provider)


def span_id(span):
    """As it arrives."""
    return format(span.get_span_context().span_id, "016x")


def trace_id(span):
    """As it arrives."""
    return format(span.get_span_context().trace_id, "032x")


class Arrived:
    """The spans at a receiver, by label: `users[label]` and `torchspans[label]`, each the one span of that label."""

    def __init__(self, spans):
        self.users = _by(spans, "user", lambda span: span.name)
        self.torchspans = _by(spans, semconv.SCOPE_NAME, lambda span: _of_class(span.attributes[semconv.MODEL_CLASS]))


def _as_class(label):
    """The label as a name that a class may have: only such a name is recorded."""
    return re.sub(r"[^A-Za-z]", lambda found: f"_{ord(found[0]):x}_", label)


def _of_class(name):
    return re.sub(r"_([0-9a-f]+)_", lambda found: chr(int(found[1], 16)), name)


def _by(spans, scope, label):
    found = [(label(span), span) for span in spans if span.scope == scope]
    assert len(dict(found)) == len(found), sorted(name for name, _ in found)
    return dict(found)
