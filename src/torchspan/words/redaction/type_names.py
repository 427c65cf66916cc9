# SPDX-License-Identifier: Apache-2.0
"""Names of data types, of types, of ONNX operators and of phases of builds. They are the libraries' own, so they may leave the process."""

from __future__ import annotations

import builtins

DATA_TYPES = (
    "float64", "float32", "float16", "bfloat16", "float8", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
    "float8_e5m2fnuz", "float8_e8m0fnu", "float4", "float4_e2m1fn_x2", "int64", "int32", "int16", "int8", "int4",
    "uint64", "uint32", "uint16", "uint8", "uint4", "bool", "complex128", "complex64", "complex32", "qint32", "qint8",
    "quint8", "quint4x2", "quint2x4", "uint1", "uint2", "uint3", "uint5", "uint6", "uint7", "int1", "int2", "int3",
    "int5", "int6", "int7", "bits16", "bits1x8", "bits2x4", "bits4x2", "bits8", "bcomplex32", "fp4", "e8m0", "unknown",
)  # fmt: skip
"""Data types of tensors by PyTorch's names, or by TensorRT's if PyTorch has none."""

NOT_TENSORS = frozenset(
    {"int", "float", "bool", "complex", "str", "bytes", "NoneType", "SymInt", "SymFloat", "SymBool"}
)
"""Types of arguments without a shape."""

_IN_CPP = """
    Float Double Half BFloat16 Long Int Short Char Byte Bool UInt16 UInt32 UInt64 ComplexFloat ComplexDouble ComplexHalf
    Float8_e4m3fn Float8_e4m3fnuz Float8_e5m2 Float8_e5m2fnuz Float8_e8m0fnu Float4_e2m1fn_x2 QInt8 QUInt8 QInt32 Undefined
    double half long short char unsigned
"""
"""Names of data types in PyTorch's C++ (c10/core/ScalarType.h), and of C++ types."""

_IN_MESSAGES = """
    Tensor Parameter Buffer FakeTensor FunctionalTensor SymInt SymFloat SymBool Size Storage Generator Scalar Device Layout
    Module ModuleList ModuleDict Sequential GraphModule ExportedProgram OpOverload OpOverloadPacket ScriptModule ScriptFunction
    FLOAT HALF BF16 INT8 INT32 INT64 UINT8 BOOL FP8 INT4 FP4 E8M0 kFLOAT kHALF kBF16 kINT8 kINT32 kINT64 kUINT8 kBOOL kFP8 kINT4
    Int32 Int64 Int8 Int4 UInt8
    FloatTensor DoubleTensor HalfTensor BFloat16Tensor LongTensor IntTensor ShortTensor CharTensor ByteTensor BoolTensor
    NoneType function method builtin_function_or_method module generator coroutine ellipsis dict_keys dict_values dict_items
    list_iterator tuple_iterator mappingproxy ndarray OrderedDict defaultdict deque partial
"""
"""Names of types that messages contain: of PyTorch, TensorRT, NumPy, and those of Python that `builtins` does not have."""

_PREFIXES = ("torch.", "c10::", "at::", "dtype.", "DataType.", "trt.", "torch.nn.", "torch.nn.modules.container.")
_BUILTINS = frozenset(
    name
    for name, kind in vars(builtins).items()
    # A program may have put objects of its own there.
    if type(kind) is type
    and (kind.__module__, kind.__name__) == ("builtins", name)
    and not issubclass(kind, BaseException)
)
"""The classes of Python's `builtins` that are no exceptions."""
_TYPES = _BUILTINS.union(DATA_TYPES, NOT_TENSORS, _IN_CPP.split(), _IN_MESSAGES.split())


def is_type_name(text: str) -> bool:
    """Whether the text is a data type or a type of Python, PyTorch or TensorRT: `float`, `torch.float16`, `c10::Half`."""
    return text in _TYPES or any(text.removeprefix(prefix) in _TYPES for prefix in _PREFIXES if text.startswith(prefix))


_ONNX = """
    Abs Acos Acosh Add AffineGrid And ArgMax ArgMin Asin Asinh Atan Atanh Attention AveragePool BatchNormalization
    Bernoulli BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor BlackmanWindow Cast CastLike
    CausalConvWithState Ceil Celu CenterCropPad Clip Col2Im Compress Concat ConcatFromSequence Constant ConstantOfShape
    Conv ConvInteger ConvTranspose Cos Cosh CumProd CumSum DFT DeformConv DepthToSpace DequantizeLinear Det Div Dropout
    DynamicQuantizeLinear Einsum Elu Equal Erf Exp Expand EyeLike Flatten Floor GRU Gather GatherElements GatherND Gelu
    Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool Greater GreaterOrEqual GridSample GroupNormalization HammingWindow
    HannWindow HardSigmoid HardSwish Hardmax Identity If ImageDecoder InstanceNormalization IsInf IsNaN LRN LSTM
    LayerNormalization LeakyRelu Less LessOrEqual LinearAttention Log LogSoftmax Loop LpNormalization LpPool MatMul
    MatMulInteger Max MaxPool MaxRoiPool MaxUnpool Mean MeanVarianceNormalization MelWeightMatrix Min Mish Mod Mul
    Multinomial Neg NegativeLogLikelihoodLoss NonMaxSuppression NonZero Not OneHot Optional OptionalGetElement
    OptionalHasElement Or PRelu Pad Pow QLinearConv QLinearMatMul QuantizeLinear RMSNormalization RNN RandomNormal
    RandomNormalLike RandomUniform RandomUniformLike Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp
    ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare RegexFullMatch Relu Reshape Resize
    ReverseSequence RoiAlign RotaryEmbedding Round STFT Scan Scatter ScatterElements ScatterND Selu SequenceAt
    SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength SequenceMap Shape Shrink Sigmoid Sign
    Sin Sinh Size Slice Softmax SoftmaxCrossEntropyLoss Softplus Softsign SpaceToDepth Split SplitToSequence Sqrt
    Squeeze StringConcat StringNormalizer StringSplit Sub Sum SwiGLU Swish Tan Tanh TensorScatter TfIdfVectorizer
    ThresholdedRelu Tile TopK Transpose Trilu Unique Unsqueeze Upsample Where Xor
"""

ONNX_OPERATORS = frozenset(_ONNX.split())
"""Operators of the ONNX standard."""

BUILD_PHASES = frozenset(
    (
        "Building engine",
        "Building Engine",
        "Building engine from subgraph",
        "Cloning network graph",
        "Computing profile costs",
        "Computing reformatting costs",
        "Determining refit engines",
        "Optimizing graph",
        "Preparing graph for optimization",
        "Timing graph nodes",
        "Timing tactics",
        "Timing tensor reformats",
    )
)
"""Phases of a build, as TensorRT-RTX 1.5 to 1.7 and TensorRT 10 report them to a progress monitor."""
