# SPDX-License-Identifier: Apache-2.0
"""Imports as spans, with stubs in place of the libraries."""

import importlib
import importlib.util
import sys
import time

import pytest
from opentelemetry import trace
from opentelemetry.instrumentation.utils import suppress_instrumentation

import torchspan.observers
from torchspan.base.exits import AT_EXIT
from torchspan.base.forks import ThisProcess
from torchspan.output.writer import SpanWriter

LONG = "import time; time.sleep(0.11)"
"""The body of a module of a library whose import is long enough for a span."""

ANY = torchspan.observers.Observer("any")


@pytest.fixture(scope="module", autouse=True)
def torch_is_imported_already():
    """The pipeline without a GPU imports torch together with `tensorrt`, which would be one more span. One row has no torch."""
    if importlib.util.find_spec("torch"):
        importlib.import_module("torch")


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """Writes modules that are imported in place of those of the same names."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(**sources):
        for name, source in sources.items():
            (tmp_path / f"{name}.py").write_text(source)
            monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.invalidate_caches()

    yield write
    for stub in tmp_path.glob("*.py"):
        sys.modules.pop(stub.stem, None)


@pytest.fixture
def no_provider_yet(monkeypatch):
    monkeypatch.setattr(SpanWriter, "has_destination", lambda _self: False)


@torchspan.observers.observable()
def work():
    """Something that is a span."""


def reported(exporter):
    """(name, module, parent's name or module) of each span, in the order of their starts."""
    spans = sorted(exporter.get_finished_spans(), key=lambda span: span.start_time)
    names = {span.context.span_id: span.attributes.get("torchspan.import.module", span.name) for span in spans}
    return [
        (
            span.name,
            span.attributes.get("torchspan.import.module"),
            None if span.parent is None else names[span.parent.span_id],
        )
        for span in spans
    ]


def test_imports_are_spans_below_the_current_one_nested_as_they_happened(instrument, exporter, tracer, modules):
    modules(tensorrt="import tensorrt_rtx\n__version__ = '1.2'", tensorrt_rtx="")
    instrument()
    with tracer.start_as_current_span("start-up"):
        before_ns = time.time_ns()
        importlib.import_module("tensorrt")
        assert trace.get_current_span().name == "start-up"
    assert reported(exporter) == [
        ("start-up", None, None),
        ("torchspan.import", "tensorrt", "start-up"),
        ("torchspan.import", "tensorrt_rtx", "tensorrt"),
    ]
    inner, outer, _ = exporter.get_finished_spans()
    assert dict(outer.attributes) == {
        "torchspan.keep": True,
        "torchspan.import.module": "tensorrt",
        "torchspan.import.version": "1.2",
    }
    assert before_ns - 1_000_000 <= outer.start_time <= inner.start_time <= inner.end_time <= outer.end_time


def test_without_a_provider_an_import_waits_for_the_next_span(instrument, exporter, modules, no_provider_yet):
    modules(tensorrt_rtx="")
    instrument()
    importlib.import_module("tensorrt_rtx")
    imported_ns = time.time_ns()
    assert exporter.get_finished_spans() == ()
    work()
    assert [(name, parent) for name, _, parent in reported(exporter)] == [
        ("torchspan.import", None),
        ("torchspan.observed work", None),
    ]
    assert exporter.get_finished_spans()[0].end_time <= imported_ns + 1_000_000


def test_an_import_that_waited_lies_below_the_span_that_has_ended_since(
    instrument, exporter, tracer, modules, no_provider_yet
):
    modules(tensorrt_rtx="")
    instrument()
    with tracer.start_as_current_span("start-up"):
        importlib.import_module("tensorrt_rtx")
    torchspan.uninstrument()
    assert reported(exporter) == [("start-up", None, None), ("torchspan.import", "tensorrt_rtx", "start-up")]


def test_an_import_that_waits_at_the_end_of_the_process_is_reported(instrument, exporter, modules, no_provider_yet):
    modules(tensorrt_rtx="")
    instrument()
    importlib.import_module("tensorrt_rtx")
    AT_EXIT.run()
    assert reported(exporter) == [("torchspan.import", "tensorrt_rtx", None)]


def test_a_forked_child_does_not_report_its_parents_imports(
    instrument, exporter, modules, no_provider_yet, monkeypatch
):
    modules(tensorrt_rtx="")
    instrument()
    importlib.import_module("tensorrt_rtx")
    monkeypatch.setattr(ThisProcess, "generation", ThisProcess.generation + 1)
    work()
    assert [name for name, _, _ in reported(exporter)] == ["torchspan.observed work"]


def test_a_failed_import_is_reported_at_once_with_its_error(instrument, exporter, modules, no_provider_yet):
    modules(tensorrt="import tensorrt_rtx", tensorrt_rtx="raise OSError('no libnvinfer.so.10')")
    instrument()
    with pytest.raises(OSError, match=r"no libnvinfer\.so\.10"):
        importlib.import_module("tensorrt")
    broken, outer = exporter.get_finished_spans()
    assert [span.attributes["torchspan.import.module"] for span in (broken, outer)] == [
        "tensorrt_rtx",
        "tensorrt",
    ]
    assert [span.attributes["error.type"] for span in (broken, outer)] == ["OSError", "OSError"]
    assert ([event.name for event in broken.events], outer.events) == (["exception"], ())
    assert broken.events[0].attributes["exception.type"] == "OSError"


def test_an_import_below_suppressed_instrumentation_is_not_a_span(instrument, exporter, modules):
    modules(tensorrt_rtx="")
    instrument()
    with suppress_instrumentation():
        importlib.import_module("tensorrt_rtx")
    assert exporter.get_finished_spans() == ()


def test_an_import_is_not_a_span_after_uninstrumenting(instrument, exporter, modules):
    modules(tensorrt_rtx="")
    instrument()
    torchspan.uninstrument()
    importlib.import_module("tensorrt_rtx")
    assert exporter.get_finished_spans() == ()


# --- modules of a library ---------------------------------------------------------------------------------------------
@pytest.fixture
def lazy(modules, instrument, exporter):
    """Instruments; imports a module of a library, which takes long enough for a span."""
    modules(triton=LONG, transformers=LONG)
    exporter.with_imports = ("triton", "transformers")
    instrument()
    return importlib.import_module


def test_an_import_inside_a_span_of_the_program_is_its_child_and_written_before_its_end(lazy, exporter, tracer):
    with tracer.start_as_current_span("request"):
        lazy("triton")
        lazy("transformers")
    names = [span.attributes.get("torchspan.import.module", span.name) for span in exporter.get_finished_spans()]
    assert names == ["triton", "transformers", "request"]
    assert [parent for *_, parent in reported(exporter)] == [None, "request", "request"]


def test_an_import_inside_an_observed_call_is_its_child(lazy, exporter):
    @torchspan.observers.observable()
    def first_request():
        lazy("triton")
        work()
        lazy("transformers")

    first_request()
    rows = reported(exporter)
    assert [module for _, module, _ in rows] == [None, "triton", None, "transformers"]
    assert [parent for *_, parent in rows] == [None, rows[0][0], rows[0][0], rows[0][0]]
    outermost, *inside = sorted(exporter.get_finished_spans(), key=lambda span: span.start_time)
    assert all(outermost.start_time <= span.start_time <= span.end_time <= outermost.end_time for span in inside)


def test_imports_outside_every_span_are_reported_at_once(lazy, exporter):
    lazy("triton")
    work()
    assert [(name, parent) for name, _, parent in reported(exporter)] == [
        ("torchspan.import", None),
        ("torchspan.observed work", None),
    ]


def test_an_import_inside_a_span_that_is_not_sampled_is_not_recorded(lazy, exporter):
    context = trace.SpanContext(1, 2, is_remote=True, trace_flags=trace.TraceFlags(0))
    with trace.use_span(trace.NonRecordingSpan(context)):
        lazy("triton")
    work()
    assert [name for name, *_ in reported(exporter)] == ["torchspan.observed work"]


def test_imports_that_wait_are_reported_by_uninstrument(no_provider_yet, lazy, exporter):
    lazy("triton")
    assert exporter.get_finished_spans() == ()
    torchspan.uninstrument()
    lazy("transformers")
    assert reported(exporter) == [("torchspan.import", "triton", None)]
