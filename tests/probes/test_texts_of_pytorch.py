# SPDX-License-Identifier: Apache-2.0
"""What is read in PyTorch's texts and types: declarations, guards, breaks, places, data types and sizes."""

import sys
from types import SimpleNamespace

import pytest

from torchspan.hooks.probes.describe import common, declarations, dynamic_shapes, fallback, frames, place, recompiles
from torchspan.hooks.probes.describe.declarations import Declaration
from torchspan.words import semconv

torch = pytest.importorskip("torch")

REASON = "the patient has pain"


# --- declarations -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "declaration"),
    [
        (
            f"Call to `torch._dynamo.graph_break()`\n  Explanation: User-inserted graph break. Message: {REASON}\n",
            Declaration("torch._dynamo.graph_break", reason=REASON),
        ),
        (
            "Call to `torch._dynamo.graph_break()`\n  Explanation: User-inserted graph break. Message: None\n",
            Declaration("torch._dynamo.graph_break"),
        ),
        (
            f"Call to `torch._dynamo.graph_break()`\n  Called `graph_break` with args `[ConstantVariable(str: '{REASON}')]`",
            Declaration("torch._dynamo.graph_break", reason=REASON),
        ),
        (
            f"Call to `torch._dynamo.skip_frame()`\n  Explanation: User-inserted skip frame. Message: {REASON}\n",
            Declaration("torch._dynamo.skip_frame", reason=REASON),
        ),
        (
            f"Skipped\nfunction `<function f at 0x7f>` since it was wrapped with `torch.compiler.disable` (reason: {REASON})",
            Declaration("torch.compiler.disable", "f", REASON),
        ),
        (
            "torch.compile cannot proceed\nmodule was wrapped with `torch.compiler.disable` (reason: None)",
            Declaration("torch.compiler.disable"),
        ),
        ("Data-dependent branching", None),
        ("Attempted to call function marked as skipped", None),
    ],
)
def test_what_the_program_declared_is_read_in_the_text_of_a_break(text, declaration):
    assert declarations.of_break(text) == declaration


def test_the_reason_of_a_declaration_is_the_programs_text():
    reason = Declaration("torch._dynamo.graph_break", reason=REASON).facts()[semconv.DECLARED_REASON]
    assert (str(reason), reason.whole) == ("?", REASON)


def skipped(module, qualname):
    return (
        "Attempted to call function marked as skipped\n"
        f"  Developer debug context: module: {module}, qualname: {qualname}, skip reason: <missing reason>"
    )


def test_a_function_that_is_skipped_was_disallowed_if_dynamos_list_has_it(monkeypatch):
    import torch._dynamo.trace_rules

    text = skipped("torch.nn.functional", "outer.inner.relu")
    assert declarations.of_break(text) is None
    listed = {id(torch.nn.functional.relu)}
    monkeypatch.setattr(torch._dynamo.trace_rules._disallowed_callable_ids, "function_ids", listed)
    assert declarations.of_break(text) == Declaration("torch._dynamo.disallow_in_graph", "torch.nn.functional.relu")
    assert declarations.of_break(skipped("torch.nn.functional", "gelu")) is None


def graph_module(*targets):
    """A graph that calls the targets."""
    graph = torch.fx.Graph()
    value = graph.placeholder("x")
    for target in targets:
        value = graph.call_function(target, (value,))
    graph.output(value)
    return torch.fx.GraphModule(torch.nn.Module(), graph)


@pytest.mark.parametrize(
    ("name", "api"),
    [
        ("flat_apply", "torch.compiler.nonstrict_trace"),
        ("flat_apply_capture", "torch.compiler.nonstrict_trace"),
        ("invoke_leaf_function", "torch._dynamo.decorators.leaf_function"),
    ],
)
def test_a_black_box_of_pytorch_in_a_graph_is_known_by_its_name(name, api):
    def function(x):
        return x

    function.__name__, function.__module__ = name, "torch._higher_order_ops.wanda"
    assert declarations.kept(graph_module(function, torch.relu)) == [Declaration(api)]
    function.__module__ = "wanda"
    assert declarations.kept(graph_module(function)) == []


def test_of_many_black_boxes_the_first_twenty_are_said(monkeypatch):
    import torch._dynamo.trace_rules

    functions = [lambda x: x for _ in range(25)]
    for number, function in enumerate(functions):
        function.__qualname__ = function.__name__ = f"allowed_{number}"
    allowed = set(map(id, functions))
    monkeypatch.setattr(torch._dynamo.trace_rules._allowed_callable_ids, "function_ids", allowed)
    kept = declarations.kept(graph_module(*functions, functions[0]))
    assert [declaration.function for declaration in kept] == [f"allowed_{number}" for number in range(20)]


# --- guards and breaks ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("guard", "kind"),
    [
        ("tensor 'x' device index mismatch. Expected device index to be 0, got 1", "device"),
        ("tensor 'x' dispatch key set mismatch. expected DispatchKeySet(CPU), actual DispatchKeySet(Meta)", "device"),
        ("expected type of 'x' to be a tensor type, but found int", "type"),
        ("type(L['x']) == int", "type"),
        (
            "tensor 'x' dispatch key set mismatch. expected DispatchKeySet(CPU), actual DispatchKeySet(CPU, AutogradCPU)",
            "inference_mode",
        ),
        (
            "tensor 'x' dispatch key set mismatch. expected DispatchKeySet(CPU), actual DispatchKeySet(SparseCPU)",
            "dispatch_keys",
        ),
        (
            "tensor 'x' dispatch key set mismatch. expected DispatchKeySet(CPU), actual DispatchKeySet(CPU, Conjugate)",
            "dispatch_keys",
        ),
        (
            "tensor 'x' dispatch key set mismatch. expected DispatchKeySet(CUDA), actual DispatchKeySet(SparseCPU)",
            "device",
        ),
        ("___check_torch_function_mode_stack()", "state"),
        ("utils_device.CURRENT_DEVICE == device(type='cpu')", "state"),
        ("GLOBAL_STATE changed: autocast(cpu)_enabled", "state"),
        ("BACKEND_MATCH failure: torch.compile detected different backend callables.", "backend"),
        ("L['x'].dim() == 2", "shape"),
        ("L['x'].storage_offset() == 2", "shape"),
        ("hasattr(L['x'], 'a')", "contents"),
        ("___check_dict_keys(L['x'])", "contents"),
        ("L['x'] is L['y']", "identity"),
        ("L['x'] is not None", "type"),
        ("L['x'] is None", "type"),
        ('Duplicate tensors found: ["x", "y"]', "identity"),
        ("L['x'] < 3", "value"),
        ("L['x'] in [1, 2]", "value"),
        ("not L['training']", "value"),
        ("(type(n) is float and __math_isnan(n))", "value"),
        ("list(dict.keys(d))[0] == 'a'", "contents"),
        ("set.__contains__(d, 'a')", "contents"),
        # names and texts of the program do not matter
        ("self.autocast_level == 1", "value"),
        ("default_device_count == 2", "value"),
        ("self.size == 2", "value"),
        ("d['BACKEND_MATCH failure'] == 2", "value"),
        ("d['GLOBAL_STATE changed: '] is None", "type"),
        ("d['x.size()[0]'] == 2", "value"),
        ("x == 'tensor size mismatch at index 0'", "value"),
        ("tensor 'd['x' size mismatch at index 0']' rank mismatch. expected 1, actual 2", "rank"),
        ("TORCH_FUNCTION_MODE_STACK is the word", "other"),
    ],
)
def test_each_guard_has_one_class(guard, kind):
    assert recompiles.class_of(guard) == kind


def test_of_the_text_of_a_break_type_explanation_and_hints_are_read():
    text = "Data-dependent branching\n  Explanation: wanda\n  Hint: krol\n\n  Developer debug context: x\n"
    facts = frames.of_reason(text)
    assert facts[semconv.GRAPH_BREAK_CLASS] == "data_dependent_branch"
    assert facts[semconv.GRAPH_BREAK_TYPE] == "Data-dependent branching"
    assert facts[semconv.GRAPH_BREAK_REASON].whole == "wanda"
    assert [hint.whole for hint in facts[semconv.GRAPH_BREAK_HINTS]] == ["krol"]


def test_a_frame_that_runs_eagerly_says_why_and_where():
    metrics = {
        "fail_reason": "Data-dependent branching",
        "fail_user_frame_filename": "model.py",
        "fail_user_frame_lineno": 7,
    }
    skip = type("SkipFrame", (Exception,), {"__module__": "torch._dynamo.exc"})
    ending = frames.Ending(metrics=metrics, error=skip(), swallowed=None, is_whole=False, suppresses_errors=False)
    assert ending.left_to_python() == {
        semconv.GRAPH_BREAK_CLASS: "data_dependent_branch",
        semconv.GRAPH_BREAK_TYPE: "Data-dependent branching",
        semconv.CODE_FILE: "model.py",
        semconv.CODE_LINE: 7,
        semconv.GRAPH_BREAK_SKIPS: True,
    }


# --- places -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("library", ["torch", "torch_tensorrt", "tensorrt", "tensorrt_rtx", "torchspan"])
def test_a_file_of_a_library_is_not_a_place_of_the_program(library, monkeypatch):
    monkeypatch.setitem(sys.modules, library, SimpleNamespace(__file__="/libraries/one/__init__.py"))
    stack = '  File "/app/model.py", line 3, in forward\n    x\n  File "/libraries/one/a.py", line 4, in call\n    y\n'
    assert place.of_stack(stack) == ("/app/model.py", 3, "forward")


# --- data types and sizes ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("abbreviated", "name"),
    [
        ("f64", "float64"),
        ("f32", "float32"),
        ("f16", "float16"),
        ("bf16", "bfloat16"),
        ("f8", "float8_e4m3fn"),
        ("i64", "int64"),
        ("i32", "int32"),
        ("i8", "int8"),
        ("u8", "uint8"),
        ("b", "bool"),
        ("fp4", "fp4"),
    ],
)
def test_a_data_type_of_torch_tensorrt_has_pytorchs_name(abbreviated, name):
    assert common.dtype_text(SimpleNamespace(dtype=SimpleNamespace(name=abbreviated))) == name


@pytest.mark.parametrize(
    ("upstream", "name"),
    [("FLOAT", "float32"), ("HALF", "float16"), ("BF16", "bfloat16"), ("FP8", "float8_e4m3fn"), ("INT8", "int8")],
)
def test_a_data_type_of_tensorrt_has_pytorchs_name(upstream, name):
    assert common.tensorrt_dtype(SimpleNamespace(name=upstream)) == name


class Model:
    def forward(self, x):
        """Its parameter is what counts."""


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (torch.export.Dim.AUTO, "auto"),
        (torch.export.Dim.STATIC, "static"),
        (torch.export.Dim.DYNAMIC, "dynamic"),
        (torch.export.Dim.AUTO(max=8), "auto [0, 8]"),
        (torch.export.Dim.DYNAMIC(min=2), "dynamic [2, int_oo]"),
        (torch.export.Dim("batch", min=2, max=8), "[2, 8]"),
        (4, "4"),
    ],
)
def test_a_dimension_is_said_with_its_limits(size, text):
    assert dynamic_shapes.asked(Model(), {"x": {0: size}}) == [f"inputs[0].shape[0]: {text}"]


class AnswersForItself:
    """A graph of the program's own class."""

    def __getattr__(self, name):
        raise AssertionError(name)


def test_a_graph_of_the_programs_own_class_is_none():
    assert common.graph_of(SimpleNamespace(graph=AnswersForItself())) is None
    assert common.graph_of(SimpleNamespace(graph=SimpleNamespace(nodes=[]))) == SimpleNamespace(nodes=[])


# --- why an operator is not converted -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("registries", "settings", "dtype", "excluded", "reason"),
    [
        ([], {}, "float32", [], "no_converter"),
        ([{"add": []}], {}, "float32", [], "no_converter"),
        ([{"add": ["converter"]}], {}, "float32", [], "validator_refused"),
        ([["add"], {"add": "converter"}], {}, "float32", [], "validator_refused"),
        ([{"add": ["converter"]}], {}, "float32", ["add"], "user_excluded"),
        ([{"add": ["converter"]}], {}, "complex64", ["add"], "complex_dtype"),
        (
            [{"add": ("converter", SimpleNamespace(requires_output_allocator=True))}],
            {"fallback_data_dependent_ops": True},
            "float32",
            [],
            "data_dependent",
        ),
        (
            [{"add": ("converter", SimpleNamespace(requires_output_allocator=True))}],
            {"fallback_data_dependent_ops": False},
            "float32",
            [],
            "validator_refused",
        ),
    ],
)
def test_why_an_operator_is_not_converted_is_decided_in_upstreams_order(
    registries, settings, dtype, excluded, reason, monkeypatch
):
    registry = SimpleNamespace(registries=registries, compilation_settings=SimpleNamespace(**settings))
    module = SimpleNamespace(DYNAMO_CONVERTERS=registry)
    monkeypatch.setitem(sys.modules, "torch_tensorrt.dynamo.conversion._ConverterRegistry", module)
    value = torch.empty(1, dtype=getattr(torch, dtype))
    node = SimpleNamespace(name="add_1", op="call_function", target="add", meta={"val": value}, all_input_nodes=[])
    assert fallback.reason_of(node, excluded) == reason
