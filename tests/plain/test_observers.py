# SPDX-License-Identifier: Apache-2.0
"""The official observers of what a program does with TensorRT-RTX alone, where there is neither torch nor Torch-TensorRT."""

from plain.test_onnx import onnx_model
from support.child import run


def program():
    import sys
    import threading

    from support.in_child import instrument
    from torchspan import observers

    seen = []

    def tell(name):
        return lambda c: seen.append(
            [name, threading.current_thread().name, c.callable.__name__, len(c.args), c.outcome]
        )

    for name in ("parse", "build_engine", "build_phase"):
        getattr(observers.tensorrt, name).post.add(tell(name))
    instrument(build_phases="off")
    import tensorrt_rtx as trt

    def work():
        logger = trt.Logger(trt.Logger.INTERNAL_ERROR)
        builder = trt.Builder(logger)
        network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
        trt.OnnxParser(network, logger).parse(onnx_model())
        builder.build_serialized_network(network, builder.create_builder_config())

    thread = threading.Thread(target=work, name="worker")
    thread.start()
    thread.join()
    return {"seen": seen, "torch": "torch" in sys.modules}


def test_they_report_parses_and_builds_in_any_thread_without_torch(tmp_path):
    result = run(program, onnx_model, folder=tmp_path)
    assert result.value == {
        "seen": [
            ["parse", "worker", "parse", 2, "returned"],
            ["build_engine", "worker", "build_serialized_network", 3, "returned"],
        ],
        "torch": False,
    }
