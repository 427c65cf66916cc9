# SPDX-License-Identifier: Apache-2.0
"""What TensorRT and its ONNX parser write around a message: who raised it, where, and with which error code.

A message of TensorRT is a text in a frame: `ITensor::getDimensions: Error Code 4: Shape Error (TEXT In op at /_src/a.cpp:27)`. The
frame is TensorRT's own, so it leaves. The text inside is looked up in the table of messages, whatever the frame around it says.
Frames may be inside each other.

Source: the formats of TensorRT-RTX 1.6 (`%s: Error Code %d: %s (%.486s)`), and onnx/onnx-tensorrt, errorHelpers.cpp.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from torchspan.words.redaction import UNKNOWN
from torchspan.words.redaction.type_names import ONNX_OPERATORS

_FUNCTION = r"(?:[A-Za-z_]\w{0,63}(?:::~?[A-Za-z_]\w{0,63}){0,4}|operator\(\))"
_PLACE = (
    rf"In {_FUNCTION} at /_src/(?:common|optimizer|plugin|runtime|sharedSafety)/[A-Za-z0-9_/]{{1,200}}"
    r"\.(?:cpp|cu|h|hpp|inl):\d{1,6}"
)
"""The place in TensorRT's source at which an error was raised."""
_CATEGORY = (
    "(?:API Usage Error|Internal Error|Shape Error|Integer Overflow|Serialization|OutOfMemory|Miscellaneous|BuildCanceled"
    "|Cuda Runtime|Cuda Driver|Myelin|Cask|Cudnn|Cublas|CuTensor|Cutensor|Unknown)"
)
_METHOD = (
    "(?:IBuilder|IBuilderConfig|INetworkDefinition|ITensor|I[A-Z][A-Za-z]{1,24}Layer|IRuntime|IRuntimeConfig|IRuntimeCache"
    "|ICudaEngine|IExecutionContext|IEngineInspector|IHostMemory|IRefitter|IOptimizationProfile|ISerializationConfig"
    "|ITimingCache|IPluginRegistry|IStreamReader|ILoop|IIfConditional|IAttention|ILogger)"
    r"(?:::[a-z]\w{0,63}(?:\((?P<arguments>[^()\n]{0,200})\))?)?"
)
_LAYER = (
    "(?:Activation|Assertion|Attention|AttentionInput|AttentionOutput|Cast|Concatenation|Condition|ConditionalInput"
    "|ConditionalOutput|Constant|Convolution|Cumulative|Deconvolution|Dequantize|DynamicQuantize|Einsum|ElementWise|Fill"
    "|Gather|GridSample|Identity|Iterator|KVCacheUpdate|LoopOutput|LRN|Matrix Multiply|NMS|NonZero|Normalization|OneHot"
    "|Padding|Parametric ReLU|PluginV2|PluginV3|Pooling|Quantize|RaggedSoftMax|Recurrence|Reduce|Resize|ReverseSequence"
    "|RotaryEmbedding|Scale|Scatter|Select|Shape|Shuffle|Slice|Softmax|Squeeze|TopK|TripLimit|Unary|Unsqueeze)"
)
_PARSER_FILE = (
    "(?:ModelImporter|ModelRefitter|NvOnnxParser|ImporterContext|importerUtils|onnxOpImporters|onnxOpCheckers|onnxProtoUtils"
    "|onnxErrorRecorder|errorHelpers|WeightsContext|ShapedWeights|ShapeTensor|LoopHelpers|ConditionalHelpers|RNNHelpers"
    "|AttentionHelpers|OnnxAttrs|weightUtils|onnx2trt_utils|builtin_op_importers)"
    r"\.[ch]pp:\d{1,6}"
)
_CODE = (
    "(?:INTERNAL_ERROR|MEM_ALLOC_FAILED|MODEL_DESERIALIZE_FAILED|INVALID_VALUE|INVALID_GRAPH|INVALID_NODE|UNSUPPORTED_GRAPH"
    "|UNSUPPORTED_NODE|UNSUPPORTED_NODE_ATTR|UNSUPPORTED_NODE_INPUT|UNSUPPORTED_NODE_DATATYPE|UNSUPPORTED_NODE_DYNAMIC"
    "|UNSUPPORTED_NODE_SHAPE|REFIT_FAILED)"
)
_SOURCE = rf"\[[A-Za-z]{{1,64}}\.(?:cpp|h|cu)::{_FUNCTION}::\d{{1,6}}\] "
_NODE = r"In node (?P<value>-?\d{1,9}|\?)"
_OPERATOR = r"(?P<operator>\w{1,64}|\?)"
_FUNCTION_OF_PARSER = r"\((?P<function>\w{1,64}|\?)\)"
_FUNCTIONS_OF_PARSER = re.compile(
    "(?:add|check|conv|convert|create|deserialize|elementwise|get|import|load|parse|refit|unary)[A-Z]\\w*"
)
_INNER = "(?P<inner>.*)"


def _compiled(*expressions: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(expression, re.ASCII | re.DOTALL) for expression in expressions)


_FRAMES = _compiled(
    rf"(?:{_SOURCE}|{_METHOD}: )?Error Code \d{{1,3}}: {_CATEGORY} \({_INNER}",
    rf"(?:{_SOURCE})?Error Code:? \d{{1,3}}: {_INNER}",
    rf"{_PARSER_FILE}: {_INNER}",
    rf"ERROR: {_PARSER_FILE} In function {_FUNCTION}:\n\[\d{{1,3}}\] {_INNER}",
    rf"(?:{_NODE} )?{_FUNCTION_OF_PARSER}: {_CODE}: {_INNER}",
    # A name may itself look like the rest of the frame.
    rf"{_NODE} with name: (?P<name>(?:(?! and operator: )[^\n]){{0,512}}) and operator: {_OPERATOR} {_FUNCTION_OF_PARSER}: {_CODE}: "
    r"(?P<inner>(?!.* and operator: ).*)",
)
_INSIDE = _compiled(
    rf"{_PLACE} \({_INNER}",
    rf"cudaError \d{{1,4}}: {_INNER}",
    rf"I[A-Z][A-Za-z]{{1,24}}Layer (?P<value>[^\n:]{{1,512}}): {_INNER}",
    rf"(?P<value>[^\n]{{1,512}}?) \[{_LAYER}\]: ?{_INNER}",
    rf"(?P<value>[^\n]{{1,512}}?): {_INNER}",
)
"""What stands before a text that is in a frame: a place, an error of CUDA, the names of layers."""
_PLACE_AT_END = re.compile(_PLACE, re.ASCII)

_LONGEST = 4_096
"""Characters of the longest text that is read as one in a frame. TensorRT cuts its own at 486."""
_MOST_PLACES = 2
"""Places that may follow a text."""


class Framed(NamedTuple):
    """A text in its outermost frame.

    Attributes:
        before, after: What leaves of the frame. Names and numbers of layers and nodes are `?`.
        inner: The text in the frame.
    """

    before: str
    inner: str
    after: str


def framed(text: str) -> Framed | None:
    """The text in its outermost frame; None if it is in none."""
    return _first(_FRAMES, text)


def preceded(text: str) -> Framed | None:
    """The text behind a place or a name of a layer; None if there is none. Only a text that was in a frame has one."""
    return _first(_INSIDE, text)


def _first(frames: tuple[re.Pattern[str], ...], text: str) -> Framed | None:
    if len(text) > _LONGEST:
        return None
    match = next((match for frame in frames if (match := frame.fullmatch(text))), None)
    if match is None:
        return None
    start = match.start("inner")
    before, begin = "", 0
    for group in match.re.groupindex:
        if group != "inner" and match[group] is not None:
            before += text[begin : match.start(group)] + (match[group] if _may_leave(group, match[group]) else UNKNOWN)
            begin = match.end(group)
    end = _end(text) if text[start - 1] == "(" else len(text)
    return Framed(before + text[begin:start], text[start:end], text[end:])


def _may_leave(group: str, text: str) -> bool:
    if group == "operator":
        return text in ONNX_OPERATORS
    return group == "function" and _FUNCTIONS_OF_PARSER.fullmatch(text) is not None


def _end(text: str) -> int:
    """Where a text in parentheses ends: before the places that follow it. A text that TensorRT cut has no end."""
    if not text.endswith(")"):
        return len(text)
    end = len(text) - 1
    for _ in range(_MOST_PLACES):
        place = text.rfind(" In ", 0, end)
        if place < 0 or not _PLACE_AT_END.fullmatch(text, place + 1, end):
            break
        end = len(text[:place].rstrip())
    return end
