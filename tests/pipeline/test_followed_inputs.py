# SPDX-License-Identifier: Apache-2.0
"""`TORCHSPAN_INPUTS=compiled`: calls of what Torch-TensorRT compiled, by each way to compile."""

import pytest
import torch
import torch_tensorrt

from pipeline.expected import by_version
from support.tree import named


class Adds(torch.nn.Module):
    """Works on rows."""

    def forward(self, x, offset):
        return torch.relu(x + offset)


ROWS = torch_tensorrt.Input(min_shape=(1, 16), opt_shape=(4, 16), max_shape=(8, 16), dtype=torch.float32, name="x")
OPTIONS = {"min_block_size": 1, "pass_through_build_failures": True}


def rows(number):
    return torch.ones(number, 16)


@pytest.fixture
def calls(exporter, tracer):
    """`calls(work)`: the followed calls that `work` left as events on the span around it."""

    def of(work):
        exporter.clear()
        with tracer.start_as_current_span("request"):
            work()
        span = named(exporter.get_finished_spans(), "request")
        return [dict(each.attributes) for each in span.events if each.name == "torchspan.input"]

    return of


def hooks(module):
    return len(module._forward_pre_hooks), len(module._forward_hooks)


def test_calls_of_a_module_that_torch_tensorrt_compiled_are_followed(instrument, calls, metrics):
    instrument(inputs="compiled", inputs_every=2)
    with torch.no_grad():
        compiled = torch_tensorrt.compile(
            Adds().eval(), ir="dynamo", arg_inputs=[ROWS, torch_tensorrt.Input((16,), name="offset")], **OPTIONS
        )
    assert hooks(compiled) == (1, 0)
    events = calls(lambda: [compiled(rows(number), torch.zeros(16)) for number in (4, 4, 3)])
    assert [(each["torchspan.input.shapes"], each["torchspan.input.new"]) for each in events] == [
        (("[4, 16]", "[16]"), True),
        (("[4, 16]", "[16]"), False),
        (("[3, 16]", "[16]"), True),
    ]
    assert {(each["torchspan.input.module"], each["torchspan.input.paths"]) for each in events} == {
        ("Adds", ("x", "offset"))
    }
    assert metrics.values("torchspan.input.calls", "torchspan.input.module") == {"Adds": 3}


def test_graphs_that_torch_compile_hands_over_are_followed(instrument, calls):
    instrument(inputs="compiled")
    compiled = torch.compile(Adds().eval(), backend="tensorrt", options=OPTIONS)
    compiled(rows(4), torch.zeros(16))  # no span is around it
    assert calls(lambda: [compiled(rows(number), torch.zeros(16)) for number in (5, 5)]) == [
        {
            "torchspan.input.module": "torch.compile",
            # The size that varies is args[0]. 2.11 removes it before the graph is traced (remove_sym_nodes).
            "torchspan.input.paths": by_version({(2, 11): ("args[0]", "args[1]"), (2, 12): ("args[1]", "args[2]")}),
            "torchspan.input.shapes": ("[5, 16]", "[16]"),
            "torchspan.input.dtypes": ("float32", "float32"),
            "torchspan.input.new": True,
            "torchspan.input.count": 1,
        }
    ]


def test_a_module_that_compiles_itself_is_followed(instrument, calls):
    instrument(inputs="compiled")
    module = torch_tensorrt.MutableTorchTensorRTModule(Adds().eval(), **OPTIONS)
    events = calls(lambda: [module(rows(4), torch.zeros(16)) for _ in range(2)])
    assert [(each["torchspan.input.module"], each["torchspan.input.paths"]) for each in events] == [
        ("Adds", ("x", "offset"))
    ]


def test_a_graph_that_was_left_to_pytorch_is_not_followed(instrument, calls):
    instrument(inputs="compiled")
    compiled = torch.compile(Adds().eval(), backend="tensorrt", options={"min_block_size": 100})
    compiled(rows(4), torch.zeros(16))
    assert calls(lambda: compiled(rows(4), torch.zeros(16))) == []
