# SPDX-License-Identifier: Apache-2.0
"""What failed in TensorRT alone, and why, on the first screen: real builds and a real ONNX parser below `torchspan run`."""

import os
import subprocess
import sys

import pytest

from torchspan import answers, cli

PROGRAM = """
import onnx
import tensorrt_rtx as trt
from onnx import TensorProto, helper


class Log(trt.ILogger):
    def __init__(self):
        trt.ILogger.__init__(self)

    def log(self, severity, text):
        pass


log = Log()
builder = trt.Builder(log)


def network():
    return builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))


def build(first, second):
    net = network()
    left, right = (net.add_input(name, trt.float32, (-1, 80)) for name in ("speech", "mask"))
    net.mark_output(net.add_elementwise(left, right, trt.ElementWiseOperation.SUM).get_output(0))
    config, profile = builder.create_builder_config(), builder.create_optimization_profile()
    for name, sizes in (("speech", first), ("mask", second)):
        if sizes:
            profile.set_shape(name, *((size, 80) for size in sizes))
    config.add_optimization_profile(profile)
    return builder.build_serialized_network(net, config) is not None


def parse(*nodes, domains=()):
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy")
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(domain, 1) for domain in domains)]
    model = helper.make_model(helper.make_graph(list(nodes), "g", [x], [y]), opset_imports=opsets, ir_version=9)
    net = network()  # a parser does not keep it
    return trt.OnnxParser(net, log).parse(model.SerializeToString())


RANGE = (1, 4, 8)
print(build(RANGE, RANGE), build(RANGE, RANGE), build(RANGE, (2, 5, 9)), build(None, RANGE))
node = helper.make_node
print(
    parse(node("Relu", ["x"], ["a"], name="stem/act"), node("Unique", ["a"], ["y"], name="stem/unique")),
    parse(node("Unique", ["x"], ["a"], name="u1"), node("StringNormalizer", ["a"], ["y"])),
    parse(node("FastNorm", ["x"], ["y"], name="body/norm", domain="com.example"), domains=["com.example"]),
)
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("failing")
    (folder / "app.py").write_text(PROGRAM)
    command = [
        sys.executable,
        "-m",
        "torchspan",
        "run",
        "--quiet",
        "--output",
        "run.jsonl",
        "--",
        sys.executable,
        "app.py",
    ]
    ran = subprocess.run(command, cwd=folder, env=os.environ, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "True True False False\nFalse False False\n"), ran.stderr
    return folder / "run.jsonl"


@pytest.fixture
def screen(file, capsys):
    """The first screen in one line."""

    def show(*options):
        assert cli.main(["show", str(file), *options]) == 0
        return " ".join(capsys.readouterr().out.split("\n\n")[0].split())

    return show


@pytest.mark.parametrize(
    "reason",
    [
        "tensor speech is missing dimensions in profile 0",
        "Broadcast has incompatible dimensions: 4 != 5",
        "onnx_unsupported_node in parse: Unique (node 1, stem/unique): not supported ",
        "onnx_unsupported_node in parse: Unique (node 0, u1): not supported; StringNormalizer (node 1): not supported ",
        "FastNorm (node 0, body/norm): Op type FastNorm is not supported in TensorRT-RTX.",
    ],
)
def test_with_whole_texts_the_first_screen_says_why_a_build_or_a_parse_failed(screen, reason):
    assert reason in screen("--text")


def test_without_whole_texts_operators_of_the_standard_are_named_and_nothing_of_the_program(screen):
    shown = screen()
    assert "onnx_unsupported_node in parse: Unique " in shown
    assert "onnx_unsupported_node in parse: Unique, StringNormalizer " in shown
    for text in ("FastNorm", "stem", "body", "u1", "speech", "4 != 5"):
        assert text not in shown


def test_builds_that_failed_are_not_engines(file, screen):
    read = answers.read(file).answers
    assert len(read.engines) == 2 and all(engine.bytes > 0 for engine in read.engines)
    assert "slowest of 2 engines: tensorrt.build_engine: " in screen()
