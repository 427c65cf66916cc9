# SPDX-License-Identifier: Apache-2.0
"""TensorRT and Torch-TensorRT in one process, imported in every order that makes a difference."""

from collections import Counter

import pytest

from support.child import below, run

pytestmark = pytest.mark.slow


def program():
    import pathlib
    import types

    import torchspan.testing
    from support.in_child import exporter, instrument, tracer

    torchspan.testing.without_gpu()
    steps = pathlib.Path("order").read_text().split()
    modules = {}
    before = {}
    for step in steps:
        if step == "instrument":
            for name in [each for each in modules if each == "tensorrt_rtx"]:
                before = bound(modules[name])
            instrumentor = instrument()
        else:
            modules[step] = __import__(step)
    trt, torch_tensorrt = modules["tensorrt_rtx"], modules["torch_tensorrt"]
    import torch

    def runs_are_hooked():
        return isinstance(vars(trt.IExecutionContext)["execute_async_v3"], types.FunctionType) and hasattr(
            vars(trt.IExecutionContext)["execute_async_v3"], "__wrapped__"
        )

    x = torch.ones(2, 16)
    model = torch.nn.Sequential(torch.nn.Linear(16, 4), torch.nn.ReLU()).eval()
    with torch.no_grad(), tracer.start_as_current_span("compiled"):
        module = torch_tensorrt.compile(model, ir="dynamo", inputs=[x], min_block_size=1)
        expected = module(x)
        module(x)
    results = {"hooked by Torch-TensorRT's runs": runs_are_hooked()}

    (engine,) = [each for each in module.modules() if hasattr(each, "serialized_engine")]
    with tracer.start_as_current_span("plain"):
        runtime = trt.Runtime(trt.Logger(trt.Logger.INTERNAL_ERROR))
        context = runtime.deserialize_cuda_engine(engine.serialized_engine).create_execution_context()
        y = torch.zeros(2, 4)
        names = [context.engine.get_tensor_name(index) for index in range(2)]
        for name, tensor in zip(names, (x, y), strict=True):
            context.set_tensor_address(name, tensor.data_ptr())
        results["ran"] = context.execute_async_v3(stream_handle=0)
        results["equal"] = torch.equal(y, expected)
    results["hooked by plain runs"] = runs_are_hooked()
    with torch.no_grad(), tracer.start_as_current_span("compiled again"):
        module(x)

    instrumentor.uninstrument()
    after = bound(trt)
    results["left behind"] = [
        str(key) for key, value in after.items() if module_of(value).startswith("torchspan.hooks.adapters")
    ]
    results["not the same"] = [str(key) for key in before if before[key] is not after[key]]
    spans = len(exporter.get_finished_spans())
    context.execute_async_v3(0)
    trt.Builder(trt.Logger(trt.Logger.INTERNAL_ERROR))
    results["spans after"] = len(exporter.get_finished_spans()) - spans
    return results


def bound(trt):
    names = ("Builder", "Runtime", "OnnxParser", "ICudaEngine", "IExecutionContext")
    return {(name, key): value for name in names for key, value in vars(getattr(trt, name)).items()}


def module_of(value):
    return getattr(value, "__globals__", {}).get("__name__", "")


ORDERS = {
    "TensorRT, then us, then Torch-TensorRT": "tensorrt_rtx instrument torch_tensorrt",
    "we, then TensorRT, then Torch-TensorRT": "instrument tensorrt_rtx torch_tensorrt",
    "we, then Torch-TensorRT, which brings TensorRT": "instrument torch_tensorrt tensorrt_rtx",
    "both, then us": "tensorrt_rtx torch_tensorrt instrument",
}


@pytest.fixture(scope="module", params=ORDERS)
def result(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("order")
    (folder / "order").write_text(ORDERS[request.param])
    done = run(program, bound, module_of, folder=folder)
    done.late = ORDERS[request.param].index("tensorrt_rtx") < ORDERS[request.param].index("instrument")
    return done


def test_every_order_gives_the_same_spans_each_once(result):
    names = Counter(span.name for span in below(result.spans, "compiled"))
    assert {name: count for name, count in names.items() if name.startswith("tensorrt.")} == {
        "tensorrt.build_engine": 1,
        "tensorrt.deserialize_engine": 2,  # after the build, and at set-up
    }
    assert names["torch_tensorrt.execute"] == 2
    assert [span.name for span in below(result.spans, "plain")] == [
        "plain",
        "tensorrt.deserialize_engine",
        "tensorrt.create_context",
        "tensorrt.execute",
    ]
    assert [span.name for span in below(result.spans, "compiled again")] == ["compiled again", "torch_tensorrt.execute"]


def test_the_numbers_are_the_same(result):
    assert (result.value["ran"], result.value["equal"]) == (True, True)


def test_while_torch_tensorrt_makes_all_contexts_their_runs_are_not_even_hooked(result):
    assert result.value["hooked by Torch-TensorRT's runs"] is result.late  # others may have made some before we came
    assert result.value["hooked by plain runs"] is True


def test_undoing_restores_the_very_objects(result):
    assert result.value["left behind"] == []
    assert result.value["not the same"] == []
    assert result.value["spans after"] == 0
