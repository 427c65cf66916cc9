# SPDX-License-Identifier: Apache-2.0
"""Names of the libraries: types, operators of ONNX, phases of builds."""

import pytest

from torchspan.words.redaction.kinds_of_text import BuildPhaseName
from torchspan.words.redaction.operator_text import OnnxOperator
from torchspan.words.redaction.type_names import is_type_name

OF_CPP = (
    "Float Double Half BFloat16 Long Int Short Char Byte Bool UInt16 UInt32 UInt64 ComplexFloat ComplexDouble ComplexHalf "
    "Float8_e4m3fn Float8_e4m3fnuz Float8_e5m2 Float8_e5m2fnuz Float8_e8m0fnu Float4_e2m1fn_x2 QInt8 QUInt8 QInt32 Undefined "
    "double half long short char unsigned"
)
OF_MESSAGES = (
    "Tensor Parameter Buffer FakeTensor FunctionalTensor SymInt SymFloat SymBool Size Storage Generator Scalar Device Layout "
    "Module ModuleList ModuleDict Sequential GraphModule ExportedProgram OpOverload OpOverloadPacket ScriptModule ScriptFunction "
    "FLOAT HALF BF16 INT8 INT32 INT64 UINT8 BOOL FP8 INT4 FP4 E8M0 kFLOAT kHALF kBF16 kINT8 kINT32 kINT64 kUINT8 kBOOL kFP8 kINT4 "
    "Int32 Int64 Int8 Int4 UInt8 FloatTensor DoubleTensor HalfTensor BFloat16Tensor LongTensor IntTensor ShortTensor CharTensor "
    "ByteTensor BoolTensor NoneType function method builtin_function_or_method module generator coroutine ellipsis dict_keys "
    "dict_values dict_items list_iterator tuple_iterator mappingproxy ndarray OrderedDict defaultdict deque partial"
)
OF_PYTHON = "int float bool complex str bytes list dict tuple set frozenset object type slice range"


@pytest.mark.parametrize("names", [OF_CPP, OF_MESSAGES, OF_PYTHON])
def test_the_name_of_a_type_of_a_library_is_known(names):
    assert [name for name in names.split() if not is_type_name(name)] == []


@pytest.mark.parametrize(
    "name",
    [
        "torch.float16",
        "c10::Half",
        "at::Tensor",
        "dtype.float8",
        "DataType.FLOAT",
        "trt.float16",
        "torch.nn.Parameter",
        "torch.nn.modules.container.Sequential",
    ],
)
def test_the_name_of_a_type_may_have_the_librarys_prefix(name):
    assert is_type_name(name)


@pytest.mark.parametrize(
    "name", ["", "Wanda", "RuntimeError", "print", "wanda.float16", "torch.c10::Half", "float16 wanda"]
)
def test_another_name_is_not_that_of_a_type(name):
    assert not is_type_name(name)


def test_every_operator_of_the_onnx_standard_up_to_version_28_is_known():
    onnx = pytest.importorskip("onnx")
    names = {
        schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == "" and schema.since_version <= 28
    }
    assert len(names) > 190
    assert [name for name in sorted(names) if OnnxOperator().reduced(name) != name] == []


@pytest.mark.parametrize(
    "name",
    [
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
    ],
)
def test_a_phase_of_a_build_that_tensorrt_reports_leaves(name):
    assert BuildPhaseName().reduced(name) == name
