# SPDX-License-Identifier: Apache-2.0
"""Programs with Torch-TensorRT, for its remedies. Settings that a remedy names are added to the line that ends in `# settings`.

Each element of `results` says whether the compiled model returned what the model returns.
"""

from support.advice import Program

START = """
import tempfile

import torch
import torch_tensorrt
from torch_tensorrt.dynamo.conversion import dynamo_tensorrt_converter

results = []
torch.manual_seed(0)

def converts(operator, error):
    @dynamo_tensorrt_converter(operator)
    def convert(*_):
        raise error

def same(compiled):
    return torch.allclose(compiled(rows), net(rows), atol=1e-4)

class Part(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, rows):
        return self.last(torch.erfinv(torch.tanh(self.first(rows)) * 0.5))

rows = torch.randn(4, 8).cuda()
torch.set_grad_enabled(False)
"""
SEQUENTIAL = """
net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()).eval().cuda()
"""
PART = """
net = Part().eval().cuda()
"""
COMPILED = 'torch_tensorrt.compile(net, ir="dynamo", arg_inputs=[rows], **settings)'
AS_BACKEND = 'torch.compile(net, backend="tensorrt", options=settings)'
TO_ENGINE = 'torch_tensorrt.convert_method_to_trt_engine(net, ir="dynamo", arg_inputs=[rows], **settings)'
RAISES = 'converts(torch.ops.aten.erfinv.default, ValueError("no such layer"))\n'
FOLDER = "engine_cache_dir=tempfile.mkdtemp()"


def settings(text):
    return f"settings = dict({text})  # settings\n"


def cache(title, source, would=None, **more):
    return Program("engine_cache", title, START + source, would, **more)


def block(title, source, would=None):
    return Program("min_block_size", title, START + source, would)


def partial(title, source, would=None):
    return Program("partial_compilation", title, START + source, would)


def excluded(title, source, would=None, **more):
    return Program("excluded", title, START + source, would, **more)


def in_options(title, source, would=None, **more):
    return Program("excluded_in_options", title, START + source, would, **more)


def twice(expression):
    return f"for _ in range(2):\n    torch._dynamo.reset()\n    results.append({expression})\n"


PROGRAMS = [
    cache(
        "a model that is compiled twice",
        SEQUENTIAL + settings(f"min_block_size=1, {FOLDER}") + twice(f"same({COMPILED})"),
    ),
    cache(
        "`torch.compile` with the backend, twice",
        SEQUENTIAL + settings(f"min_block_size=1, {FOLDER}") + twice(f"same({AS_BACKEND})"),
    ),
    cache(
        "the cache is requested, and the weights are immutable",
        SEQUENTIAL
        + settings(f"min_block_size=1, cache_built_engines=True, reuse_cached_engines=True, {FOLDER}")
        + twice(f"same({COMPILED})"),
    ),
    cache(
        "engines are stored and not looked for",
        SEQUENTIAL
        + settings(f"min_block_size=1, immutable_weights=False, cache_built_engines=True, {FOLDER}")
        + twice(f"same({COMPILED})"),
        slow=True,
    ),
    cache(
        "one engine of a model, as bytes, twice",
        SEQUENTIAL + settings(FOLDER) + twice(f"type({TO_ENGINE}) is bytes"),
        slow=True,
    ),
    cache(
        "TensorRT alone, which has no such settings",
        """
import tensorrt_rtx as trt

def build():
    builder = trt.Builder(trt.Logger(trt.Logger.ERROR))
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    given = network.add_input("rows", trt.float32, (4, 8))
    network.mark_output(network.add_activation(given, trt.ActivationType.RELU).get_output(0))
    return builder.build_serialized_network(network, builder.create_builder_config())

for _ in range(2):
    results.append(build() is not None)
""",
        "",
    ),
    cache(
        "the cache is on, and other inputs than before are given",
        SEQUENTIAL
        + settings(
            f"min_block_size=1, immutable_weights=False, cache_built_engines=True, reuse_cached_engines=True, {FOLDER}"
        )
        + f"results.append(same({COMPILED}))\nrows = torch.randn(2, 8).cuda()\nresults.append(same({COMPILED}))\n",
        "immutable_weights=False, cache_built_engines=True, reuse_cached_engines=True turn it on",
    ),
    block("a model of two operators", SEQUENTIAL + settings("") + f"results.append(same({COMPILED}))\n"),
    block(
        "operators on both sides of one that TensorRT does not have",
        PART + settings("min_block_size=3") + f"results.append(same({COMPILED}))\n",
    ),
    block("`torch.compile` with the backend", SEQUENTIAL + settings("") + f"results.append(same({AS_BACKEND}))\n"),
    block(
        "an operator without a converter",
        PART + settings("min_block_size=1") + f"results.append(same({COMPILED}))\n",
        "min_block_size=1 takes it into TensorRT",
    ),
    block(
        "an operator that the program leaves to PyTorch",
        SEQUENTIAL
        + settings('min_block_size=1, torch_executed_ops={"torch.ops.aten.relu.default"}')
        + f"results.append(same({COMPILED}))\n",
        "min_block_size=1 takes it into TensorRT",
    ),
    partial(
        "an operator without a converter",
        PART + settings("min_block_size=1, require_full_compilation=True") + f"results.append(same({COMPILED}))\n",
    ),
    partial(
        "two operators without a converter",
        PART.replace("Part()", "torch.nn.Sequential(Part(), Part())")
        + settings("min_block_size=1, require_full_compilation=True")
        + f"results.append(same({COMPILED}))\n",
    ),
    partial(
        "an operator that the program leaves to PyTorch",
        SEQUENTIAL
        + settings(
            'min_block_size=1, require_full_compilation=True, torch_executed_ops={"torch.ops.aten.relu.default"}'
        )
        + f"results.append(same({COMPILED}))\n",
    ),
    partial(
        "one engine of the whole model",
        PART + settings("") + f"results.append(type({TO_ENGINE}) is bytes)\n",
        "pass require_full_compilation=False to run them in PyTorch",
    ),
    partial(
        "a converter that raises",
        PART
        + RAISES
        + settings("min_block_size=1, require_full_compilation=True")
        + f"results.append(same({COMPILED}))\n",
        "pass require_full_compilation=False to run them in PyTorch",
    ),
    excluded(
        "a converter that raises",
        PART + RAISES + settings("min_block_size=1") + f"results.append(same({COMPILED}))\n",
    ),
    excluded(
        "a converter that raises, and the whole model has to be in TensorRT",
        PART
        + RAISES
        + settings("min_block_size=1, require_full_compilation=True")
        + f"results.append(same({COMPILED}))\n",
    ),
    excluded(
        "a converter that raises next to an operator that the program leaves to PyTorch",
        PART
        + RAISES
        + settings('min_block_size=1, torch_executed_ops={"torch.ops.aten.tanh.default"}')
        + f"results.append(same({COMPILED}))\n",
    ),
    excluded(
        "a converter that raises for one engine of the whole model",
        PART + RAISES + settings("") + f"results.append(type({TO_ENGINE}) is bytes)\n",
        "pass torch_executed_ops={'torch.ops.aten.erfinv.default'} to run it in PyTorch",
    ),
    excluded(
        "an exception that no operator raised: a wrong argument",
        SEQUENTIAL
        + settings("min_block_size=1")
        + f"net.requires = 1\nresults.append({COMPILED.replace('[rows]', '[rows, rows]')})\n",
        "pass torch_executed_ops={'torch.ops.aten.relu.default'} to run it in PyTorch",
    ),
    in_options(
        "a converter that raises",
        PART
        + RAISES
        + settings("min_block_size=1, pass_through_build_failures=True")
        + f"results.append(same({AS_BACKEND}))\n",
    ),
    in_options(
        "a converter that raises, which the backend catches",
        PART + RAISES + settings("min_block_size=1") + f"results.append(same({AS_BACKEND}))\n",
    ),
    in_options(
        "a converter that raises next to an operator that the program leaves to PyTorch",
        PART
        + RAISES
        + settings(
            'min_block_size=1, pass_through_build_failures=True, torch_executed_ops={"torch.ops.aten.tanh.default"}'
        )
        + f"results.append(same({AS_BACKEND}))\n",
        slow=True,
    ),
    in_options(
        "a converter that raises, of `torch_tensorrt.compile`, which has no options",
        PART + RAISES + settings("min_block_size=1") + f"results.append(same({COMPILED}))\n",
        "",
    ),
    in_options(
        "an operator without a converter, which runs in PyTorch anyway",
        PART + settings("min_block_size=1") + f"results.append(same({AS_BACKEND}))\n",
        "",
    ),
]
