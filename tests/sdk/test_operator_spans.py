# SPDX-License-Identifier: Apache-2.0
"""Spans of PyTorch's operators, and their way to an exporter."""

import logging
import os
import subprocess
import sys
import threading
import time

import pytest
import torch  # noqa: F401 - its registry says which names are operators
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, get_value
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Decision, Sampler, SamplingResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, StatusCode, TraceFlags, TraceState

from support import otlp
from support.child import TESTS, unmeasured
from support.emitted import EMITTED
from support.forked import in_forked_child
from support.operator_records import (
    ADD,
    ADDMM_BACKWARD,
    BACKWARD,
    ELSEWHERE,
    EVALUATION,
    FAILED,
    LINEAR,
    LINKED,
    NO_NAME,
    NUMBERS,
    OFFSET_NS,
    RANGE,
    REGION,
    TEXT,
    TORCHSCRIPT,
    USER,
    chain,
    end,
    record,
    recorded,
    run,
)
from support.receiver import Receiver
from torchspan.output.sdk._operator_spans import spans, spans_with_texts
from torchspan.sdk import OperatorSpanProcessor

STATE = TraceState([("vendor", "1")])
ROOT = SpanContext(0xAB, 0xCD, is_remote=False, trace_flags=TraceFlags(3), trace_state=STATE)
RESOURCE = Resource({"service.name": "app"})
SCOPE = InstrumentationScope("torchspan", "1")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
forks = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")  # from 3.12 on


def root(context=ROOT):
    return ReadableSpan("torchspan.operators", context, resource=RESOURCE, instrumentation_scope=SCOPE)


def spans_of(*records, **options):
    """The spans of records; each is also held against the attribute table at the end."""
    of_records = list(spans(recorded(*records, **options), root()))
    EMITTED.export(of_records)
    return of_records


def named(number, flags=0, **options):
    """The span of an operator of a name, with the texts that do not leave."""
    operators = recorded(record(1, number, flags, parent_id=0xCD), **options)
    ((span, texts),) = spans_with_texts(operators, root())
    return span, dict(texts)


# --- the spans --------------------------------------------------------------------------------------------------------
def test_an_operator_is_a_span_below_the_root_with_its_trace_flags_state_resource_and_scope():
    (span,) = spans_of(record(0x11, parent_id=0xCD, start=5, end=7))
    assert (span.name, span.kind, span.start_time - OFFSET_NS, span.end_time - OFFSET_NS) == (
        "torch.operator aten.add.Tensor",
        SpanKind.INTERNAL,
        5,
        7,
    )
    assert dict(span.attributes) == {"torch.operator.name": "aten.add.Tensor"}
    assert span.context == SpanContext(0xAB, 0x11, False, TraceFlags(3), STATE)
    assert span.parent == SpanContext(0xAB, 0xCD, False, TraceFlags(3), STATE)
    assert (span.resource, span.instrumentation_scope, span.links, span.events) == (RESOURCE, SCOPE, (), ())
    assert (span.status.status_code, span.status.description) == (StatusCode.UNSET, None)


def test_operators_inside_operators_are_below_them_in_the_order_of_the_records():
    outer, inner = spans_of(record(0x11, LINEAR, parent_id=0xCD), record(0x12, parent_id=0x11))
    assert (outer.parent.span_id, inner.parent.span_id, inner.parent.trace_id) == (0xCD, 0x11, 0xAB)


def test_an_operator_that_raised_is_an_error_without_a_description():
    (span,) = spans_of(record(1, flags=FAILED, parent_id=0xCD))
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, None)


@pytest.mark.parametrize(
    ("flags", "scope"),
    [
        (0, None),
        (BACKWARD, "backward_function"),
        (TORCHSCRIPT, "torchscript_function"),
        (USER, "user_scope"),
        (USER | FAILED, "user_scope"),
    ],
)
def test_what_is_not_a_function_says_what_it_is(flags, scope):
    (span,) = spans_of(record(1, flags=flags, parent_id=0xCD))
    assert span.attributes.get("torch.operator.scope") == scope


def test_an_operator_on_another_thread_than_the_root_has_that_thread():
    here, elsewhere = spans_of(
        record(1, parent_id=0xCD, thread=7), record(2, flags=ELSEWHERE, parent_id=0xCD, thread=140_012_345_678)
    )
    assert "thread.id" not in here.attributes
    assert dict(elsewhere.attributes) == {"torch.operator.name": "aten.add.Tensor", "thread.id": 140_012_345_678}


def test_a_link_has_the_trace_that_its_record_names_and_no_attributes():
    first, second = spans_of(
        record(1, flags=LINKED, parent_id=0xCD, link_id=0x21, link_trace=1),
        record(2, flags=LINKED, parent_id=0xCD, link_id=0x22, link_trace=0),
        links=(0xAA, 2**128 - 1),
    )
    assert [(link.context, dict(link.attributes or {})) for link in (*first.links, *second.links)] == [
        (SpanContext(2**128 - 1, 0x21, False, TraceFlags(3)), {}),
        (SpanContext(0xAA, 0x22, False, TraceFlags(3)), {}),
    ]


def test_shapes_and_data_types_are_those_of_each_operator():
    tensors, without, other = spans_of(
        *chain(3, 0xCD), shapes=[[("float32", [2, 3]), ("int64", [])], [], [("the program's", [1])]]
    )
    assert dict(tensors.attributes) == {
        "torch.operator.name": "aten.add.Tensor",
        "torch.inputs.shapes": ("[2, 3]", "[]"),
        "torch.inputs.dtypes": ("float32", "int64"),
    }
    assert dict(without.attributes) == {"torch.operator.name": "aten.add.Tensor"}
    assert other.attributes["torch.inputs.dtypes"] == ("other",)


def test_five_hundred_operators_have_their_own_ids_and_share_what_is_equal():
    of_records = spans_of(*chain(500, 0xCD))
    assert [span.context.span_id for span in of_records] == list(range(1, 501))
    assert len({id(span.resource) for span in of_records}) == 1


def test_the_encoder_of_otlp_does_not_hash_the_resource_of_each_operator(monkeypatch):
    hashes, hash_of = [], Resource.__hash__
    monkeypatch.setattr(Resource, "__hash__", lambda resource: hashes.append(resource) or hash_of(resource))
    encode_spans(list(spans(recorded(*chain(500, 0xCD)), root())))
    assert 1 <= len(hashes) <= 2


def test_without_a_context_there_are_no_spans():
    assert list(spans(recorded(*chain(3, 1)), root(None))) == []


# --- names ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("number", "name"),
    [
        (ADD, "aten.add.Tensor"),
        (LINEAR, "aten.linear"),
        (ADDMM_BACKWARD, "AddmmBackward0"),
        (EVALUATION, "autograd.engine.evaluate_function.AddmmBackward0"),
        (REGION, "torch.compile.region"),
        *((number, "?") for number in (NO_NAME, *range(RANGE, NUMBERS.stop))),
    ],
)
def test_only_names_that_pytorch_knows_leave(number, name):
    for capture in ("none", "local"):
        span, _ = named(number, capture=capture)
        assert (span.name, dict(span.attributes)) == (f"torch.operator {name}", {"torch.operator.name": name})


def test_the_file_and_captures_get_a_name_of_the_program_whole_at_most_256_bytes():
    whole = {number: named(number, capture="local")[1] for number in NUMBERS}
    assert [whole[number] for number in range(NO_NAME, RANGE)] == [{}] * 6
    assert whole[RANGE] == {"torchspan.local.torch.operator.name": "patient_of_room_7"}
    assert whole[NO_NAME + 8] == {"torchspan.local.torch.operator.name": "\ufffd\ufffd patient \ufffd"}
    assert whole[NO_NAME + 9] == {"torchspan.local.torch.operator.name": "patient " * 32}


def test_without_capture_no_one_gets_a_name_of_the_program():
    assert named(TEXT)[1] == {}


def test_with_capture_of_texts_the_attribute_is_whole_and_the_name_of_the_span_is_not():
    for number, text in ((RANGE, "patient_of_room_7"), (TEXT, "the patient of room 7")):
        span, texts = named(number, USER, capture="text")
        assert span.name == "torch.operator ?"
        assert dict(span.attributes) == {"torch.operator.name": text, "torch.operator.scope": "user_scope"}
        assert texts == {}


# --- the processor ----------------------------------------------------------------------------------------------------
class Collecting(SpanExporter):
    """Keeps what it gets, with the facts of each call. `may_continue` may be cleared, to make it block."""

    def __init__(self, outcomes=()):
        self.batches, self.threads, self.suppressed = [], set(), set()
        self.outcomes = list(outcomes)
        self.may_continue, self.is_inside = threading.Event(), threading.Event()
        self.may_continue.set()
        self.shutdowns = self.at_once = self.most_at_once = 0

    def export(self, batch):
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.is_inside.set()
        assert self.may_continue.wait(60)
        self.batches.append(list(batch))
        self.threads.add(threading.current_thread().name)
        self.suppressed.add(get_value(_SUPPRESS_INSTRUMENTATION_KEY))
        self.at_once -= 1
        outcome = self.outcomes.pop(0) if self.outcomes else SpanExportResult.SUCCESS
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def shutdown(self):
        self.shutdowns += 1

    def exported(self):
        return [span for batch in self.batches for span in batch]


class RecordOnly(Sampler):
    def should_sample(self, *args, **kwargs):
        return SamplingResult(Decision.RECORD_ONLY)

    def get_description(self):
        return "RecordOnly"


def provider_with(processor, **options):
    provider = TracerProvider(resource=RESOURCE, shutdown_on_exit=False, **options)
    provider.add_span_processor(processor)
    return provider


@pytest.fixture
def collecting():
    return Collecting()


@pytest.fixture
def processor(collecting):
    processor = OperatorSpanProcessor(collecting)
    yield processor
    collecting.may_continue.set()
    processor.shutdown()


@pytest.fixture
def tracer(processor):
    return provider_with(processor).get_tracer("torchspan")


def test_operators_of_a_span_that_ends_are_exported_and_the_span_is_not(tracer, processor, collecting):
    context = run(tracer, 3)
    assert processor.force_flush()
    assert [(span.name, span.parent, span.context.trace_id) for span in collecting.exported()] == [
        ("torch.operator aten.add.Tensor", context, context.trace_id)
    ] * 3


def test_the_operators_are_marked_as_read(tracer):
    span, operators = tracer.start_span("torchspan.operators"), recorded(*chain(1, 1))
    end(span, operators)
    assert operators.is_read


def test_without_a_flush_they_are_exported_soon(tracer, collecting):
    run(tracer)
    otlp.wait_until(collecting.exported)


def test_a_span_without_operators_starts_no_thread(tracer, processor, collecting):
    before = threading.active_count()
    tracer.start_span("torchspan.operators").end()
    assert threading.active_count() == before


@pytest.mark.parametrize("sampler", [RecordOnly(), ALWAYS_OFF], ids=["recorded", "refused"])
def test_operators_of_a_span_that_is_not_sampled_are_left_alone(processor, collecting, sampler):
    run(provider_with(processor, sampler=sampler).get_tracer("torchspan"))
    processor.force_flush()
    assert collecting.batches == []


def test_batches_have_at_most_512_spans_in_order_one_after_the_other_on_one_thread(tracer, processor, collecting):
    for _ in range(7):
        run(tracer, 300)
    assert processor.force_flush()
    assert [span.context.span_id for span in collecting.exported()] == [*range(1, 301)] * 7
    assert max(map(len, collecting.batches)) <= 512
    assert (collecting.threads, collecting.suppressed, collecting.most_at_once) == ({"torchspan operators"}, {True}, 1)


def test_many_threads_lose_nothing(tracer, processor, collecting):
    threads = [threading.Thread(target=lambda: [run(tracer, 5) for _ in range(40)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert processor.force_flush()
    assert (len(collecting.exported()), collecting.most_at_once, processor.dropped) == (8 * 40 * 5, 1, 0)


@pytest.mark.parametrize(
    ("outcome", "cause"),
    [(SpanExportResult.FAILURE, "the exporter returned FAILURE"), (OSError("the patient's text"), "OSError")],
)
def test_exports_that_fail_are_one_warning_and_the_next_ones_are_made(outcome, cause, caplog):
    collecting = Collecting([outcome] * 3)
    processor = OperatorSpanProcessor(collecting)
    tracer = provider_with(processor).get_tracer("torchspan")
    for _ in range(5):
        run(tracer)
        assert processor.force_flush()
    processor.shutdown()
    assert len(collecting.batches) == 5
    assert [(record.name, record.levelno, record.getMessage()) for record in caplog.records] == [
        ("torchspan.sdk", logging.WARNING, f"torchspan: spans of operators could not be exported ({cause}).")
    ]


def test_records_that_cannot_be_read_are_one_warning_and_the_next_ones_are_exported(
    tracer, processor, collecting, caplog
):
    for events in (b"too short", bytes(63)):
        end(tracer.start_span("torchspan.operators"), recorded(events))
    run(tracer)
    assert processor.force_flush()
    assert len(collecting.exported()) == 1
    assert [message.partition(" Cause")[0] for message in caplog.messages] == ["Spans of operators are missing."]


def test_a_span_of_another_kind_of_sdk_raises_nothing(processor):
    processor.on_start(object())
    processor.on_end(object())


def test_a_flush_of_an_exporter_that_blocks_ends_with_its_time_and_the_spans_arrive_later(
    tracer, processor, collecting
):
    collecting.may_continue.clear()
    run(tracer)
    assert processor.force_flush(10) is False
    collecting.may_continue.set()
    assert processor.force_flush() is True
    assert len(collecting.exported()) == 1


@pytest.mark.fault(
    "exporters", "is slower than operators come", lost="1000 operators", counted="OperatorSpanProcessor.dropped"
)
def test_operators_beyond_65536_that_wait_are_dropped_and_counted_with_one_warning(
    tracer, processor, collecting, caplog
):
    collecting.may_continue.clear()
    for _ in range(2):  # enough for a batch
        run(tracer, 500)
    assert collecting.is_inside.wait(60)
    otlp.wait_until(lambda: processor._taken == 1000)
    for _ in range(133):
        run(tracer, 500)
    assert processor.dropped == 1000
    assert caplog.messages == [
        "torchspan: 65536 operators wait for an exporter, and further ones are dropped (it is too slow)."
    ]
    collecting.may_continue.set()
    assert processor.force_flush()
    assert len(collecting.exported()) == 1000 + 131 * 500


def test_a_shutdown_exports_what_waits_and_shuts_the_exporter_down_once(collecting, caplog):
    processor = OperatorSpanProcessor(collecting)
    provider = provider_with(processor)
    run(provider.get_tracer("torchspan"))
    provider.shutdown()
    processor.shutdown()
    span = provider.get_tracer("torchspan").start_span("torchspan.operators")
    end(span, recorded(*chain(1, 1)))
    assert processor.force_flush()
    assert (len(collecting.exported()), collecting.shutdowns) == (1, 1)
    otlp.wait_until(lambda: "torchspan operators" not in [thread.name for thread in threading.enumerate()])


def test_a_shutdown_whose_exporter_raises_raises_nothing(caplog):
    class Failing(Collecting):
        def shutdown(self):
            raise OSError

    OperatorSpanProcessor(Failing()).shutdown()
    assert [message.partition(" Cause")[0] for message in caplog.messages] == ["Spans of operators are missing."]


@pytest.mark.parametrize("part", ["_export", "_export_waiting"])
def test_a_flush_does_not_wait_for_spans_that_could_not_be_made(
    tracer, processor, collecting, monkeypatch, caplog, part
):
    original = getattr(processor, part)

    def failing_once(*arguments):
        monkeypatch.setattr(processor, part, original)
        raise MemoryError

    monkeypatch.setattr(processor, part, failing_once)
    run(tracer)
    start_s = time.monotonic()
    assert processor.force_flush(20_000)
    assert time.monotonic() - start_s < 10
    assert [message.partition(" Cause")[0] for message in caplog.messages] == ["Spans of operators are missing."]
    run(tracer)
    assert processor.force_flush()
    assert collecting.exported()


def test_a_flush_that_fails_raises_nothing_and_returns_false(processor, monkeypatch, caplog):
    monkeypatch.setattr(processor, "_wake", None)
    assert processor.force_flush() is False
    assert [message.partition(" Cause")[0] for message in caplog.messages] == ["Spans of operators are missing."]


def test_where_no_thread_can_be_started_a_flush_exports(tracer, processor, collecting, monkeypatch):
    def no_thread(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    run(tracer)
    assert processor.force_flush()
    assert (len(collecting.exported()), collecting.suppressed) == (1, {True})


@needs_fork
@forks
def test_a_forked_child_begins_with_an_empty_queue_and_has_a_thread_of_its_own(tracer, processor, collecting):
    collecting.may_continue.clear()
    run(tracer)
    assert collecting.is_inside.wait(60)
    run(tracer)

    def in_child():
        collecting.may_continue.set()
        run(tracer, 2)
        return processor.force_flush(), len(collecting.exported())

    assert in_forked_child(in_child) == "(True, 2)"
    collecting.may_continue.set()
    assert processor.force_flush()
    assert len(collecting.exported()) == 2


EXITS = """
import atexit, sys
sys.path.insert(0, {tests!r})
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter
from support.operator_records import run
from torchspan.sdk import OperatorSpanProcessor

class Printing(SpanExporter):
    def export(self, spans):
        print(len(spans), "exported")
    def shutdown(self):
        print("shut down")

provider = TracerProvider()
provider.add_span_processor(OperatorSpanProcessor(Printing()))
tracer = provider.get_tracer("torchspan")
if sys.argv[1] == "before":
    run(tracer, 3)
else:
    atexit.register(run, tracer, 3)  # before the provider's own shutdown
"""


@pytest.mark.parametrize("when", ["before", "while"])
def test_a_program_that_exits_has_exported_what_ended_before_and_while_it_exits(when):
    program = EXITS.format(tests=str(TESTS))
    done = subprocess.run(
        [sys.executable, "-c", program, when],
        env=unmeasured(),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout == "3 exported\nshut down\n"


def test_an_otlp_exporter_sends_the_same_spans_over_a_socket():
    with Receiver() as receiver:
        processor = OperatorSpanProcessor(OTLPSpanExporter(f"{receiver.url}/v1/traces"))
        provider = provider_with(processor)
        span = provider.get_tracer("torchspan", "1").start_span("torchspan.operators")
        parent = span.get_span_context().span_id
        operators = recorded(
            *(record(number, number, number % 8, parent_id=parent, link_id=9) for number in NUMBERS),
            links=(0xAA,),
            capture="local",
        )
        end(span, operators)
        provider.shutdown()
        sent = otlp.plain(receiver.messages())
        bodies = b"".join(body for _, _, body in receiver.bodies)
    assert len(sent) == len(NUMBERS)
    assert sent == otlp.plain([encode_spans(list(spans(operators, span)))])
    assert b"patient" not in bodies
