# SPDX-License-Identifier: Apache-2.0
"""PyTorch's operators in the file of `torchspan run`: byte for byte the encoder's text of their spans."""

import json
import os
import threading

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, TraceFlags, TraceState

from support import span_file
from support.forked import in_forked_child
from support.operator_records import (
    NAMES,
    NUMBERS,
    OFFSET_NS,
    REGION,
    PythonLibrary,
    chain,
    end,
    record,
    recorded,
    run,
)
from torchspan.base.recorded_operators import RecordedOperators
from torchspan.output.sdk import _file_processor
from torchspan.output.sdk._operator_spans import spans_with_texts
from torchspan.output.sdk._operator_texts import encoded
from torchspan.output.sdk._otlp_json import Encoder, lines
from torchspan.sdk import RunFileProcessor
from torchspan.words.redaction.operator_text import operator_name

LOCAL_NAME = "torchspan.local.torch.operator.name"
RESOURCE = Resource({"service.name": "app", "text": "ä"})
SCOPE = InstrumentationScope("torchspan", "1", "https://example.org")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
forks = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")  # from 3.12 on

LARGEST = 2**64 - 1
SPAN_IDS, TRACE_IDS = st.integers(1, LARGEST), st.integers(1, 2**128 - 1)
TIMES = st.integers(1, LARGEST - OFFSET_NS)
THREADS = st.integers(0, 2**63 - 1)
STATES = st.sampled_from(
    [None, TraceState(), TraceState([("a", "9")]), TraceState([("ot", "th:8"), ("vendor", 'a"b\\c')])]
)
RECORDS = st.lists(
    st.builds(
        record,
        SPAN_IDS,
        st.sampled_from(NUMBERS),
        st.integers(0, 63).map(lambda flags: flags & ~0x08),
        parent_id=SPAN_IDS,
        start=TIMES,
        end=TIMES,
        link_id=SPAN_IDS,
        thread=THREADS,
        link_trace=st.integers(0, 2),
    ),
    min_size=1,
    max_size=20,
)
SHAPES = st.lists(st.tuples(st.sampled_from(["float32", "int64", "?"]), st.lists(st.integers(0, 2**40), max_size=4)))


@pytest.fixture(params=["python", "c++"])
def library(request):
    """The library, and what it does in Python."""
    return PythonLibrary() if request.param == "python" else request.getfixturevalue("native_library")


def root_with(trace_id=1, state=None):
    context = SpanContext(trace_id, 0xCD, is_remote=False, trace_flags=TraceFlags(1), trace_state=state)
    return ReadableSpan("torchspan.operators", context, resource=RESOURCE, instrumentation_scope=SCOPE)


def one_by_one(operators, root, with_texts):
    """What the encoder writes of the spans."""
    encoder = Encoder()
    return lines(
        encoder.encode(span, texts if with_texts else None) for span, texts in spans_with_texts(operators, root)
    )


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def check_equal(library, data):
    """The same bytes, whatever the records, the root and who may get names; templates are kept from one to the next."""
    records = data.draw(RECORDS)
    shapes = data.draw(st.none() | st.lists(SHAPES, min_size=len(records), max_size=len(records)))
    operators = recorded(
        *records,
        links=data.draw(st.lists(TRACE_IDS, min_size=3, max_size=3)),
        shapes=shapes,
        library=library,
        capture=data.draw(st.sampled_from(["none", "local", "text"])),
    )
    root, with_texts = root_with(data.draw(TRACE_IDS), data.draw(STATES)), data.draw(st.booleans())
    with_texts = with_texts and operators.capture == "local"
    written = lines([encoded(operators, root, Encoder(), with_texts=with_texts)])
    assert written == one_by_one(operators, root, with_texts)


def test_the_text_is_that_of_the_encoder_byte_for_byte(library):
    check_equal(library)


def test_five_hundred_operators_of_all_names_are_the_text_of_the_encoder(library):
    records = [
        record(number, NUMBERS[number % len(NUMBERS)], number % 8, parent_id=0xCD, link_id=number)
        for number in range(1, 501)
    ]
    operators = recorded(*records, links=(0xAA,), library=library, capture="local")
    written = lines([encoded(operators, root_with(), Encoder(), with_texts=True)])
    assert written == one_by_one(operators, root_with(), with_texts=True)
    assert len(json.loads(written)["resourceSpans"][0]["scopeSpans"][0]["spans"]) == 500


def test_a_template_is_made_once_for_a_name_its_flags_and_who_may_get_it(library):
    asked = []
    operators = recorded(*chain(9, 0xCD, name=REGION), library=library)
    name = operators.name
    operators.name = lambda number: (asked.append(number), name(number))[1]
    for _ in range(3):
        encoded(operators, root_with(), Encoder(), with_texts=False)
    assert asked in ([], [REGION])  # the C++ library may know it from another test


@pytest.mark.parametrize("with_shapes", [False, True])
def test_what_the_library_recorded_of_a_training_step_is_the_text_of_the_encoder(native_library, with_shapes):
    model, x = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()), torch.ones(2, 4)
    number = native_library.begin(3, 0, with_shapes)
    with torch.profiler.record_function("the patient of room 7"):
        model(x).sum().backward()
    native_library.end(number)
    events, links, shapes, *_ = native_library.finish(number, (1).to_bytes(16, "big"), 0xCD)
    names = [
        operator_name(name.decode("utf-8", "replace"), overload.decode()) for name, overload in native_library.names(0)
    ]
    operators = RecordedOperators(
        events, links, shapes, OFFSET_NS, native_library, names.__getitem__, "local" if with_shapes else "none"
    )
    written = lines([encoded(operators, root_with(), Encoder(), with_texts=with_shapes)])
    assert written == one_by_one(operators, root_with(), with_texts=with_shapes)
    spans = json.loads(written)["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert {"torch.operator aten.linear", "torch.operator AddmmBackward0", "torch.operator ?"} <= {
        span["name"] for span in spans
    }
    assert any("links" in span for span in spans)
    assert (b"patient" in written) is with_shapes


# --- the file of a run ------------------------------------------------------------------------------------------------
@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.jsonl"


@pytest.fixture
def stopped(monkeypatch):
    """Nothing is written later before the test lets it."""
    may_end = threading.Event()
    monkeypatch.setattr(_file_processor, "sleep", lambda _seconds: may_end.wait(60))
    yield may_end
    may_end.set()


@pytest.fixture
def processor(path, stopped):
    processor = RunFileProcessor(path, "0123456789abcdef")
    yield processor
    processor.shutdown()


@pytest.fixture
def tracer(processor):
    return tracer_of(processor)


def tracer_of(processor):
    provider = TracerProvider(resource=RESOURCE, shutdown_on_exit=False)
    provider.add_span_processor(processor)
    return provider.get_tracer("torchspan")


def operators_in(path):
    return [span for span in span_file.read(path) if span.name.startswith("torch.operator ")]


def test_the_file_has_the_operators_below_their_root_with_its_resource(tracer, processor, path, library):
    context = run(tracer, 2, library=library)
    processor.force_flush()
    first, second = operators_in(path)
    (root,) = [span for span in span_file.read(path) if span.name == "torchspan.operators"]
    assert (first.name, first.attributes) == (
        "torch.operator aten.add.Tensor",
        {"torch.operator.name": "aten.add.Tensor"},
    )
    assert (first.start_ns - OFFSET_NS, first.end_ns - OFFSET_NS) == (1_000, 2_000)
    assert [span.parent_id for span in (first, second)] == [f"{context.span_id:016x}"] * 2
    assert (first.trace_id, first.resource, first.scope) == (root.trace_id, root.resource, "torchspan")


def test_the_programs_thread_neither_encodes_nor_writes_operators(tracer, processor, path, stopped):
    class Asked(PythonLibrary):
        threads = []

        def missing(self, events, has_state):
            self.threads.append(threading.current_thread().name)
            return super().missing(events, has_state)

    run(tracer, library=Asked())
    tracer.start_span("torch_tensorrt.compile").end()
    assert (Asked.threads, operators_in(path)) == ([], [])
    stopped.set()
    while not Asked.threads:
        threading.Event().wait(0.005)
    processor.force_flush()
    assert len(operators_in(path)) == 1
    assert Asked.threads != [threading.current_thread().name]


def test_operators_are_marked_as_read(tracer):
    span, operators = tracer.start_span("torchspan.operators"), recorded(*chain(1, 1))
    end(span, operators)
    assert operators.is_read


def test_without_events_nothing_is_added(tracer, processor, path):
    end(tracer.start_span("torchspan.operators"), recorded())
    processor.force_flush()
    assert (operators_in(path), processor.errors) == ([], [])


def test_each_operator_counts_as_a_span_that_ended(tracer, processor):
    run(tracer, 7)
    processor.force_flush()
    assert (processor.ended, processor.lost, processor.errors) == (8, 0, [])


def test_operators_that_cannot_be_encoded_are_counted_as_lost(tracer, processor, path):
    class Failing(PythonLibrary):
        def missing(self, events, has_state):
            raise MemoryError

    run(tracer, 7, library=Failing())
    run(tracer, 2)
    processor.force_flush()
    assert len(operators_in(path)) == 2
    assert (processor.ended, processor.lost) == (11, 7)
    assert processor.errors == ["operators could not be written (MemoryError); 7 lost"]


def test_operators_beyond_the_limit_of_the_file_are_counted_as_lost(path, stopped):
    processor = RunFileProcessor(path, "0123456789abcdef", max_size=2_000)
    run(tracer_of(processor), 50)
    processor.shutdown()
    assert (processor.ended, processor.lost) == (51, 50)


def test_no_more_than_five_hundred_roots_wait(tracer, path, stopped):
    for _ in range(501):
        run(tracer)
    assert len(operators_in(path)) == 501


@pytest.mark.parametrize("way", ["flush", "shutdown"])
def test_operators_that_wait_are_written_at_a_flush_and_at_the_shutdown(tracer, processor, path, way):
    run(tracer)
    processor.force_flush() if way == "flush" else processor.shutdown()
    assert len(operators_in(path)) == 1


@needs_fork
@forks
def test_operators_that_wait_at_a_fork_are_written_once_and_the_child_writes_its_own(tracer, processor, path):
    run(tracer, 3)

    def in_child():
        before = len(operators_in(path))
        run(tracer, 2)
        processor.force_flush()
        return before, len(operators_in(path))

    assert in_forked_child(in_child) == "(3, 5)"
    processor.force_flush()
    assert len(operators_in(path)) == 5


def test_ctrl_c_while_operators_are_encoded_loses_none(tracer, processor, path):
    class Interrupted(PythonLibrary):
        def missing(self, events, has_state):
            if not self.templates:
                self.templates[-1] = b""
                raise KeyboardInterrupt
            return super().missing(events, has_state)

    run(tracer, library=Interrupted())
    with pytest.raises(KeyboardInterrupt):
        processor.force_flush()
    processor.force_flush()
    assert len(operators_in(path)) == 1


# --- names of the program ---------------------------------------------------------------------------------------------
def names_in_file(tracer, processor, path, **options):
    """The names of all operators, as the file has them: what any exporter has, and what the file alone has."""
    span = tracer.start_span("torchspan.operators")
    records = [record(number, number, parent_id=1) for number in NUMBERS]
    end(span, recorded(*records, **options))
    processor.force_flush()
    own = operators_in(path)[-len(NUMBERS) :]
    return [span.attributes["torch.operator.name"] for span in own], [span.attributes.get(LOCAL_NAME) for span in own]


def test_the_file_has_names_of_the_program_whole_where_it_is_the_users_own(tracer, processor, path, library):
    reduced, whole = names_in_file(tracer, processor, path, library=library, capture="local")
    assert reduced[6:] == ["?"] * 7
    assert whole[:8] == [None] * 6 + ["patient_of_room_7", "the patient of room 7"]


@pytest.mark.skipif(os.name != "posix", reason="there are no permissions")
def test_from_when_others_may_read_the_file_names_of_the_program_are_left_out(tracer, processor, path, library, caplog):
    names_in_file(tracer, processor, path, library=library, capture="local")
    path.chmod(0o640)
    reduced, whole = names_in_file(tracer, processor, path, library=library, capture="local")
    assert (reduced[6], whole) == ("?", [None] * 13)
    assert [message.partition(",")[0] for message in caplog.messages] == [
        f"torchspan: {path} can be read by others than its owner (mode 640)"
    ]
    path.chmod(0o600)
    assert names_in_file(tracer, processor, path, library=library, capture="local")[1][6] == "patient_of_room_7"


def test_without_capture_the_file_has_no_name_of_the_program(tracer, processor, path, library):
    names_in_file(tracer, processor, path, library=library)
    assert "patient" not in path.read_text()


def test_with_capture_of_texts_the_file_has_what_exporters_have(tracer, processor, path, library):
    reduced, whole = names_in_file(tracer, processor, path, library=library, capture="text")
    assert (reduced[6:8], whole) == (["patient_of_room_7", "the patient of room 7"], [None] * 13)


def test_a_name_that_is_a_piece_of_a_template_stays_a_name(tracer, processor, path, library):
    _, whole = names_in_file(tracer, processor, path, library=library, capture="local")
    assert whole[-2:] == [name.decode() for name, _ in NAMES[-2:]]
