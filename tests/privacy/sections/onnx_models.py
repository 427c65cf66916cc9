# SPDX-License-Identifier: Apache-2.0
"""ONNX models that TensorRT's parser refuses, with a name or a text of the program's in every field that has one."""

import onnx
import tensorrt_rtx as trt
from onnx import TensorProto, helper


def plant(place):
    """Each model is refused for another reason, so that the parser's message concerns another thing."""
    for op_type, domain in (
        ("onnx.op_type.identifier", ""),
        ("onnx.op_type.text", ""),
        ("onnx.op_type.identifier", "onnx.domain"),
    ):
        _parse(_model(place, place(op_type), domain and place(domain)))
    for name in ("onnx.node.name", "onnx.node.name.text"):
        _parse(_model(place, "Reshape", name=place(name), inputs=2))
        _parse(_model(place, "MatMul", name=place(name), inputs=2))
        _parse(_model(place, "Einsum", name=place(name), inputs=2, equation=place("onnx.attribute.string")))
        _parse(_model(place, "Conv", name=place(name), inputs=2, **{place("onnx.attribute.name"): 1}))
    _parse(_model(place, "Relu", name="good", is_external=True))
    _parse(_model(place, "Relu", name="good", has_function=True))
    _parse(_model(place, "Relu", name="good"), build=True)
    _parse(place("onnx.bytes").encode())
    parser, _network = _parser()
    parser.parse_from_file(place("onnx.path.missing"))
    folder = place.folder / place("onnx.path.parent")
    folder.mkdir(exist_ok=True)
    file = folder / "model.onnx"
    file.write_bytes(_model(place, place("onnx.op_type.text")))
    for path in (file, folder, f"{folder}//..//{folder.name}/model.onnx"):
        parser, _network = _parser()
        parser.parse_from_file(str(path))


def _parser():
    logger = trt.Logger(trt.Logger.INTERNAL_ERROR)
    builder = trt.Builder(logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    return trt.OnnxParser(network, logger), (logger, builder, network)


def _parse(model, *, build=False):
    parser, (_logger, builder, network) = _parser()
    parser.parse(model)
    if build:
        builder.build_serialized_network(network, builder.create_builder_config())


def _model(place, op, domain="", name="node", inputs=1, *, is_external=False, has_function=False, **attributes):
    given, between, result = (place(f"onnx.tensor.{each}") for each in ("input", "between", "output"))
    weights = place("onnx.initializer.name")
    x = helper.make_tensor_value_info(given, TensorProto.FLOAT, [place("onnx.dim_param"), 4])
    y = helper.make_tensor_value_info(result, TensorProto.FLOAT, [place("onnx.dim_param"), 4])
    nodes = [
        helper.make_node(op, [given, weights][:inputs], [between], name=name, domain=domain, doc_string=place("onnx.node.doc"), **attributes),
        helper.make_node("Relu", [between], [result], name="last"),
    ]  # fmt: skip
    values = [float(letter) for letter in place("onnx.initializer.value").encode()]
    tensor = helper.make_tensor(weights, TensorProto.FLOAT, [len(values)], values)
    strings = helper.make_tensor("strings", TensorProto.STRING, [1], [place("onnx.initializer.string").encode()])
    if is_external:
        del tensor.float_data[:]
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=place("onnx.external.location"))
        nodes[0].input.append(weights)
    constants = [tensor, *([strings] if op != "Relu" else [])] if inputs > 1 or is_external else []
    graph = helper.make_graph(nodes, place("onnx.graph.name"), [x], [y], constants, place("onnx.graph.doc"))
    opsets = [helper.make_opsetid("", 17), *([helper.make_opsetid(domain, 1)] if domain else [])]
    functions = []
    if has_function:
        body = [helper.make_node("Relu", ["a"], ["b"]), helper.make_node("Missing", ["b"], ["c"])]
        function = place("onnx.function.name")
        functions = [helper.make_function("own", function, ["a"], ["c"], body, opsets)]
        opsets.append(helper.make_opsetid("own", 1))
        graph.node[0].op_type, graph.node[0].domain = function, "own"
    model = helper.make_model(
        graph, opset_imports=opsets, ir_version=10, producer_name=place("onnx.producer"), functions=functions
    )
    onnx.helper.set_model_props(model, {place("onnx.metadata.key"): place("onnx.metadata.value")})
    return model.SerializeToString()
