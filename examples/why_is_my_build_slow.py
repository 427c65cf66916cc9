# SPDX-License-Identifier: Apache-2.0
"""Why is my build slow? Where the seconds of a compilation went, engine by engine, down to TensorRT's build phases."""

from collections import Counter

from torchspan.testing import capture

# The libraries are imported inside, so that TORCHSPAN_WITHOUT_GPU=1 has an effect: torchspan reads it when the block begins.
# TensorRT's build phases need a progress monitor in the build, so they have to be enabled.
with capture(build_phases="on") as trace:
    import torch
    import torch_tensorrt

    class TwoEngines(torch.nn.Module):
        """A deep part for TensorRT, an operator without a converter, and a shallow part."""

        def __init__(self):
            super().__init__()
            self.deep = torch.nn.Sequential(*(torch.nn.Conv2d(8, 8, 3, padding=1) for _ in range(12)))
            self.shallow = torch.nn.Linear(8, 4)

        def forward(self, image):
            return self.shallow(torch.special.i1e(self.deep(image)).mean((2, 3)))

    torch.manual_seed(0)
    model, image = TwoEngines().eval().cuda(), torch.randn(1, 8, 32, 32, device="cuda")
    with torch.no_grad():
        torch_tensorrt.compile(model, ir="dynamo", arg_inputs=[image], min_block_size=1)

# --- the answer, from the trace ---------------------------------------------------------------------------------------


def seconds(span):
    return span.duration_ns / 1e9


compilation = trace.one("torch_tensorrt.compile")
stages = [span for span in trace.below(compilation) if span.parent_id == compilation.span_id]
print(f"{seconds(compilation):.2f} s in all, of which")
for span in sorted(stages, key=seconds, reverse=True)[:5]:
    engine = span.attributes.get("torch_tensorrt.engine.name", "")
    print(f"  {seconds(span):5.2f} s  {seconds(span) / seconds(compilation):4.0%}  {span.name} {engine}".rstrip())

slowest = max(trace.find("torch_tensorrt.convert"), key=seconds)
inside = {span.name: span for span in trace.below(slowest)}
network, build = inside["torch_tensorrt.construct_network"], inside["tensorrt.build_engine"]
print(f"\nthe slowest engine, {slowest.attributes['torch_tensorrt.engine.name']}:")
print(
    f"  {slowest.attributes['torch_tensorrt.engine.operators']} operators, {build.attributes['tensorrt.network.layers']} layers"
)
print(
    f"  {seconds(network):5.2f} s  converters, slowest: {network.attributes['torch_tensorrt.converters.operators'][0]}"
)
print(f"  {seconds(build):5.2f} s  TensorRT's build")
phases = Counter()
for span in trace.below(build):
    phases[span.attributes["tensorrt.build_phase.name"]] += seconds(span)
for name, spent in phases.most_common(4):
    print(f"           {spent:5.2f} s  {name}")
steps = zip(slowest.attributes["torchspan.steps.names"], slowest.attributes["torchspan.steps.durations"], strict=True)
for name, spent in list(steps)[:1]:
    print(f"  {spent:5.2f} s  {name}, which is Torch-TensorRT's own housekeeping")
