# SPDX-License-Identifier: Apache-2.0
import pytest

from torchspan.redaction import messages

# Texts that TensorRT-RTX 1.6 and its ONNX parser wrote, with names of layers and nodes in place of the program's.
KEPT = [
    (
        (
            "ITensor::getDimensions: Error Code 4: API Usage Error ((Unnamed Layer* 0) [Matrix Multiply]: last dimension of input0 = 3 and "
            "second to last dimension of input1 = 5 but must match. In validate at /_src/optimizer/api/layers/matrixMultiplyLayer.cpp:251)"
        ),
        (
            "ITensor::getDimensions: Error Code 4: API Usage Error (? [Matrix Multiply]: last dimension of input0 = 3 and second to last "
            "dimension of input1 = 5 but must match. In validate at /_src/optimizer/api/layers/matrixMultiplyLayer.cpp:251)"
        ),
    ),
    (
        (
            "IBuilder::buildSerializedNetwork: Error Code 4: API Usage Error (wanda.krol: volume mismatch. Input dimensions [2,3] have volume 6 "
            "and output dimensions [4,4] have volume 16. In validate at /_src/optimizer/api/layers/shuffleLayer.cpp:169)"
        ),
        (
            "IBuilder::buildSerializedNetwork: Error Code 4: API Usage Error (?: volume mismatch. Input dimensions [2,3] have volume 6 "
            "and output dimensions [4,4] have volume 16. In validate at /_src/optimizer/api/layers/shuffleLayer.cpp:169)"
        ),
    ),
    (
        (
            "[checkMacros.cpp::catchCudaError::247] Error Code 1: Cuda Runtime (In catchCudaError at /_src/common/dispatch/checkMacros.cpp:247 "
            "(cudaError 35: CUDA driver version is insufficient for CUDA runtime version))"
        ),
        (
            "[checkMacros.cpp::catchCudaError::247] Error Code 1: Cuda Runtime (In catchCudaError at /_src/common/dispatch/checkMacros.cpp:247 "
            "(cudaError 35: CUDA driver version is insufficient for CUDA runtime version))"
        ),
    ),
    (
        (
            "INetworkDefinition::addFill(Dims const&, FillOperation, DataType): Error Code 3: API Usage Error (Parameter check failed, "
            "condition: isValidDims(dimensions).  In setDimensionsInternal at /_src/optimizer/api/layers/fillLayer.cpp:288)"
        ),
        (
            "INetworkDefinition::addFill(?): Error Code 3: API Usage Error (Parameter check failed, "
            "condition: isValidDims(dimensions).  In setDimensionsInternal at /_src/optimizer/api/layers/fillLayer.cpp:288)"
        ),
    ),
    (
        "Error Code: 3: (Unnamed Layer* 0) [Convolution]:kernel weights has count 36 but 108 was expected",
        "Error Code: 3: ? [Convolution]:kernel weights has count 36 but 108 was expected",
    ),
    (
        (
            "ModelImporter.cpp:150: ERROR: ModelImporter.cpp:299 In function parseNodeStaticCheck:\n[1] Op type WandaKrol is not supported in "
            "TensorRT-RTX."
        ),
        (
            "ModelImporter.cpp:150: ERROR: ModelImporter.cpp:299 In function parseNodeStaticCheck:\n[1] Op type ? is not supported in "
            "TensorRT-RTX."
        ),
    ),
    (
        "In node 4 with name: wanda and operator: Reshape (parseNode): INVALID_NODE: Invalid Node - krol",
        "In node ? with name: ? and operator: Reshape (parseNode): INVALID_NODE: Invalid Node - ?",
    ),
    (
        "In node 4 with name: wanda and operator: WandaKrol (parseNode): INVALID_NODE: Invalid Node - krol",
        "In node ? with name: ? and operator: ? (parseNode): INVALID_NODE: Invalid Node - ?",
    ),
]
UNKNOWN = [
    (
        "IBuilder::buildSerializedNetwork: Error Code 4: API Usage Error (wanda: krol: went away. In validate at /_src/optimizer/a.cpp:1)",
        "IBuilder::buildSerializedNetwork: Error Code 4: API Usage Error (? In validate at /_src/optimizer/a.cpp:1)",
    ),
    ("IBuilder::build: Error Code 4: API Usage Error (wanda", "IBuilder::build: Error Code 4: API Usage Error (?"),
    ("ModelImporter.cpp:141: wanda krol", "ModelImporter.cpp:141: ?"),
    ("Error Code 4: API Usage Error (wanda In krol at /wanda/krol/a.cpp:1)", "Error Code 4: API Usage Error (?)"),
    ("IWandaKrol::build: Error Code 4: API Usage Error (wanda)", "?"),
    ("IBuilder::build: Error Code 4: Wanda Krol (wanda)", "?"),
    ("wanda.cpp:141: krol", "?"),
    ("[wanda.cpp::krol::141] broke", "?"),
    ("cudaError 17: wanda", "?"),
    ("ITensor::note(wanda has krol): Error Code 4: Shape Error (x)", "ITensor::note(?): Error Code 4: Shape Error (?)"),
    ("Error Code 4: Shape Error (x In wanda at /_src/home/krol.cpp:17)", "Error Code 4: Shape Error (?)"),
    ("In node 17 (wanda_krol): INVALID_NODE: broke", "In node ? (?): INVALID_NODE: ?"),
    (
        "In node 3 with name: n and operator: Conv (w): INVALID_NODE: x and operator: Conv (importConv): INVALID_NODE: y",
        "?",
    ),
    ("wanda: broke: krol", "?"),
    ("(wanda): KROL: broke", "?"),
]
"""Texts that are in no row, and frames that are not TensorRT's."""


@pytest.mark.parametrize(("text", "kept"), KEPT + UNKNOWN)
def test_what_tensorrt_writes_around_a_text_leaves_whether_the_text_is_known_or_not(text, kept):
    assert str(messages.of_text(text)) == kept
    assert str(messages.of_text(kept)) == kept


def test_what_is_cut_at_the_end_by_tensorrt_leaves_with_its_error_code():
    text = "IBuilder::build: Error Code 4: API Usage Error (Network must have at least one output. In validate at /_s"
    assert str(messages.of_text(text)) == "IBuilder::build: Error Code 4: API Usage Error (?"


@pytest.mark.parametrize(
    "text", ["[a] " * 15_000, "a: " * 20_000, "Error Code 4: " * 4_000, "ModelImporter.cpp:12: " * 2_900]
)
def test_frames_in_frames_without_end_are_read_up_to_a_depth(text):
    assert str(messages.of_text(text)).endswith("?")
