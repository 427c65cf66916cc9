# SPDX-License-Identifier: Apache-2.0
"""What each kind of text lets through."""

import sys
import zipfile

import pytest
import torch

from torchspan.words import phase, semconv
from torchspan.words.redaction import guard_text, kinds_of_text
from torchspan.words.redaction.export_text import DynamicDimension, ExportFailure, Violation
from torchspan.words.redaction.kinds_of_text import (
    BuildPhaseName,
    CompileId,
    Digest,
    Enumeration,
    ErrorMessage,
    GraphBreakType,
    HostName,
    Identifier,
    KeyPart,
    LayerName,
    LineText,
    ModulePath,
    PlaceText,
    ProgramsSpanName,
    ProgramText,
    RunId,
    SpanName,
    Text,
    Version,
)
from torchspan.words.redaction.operator_text import OnnxOperator, Operator, OperatorArguments, Validators
from torchspan.words.redaction.size_text import ArgumentPath, DataType, SettingValue, ShapeText

KINDS = (
    OperatorArguments(),
    CompileId(),
    DataType(),
    Digest(),
    DynamicDimension(),
    Enumeration("hit", "miss"),
    ExportFailure(),
    Identifier(),
    LineText(),
    ModulePath(),
    OnnxOperator(),
    Operator(),
    BuildPhaseName(),
    GraphBreakType(),
    ProgramText(),
    PlaceText(),
    ProgramsSpanName(),
    SettingValue(),
    ShapeText(),
    SpanName(),
    Text(),
    Validators(),
    Version(),
    Violation(),
)

HOSTILE = (
    "",
    " ",
    "?",
    "…",
    "alice@example.com",
    "jane doe",
    "sk-live-4711",
    "/srv/alice/customers/acme",
    "a\nb",
    "a\x1b[31m",
    "a\u202eb",
    "a\x00b",
    "\ud800",
    "\u3164",
    "é" * 3000,
    "x" * 1_000_000,
    "." * 100_000,
    "1" * 100_000,
    "[" * 100_000,
    "a." * 50_000 + "!",
    "[" + "-1" * 250 + "!",
    "a, " * 50_000,
    "<" * 50_000 + ">" * 50_000,
    "torch.ops." * 10_000,
    "inputs[0].shape[" * 10_000,
)


def test_each_kind_has_the_title_that_the_documentation_uses():
    assert ", ".join(kind.title for kind in KINDS) == (
        "arguments, compile id, data type, digest, dynamic dimension, enumeration, failure of an export, identifier, line of code, "
        "path of a module, ONNX operator, operator, build phase, type of a graph break, text of the program, place, "
        "name of the program's span, value of a setting, shape, name of a span, message, validators, version, violation"
    )


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.title)
def test_what_a_kind_makes_of_a_text_it_accepts_and_leaves_as_it_is(kind):
    for text in HOSTILE:
        reported = kind.reduced(text)
        assert kind.accepts(reported)
        assert kind.reduced(reported) == reported
        assert len(reported.encode("utf-8", "replace")) <= 2048


@pytest.mark.parametrize(
    "kind", [each for each in KINDS if each.title != "name of the program's span"], ids=lambda k: k.title
)
def test_no_mail_address_key_or_path_of_the_programs_is_let_through(kind):
    for text in ("alice@example.com", "sk-live-4711 jane", "/srv/alice/acme secret", "HF_TOKEN=hf_secret"):
        assert text not in kind.reduced(text)
        assert not kind.accepts(text)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.title)
def test_every_kind_says_what_leaves_in_a_sentence(kind):
    assert kind.leaves[0].isupper()
    assert kind.leaves.endswith(".")
    assert kind.leaves_with_text is None or kind.leaves_with_text.endswith(".")


def test_the_sentence_of_a_kind_has_the_limit_that_it_keeps_to():
    assert f"at most {kinds_of_text.NAME_LIMIT} characters" in Identifier().leaves
    assert f"at most {kinds_of_text.NAME_LIMIT} characters" in ModulePath().leaves
    assert f"joined with ` + `, at most {kinds_of_text.LAYERS_IN_A_NAME}." in LayerName().leaves
    assert f"At most {guard_text._LIMIT} characters." in guard_text.GuardText().leaves


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.title)
def test_only_what_the_kind_says_differs_where_texts_are_captured(kind):
    text = "what alice@example.com wrote"
    assert (kind.whole(text) == text) == (kind.leaves_with_text is not None or isinstance(kind, ProgramsSpanName))


# --- enumerations, names, digests, versions ------------------------------------------------------------------------
def test_what_is_not_in_an_enumeration_is_other():
    kind = Enumeration("hit", "miss")
    assert [kind.reduced(text) for text in ("hit", "miss", "Hit", "alice")] == ["hit", "miss", "other", "other"]


@pytest.mark.parametrize(
    "name",
    [
        "RuntimeError",
        "torch.fx.node.Foo",
        "package.module.f.<locals>.Model",
        "<lambda>",
        "_run_on_acc_0",
        "größe.Straße",
        "größe.<größe>.?",
        "é.<é>",
        "模型.前向",
        "n" * 128,
    ],
)
def test_an_identifier_stays(name):
    assert Identifier().reduced(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "jane doe",
        "alice@example.com",
        "sk-live-4711",
        "4711",
        "a..b",
        "a.",
        ".a",
        "<a b>",
        "<>",
        "a<b",
        "a\n",
        "a\x1b",
        "a\u202eb",
        "a\u0301" * 40,
        "a\u200b",
        "\u3164\u115f",
        "n" * 129,
        "Model[alice]",
    ],
)
def test_what_is_not_an_identifier_is_a_question_mark(name):
    assert Identifier().reduced(name) == "?"


@pytest.mark.parametrize(
    ("text", "reported"), [("0123456789abcdef", "0123456789abcdef"), ("alice@canary.x-4", "?"), ("0" * 65, "?")]
)
def test_a_digest_is_hexadecimal_digits(text, reported):
    assert Digest().reduced(text) == reported


@pytest.mark.parametrize(
    "text", ["2.14.0", "2.14.0+cu130", "1.6.1.8", "2.15.0.dev20260101", "2.14.0a0+git1234567", "10.0.0-RC1_EA"]
)
def test_a_version_stays(text):
    assert Version().reduced(text) == text


@pytest.mark.parametrize("text", ["alice", "1 2", "2.14@acme", "1" * 65])
def test_what_is_not_a_version_is_a_question_mark(text):
    assert Version().reduced(text) == "?"


@pytest.mark.parametrize("text", ["0/0", "12/3", "!1", "!1/0/0"])
def test_a_compile_id_stays(text):
    assert CompileId().reduced(text) == text


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (KeyPart(), "gm"),
        (KeyPart(), "example_inputs[0]"),
        (KeyPart(), "inductor_config[triton.*]"),
        (KeyPart(), "inductor_config[*]"),
        (KeyPart(), "a[b.c.d.e]"),
        (KeyPart(), "n" * 64),
        (RunId(), "job_1.a-2"),
        (RunId(), "n" * 64),
        (HostName(), "node-1.example"),
        (HostName(), "n" * 253),
        (Digest(), "0" * 64),
        (Version(), "1" * 64),
        (ArgumentPath(), "past[0][123456789]"),
        (ArgumentPath(), "x.?"),
        (ArgumentPath(), "kwargs[?][1]"),
        (ArgumentPath(), "n" * 256),
        (ModulePath(), "layers.1234"),
        (ShapeText(), "[" + "1, " * 170 + "]"),
        (OperatorArguments(), "n" * 64),
        (OperatorArguments(), "argument 1234, "),
        (OperatorArguments(), ", ".join(["dim"] * 205)),
        (Validators(), ", ".join(["f"] * 342)),
        (Operator(), "a.b.c.d.e.f.g.h.i"),
    ],
)
def test_a_text_of_the_longest_form_is_accepted(kind, text):
    assert kind.accepts(text)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (KeyPart(), "a b"),
        (KeyPart(), "a["),
        (KeyPart(), "1a"),
        (KeyPart(), "a[1].b"),
        (KeyPart(), "a[b.c.d.e.f]"),
        (KeyPart(), "n" * 65),
        (RunId(), "-a"),
        (RunId(), "a b"),
        (RunId(), "n" * 65),
        (HostName(), ".a"),
        (HostName(), "n" * 254),
        (CompileId(), "0/0/0/0"),
        (CompileId(), "1234567890"),
        (CompileId(), "0/"),
        (ArgumentPath(), "0x"),
        (ArgumentPath(), "x[a]"),
        (ArgumentPath(), "x.y"),
        (ArgumentPath(), "x[1234567890]"),
        (ArgumentPath(), "n" * 257),
        (ModulePath(), "layers.12345"),
        (ShapeText(), "[" + "1, " * 171 + "]"),
        (OperatorArguments(), "n" * 65),
        (OperatorArguments(), "argument 12345"),
        (OperatorArguments(), ", ".join(["dim"] * 206)),
        (Validators(), ", ".join(["f"] * 343)),
        (Operator(), "a.b.c.d.e.f.g.h.i.j"),
    ],
)
def test_a_longer_text_or_one_of_another_form_is_not_accepted(kind, text):
    assert not kind.accepts(text)


def test_a_list_of_operators_arguments_that_is_too_long_is_one_question_mark():
    assert OperatorArguments().reduced(", ".join(["dim"] * 205)) == ", ".join(["dim"] * 205)
    assert OperatorArguments().reduced(", ".join(["dim"] * 206)) == "?"
    assert OperatorArguments().reduced(", ".join(["dim"] * 204 + ["input"])) == "?"  # 1,025 characters


@pytest.mark.parametrize("kind", [Text(), ProgramText(), LayerName(), PlaceText()])
def test_a_text_that_is_captured_has_at_most_two_kilobytes(kind):
    assert kind.whole("x" * 2048) == "x" * 2048
    assert kind.whole("x" * 2049) == "x" * 2045 + "…"


@pytest.mark.parametrize(
    ("name", "is_accepted"),
    [
        ("torch_tensorrt.compile", True),
        ("torch_tensorrt.pass fuse_prims_broadcast", True),
        ("torch_tensorrt.pass fuse prims", False),
        ("torch_tensorrt.compile fuse_prims_broadcast", False),
        ("torch_tensorrt.pass ", False),
    ],
)
def test_the_name_of_a_span_is_its_kind_of_work_and_a_target_if_the_work_has_one(name, is_accepted):
    assert SpanName().accepts(name) is is_accepted


@pytest.mark.parametrize(
    ("name", "is_accepted"),
    [
        ("größe_x", True),
        ("größe.<locals>.f", True),
        ("größe.<locals", False),
        ("größe.locals>", False),
        ("größe.a b", False),
    ],
)
def test_a_name_of_other_letters_than_ascii_is_one_of_python(name, is_accepted):
    assert Identifier().accepts(name) is is_accepted


@pytest.mark.parametrize("kind", [Text(), ProgramsSpanName()])
def test_of_a_text_that_is_shortened_the_beginning_is_left(kind):
    assert kind.shortened("x" * 20, 10) == "xxxxxxx…"


def test_the_name_of_the_programs_span_has_at_most_256_bytes():
    kind = ProgramsSpanName()
    assert (kind.accepts("é" * 128), kind.accepts("é" * 128 + "x")) == (True, False)
    assert kind.reduced("x" * 256) == "x" * 256
    assert kind.reduced("x" * 257) == "x" * 253 + "…"


def test_a_name_that_is_shortened_is_a_question_mark_unless_it_is_as_short():
    assert (Identifier().shortened("name", 2), Identifier().shortened("n", 2)) == ("?", "n")


def test_a_message_of_which_nothing_leaves_is_left_out_where_it_would_say_nothing():
    assert [kind.is_left_out for kind in (ErrorMessage(), ProgramText(), Text())] == [True, True, False]


def test_the_users_own_file_has_messages_guards_and_names_whole():
    assert [kind.is_local for kind in (Text(), ProgramText(), LayerName(), PlaceText(), Identifier())] == [
        True, True, True, False, False,
    ]  # fmt: skip


# --- operators -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "name", ["torch.ops.aten.add.Tensor", "aten::add", "_operator.getitem", "math.ceil", "torch.sym_max", "placeholder"]
)
def test_an_operator_that_is_known_stays(name):
    assert Operator().reduced(name) == name


@pytest.mark.parametrize(
    "name", ["torch.ops.sk4711.alice9000", "aten::alice", "app.customers.acme", "torch.alice", "alice", "SECRET-4711"]
)
def test_an_operator_that_is_not_known_is_a_question_mark(name):
    assert Operator().reduced(name) == "?"


def test_an_operator_that_is_registered_later_is_known_from_then_on():
    assert Operator().reduced("torch.ops.torchspan_tests.twice.default") == "?"
    with torch.library._scoped_library("torchspan_tests", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CPU")
        assert (
            Operator().reduced("torch.ops.torchspan_tests.twice.default") == "torch.ops.torchspan_tests.twice.default"
        )


@pytest.mark.parametrize(
    ("name", "reported"), [("Einsum", "Einsum"), ("LSTM", "LSTM"), ("CanaryOp", "?"), ("Einsum sk-live", "?")]
)
def test_an_onnx_operator_is_one_of_the_standard(name, reported):
    assert OnnxOperator().reduced(name) == reported


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("self: float64, dim", "self: float64, dim"),
        ("self: float32 int64 dynamic", "self: float32 int64 dynamic"),
        ("argument 3, x", "argument 3, x"),
        ("self: float64, alice@example.com", "self: float64, ?"),
        ("self: alice", "?"),
    ],
)
def test_of_arguments_names_and_data_types_stay(text, reported):
    assert OperatorArguments().reduced(text) == reported


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("app.f, torch_tensorrt.g", "app.f, torch_tensorrt.g"),
        ("supports_dynamic_shapes=False", "supports_dynamic_shapes=False"),
        ("app.f, SECRET 4711", "app.f, ?"),
        ("", ""),
    ],
)
def test_of_validators_names_stay(text, reported):
    assert Validators().reduced(text) == reported


# --- sizes ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "[1, 16]",
        "[1..4..8, 16]",
        "[-1, 3]",
        "[s77, 2*s0 + 1, (u0//2)]",
        "[Max(1, s77)]",
        "s77: [1, 8]",
        "u0: [0, int_oo]",
        "int",
        "NoneType",
    ],
)
def test_a_shape_stays(text):
    assert ShapeText().reduced(text) == text


@pytest.mark.parametrize(
    "text", ["[canaryshape, alice@example.com]", "[1, alice]", "batch: [1, 8]", "Model", "[" + "1, " * 500 + "1]"]
)
def test_what_is_not_a_shape_is_a_question_mark(text):
    assert ShapeText().reduced(text) == "?"


def test_every_data_type_of_pytorch_and_tensorrt_is_known():
    import tensorrt_rtx

    from torchspan.hooks.probes.describe.common import tensorrt_dtype

    names = {str(each).removeprefix("torch.") for each in vars(torch).values() if isinstance(each, torch.dtype)}
    names |= {tensorrt_dtype(each) for each in tensorrt_rtx.DataType.__members__.values()}
    assert [name for name in sorted(names) if DataType().reduced(name) != name] == []


@pytest.mark.parametrize("kind", [ShapeText(), DataType()], ids=lambda kind: kind.title)
@pytest.mark.parametrize(
    "name", ["int", "float", "bool", "complex", "str", "bytes", "NoneType", "SymInt", "SymFloat", "SymBool"]
)
def test_an_argument_without_a_shape_has_the_name_of_its_type(kind, name):
    assert kind.reduced(name) == name


def test_another_data_type_is_other():
    assert DataType().reduced("alice@example.com") == "other"


@pytest.mark.parametrize(
    "text",
    [
        *(
            "3",
            "-1",
            "0.5",
            "-3.25",
            "1e-05",
            "2.5e+7",
            "True",
            "False",
            "None",
            "none",
            "fast",
            "moderate",
            "full",
            "torch.float16",
        ),
        *("dtype.f32", "dtype.b", "dtype.bf16", "torch.u8", "dtype.i64"),
        *("EngineCapability.STANDARD", "EngineCapability.SAFETY", "EngineCapability.DLA_STANDALONE"),
    ],
)
def test_a_value_of_a_setting_stays(text):
    assert SettingValue().reduced(text) == text


@pytest.mark.parametrize("text", ["alice", "Customer.ACME", "torch.alice", "1" * 30])
def test_another_value_of_a_setting_is_a_question_mark(text):
    assert SettingValue().reduced(text) == "?"


@pytest.mark.parametrize(
    "text",
    [
        "inputs[0].shape[1]: specialized to a constant",
        "inputs[0].shape[1]: always equal to inputs[1].shape[1]",
        "?: not all values of its range are valid",
        "inputs[0].shape[1]: always related to ?",
    ],
)
def test_a_violation_stays(text):
    assert Violation().reduced(text) == text


def test_a_violation_with_a_name_in_it_is_a_question_mark():
    assert Violation().reduced("inputs[alice].shape[1]: specialized to a constant") == "?"


@pytest.mark.parametrize(
    "text",
    [
        "inputs[0].shape[1]: [1, 8]",
        "inputs[2][0].shape[1]: [0, int_oo]",
        "inputs[0].shape[0]: 4",
        "inputs[0].shape[0]: auto",
        "inputs[0].shape[0]: dynamic [2, 8]",
        "inputs[0].shape[0]: static",
        "inputs[0].shape[0]: auto [2, int_oo]",
        "inputs[0][1][2][3].shape[1234]: 4",
    ],
)
def test_a_dynamic_dimension_stays(text):
    assert DynamicDimension().reduced(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "inputs[alice].shape[1]: [1, 8]",
        "inputs[0].shape[1]: alice",
        "inputs[0].shape[1]: [1, 8], equal to inputs[0].shape[0]",
        "alice: [1, 8]",
    ],
)
def test_a_dynamic_dimension_with_a_name_in_it_is_a_question_mark(text):
    assert DynamicDimension().reduced(text) == "?"


@pytest.mark.parametrize(
    "text",
    [
        "constraint violated: inputs[0].shape[0]: specialized to a constant",
        "constraint violated: inputs[0].shape[0]: specialized to a constant and others",
        "a condition depends on data",
        "a condition depends on the result of torch.ops.aten.item.default, at <string>:12 in forward",
        "no kernel for tensors without data: torch.ops.aten.relu.default, at <string>:1 in <module>",
        "the result of torch.ops.aten.item.default depends on data",
        "the shape of the result of torch.ops.aten.nonzero.default depends on data",
        "refused: invalid_input",
        "refused: dynamic_control_flow",
        "refused: anti_pattern",
        "refused: standard_library",
        "refused: constraint_violation",
        "refused: dynamic_dim",
        "refused: invalid_output",
        "refused: unsupported_aliased_mutated_dynamic_inputs",
        "Dynamo cannot trace: Data-dependent branching",
        "LookupError was raised, at <string>:12 in Model.<locals>.forward",
    ],
)
def test_a_failure_of_an_export_stays(text):
    assert ExportFailure().reduced(text) == text
    assert ExportFailure().accepts(text)


@pytest.mark.parametrize(
    ("text", "reduced"),
    [
        ("the export of alice failed", "?"),
        ("constraint violated: alice: specialized to a constant", "constraint violated: ?"),
        ("a condition depends on the result of torch.ops.alice.op", "a condition depends on the result of ?"),
        ("Dynamo cannot trace: unsupported alice-4711", "Dynamo cannot trace: ?"),
        ("refused: alice", "refused: other"),
        ("sk-live-4711 was raised", "? was raised"),
        (
            "LookupError was raised, at /srv/alice smith/net.py:12 in forward",
            "LookupError was raised, at ?:12 in forward",
        ),
        ("LookupError was raised, at <string>:12 in jane-doe", "LookupError was raised, at <string>:12 in ?"),
        ("LookupError was raised, at alice", "?"),
    ],
)
def test_of_a_failure_of_an_export_the_programs_words_become_question_marks(text, reduced):
    assert ExportFailure().reduced(text) == reduced
    assert ExportFailure().accepts(reduced)


def test_the_file_in_a_failure_of_an_export_is_a_place():
    text = f"a condition depends on data, at {__file__}:12 in forward"
    assert (
        ExportFailure().reduced(text) == "a condition depends on data, at redaction/test_kinds_of_text.py:12 in forward"
    )


# --- names of spans ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "reported"),
    [
        ("torch_tensorrt.compile", "torch_tensorrt.compile"),
        ("torchspan.observed f.<locals>.g", "torchspan.observed f.<locals>.g"),
        ("torchspan.observed jane doe", "torchspan.observed ?"),
        ("torchspan.observed " + "n" * 3_000_000, "torchspan.observed ?"),
        ("torch_tensorrt.pass alice@example.com", "torch_tensorrt.pass ?"),
        ("tensorrt.build_phase Building engine", "tensorrt.build_phase Building engine"),
        ("tensorrt.build_phase Cloning network graph", "tensorrt.build_phase Cloning network graph"),
        ("tensorrt.build_phase Preparing graph for alice", "tensorrt.build_phase ?"),
        ("tensorrt.build_phase Zenobia Kropotkin", "tensorrt.build_phase ?"),
        ("tensorrt.build_phase " + "n" * 129, "tensorrt.build_phase ?"),
        ("torch_tensorrt.compile alice", "?"),
        ("alice and bob", "?"),
    ],
)
def test_of_a_spans_name_the_target_is_reduced(name, reported):
    assert semconv.span_name(name) == reported


def test_every_phase_is_the_name_of_a_span():
    assert [each.name for each in phase.SPANS if semconv.span_name(each.name) != each.name] == []


# --- places --------------------------------------------------------------------------------------------------------
@pytest.fixture
def program(tmp_path, monkeypatch):
    """A folder on the import path."""
    folder = tmp_path / "home" / "alice" / "program"
    folder.mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    return folder


def made(file):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("")
    return str(file)


def test_a_file_below_the_import_path_is_distinguished_from_there_on(program):
    assert PlaceText().reduced(made(program / "models" / "net.py")) == "models/net.py"


def test_the_longest_entry_of_the_import_path_counts(program, monkeypatch):
    monkeypatch.setattr(sys, "path", ["/", "", *sys.path, str(program / "models")])
    assert PlaceText().reduced(made(program / "models" / "net.py")) == "net.py"


def test_of_a_file_elsewhere_the_name_is_reported(tmp_path):
    assert PlaceText().reduced(made(tmp_path / "home" / "alice" / "net.py")) == "net.py"


def test_a_folder_with_other_characters_is_a_question_mark(program):
    assert PlaceText().reduced(made(program / "Zenobia Kropotkin" / "net.py")) == "?/net.py"
    assert PlaceText().reduced(made(program / "alice@example.com.py")) == "?"


@pytest.mark.parametrize(
    "text",
    ["select * from users where mail='alice'", "<alice secret>", "alice.py", "/srv/alice/gone.py", "a\x00b", ""],
)
def test_what_is_not_a_file_is_a_question_mark(text):
    assert PlaceText().reduced(text) == "?"


def test_a_file_in_an_archive_on_the_import_path_is_reported(tmp_path, monkeypatch):
    archive = tmp_path / "library.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("package/module.py", "")
    monkeypatch.setattr(sys, "path", [str(archive), *sys.path])
    assert PlaceText().reduced(str(archive / "package" / "module.py")) == "package/module.py"


@pytest.mark.parametrize(
    ("name", "reported"),
    [
        ("<string>", "<string>"),
        ("<stdin>", "<stdin>"),
        ("<eval_with_key>.12", "<eval_with_key>.12"),
        ("<eval_with_key>.12 from /srv/alice/net.py:3 in forward", "<eval_with_key>.12"),
        ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap>"),
        ("<string> alice", "<string>"),
    ],
)
def test_code_that_is_in_no_file_is_reported_as_python_calls_it(name, reported):
    assert PlaceText().reduced(name) == reported


def test_a_line_of_code_is_its_reduced_place_and_a_number(program):
    file = made(program / "models" / "net.py")
    assert LineText().reduced(f"{file}:12") == "models/net.py:12"
    assert LineText().whole(f"{file}:12") == f"{file}:12"
    for text in (file, f"{file}:", f"{file}:twelve", f"{file}:12:3", f"{file}:1234567890", "/srv/alice:12", ":12"):
        assert LineText().reduced(text) == "?"


def test_in_a_list_that_is_too_long_a_line_of_code_keeps_the_name_of_its_file():
    assert LineText().shortened("package/models/net.py:12", 12) == "net.py:12"
    assert LineText().shortened("package/models/net.py:12", 8) == "?"


def test_where_texts_are_captured_a_place_is_absolute(program):
    file = made(program / "models" / "net.py")
    assert PlaceText().whole(file) == file


def test_an_import_path_of_the_programs_own_making_is_read_without_its_code(program, monkeypatch):
    class Entries(list):
        def __iter__(self):
            raise SystemExit

        __len__ = __getitem__ = copy = __iter__

    monkeypatch.setattr(sys, "path", Entries([object(), b"/", *list.copy(sys.path)]))
    reported = PlaceText().reduced(__file__)
    monkeypatch.undo()
    assert reported in {
        "test_kinds_of_text.py",
        "redaction/test_kinds_of_text.py",
        "tests/redaction/test_kinds_of_text.py",
    }


@pytest.mark.parametrize(
    ("path", "leaves"),
    [
        ("layer1.0.conv", "layer1.0.conv"),
        ("encoder.layers.encoder_layer_0", "encoder.layers.encoder_layer_0"),
        ("heads.?.0", "heads.?.0"),
        ("heads.my key.0", "?"),
        ("heads.4915112345678", "?"),
        ("heads.alice@example.com", "?"),
        ("é.überblick", "é.überblick"),
        (".".join(["block"] * 30), "?"),
    ],
)
def test_a_path_of_a_module_is_made_of_names_and_positions(path, leaves):
    assert ModulePath().reduced(path) == leaves
