# SPDX-License-Identifier: Apache-2.0
"""Why was the engine cache not used? Four compilations with one cache: what each got from it, and what a hit cost."""

import tempfile

from torchspan.testing import capture

# The libraries are imported inside, so that TORCHSPAN_WITHOUT_GPU=1 has an effect: torchspan reads it when the block begins.
with capture():
    import torch
    import torch_tensorrt

    folder = tempfile.mkdtemp()
    CACHE = {"cache_built_engines": True, "reuse_cached_engines": True, "engine_cache_dir": folder, "min_block_size": 1}

    def compiled(rows, **settings):
        """The trace of a compilation with the cache."""
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).eval().cuda()
        inputs = [torch.ones(rows, 16, device="cuda")]
        with torch.no_grad(), capture() as trace:
            torch_tensorrt.compile(model, ir="dynamo", arg_inputs=inputs, **CACHE, **settings)
        return trace

    cases = {
        "as most programs do it": compiled(2),
        "with weights that can be refitted": compiled(2, immutable_weights=False),
        "the same again": compiled(2, immutable_weights=False),
        "with another batch size": compiled(8, immutable_weights=False),
    }

# --- the answer, from the trace ---------------------------------------------------------------------------------------
REASONS = {
    "not_requested": "reuse_cached_engines is off",
    "no_cache_given": "no cache was passed to the conversion",
    "refit_unavailable": "this installation cannot refit, and cached engines are refitted",
    "immutable_weights": "cached engines are refitted, so compile with immutable_weights=False",
    "no_hash": "the cache gave no hash for the subgraph",
    "settings": "the entry was built with other settings",
    "inputs": "the entry was built for other inputs",
    "outdated_entry": "an older Torch-TensorRT wrote the entry",
    "other_settings": "the folder has this graph for other settings",
    "other_inputs": "the folder has this graph for other inputs",
}
for case, trace in cases.items():
    a = trace.one("torch_tensorrt.convert").attributes
    result, reason = a["torch_tensorrt.engine_cache.result"], a.get("torch_tensorrt.engine_cache.reason")
    why = f" ({REASONS.get(reason, reason)})" if reason else ""
    print(f"{case}, {a['torch_tensorrt.engine.name']}: {result}{why}")
    for span in trace.find("torch_tensorrt.engine_cache.lookup"):
        if result == "hit":
            print(f"  the hit took {span.duration_ns / 1e9:.2f} s, in which the engine got this model's weights")
    for span in trace.find("torch_tensorrt.engine_cache.insert"):
        print(f"  a new engine: {span.attributes['torch_tensorrt.engine_cache.insert.result']}")
