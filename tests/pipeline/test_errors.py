# SPDX-License-Identifier: Apache-2.0
"""What an exception leaves behind, on every span it passes."""

import contextlib
import io
import re
import sys
import traceback
from pathlib import Path

import pytest
import torch
import torch_tensorrt
from opentelemetry.trace import StatusCode
from torch_tensorrt.dynamo.conversion import _ConverterRegistry as registry
from torch_tensorrt.dynamo.conversion import dynamo_tensorrt_converter

from pipeline.expected import VERSION
from support import models
from support.models import raises
from support.tree import named, outline
from torchspan import cli
from torchspan.sdk import FileSpanExporter

OPERATOR = torch.ops.aten.special_i1e.default


def compile_fallback_model():
    return torch_tensorrt.compile(
        models.seeded(models.Fallback), ir="dynamo", inputs=[models.image()], min_block_size=1
    )


@pytest.fixture
def broken_relu():
    """A function: from here on converting a ReLU, which every converter of the model supports, raises the error."""
    operator = torch.ops.aten.relu.default
    kept = registry.DYNAMO_ATEN_CONVERTERS.get(operator)

    def breaks(error):
        registry.DYNAMO_ATEN_CONVERTERS.pop(operator, None)
        body = raises(error)
        dynamo_tensorrt_converter(operator)(lambda *_args: body())

    yield breaks
    registry.DYNAMO_ATEN_CONVERTERS[operator] = kept


def failed(spans):
    """name -> error.type of the spans that an exception passed."""
    assert all(
        (span.status.status_code is StatusCode.ERROR) == ("error.type" in span.attributes)
        for span in spans
        if span.instrumentation_scope.name == "torchspan"
    )
    return {span.name: span.attributes["error.type"] for span in spans if "error.type" in span.attributes}


def events(spans):
    """Spans and their events, without those that come whether or not anything fails: of Torch-TensorRT's own observer, and
    warnings of TensorRT-RTX 1.4, which torch_tensorrt 2.11 and 2.12 have.
    """
    left_out = {"torchspan.observer", "tensorrt.log"}
    return [(span.name, event.name) for span in spans for event in span.events if event.name not in left_out]


@pytest.mark.fault("libraries", "a converter raises")
def test_an_exception_marks_each_span_it_passes_and_its_event_is_on_the_innermost(instrument, exporter, converter):
    instrument()
    error = ValueError("boom")
    converter(raises(error))

    with pytest.raises(ValueError) as caught:
        compile_fallback_model()

    assert caught.value is error
    assert not hasattr(error, "__notes__")
    spans = exporter.get_finished_spans()
    assert failed(spans) == {
        "torch_tensorrt.construct_network": "ValueError",
        "torch_tensorrt.convert": "ValueError",
        "torch_tensorrt.compile": "ValueError",
    }
    assert events(spans) == [("torch_tensorrt.construct_network", "exception")]


OUTCOME = {"torch_tensorrt.operators.tensorrt", "torch_tensorrt.coverage", "torch_tensorrt.fallback.reason_classes"}
"""Where the operators run; of work that failed there is no such thing."""


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_compilation_that_failed_says_what_was_planned_and_nothing_of_where_it_runs(
    instrument, exporter, metrics, broken_relu, error
):
    instrument()
    broken_relu(error("boom"))
    with pytest.raises(error):
        compile_fallback_model()
    compilation = named(exporter.get_finished_spans(), "torch_tensorrt.compile").attributes
    assert compilation["torch_tensorrt.operators.total"] == 5
    assert compilation["torch_tensorrt.operators.planned"] == 4
    assert not OUTCOME & compilation.keys()
    partition = named(exporter.get_finished_spans(), "torch_tensorrt.partition").attributes
    assert partition["torch_tensorrt.operators.planned"] == 4
    assert partition["torch_tensorrt.fallback.reason_classes"] == ("no_converter",), "the plan itself stands"
    assert compilation["torch_tensorrt.unsupported.totals.operators"] == (1,)
    keys = ("torch_tensorrt.fallback.reason_class", "error.type")
    assert metrics.values("torch_tensorrt.fallback.operators", *keys) == {("no_converter", error.__name__): 1}


def test_a_compilation_that_fails_after_its_engines_were_built_says_nothing_of_where_they_run(
    instrument, exporter, metrics, monkeypatch
):
    instrument()
    compile_program = torch_tensorrt._compile.dynamo_compile

    def compile_and_fail(*arguments, **settings):
        compile_program(*arguments, **settings)
        raise OSError("disk full")

    with monkeypatch.context() as patched, pytest.raises(OSError, match="disk full"):
        patched.setattr("torch_tensorrt._compile.dynamo_compile", compile_and_fail)  # undone before torchspan's end
        compile_fallback_model()
    compilation = named(exporter.get_finished_spans(), "torch_tensorrt.compile").attributes
    assert compilation["torch_tensorrt.operators.planned"] == 4
    assert compilation["torch_tensorrt.engines.count"] == 2
    assert not OUTCOME & compilation.keys()
    keys = ("torch_tensorrt.fallback.reason_class", "error.type")
    assert metrics.values("torch_tensorrt.fallback.operators", *keys) == {("no_converter", "OSError"): 1}


def test_the_spans_of_the_user_are_left_alone(instrument, exporter, converter, tracer):
    instrument()
    converter(raises(ValueError("boom")))
    with tracer.start_as_current_span("request", record_exception=False, set_status_on_exception=False):
        with pytest.raises(ValueError):
            compile_fallback_model()
    request = named(exporter.get_finished_spans(), "request")
    assert request.status.status_code is StatusCode.UNSET
    assert (request.events, dict(request.attributes)) == ((), {})


def test_the_event_tells_the_class_and_the_place_and_no_text_of_the_user(instrument, exporter, converter):
    instrument()
    converter(raises(ValueError("prompt SECRET-4711")))
    with pytest.raises(ValueError):
        compile_fallback_model()
    observer, event = named(exporter.get_finished_spans(), "torch_tensorrt.construct_network").events
    assert (observer.name, event.name) == ("torchspan.observer", "exception")
    attributes = dict(event.attributes)
    assert attributes.pop("code.function.name").endswith("body")
    assert attributes.pop("code.file.path") == "support/models.py"
    assert isinstance(attributes.pop("code.line.number"), int)
    assert attributes == {"exception.type": "ValueError"}


def test_with_capture_text_the_message_is_whole(instrument, exporter, converter):
    instrument(capture="text")
    converter(raises(ValueError("prompt SECRET-4711\nsecond line")))
    with pytest.raises(ValueError):
        compile_fallback_model()
    observer, event = named(exporter.get_finished_spans(), "torch_tensorrt.construct_network").events
    assert (observer.name, event.name) == ("torchspan.observer", "exception")
    # torch.fx adds to the exception's own message where it happened.
    assert event.attributes["exception.message"].startswith("prompt SECRET-4711\nsecond line\n\nWhile executing")


FAILED = ("torch_tensorrt.failed.", "code.")


def cause(span):
    """What a failed span says about its cause: the attributes under `torch_tensorrt.failed.` and `code.`, without the place of the call."""
    is_of_call = span.attributes.get("code.function.name") == compile_fallback_model.__name__
    told = tuple(prefix for prefix in FAILED if not (is_of_call and prefix == "code."))
    return {key: value for key, value in span.attributes.items() if key.startswith(told)}


def line_of(text):
    """The line of a file of the tests in which a text is."""
    lines = Path(models.__file__).read_text(encoding="utf-8").splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if text in line]
    return number


def test_a_failed_conversion_names_the_operator_its_converter_and_the_place_in_the_model(
    instrument, exporter, broken_relu
):
    instrument()
    broken_relu(ValueError("boom"))
    with pytest.raises(ValueError):
        compile_fallback_model()
    spans = exporter.get_finished_spans()
    assert cause(named(spans, "torch_tensorrt.construct_network")) == {
        "torch_tensorrt.failed.operator": "torch.ops.aten.relu.default",
        "torch_tensorrt.failed.node.name": "relu",
        "torch_tensorrt.failed.node.position": 5,
        "torch_tensorrt.failed.nodes.count": 6,
        "torch_tensorrt.failed.converter": f"{__name__}.broken_relu.<locals>.breaks.<locals>.<lambda>",
        "code.file.path": "support/models.py",
        "code.line.number": line_of("torch.special.i1e(torch.relu(self.conv(x)))"),
        "code.function.name": "forward",
    }
    assert [cause(span) for span in spans if span.name != "torch_tensorrt.construct_network"] == [{}] * (len(spans) - 1)


def test_an_exception_between_two_nodes_is_not_an_operators_failure(instrument, exporter, monkeypatch):
    instrument()
    monkeypatch.setattr(torch.fx.Graph, "process_outputs", lambda *_: raises(KeyboardInterrupt())())
    with pytest.raises(KeyboardInterrupt):
        compile_fallback_model()
    failed_spans = [span for span in exporter.get_finished_spans() if "error.type" in span.attributes]
    assert [cause(span) for span in failed_spans] == [{}] * len(failed_spans)


@pytest.mark.parametrize("fast", [True, False], ids=["fast", "global"])
def test_a_full_compilation_that_is_refused_names_the_operators_in_its_way(instrument, exporter, metrics, fast):
    instrument()
    settings = {"require_full_compilation": True, "use_fast_partitioner": fast}
    with pytest.raises(AssertionError, match="not fully supported"):
        torch_tensorrt.compile(Refused().eval(), ir="dynamo", inputs=[models.image()], min_block_size=1, **settings)
    spans = exporter.get_finished_spans()
    prefix = "torch_tensorrt.unsupported.operators."
    for name in ("torch_tensorrt.partition", "torch_tensorrt.compile"):
        attributes = named(spans, name).attributes
        assert {key.removeprefix(prefix): value for key, value in attributes.items() if key.startswith(prefix)} == {
            "names": ("torch.ops.aten.special_i1e.default", "torch.ops.aten.special_erfcx.default"),
            "counts": (2, 1),
            "reasons": ("no_converter", "no_converter"),
            "places": ("pipeline/test_errors.py:249", "pipeline/test_errors.py:250"),
            "place_counts": (1, 1),
        }
        assert attributes["torch_tensorrt.operators.total"] == 6
        assert attributes["torch_tensorrt.operators.supported"] == 3
        assert not [key for key in attributes if key.startswith("torch_tensorrt.fallback.")], "nothing runs anywhere"
    totals = {"reasons": ("no_converter",), "operators": (3,)}
    prefix = "torch_tensorrt.unsupported.totals."
    attributes = named(spans, "torch_tensorrt.compile").attributes
    assert {key.removeprefix(prefix): value for key, value in attributes.items() if key.startswith(prefix)} == totals
    keys = ("torch_tensorrt.fallback.reason_class", "error.type")
    assert metrics.values("torch_tensorrt.fallback.operators", *keys) == {("no_converter", "AssertionError"): 3}
    assert "torch_tensorrt.fallback.subgraphs" not in metrics.read()


class Refused(torch.nn.Module):
    """Two kinds of operators without a converter, one of them twice."""

    def forward(self, x):
        for _ in range(2):
            x = torch.special.i1e(torch.relu(x))
        return torch.sigmoid(torch.special.erfcx(x))


@pytest.mark.skipif(VERSION < (2, 14), reason="the data-dependent operator of this test is not a converter's before")
def test_what_the_first_lines_say_to_paste_makes_the_compilation_succeed(instrument, exporter, tmp_path):
    instrument()
    x = torch.tensor([[0.0, 1.0], [2.0, 0.0]])
    compile_with = lambda **settings: torch_tensorrt.compile(
        NonZero().eval(), ir="dynamo", inputs=[x], min_block_size=1, **settings
    )
    with pytest.raises(NotImplementedError, match="non TensorRT-RTX"):
        compile_with()
    file = FileSpanExporter(tmp_path / "trace.jsonl")
    file.export(exporter.get_finished_spans())
    file.shutdown()

    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        assert cli.main(["show", str(tmp_path / "trace.jsonl")]) == 0
    said = " ".join(shown.getvalue().split())

    assert "aten.nonzero (%nonzero, node 3 of 4) at " in said
    assert " in forward converter aten_ops_converters.aten_ops_nonzero pass " in said
    (code,) = re.findall(r"pass (torch_executed_ops=\{.*\}) to run it in PyTorch", said)
    assert code == 'torch_executed_ops={"torch.ops.aten.nonzero.default"}'
    module = compile_with(**eval(f"dict({code})"))
    assert module(x)[1].tolist() == [[0, 1], [1, 0]]


class NonZero(torch.nn.Module):
    """One operator whose converter raises on TensorRT-RTX."""

    def forward(self, x):
        x = torch.relu(x)
        return x, torch.nonzero(x)


def test_a_message_written_by_the_library_keeps_its_words_and_loses_its_values(instrument, exporter):
    instrument()
    program = torch_tensorrt.dynamo.trace(models.seeded(models.Fallback), arg_inputs=[models.image()])
    with pytest.raises(AssertionError):
        torch_tensorrt.dynamo.compile(
            program, arg_inputs=[models.image()], require_full_compilation=True, min_block_size=1
        )
    spans = exporter.get_finished_spans()
    assert failed(spans) == {"torch_tensorrt.partition": "AssertionError", "torch_tensorrt.compile": "AssertionError"}
    (event,) = named(spans, "torch_tensorrt.partition").events
    assert event.attributes["exception.message"] == (
        "require_full_compilation=True was specified, but model is not fully supported"
    )


@pytest.mark.fault("libraries", "a converter raises and torch.compile swallows that")
def test_a_failure_that_torch_compile_swallows_marks_the_span_and_the_numbers_are_right(
    instrument, exporter, converter
):
    instrument()
    converter(raises(RuntimeError("boom")))
    model, x = models.seeded(models.Fallback), models.image()

    result = torch.compile(model, backend="tensorrt", options={"min_block_size": 1})(x)

    assert torch.equal(result, model(x))
    spans = exporter.get_finished_spans()
    assert failed(spans) == {
        "torch_tensorrt.construct_network": "RuntimeError",
        "torch_tensorrt.convert": "RuntimeError",
        "torch_tensorrt.compile": "RuntimeError",
    }
    assert events(spans) == [("torch_tensorrt.construct_network", "exception")]
    compilation = named(spans, "torch_tensorrt.compile").attributes
    assert compilation["torch_tensorrt.fallback.reason_classes"] == ("compile_failed",)
    assert compilation["torch_tensorrt.operators.tensorrt"] == 0
    assert compilation["torch_tensorrt.engines.count"] == 0


def test_with_pass_through_build_failures_the_user_gets_the_exception(instrument, exporter, converter):
    instrument()
    converter(raises(RuntimeError("boom")))
    options = {"min_block_size": 1, "pass_through_build_failures": True}
    with pytest.raises(Exception, match="boom"):
        torch.compile(models.seeded(models.Fallback), backend="tensorrt", options=options)(models.image())
    compilation = named(exporter.get_finished_spans(), "torch_tensorrt.compile")
    assert compilation.attributes["error.type"] == "RuntimeError"
    assert "torch_tensorrt.fallback.reason_classes" not in compilation.attributes


@pytest.mark.skipif(sys.version_info < (3, 11), reason="`raise` puts a wrapper's frame back into the traceback")
def test_the_traceback_that_dynamo_logs_has_no_frame_of_a_wrapper(instrument, converter, caplog):
    instrument()
    converter(raises(RuntimeError("boom")))
    options = {"min_block_size": 1, "pass_through_build_failures": True}
    with torch._dynamo.config.patch(suppress_errors=True):
        torch.compile(models.seeded(models.Fallback), backend="tensorrt", options=options)(models.image())
    (error,) = [
        record.exc_info[1] for record in caplog.records if record.exc_info and "boom" in str(record.exc_info[1])
    ]
    files = [Path(frame.filename).parts for frame in traceback.extract_tb(error.__traceback__)]
    assert [parts for parts in files if "torch_tensorrt" in parts and parts[-1] == "_TRTInterpreter.py"]
    assert [parts for parts in files if "torchspan" in parts and "adapters" in parts] == []


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_interrupt_closes_every_span_and_passes(instrument, exporter, converter, interrupt):
    instrument()
    converter(raises(interrupt()))
    with pytest.raises(interrupt):
        compile_fallback_model()
    assert failed(exporter.get_finished_spans()) == {
        "torch_tensorrt.construct_network": interrupt.__name__,
        "torch_tensorrt.convert": interrupt.__name__,
        "torch_tensorrt.compile": interrupt.__name__,
    }


def test_after_a_failure_the_next_compilation_is_traced_from_its_root(instrument, exporter, converter):
    instrument()
    converter(raises(ValueError("boom")))
    with pytest.raises(ValueError):
        compile_fallback_model()
    registry.DYNAMO_ATEN_CONVERTERS.pop(OPERATOR)
    exporter.clear()
    compile_fallback_model()
    (tree,) = outline(exporter.get_finished_spans())
    assert tree.startswith("torch_tensorrt.compile\n  torch_tensorrt.trace\n")
    assert failed(exporter.get_finished_spans()) == {}


def test_a_wrong_call_gets_its_own_type_error(instrument, exporter):
    instrument()
    with pytest.raises(TypeError, match="exported_program"):
        torch_tensorrt.dynamo.compile(arg_inputs=[torch.ones(1)])
    assert failed(exporter.get_finished_spans()) == {"torch_tensorrt.compile": "TypeError"}


@pytest.mark.parametrize("kind", [KeyError, IndexError])
def test_what_a_converter_raises_has_its_place_also_where_torch_fx_raises_it_again(
    instrument, exporter, broken_relu, kind
):
    """torch.fx raises a RuntimeError from a KeyError, whose message would be in quotes."""
    instrument()
    broken_relu(kind("boom"))
    with pytest.raises(RuntimeError if kind is KeyError else kind):
        compile_fallback_model()
    span = named(exporter.get_finished_spans(), "torch_tensorrt.construct_network")
    (event,) = (event.attributes for event in span.events if event.name == "exception")
    assert event["code.function.name"] == "support.models.raises.<locals>.body"
    assert cause(span)["torch_tensorrt.failed.converter"] == f"{__name__}.broken_relu.<locals>.breaks.<locals>.<lambda>"
    assert cause(span)["torch_tensorrt.failed.operator"] == "torch.ops.aten.relu.default"
