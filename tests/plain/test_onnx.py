# SPDX-License-Identifier: Apache-2.0
"""TensorRT-RTX as a program uses it that has no Torch-TensorRT: ONNX models parsed and built for real."""

import re
from importlib.metadata import version

import pytest

from support.child import below, run
from support.gpu import ON_GPU
from support.tree import BUILDER, POSITIVE, TEXT, S, assert_trees, called_at

VERSIONS = {"tensorrt.package": "tensorrt_rtx", "tensorrt.version": "<this one>"}
KEEP = {"torchspan.keep": True}
ENGINE = {"tensorrt.engine.size": POSITIVE, "tensorrt.engine.id": TEXT}


def onnx_model(op="Relu", domain=""):
    """Two operators one after the other, `op` first, as the bytes of an ONNX model."""
    from onnx import TensorProto, helper

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 4]) for name in "xy")
    nodes = [helper.make_node(op, ["x"], ["z"], name="secret", domain=domain), helper.make_node("Relu", ["z"], ["y"])]
    opsets = [helper.make_opsetid("", 17), *([helper.make_opsetid(domain, 1)] if domain else [])]
    graph = helper.make_graph(nodes, "secret", [x], [y])
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


def program():
    import hashlib
    import os
    import sys

    from support.in_child import instrument, tracer

    instrumentor = instrument()
    import tensorrt_rtx as trt

    from torchspan.hooks import adapters

    trt_logger = trt.Logger(trt.Logger.INTERNAL_ERROR)
    builder = trt.Builder(trt_logger)
    results = {"version": trt.__version__, "model": len(onnx_model())}

    def parser():
        # The caller keeps the network: a parser does not, and crashes without.
        network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
        network.name = "the same"  # it is written into the engine, and counts up if it is not set
        return network, trt.OnnxParser(network, trt_logger)

    def build(network):
        return builder.build_serialized_network(network, builder.create_builder_config())

    def span(name):
        return tracer.start_as_current_span(name)

    with span("deploy"):
        network, onnx = parser()
        results["parsed"] = onnx.parse(onnx_model())
        traced = bytes(build(network))
    with open("secret model.onnx", "wb") as file:
        file.write(onnx_model())
    with span("from a file"):
        network, onnx = parser()
        onnx.parse_from_file(model=os.path.abspath("secret model.onnx"))
    with span("failures"):
        network, onnx = parser()
        onnx.parse(b"not a model, secret-4711")
        onnx.parse(b"")
        onnx.parse_from_file("/secret folder/secret model.onnx")
        results["not clean"] = onnx.num_errors
    with span("wrong call"):
        try:
            onnx.parse("a string")
        except TypeError as error:
            results["wrong call"] = str(error).partition("\n")[0]
    with span("unsupported"):
        network, onnx = parser()
        onnx.parse(onnx_model("StringSplit"))
        results["built"] = build(network) is not None
    with span("not of the standard"):
        network, onnx = parser()
        onnx.parse(onnx_model("SECRET op alice@example.com", "com.example"))
    with span("from memory"):
        network, onnx = parser()
        results["loaded"] = onnx.load_model_proto(onnx_model()) and onnx.parse_model_proto()

    class Stream(trt.IStreamWriter):
        size = 0

        def write(self, data):
            self.size += len(data)
            return len(data)

    with span("to a stream"):
        stream = Stream()
        streamed = builder.build_serialized_network_to_stream(network, builder.create_builder_config(), stream)
        results["streamed"] = streamed and stream.size > 0
        empty = builder.create_network(0)
        results["streamed empty"] = builder.build_serialized_network_to_stream(
            empty, builder.create_builder_config(), stream
        )
    with span("no engine"):
        results["engine"] = trt.Runtime(trt_logger).deserialize_cuda_engine(b"secret") is not None
    network, onnx = parser()
    onnx.parse(onnx_model())

    class OwnLogger(trt.ILogger):
        def __init__(self):
            trt.ILogger.__init__(self)
            self.lines = []

        def log(self, severity, msg):
            self.lines.append((getattr(severity, "name", severity), msg))

    def build_without_profile():
        """A build that fails, and the lines that a logger of the program's own gets."""
        own_logger = OwnLogger()
        own_builder = trt.Builder(own_logger)
        network = own_builder.create_network()
        relu = network.add_activation(network.add_input("secret", trt.float32, (-1, 4)), trt.ActivationType.RELU)
        network.mark_output(relu.get_output(0))
        assert own_builder.build_serialized_network(network, own_builder.create_builder_config()) is None
        own_logger.log("4711", None)  # what a program does with its own logger is its own affair
        return own_logger.lines

    own_log = OwnLogger.log
    with span("own logger"):
        lines = build_without_profile()
        results["followed"] = OwnLogger.log is not own_log

    results["rows"] = {each.probe.target: each.status for each in adapters.resolve_probes()}
    results["libraries"] = sorted(adapters.versions())
    hooked = vars(trt.OnnxParser)["parse"]
    instrumentor.uninstrument()
    results["own log"] = OwnLogger.log is own_log
    results["same lines"] = build_without_profile() == lines
    results["undone"] = vars(trt.OnnxParser)["parse"] is hooked.__wrapped__
    network, onnx = parser()
    onnx.parse(onnx_model())
    results["same bytes"] = hashlib.sha256(build(network)).hexdigest() == hashlib.sha256(traced).hexdigest()

    network, onnx = parser()
    instrumentor.instrument(tracer_provider=tracer_provider(), capture="text", build_phases="on", heartbeat="0")
    with span("late"):
        onnx.parse(onnx_model())
        results["same bytes with phases"] = bytes(build(network)) == traced
    with span("whole text"):
        onnx.parse_from_file("/secret folder/secret model.onnx")
    results["torch"] = "torch" in sys.modules
    return results


def tracer_provider():
    from support.in_child import provider

    return provider


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    done = run(program, onnx_model, tracer_provider, folder=tmp_path_factory.mktemp("plain"))
    for span in done.spans:
        if "tensorrt.version" in span.attributes:
            assert span.attributes["tensorrt.version"] == done.value["version"]
            span.attributes["tensorrt.version"] = "<this one>"
    return done


def error(span):
    return span.attributes.get("error.type"), span.status


def test_a_model_is_parsed_and_built_below_the_span_of_the_user(result):
    assert result.value["parsed"] is True
    assert_trees(
        below(result.spans, "deploy"),
        [
            S(
                "deploy",
                {},
                S(
                    "tensorrt.parse",
                    {
                        **VERSIONS,
                        **KEEP,
                        "tensorrt.parser.model.size": result.value["model"],
                        "tensorrt.network.layers": 2,
                    },
                ),
                S(
                    "tensorrt.build_engine",
                    {
                        **VERSIONS,
                        **KEEP,
                        **BUILDER,
                        **ENGINE,
                        **called_at("program.py", "build"),
                        "tensorrt.network.layers": 2,
                        "tensorrt.inputs.shapes": ("[2, 4]",),
                        "tensorrt.inputs.dtypes": ("float32",),
                    },
                ),
            )
        ],
    )


def test_without_a_span_of_the_user_each_is_a_root(result):
    assert [
        span.name for span in result.spans if span.parent is None and span.instrumentation_scope.name != "user"
    ] == ["torchspan.import", "tensorrt.parse"]


def test_nothing_else_is_imported_and_nothing_else_is_different(result):
    assert result.value["torch"] is False
    assert result.value["same bytes"] is True
    assert result.value["same bytes with phases"] is True


def test_a_model_in_a_file_has_the_files_size(result):
    (parse,) = below(result.spans, "from a file")[1:]
    assert parse.attributes["tensorrt.parser.model.size"] == result.value["model"]
    assert parse.status == "UNSET"


def test_a_parse_that_fails_is_an_error_with_the_parsers_own_class(result):
    malformed, empty, missing = below(result.spans, "failures")[1:]
    assert result.value["not clean"] == 2  # the parser keeps its errors, and has none for an empty model
    assert error(malformed) == ("onnx_model_deserialize_failed", "ERROR")
    assert error(empty) == ("onnx_parse_failed", "ERROR")
    assert error(missing) == ("onnx_invalid_value", "ERROR")
    assert malformed.attributes["tensorrt.parser.error"] == (
        "Assertion failed: model->ParseFromCodedStream(&codedInput): Failed to parse the ONNX model."
    )
    assert missing.attributes["tensorrt.parser.error"] == (
        "Assertion failed: stat(onnxModelFile, &sb) == 0 && S_ISREG(sb.st_mode): "
        "Input file cannot be found, or is not a regular file: ?"
    )


def test_a_call_that_does_not_fit_gets_tensorrts_own_exception(result):
    (parse,) = below(result.spans, "wrong call")[1:]
    assert result.value["wrong call"].startswith("parse(): incompatible function arguments.")
    assert error(parse) == ("TypeError", "ERROR")
    assert [event.name for event in parse.events] == ["exception"]
    assert result.output == ""  # nothing of torchspan's failed alongside it, and TensorRT's own log is at its quietest


def test_an_operator_that_tensorrt_does_not_know_is_named_and_so_is_the_build_that_fails(result):
    parse, build = below(result.spans, "unsupported")[1:]
    assert result.value["built"] is False
    assert error(parse) == ("onnx_unsupported_node", "ERROR")
    assert parse.attributes["tensorrt.parser.failed_operators"] == ("StringSplit",)
    assert parse.attributes["tensorrt.network.layers"] == 0
    assert error(build) == ("engine_build_failed", "ERROR")


def test_an_operator_that_is_not_of_the_onnx_standard_is_a_question_mark(result):
    (parse,) = below(result.spans, "not of the standard")[1:]
    assert error(parse) == ("onnx_internal_error", "ERROR")
    assert parse.attributes["tensorrt.parser.failed_operators"] == ("?",)


def test_a_failed_build_says_which_logger_has_the_reason_that_torchspan_cannot_read(result):
    _, build = below(result.spans, "unsupported")[1:]
    assert build.attributes["tensorrt.build.logger"].endswith(".Logger")
    assert "tensorrt.build.error" not in build.attributes
    assert build.events == []


@pytest.mark.skipif(
    version("tensorrt_rtx").startswith("1.4.") and not ON_GPU,
    reason="without a driver, the last error of TensorRT-RTX 1.4 is that of the CUDA runtime (upstream)",
)
def test_what_a_logger_of_the_program_gets_during_a_build_are_events_of_it(result):
    (build,) = below(result.spans, "own logger")[1:]
    reason = (
        "IBuilder::buildSerializedNetwork: Error Code 4: API Usage Error (Network has dynamic or shape inputs, but no "
        "optimization profile has been defined. In validate at /_src/optimizer/api/network.cpp)"
    )
    *_, event = [event for event in build.events if event.attributes["tensorrt.log.severity"] == "ERROR"]
    assert (event.name, re.sub(r":\d+", "", event.attributes["tensorrt.log.message"])) == ("tensorrt.log", reason)
    assert re.sub(r":\d+", "", build.attributes["tensorrt.build.error"]) == reason
    assert build.attributes["tensorrt.build.logger"].endswith("OwnLogger")
    assert error(build) == ("engine_build_failed", "ERROR")


def test_the_logger_gets_the_same_lines_and_is_as_it_was_afterwards(result):
    assert result.value["followed"] is True
    assert result.value["same lines"] is True
    assert result.value["own log"] is True


def test_a_model_that_the_program_has_in_memory_is_parsed_in_two_steps(result):
    (parse,) = below(result.spans, "from memory")[1:]
    assert result.value["loaded"] is True
    assert parse.attributes["tensorrt.network.layers"] == 2
    assert "tensorrt.parser.model.size" not in parse.attributes


def test_an_engine_that_is_written_while_it_is_built_is_reported_as_well(result):
    assert (result.value["streamed"], result.value["streamed empty"]) == (True, False)
    good, bad = below(result.spans, "to a stream")[1:]
    assert (good.name, error(good)) == ("tensorrt.build_engine", (None, "UNSET"))
    assert (bad.name, error(bad)) == ("tensorrt.build_engine", ("engine_build_failed", "ERROR"))


def test_a_dynamic_dimension_of_a_plain_build_reads_minus_one(result):
    shapes = {
        span.attributes["tensorrt.inputs.shapes"] for span in result.spans if span.name == "tensorrt.build_engine"
    }
    assert shapes == {("[2, 4]",), ("[-1, 4]",), ()}  # the last one has no inputs


def test_bytes_that_are_not_an_engine_are_an_error(result):
    (deserialize,) = below(result.spans, "no engine")[1:]
    assert result.value["engine"] is False
    assert error(deserialize) == ("engine_deserialize_failed", "ERROR")
    assert deserialize.attributes["tensorrt.engine.size"] == 6


def test_enabled_late_only_the_network_of_older_parsers_is_unknown(result):
    assert result.value["undone"] is True
    parse, build = (
        span for span in below(result.spans, "late")[1:] if not span.name.startswith("tensorrt.build_phase")
    )
    assert (parse.name, build.name) == ("tensorrt.parse", "tensorrt.build_engine")
    assert "tensorrt.network.layers" not in parse.attributes


def test_tensorrts_phases_lie_below_a_plain_build(result):
    (building,) = [span for span in result.spans if span.name == "tensorrt.build_phase Building engine"]
    (build,) = [span for span in below(result.spans, "late") if span.name == "tensorrt.build_engine"]
    assert building.parent.span_id == build.context.span_id


def test_no_name_and_no_path_of_the_user_leaves_the_process_unless_asked_for(result):
    plain = [span for span in result.spans if "whole text" not in span.name]
    (asked,) = [span for span in below(result.spans, "whole text") if span.name == "tensorrt.parse"]
    reported = [
        str(span.attributes) + str([event.attributes for event in span.events]) for span in plain if span is not asked
    ]
    assert not [text for text in reported if "secret" in text]
    assert (
        "S_ISREG" in asked.attributes["tensorrt.parser.error"]
        and "== 0 &&" in asked.attributes["tensorrt.parser.error"]
    )


def test_a_process_with_tensorrt_alone_knows_its_rows_and_libraries(result):
    assert result.value["libraries"] == ["tensorrt_rtx"]
    of_tensorrt = {target: status for target, status in result.value["rows"].items() if target.startswith("tensorrt:")}
    assert of_tensorrt.pop("tensorrt:Builder.build_engine_with_config") == "out of range"
    assert set(of_tensorrt.values()) == {"resolved"}
    others = {status for target, status in result.value["rows"].items() if not target.startswith("tensorrt:")}
    assert others == {"library not installed"}
