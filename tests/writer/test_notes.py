# SPDX-License-Identifier: Apache-2.0
"""Events on the program's current span."""

from torchspan.output.writer import CurrentSpanNotes
from torchspan.words import semconv


def test_a_span_has_at_most_20_events_of_each_name(tracer, exporter):
    notes = CurrentSpanNotes()
    with tracer.start_as_current_span("request"):
        for _ in range(25):
            notes.add(semconv.CALL_EVENT, {})
        notes.add(semconv.OUTSIDE_EVENT, {})
    (span,) = exporter.get_finished_spans()
    names = [each.name for each in span.events]
    assert names == 20 * ["torchspan.input"] + ["torchspan.input.out_of_profile"]
