# SPDX-License-Identifier: Apache-2.0
"""Why was the engine cache not used? Four compilations with one cache, and what each got from it, at what price."""

import tempfile

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from torchspan import TorchspanInstrumentor

exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
TorchspanInstrumentor().instrument(tracer_provider=provider)

import torch  # noqa: E402
import torch_tensorrt  # noqa: E402

tracer = provider.get_tracer("example")
folder = tempfile.mkdtemp()
CACHE = {"cache_built_engines": True, "reuse_cached_engines": True, "engine_cache_dir": folder, "min_block_size": 1}


def compile_model(case, rows, **settings):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).eval().cuda()
    with torch.no_grad(), tracer.start_as_current_span(case):
        torch_tensorrt.compile(
            model, ir="dynamo", arg_inputs=[torch.ones(rows, 16, device="cuda")], **{**CACHE, **settings}
        )


compile_model("as most programs do it", 2)
compile_model("with weights that can be refitted", 2, immutable_weights=False)
compile_model("the same again", 2, immutable_weights=False)
compile_model("with another batch size", 8, immutable_weights=False)

# --- the answer, from the trace ---------------------------------------------------------------------------------------
REASONS = {
    "not_requested": "reuse_cached_engines is off",
    "no_cache_given": "no cache was handed on to the conversion",
    "refit_unavailable": "this installation cannot refit, and cached engines are refitted",
    "immutable_weights": "cached engines are refitted, so compile with immutable_weights=False",
    "no_hash": "the cache gave no hash for the subgraph",
    "settings": "the entry was built with other settings",
    "inputs": "the entry was built for other inputs",
    "outdated_entry": "an older Torch-TensorRT wrote the entry",
    "other_settings": "the folder has this graph for other settings",
    "other_inputs": "the folder has this graph for other inputs",
}
spans = sorted(exporter.get_finished_spans(), key=lambda span: span.start_time)
parents = {span.context.span_id: span for span in spans}


def case_of(span):
    """The name of the outermost span around `span`."""
    while span.parent is not None:
        span = parents[span.parent.span_id]
    return span.name


for span in spans:
    a = span.attributes
    if span.name == "torch_tensorrt.convert":
        result, reason = a["torch_tensorrt.engine_cache.result"], a.get("torch_tensorrt.engine_cache.reason")
        why = f" ({REASONS.get(reason, reason)})" if reason else ""
        print(f"{case_of(span)}, {a['torch_tensorrt.engine.name']}: {result}{why}")
    elif span.name == "torch_tensorrt.engine_cache.lookup" and "torch_tensorrt.engine_cache.refit.duration" in a:
        seconds = (span.end_time - span.start_time) / 1e9
        refit = a["torch_tensorrt.engine_cache.refit.duration"]
        print(f"  the hit took {seconds:.2f} s, {refit:.2f} s of that to give the engine this model's weights")
    elif span.name == "torch_tensorrt.engine_cache.insert":
        print(f"  a new engine: {a['torch_tensorrt.engine_cache.insert.result']}")
