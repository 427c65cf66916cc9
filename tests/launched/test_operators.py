# SPDX-License-Identifier: Apache-2.0
"""The exporters that OTEL_TRACES_EXPORTER names get PyTorch's operators, too, and what they did not deliver is counted."""

import os
import threading

import pytest
import torch  # noqa: F401 - its registry says which names are operators
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from support.forked import in_forked_child
from support.operator_records import run
from torchspan.start.launched.exporting import Delivery

forks = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")  # from 3.12 on


class Collecting(SpanExporter):
    """Keeps names. `may_continue` may be cleared, to make it block."""

    def __init__(self, outcome=SpanExportResult.SUCCESS):
        self.outcome = outcome
        self.names, self.calls = [], []
        self.may_continue, self.is_inside = threading.Event(), threading.Event()
        self.may_continue.set()
        self.at_once = self.most_at_once = 0

    def export(self, spans):
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.is_inside.set()
        assert self.may_continue.wait(60)
        self.names += [span.name for span in spans]
        self.at_once -= 1
        return self.outcome

    def shutdown(self):
        self.calls.append(f"shutdown after {len(self.names)}")


def tracer_of(delivery, **options):
    provider = TracerProvider(shutdown_on_exit=False, **options)
    provider.add_span_processor(delivery)
    return provider.get_tracer("torchspan")


@pytest.fixture
def collecting():
    return Collecting()


@pytest.fixture
def delivery(collecting):
    delivery = Delivery("collecting", collecting)
    yield delivery
    collecting.may_continue.set()
    delivery.shutdown()


def test_a_flush_exports_spans_and_the_operators_below_them(delivery, collecting):
    run(tracer_of(delivery), 2)
    assert delivery.undelivered == 3
    assert delivery.force_flush()
    assert sorted(collecting.names) == ["torch.operator aten.add.Tensor"] * 2 + ["torchspan.operators"]
    assert delivery.undelivered == 0


def test_a_shutdown_exports_both_and_then_shuts_the_exporter_down_once(delivery, collecting):
    run(tracer_of(delivery), 2)
    delivery.shutdown()
    assert (collecting.calls, delivery.undelivered) == (["shutdown after 3"], 0)


@pytest.mark.fault(
    "exporters", "does not take spans of operators", lost="21 spans", counted="the last line of torchspan run"
)
def test_what_an_exporter_does_not_deliver_is_counted_with_operators():
    delivery = Delivery("failing", Collecting(SpanExportResult.FAILURE))
    run(tracer_of(delivery), 20)
    delivery.shutdown()
    assert delivery.undelivered == 21


def test_spans_that_are_not_sampled_are_neither_exported_nor_counted(delivery, collecting):
    run(tracer_of(delivery, sampler=ALWAYS_OFF))
    assert (delivery.force_flush(), delivery.undelivered, collecting.names) == (True, 0, [])


def test_an_exporter_gets_one_batch_after_the_other_from_both(delivery, collecting):
    tracer = tracer_of(delivery)
    threads = [threading.Thread(target=lambda: [run(tracer, 40) for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        delivery.force_flush()
    assert delivery.force_flush()
    assert (len(collecting.names), collecting.most_at_once, delivery.undelivered) == (4 * 50 * 41, 1, 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@forks
def test_a_forked_child_counts_and_exports_its_own_while_the_parent_exports(delivery, collecting):
    tracer = tracer_of(delivery)
    collecting.may_continue.clear()
    run(tracer, 600)
    assert collecting.is_inside.wait(60)

    def in_child():
        collecting.may_continue.set()
        run(tracer, 2)
        before = delivery.undelivered
        return before, delivery.force_flush(), delivery.undelivered, len(collecting.names)

    assert in_forked_child(in_child) == "(3, True, 0, 3)"
    collecting.may_continue.set()
    assert delivery.force_flush()
    assert (len(collecting.names), delivery.undelivered) == (601, 0)
