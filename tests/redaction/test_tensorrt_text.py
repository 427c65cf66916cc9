# SPDX-License-Identifier: Apache-2.0
import pytest

from torchspan.words.redaction import messages

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


CATEGORIES = (
    "API Usage Error, Internal Error, Shape Error, Integer Overflow, Serialization, OutOfMemory, Miscellaneous, BuildCanceled, Cuda Runtime, "
    "Cuda Driver, Myelin, Cask, Cudnn, Cublas, CuTensor, Cutensor, Unknown"
)
CLASSES = (
    "IBuilder, IBuilderConfig, INetworkDefinition, ITensor, IConvolutionLayer, IRuntime, IRuntimeConfig, IRuntimeCache, ICudaEngine, "
    "IExecutionContext, IEngineInspector, IHostMemory, IRefitter, IOptimizationProfile, ISerializationConfig, ITimingCache, IPluginRegistry, "
    "IStreamReader, ILoop, IIfConditional, IAttention, ILogger"
)
LAYERS = (
    "Activation, Assertion, Attention, AttentionInput, AttentionOutput, Cast, Concatenation, Condition, ConditionalInput, ConditionalOutput, "
    "Constant, Convolution, Cumulative, Deconvolution, Dequantize, DynamicQuantize, Einsum, ElementWise, Fill, Gather, GridSample, Identity, "
    "Iterator, KVCacheUpdate, LoopOutput, LRN, Matrix Multiply, NMS, NonZero, Normalization, OneHot, Padding, Parametric ReLU, PluginV2, "
    "PluginV3, Pooling, Quantize, RaggedSoftMax, Recurrence, Reduce, Resize, ReverseSequence, RotaryEmbedding, Scale, Scatter, Select, Shape, "
    "Shuffle, Slice, Softmax, Squeeze, TopK, TripLimit, Unary, Unsqueeze"
)
FILES = (
    "ModelImporter, ModelRefitter, NvOnnxParser, ImporterContext, importerUtils, onnxOpImporters, onnxOpCheckers, onnxProtoUtils, "
    "onnxErrorRecorder, errorHelpers, WeightsContext, ShapedWeights, ShapeTensor, LoopHelpers, ConditionalHelpers, RNNHelpers, "
    "AttentionHelpers, OnnxAttrs, weightUtils, onnx2trt_utils, builtin_op_importers"
)
CODES = (
    "INTERNAL_ERROR, MEM_ALLOC_FAILED, MODEL_DESERIALIZE_FAILED, INVALID_VALUE, INVALID_GRAPH, INVALID_NODE, UNSUPPORTED_GRAPH, "
    "UNSUPPORTED_NODE, UNSUPPORTED_NODE_ATTR, UNSUPPORTED_NODE_INPUT, UNSUPPORTED_NODE_DATATYPE, UNSUPPORTED_NODE_DYNAMIC, "
    "UNSUPPORTED_NODE_SHAPE, REFIT_FAILED"
)
FUNCTIONS = (
    "addLayer, checkShape, convDeconvMultiInput, convertAxis, createInput, deserializeModel, elementwiseHelper, getAxis, importConv, loadWeights, "
    "parseNode, refitWeights, unaryHelper"
)
WORDS = {
    "Error Code 4: {} (wanda)": (CATEGORIES, "Error Code 4: {} (?)"),
    "{}::build: Error Code 4: Shape Error (wanda)": (CLASSES, "{}::build: Error Code 4: Shape Error (?)"),
    "Error Code 3: wanda [{}]:kernel weights has count 36 but 108 was expected": (
        LAYERS,
        "Error Code 3: ? [{}]:kernel weights has count 36 but 108 was expected",
    ),
    "{}.cpp:12: wanda": (FILES, "{}.cpp:12: ?"),
    "In node 4 (parseNode): {}: wanda": (CODES, "In node ? (parseNode): {}: ?"),
    "In node 4 ({}): INVALID_NODE: wanda": (FUNCTIONS, "In node ? ({}): INVALID_NODE: ?"),
    "Error Code 4: Shape Error (wanda In f at /_src/{}/a.cpp:17)": (
        "common, optimizer, plugin, runtime, sharedSafety",
        "Error Code 4: Shape Error (? In f at /_src/{}/a.cpp:17)",
    ),
    "Error Code 4: Shape Error (wanda In f at /_src/common/a.{}:17)": (
        "cpp, cu, h, hpp, inl",
        "Error Code 4: Shape Error (? In f at /_src/common/a.{}:17)",
    ),
    "Error Code 4: Shape Error (wanda In {} at /_src/common/a.cpp:17)": (
        "f, a::b, A::~A, operator()",
        "Error Code 4: Shape Error (? In {} at /_src/common/a.cpp:17)",
    ),
}


@pytest.mark.parametrize("text", WORDS)
def test_the_words_of_tensorrt_around_a_text_leave(text):
    words, kept = WORDS[text]
    lost = [word for word in words.split(", ") if str(messages.of_text(text.format(word))) != kept.format(word)]
    assert lost == []


def test_two_places_may_follow_a_text():
    places = " In f at /_src/common/a.cpp:1 In g at /_src/common/b.cpp:2"
    assert (
        str(messages.of_text(f"Error Code 4: Shape Error (wanda{places})")) == f"Error Code 4: Shape Error (?{places})"
    )
    third = f"Error Code 4: Shape Error (wanda In h at /_src/common/c.cpp:3{places})"
    assert str(messages.of_text(third)) == f"Error Code 4: Shape Error (?{places})"


def test_a_layer_before_a_known_text_is_named_by_its_class():
    text = "Error Code 3: IConvolutionLayer wanda: kernel weights has count 36 but 108 was expected"
    assert str(messages.of_text(text)) == (
        "Error Code 3: IConvolutionLayer ?: kernel weights has count 36 but 108 was expected"
    )


NODE, LAYER, KNOWN = (
    "In node 4 (parseNode): INVALID_NODE: ",
    "IConvolutionLayer wanda: ",
    "kernel weights has count 36 but 108 was expected",
)


@pytest.mark.parametrize(
    ("around", "is_kept"),
    [
        (NODE * 6, True),
        (NODE * 7, False),
        (NODE * 5 + LAYER, True),
        (NODE * 6 + LAYER, False),
        (NODE * 3 + LAYER + NODE * 2, True),
        (NODE * 3 + LAYER + NODE * 3, False),
    ],
)
def test_a_known_text_leaves_from_within_six_others_and_not_from_within_seven(around, is_kept):
    assert str(messages.of_text(around + KNOWN)).endswith(KNOWN if is_kept else ": ?")
