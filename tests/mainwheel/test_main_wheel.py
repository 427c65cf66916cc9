# SPDX-License-Identifier: Apache-2.0
"""The wheel `torch-tensorrt` with its own branches: a strongly typed network, a timing cache, `build_engine_with_config`.

It wants TensorRT, whose libraries no package index has. TensorRT-RTX has the same interface, so here it goes by the name of
`tensorrt`; `tensorrt_over_rtx` is the whole of what is replaced alongside the stand-in for a GPU.
"""

import sys
from pathlib import Path

import pytest

from support.child import below, run
from support.tree import BUILDER, POSITIVE, SECONDS, STEPS, TEXT, S, differences, in_any_order, trees

pytestmark = pytest.mark.slow

FOLDER = Path(sys.prefix) / "main-wheel"
OWN = Path(__file__).resolve().parents[2] / ".venv"


def tensorrt_over_rtx():
    """Registers TensorRT-RTX as `tensorrt` 11.1, as far as torch_tensorrt looks.

    Real: everything that TensorRT-RTX has, so the network, the configuration with its timing cache, and the build.
    Replaced: the module and its version; `Builder.build_engine_with_config`, which TensorRT-RTX lacks, by a build and a
    deserialization; the list of installed wheels, which must not tell torch_tensorrt that it is the RTX variant.
    Left out: `tensorrt.plugin`.
    """
    import importlib.machinery
    import importlib.metadata
    import sys
    import types

    import tensorrt_rtx

    names = {name: value for name, value in vars(tensorrt_rtx).items() if name[:2] != "__" and name != "plugin"}
    module = types.ModuleType("tensorrt")
    vars(module).update(names, __path__=[], __file__=tensorrt_rtx.__file__, __version__="11.1.0.106")
    module.__spec__ = importlib.machinery.ModuleSpec("tensorrt", None, is_package=True)
    build = vars(module.Builder)["build_serialized_network"]
    deserialize = vars(module.Runtime)["deserialize_cuda_engine"]

    def build_engine_with_config(self, network, config):
        plan = build(self, network, config)
        return None if plan is None else deserialize(self, plan)  # of either, the stand-in takes the logger

    module.Builder.build_engine_with_config = build_engine_with_config
    sys.modules["tensorrt"] = module
    wheels = importlib.metadata.packages_distributions
    importlib.metadata.packages_distributions = lambda: {**wheels(), "torch_tensorrt": ["torch-tensorrt"]}
    return module


def program():
    import torchspan.testing

    torchspan.testing.without_gpu()
    trt = tensorrt_over_rtx()
    original = vars(trt.Builder)["build_engine_with_config"]
    from support.in_child import instrument, tracer

    instrumentor = instrument()
    import torch
    import torch._inductor.async_compile
    import torch_tensorrt

    from torchspan.hooks import adapters

    networks = []
    create_network = trt.Builder.create_network

    def creating(self, flags=0):
        networks.append(create_network(self, flags))
        return networks[-1]

    trt.Builder.create_network = creating
    x = torch.ones(2, 16)
    model = torch.nn.Sequential(torch.nn.Linear(16, 4), torch.nn.ReLU()).eval()
    equal = []
    with torch.no_grad():
        for name in ("first", "second"):
            with tracer.start_as_current_span(name):
                module = torch_tensorrt.compile(model, ir="dynamo", inputs=[x], min_block_size=1)
                equal.append(torch.equal(module(x), model(x)))
        with tracer.start_as_current_span("torch.compile"):
            again = torch.compile(model, backend="tensorrt", options={"min_block_size": 1})
            equal.append(torch.allclose(again(x), model(x)))
    trt.Builder.create_network = create_network
    typed = trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED
    results = {
        "wheel": torch_tensorrt.__file__,
        "is rtx": torch_tensorrt.ENABLED_FEATURES.tensorrt_rtx,
        "equal": equal,
        "strongly typed": [network.get_flag(typed) for network in networks],
        "rows": {each.probe.target: each.status for each in adapters.resolve_probes()},
        "versions": adapters.versions(),
    }
    instrumentor.uninstrument()
    results["undone"] = vars(trt.Builder)["build_engine_with_config"] is original
    return results


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    if not FOLDER.exists():
        reason = f"the wheel torch-tensorrt is not in {FOLDER}; `make setup` puts it there"
        pytest.fail(reason) if Path(sys.prefix).resolve() == OWN.resolve() else pytest.skip(reason)
    return run(program, tensorrt_over_rtx, folder=tmp_path_factory.mktemp("main"), path=[FOLDER])


def conversion(result, name):
    (tree,) = trees(below(result.spans, name))
    (found,) = tree.find("torch_tensorrt.convert")
    return found


def test_it_is_the_main_wheel_and_takes_its_own_branches(result):
    assert Path(result.value["wheel"]).parent == FOLDER / "torch_tensorrt"
    assert result.value["is rtx"] is False
    assert result.value["strongly typed"] == [True, True, True]
    assert result.value["equal"] == [True, True, True]
    assert result.value["versions"]["tensorrt"] == "11.1.0.106"


def test_every_row_resolves_those_of_tensorrt_alone_too(result):
    of_main = {target: status for target, status in result.value["rows"].items() if "_with_config" in target}
    assert of_main == {"tensorrt:Builder.build_engine_with_config": "resolved"}
    assert set(result.value["rows"].values()) == {"resolved", "out of range"}
    assert result.value["undone"] is True


KEEP = {"torchspan.keep": True}
STAND_IN = {"torchspan.stand_in": True}
ENGINE = {"tensorrt.engine.size": POSITIVE, "tensorrt.engine.id": TEXT}
OF_ENGINE = {"torch_tensorrt.engine.name": "_run_on_acc_0"}
OF_MODEL = {"torch.model.class": "Sequential", "torch_tensorrt.engine.modules": ("0", "1")}
CACHES = {
    "first": {"torch_tensorrt.timing_cache.file": "created"},
    "second": {"torch_tensorrt.timing_cache.file": "read"},
}


@pytest.mark.parametrize("name", CACHES)
def test_an_engine_is_built_with_its_configuration_and_a_timing_cache(result, name):
    found = differences(
        [conversion(result, name)],
        [
            S(
                "torch_tensorrt.convert",
                {
                    **OF_ENGINE,
                    **OF_MODEL,
                    **KEEP,
                    **CACHES[name],
                    "torch_tensorrt.engine.operators": 2,
                    "torch.inputs.shapes": ("[2, 16]",),
                    "torch.inputs.dtypes": ("float32",),
                    **ENGINE,
                    "torch_tensorrt.engine_cache.result": "disabled",
                    "torch_tensorrt.engine_cache.reason": "not_requested",
                    **STEPS,
                    "torchspan.steps.names": in_any_order(
                        "release_host_and_device_memory",
                        "extract_symbolic_shape_expressions",
                        "TRTInterpreter._create_timing_cache",
                        "TRTInterpreter._save_timing_cache",
                    ),
                },
                S(
                    "torch_tensorrt.construct_network",
                    {
                        **KEEP,
                        "tensorrt.network.layers": 6,
                        "torch_tensorrt.converters.operators": in_any_order(
                            "torch.ops.aten.linear.default", "torch.ops.aten.relu.default"
                        ),
                        "torch_tensorrt.converters.counts": (1, 1),
                        "torch_tensorrt.converters.durations": SECONDS,
                    },
                ),
                S(
                    "tensorrt.build_engine",  # returns an engine, whose size only the conversion learns
                    {
                        **KEEP,
                        **BUILDER,
                        "tensorrt.network.layers": 6,
                    },
                ),
                S(
                    "torch_tensorrt.setup_engine",
                    {
                        **OF_ENGINE,
                        **KEEP,
                        **STAND_IN,
                        **ENGINE,
                        "torch_tensorrt.runtime": "python",
                    },
                    S("tensorrt.deserialize_engine", {**KEEP, **STAND_IN, **ENGINE}),
                ),
            )
        ],
    )
    assert not found, "\n".join(found)


def test_runs_and_torch_compile_are_reported_as_with_the_other_wheel(result):
    (run_,) = [span for span in below(result.spans, "first") if span.name == "torch_tensorrt.execute"]
    assert run_.attributes["torch_tensorrt.execute.first"] is True
    names = [span.name for span in below(result.spans, "torch.compile")]
    assert names.count("tensorrt.build_engine") == 1
    assert names[1] == "torch.compile_frame"
    assert names.index("torch_tensorrt.compile") == names.index("torch.compile_phase backend_compile") + 1
    (compilation,) = [span for span in below(result.spans, "first") if span.name == "torch_tensorrt.compile"]
    assert compilation.attributes["tensorrt.package"] == "tensorrt"
