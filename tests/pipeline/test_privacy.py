# SPDX-License-Identifier: Apache-2.0
"""No value of the user in what leaves the process, whatever the detail; with TORCHSPAN_CAPTURE=text, only on request.

The canary is planted wherever user values meet a compiler, and looked for in the bytes of both exporters.
"""

import re

import pytest
import torch
import torch_tensorrt
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

from pipeline.expected import converts_methods
from support import models
from support import route_runs as run
from support.models import raises
from torchspan.sdk import FileSpanExporter

pytestmark = pytest.mark.slow

CANARY = "SECRET-4711"
WORDS = "open sesame"
TRACES = re.compile(rb"secret.?4711|open.?sesame", re.IGNORECASE)
"""The canary, also as the identifiers and file names that compilers make of it, and a text without a literal in it."""
DETAILS = {
    "stages": {"detail": "stages"},
    "passes, phases and heartbeats": {"detail": "passes", "build_phases": "on", "heartbeat": 0.1},
}
details = pytest.mark.parametrize("detail", DETAILS)


class Named(torch.nn.Module):
    """A child module with the canary for its name, and a string and a dict among the inputs."""

    def __init__(self):
        super().__init__()
        self.add_module(CANARY, torch.nn.Linear(16, 16))
        self.register_buffer(CANARY.replace("-", "_") + "_buffer", torch.ones(16))

    def forward(self, x, prompt="", options=None):
        x = self.get_submodule(CANARY)(x) + self.get_buffer(CANARY.replace("-", "_") + "_buffer")
        if options and options["mode"] == CANARY:
            x = x + len(prompt)
        return torch.special.i1e(torch.relu(x)) * 2


@pytest.fixture
def emitted(exporter, metrics, tmp_path):
    """The bytes that the exporters send for everything recorded so far: spans, metrics, and the file's lines."""

    def read():
        spans = exporter.get_finished_spans()
        assert spans
        file = FileSpanExporter(tmp_path / "emitted.jsonl")
        file.export(spans)
        file.shutdown()
        measured = encode_metrics(metrics.reader.get_metrics_data())
        assert measured.resource_metrics
        lines = (tmp_path / "emitted.jsonl").read_bytes()
        return encode_spans(spans).SerializeToString() + measured.SerializeToString() + lines

    return read


def model():
    torch.manual_seed(0)
    return Named().eval()


INPUTS = {"kwarg_inputs": {"prompt": CANARY, "options": {"mode": CANARY}}}
X = torch.ones(2, 16)


def compile_by_name():
    program = torch.export.export(model(), (X,), {"prompt": CANARY, "options": {"mode": CANARY}})
    return torch_tensorrt.dynamo.compile(program, arg_inputs=[X], **INPUTS, min_block_size=1)


def torch_compile(**options):
    compiled = torch.compile(model(), backend="tensorrt", options={"min_block_size": 1, **options})
    return compiled(X, prompt=CANARY, options={"mode": CANARY})


@details
def test_names_of_modules_strings_and_dict_values_stay(instrument, emitted, tracer, detail):
    instrument(**DETAILS[detail])
    with tracer.start_as_current_span("request"):
        torch_compile()
    module = torch_tensorrt.compile(model(), ir="dynamo", inputs=[X], min_block_size=1)
    module(X)
    assert not TRACES.search(emitted())


@details
def test_the_message_of_a_graph_break_stays(instrument, emitted, detail):
    def breaks(x):
        torch._dynamo.graph_break(msg=f"{WORDS} {CANARY}")
        return torch.relu(x * 2)

    instrument(**DETAILS[detail])
    torch.compile(breaks, backend="tensorrt", options={"min_block_size": 1})(X)
    assert not TRACES.search(emitted())


@details
@pytest.mark.parametrize("error", [ValueError, RuntimeError, KeyError, type("OwnError", (Exception,), {})])
def test_the_text_of_an_exception_stays(instrument, emitted, converter, detail, error):
    instrument(**DETAILS[detail])
    converter(raises(error(f"{WORDS} {CANARY}")))
    passed_on = RuntimeError if error is KeyError else error  # torch.fx raises it again, with its text
    with pytest.raises(passed_on):
        torch_tensorrt.compile(model(), ir="dynamo", inputs=[X], min_block_size=1)
    assert not TRACES.search(emitted())


@converts_methods
@pytest.mark.filterwarnings("ignore")
@details
def test_the_text_of_an_exception_that_the_library_quotes_in_its_own_stays(instrument, emitted, converter, detail):
    instrument(**DETAILS[detail])
    converter(raises(ValueError(f"{WORDS} {CANARY}")))
    with pytest.raises(RuntimeError, match=WORDS):
        torch_tensorrt.convert_method_to_trt_engine(model(), "forward", inputs=[X], ir="dynamo")
    assert not TRACES.search(emitted())


@details
def test_the_text_of_a_failure_that_torch_compile_swallows_stays(instrument, emitted, converter, detail):
    instrument(**DETAILS[detail])
    converter(raises(RuntimeError(f"{WORDS} {CANARY}")))
    torch_compile()
    assert not TRACES.search(emitted())


@converts_methods
@details
def test_a_message_in_which_the_library_quotes_the_graph_loses_its_names(instrument, emitted, detail):
    instrument(**DETAILS[detail])
    with pytest.raises(Exception, match="not currently fully supported"), pytest.warns(UserWarning, match="missing"):
        torch_tensorrt.convert_method_to_trt_engine(model(), "forward", inputs=[X], ir="dynamo")
    assert not TRACES.search(emitted())


@details
def test_paths_stay(instrument, emitted, tmp_path, detail):
    folder = tmp_path / CANARY
    instrument(**DETAILS[detail])
    run.cached(engine_cache_dir=str(folder))(tmp_path, None)()
    assert folder.is_dir()
    assert not TRACES.search(emitted())


def test_with_capture_text_the_exception_is_there_with_its_words(instrument, emitted, converter):
    instrument(capture="text")
    converter(raises(ValueError(f"prompt {CANARY}")))
    with pytest.raises(ValueError):
        torch_tensorrt.compile(models.seeded(models.Fallback), ir="dynamo", inputs=[models.image()], min_block_size=1)
    assert TRACES.search(emitted())
