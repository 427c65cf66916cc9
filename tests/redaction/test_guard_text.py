# SPDX-License-Identifier: Apache-2.0
import pytest

from torchspan.words.redaction.guard_text import GuardText


@pytest.mark.parametrize(
    ("guard", "kept"),
    [
        ("L['x'] == 3", "x == ?"),
        ("expected type of 'x' to be a tensor type, but found <class 'int'>", "expected type of 'x' to be a tensor type, but found <class 'int'>"),
        ("G['limit'] == 'wanda'", "G['limit'] == ?"),
        ("L['x'].size()[0] == 3", "x.size()[0] == 3"),
        ("L['x'].size()[0] == 3 and L['pin'] == 4711", "x.size()[0] == 3 and pin == ?"),
        ("tensor 'L['x']' size mismatch at index 0. expected 3, actual 4", "tensor 'x' size mismatch at index 0. expected 3, actual 4"),
        ("tensor 'L['x']' dtype mismatch. expected Float, actual Half", "tensor 'x' dtype mismatch. expected Float, actual Half"),
        # attributes and keys that look like a name of Dynamo's
        ("L['self'].G['wanda'] == 3", "self.G[?] == ?"),
        ("L['self'].L['wanda'] == 3", "self.L[?] == ?"),
        ("tensor 'L['self'].G['wanda']' rank mismatch. expected 2, actual 3", "tensor 'self.G[?]' rank mismatch. expected 2, actual 3"),
        # a number belongs to a size only within its own clause
        ("L['x'].size()[0] == 3 | (L['pin'] == 4711)", "x.size()[0] == 3 | (pin == ?)"),
        ("L['x'].size()[0] == 3 if L['pin'] == 4711 else 5", "x.size()[0] == 3 if pin == ? else ?"),
        ("1 if L['x'].size()[0] == 3 else 4711", "? if x.size()[0] == 3 else ?"),
        ("(L['x'].size()[0] == 3) & (L['pin'] == 4711)", "(x.size()[0] == 3) & (pin == ?)"),
        ("L['x'].size()[0] == 3 or L['pin'] == 4711", "x.size()[0] == 3 or pin == ?"),
        ("f(L['x'].size()[0], 4711)", "f(x.size()[0], ?)"),
        # a size leaves, and what PyTorch itself compares sizes with; what the program compares or computes with does not
        ("2 <= L['x'].size()[0] <= 4711", "2 <= x.size()[0] <= ?"),
        ("4712 <= L['x'].size()[0]", "? <= x.size()[0]"),
        ("L['x'].size()[0] != 4711", "x.size()[0] != ?"),
        ("not L['x'].size()[0] == 4711", "not x.size()[0] == ?"),
        ("(L['x'].size()[0] % 8) == 0", "(x.size()[0] % ?) == 0"),
        ("L['x'].size()[0] + 4711 == 4714", "x.size()[0] + ? == ?"),
        ("L['x'].size()[0] // 4711 == 3", "x.size()[0] // ? == ?"),
        ("Max(4711, L['x'].size()[0]) == 4711", "Max(?, x.size()[0]) == ?"),
        ("4711 == L['x'].size()[0]", "? == x.size()[0]"),
        ("L['x'].size()[0] > 1", "x.size()[0] > 1"),
        ("2*L['x'].size()[0] == L['y'].size()[0]", "2*x.size()[0] == y.size()[0]"),
        ("L['xs'][4711].size()[0] == 3", "xs[?].size()[0] == 3"),
        ("L['x'].stride()[12] == -8", "x.stride()[12] == -8"),
        ("L['x'].size()[0] == 3.5", "x.size()[0] == ?"),
        ("L['x'].size()[0] == 12345678901234567890", "x.size()[0] == ?"),
        # literals of all kinds
        ("L['x'] is None", "x is None"),
        ("L['x'] is not None", "x is not None"),
        ("L['x'] == None", "x == ?"),
        ("L['x'] is True", "x is ?"),
        ("L['x'] == [True, False, inf, nan]", "x == [?, ?, ?, ?]"),
        ("L['x'] == -1.5e3 or L['x'] == .5", "x == ? or x == ?"),
        ("L['x'] == 'it\\'s wanda' and L['y'] == rb\"wanda\"", "x == ? and y == ?"),
        ("L['x'] == 'wanda' 'krol'", "x == ?"),
        ('L["x"] == 3', "x == ?"),
        ("not L['a_1'].training", "not a_1.training"),
        ("L['größe'] == 3", "L[?] == ?"),
        ("größe == 3", "?"),
        # what Dynamo writes of a tensor, of PyTorch's settings, and of types
        ("tensor 'L['x']' stride mismatch at index 1. expected 16, actual -1", "tensor 'x' stride mismatch at index 1. expected 16, actual -1"),
        ("tensor 'L['x']' rank mismatch. expected 2, actual 3", "tensor 'x' rank mismatch. expected 2, actual 3"),
        ("tensor 'L['x']' requires_grad mismatch. expected requires_grad=1", "tensor 'x' requires_grad mismatch. expected requires_grad=1"),
        (
            "tensor 'L['x']' device index mismatch. Expected device index to be 0, got 1",
            "tensor 'x' device index mismatch. Expected device index to be 0, got 1",
        ),
        (
            "tensor 'L['x']' device index mismatch. expected device index to be -1, actual 0",
            "tensor 'x' device index mismatch. expected device index to be -1, actual 0",
        ),
        ("tensor 'L['x']' dispatch key set mismatch. expected Wanda, actual Krol", "tensor 'x' dispatch key set mismatch. expected ?, actual ?"),
        (
            "tensor 'x' dispatch key set mismatch. expected DispatchKeySet(CPU, BackendSelect, ADInplaceOrView), actual DispatchKeySet(CPU, AutogradCPU)",
            "tensor 'x' dispatch key set mismatch. expected DispatchKeySet(CPU, BackendSelect, ADInplaceOrView), actual DispatchKeySet(CPU, AutogradCPU)",
        ),
        (
            "tensor 'x' dispatch key set mismatch. expected DispatchKeySet(CPU), actual DispatchKeySet(Wanda)",
            "tensor 'x' dispatch key set mismatch. expected DispatchKeySet(CPU), actual ?",
        ),
        ("GLOBAL_STATE changed: grad_mode wanda num_threads ", "GLOBAL_STATE changed: grad_mode ? num_threads"),
        ("GLOBAL_STATE changed: ", "GLOBAL_STATE changed:"),
        ("___check_type_id(L['x'], 94), type=<class 'wanda'>", "___check_type_id(x, ?), type=<class ?>"),
        ("___check_type_id(L['x'], 94), type=<class 'int'>", "___check_type_id(x, ?), type=<class 'int'>"),
        (
            "expected type of 'L['x']' to be <class 'torch.Tensor'>, but found <class 'torch.nn.parameter.Parameter'>",
            "expected type of 'x' to be <class 'torch.Tensor'>, but found <class 'torch.nn.parameter.Parameter'>",
        ),
        (
            "expected type of 'L['x']['wanda']' to be <class 'app.f.<locals>.Wanda'>, but found <class 'NoneType'>",
            "expected type of 'x[?]' to be <class ?>, but found <class 'NoneType'>",
        ),
        ("BACKEND_MATCH failure: Cached backend: wanda (id=0x7f)", "BACKEND_MATCH failure"),
        (
            "Unexpected recompilation: runtime guards failed even though they passed during recompilation-reason analysis. Please open wanda",
            "Unexpected recompilation: runtime guards failed even though they passed during recompilation-reason analysis.",
        ),
        # of one of several compiled versions
        ("0/12: L['x'] == 'wanda'", "0/12: x == ?"),
        ("!1/0/12: tensor 'L['x']' rank mismatch. expected 2, actual 3", "!1/0/12: tensor 'x' rank mismatch. expected 2, actual 3"),
        ("0/12: 0/12: wanda", "0/12: ?"),
        ("L['x'] == 3\nwanda", "x == ?"),
        # texts that are not guards
        ("L['x'] == 'wanda", "?"),
        ("wanda krol", "?"),
        ("", "?"),
        ("tensor 'L['x']' rank mismatch. expected two, actual 3", "tensor 'x' rank mismatch. expected ?, actual 3"),
        ("tensor 'L['x']' is too large", "?"),
        ("L['x'] == 3  # + wanda", "?"),
        ("tensor 'L['Float']' dtype mismatch. expected a, actual Float", "tensor 'Float' dtype mismatch. expected ?, actual Float"),
    ],
)  # fmt: skip
def test_a_guard_leaves_with_its_names_and_without_its_literals(guard, kept):
    assert GuardText().reduced(guard) == kept


@pytest.mark.parametrize(
    "name",
    [
        "Float",
        "Double",
        "Half",
        "BFloat16",
        "Long",
        "Int",
        "Short",
        "Char",
        "Byte",
        "Bool",
        "UInt16",
        "UInt32",
        "UInt64",
        "ComplexFloat",
        "ComplexDouble",
        "ComplexHalf",
        "Float8_e4m3fn",
        "Float8_e5m2",
    ],
)
def test_the_data_types_that_differ_leave_by_pytorchs_names(name):
    guard = f"tensor 'x' dtype mismatch. expected {name}, actual {name}"
    assert GuardText().reduced(guard) == guard


@pytest.mark.parametrize(
    "state",
    [
        "grad_mode",
        "torch_function",
        "deterministic_algorithms",
        "deterministic_algorithms_warn_only",
        "allow_tf32",
        "allow_fp16_reduce",
        "allow_bf16_reduce",
        "num_threads",
        "default_dtype",
        "autocast",
        "autocast(cpu)_enabled",
        "autocast(cuda)_dtype",
        "autocast_cache_enabled",
    ],
)
def test_the_setting_of_pytorch_that_changed_leaves(state):
    assert GuardText().reduced(f"GLOBAL_STATE changed: {state} ") == f"GLOBAL_STATE changed: {state}"


def test_a_condition_of_256_characters_leaves_and_a_longer_one_does_not():
    assert GuardText().reduced(f"L['{'x' * 252}']") == "x" * 252
    assert GuardText().reduced("x" * 256) == "x" * 256
    assert GuardText().reduced("x" * 257) == "?"


def test_a_tensor_is_named_by_at_most_128_characters():
    assert GuardText().reduced(f"tensor '{'x' * 128}' rank mismatch. expected 2, actual 3").startswith("tensor 'xxx")
    assert GuardText().reduced(f"tensor '{'x' * 129}' rank mismatch. expected 2, actual 3") == (
        "tensor '?' rank mismatch. expected 2, actual 3"
    )


def test_a_literal_may_be_longer_than_the_guard_that_leaves():
    assert GuardText().reduced(f"L['x'] == '{'w' * 4_000}'") == "x == ?"
    assert GuardText().reduced(f"L['x'] == '{'w' * 5_000}'") == "?"


def test_the_users_own_file_has_the_whole_guard():
    guard = "L['x'] == 'wanda'"
    assert GuardText.is_local
    assert GuardText().whole(guard) == guard
    assert GuardText().whole("x" * 2049) == "x" * 2045 + "…"
    assert GuardText().whole(f"x == '{'w' * 3_000}'") == "x == ?"


def test_a_guard_that_is_shortened_still_reduces_to_the_same():
    tensor = "tensor 'd['wanda']' rank mismatch. expected 2, actual 3"
    assert GuardText().shortened(tensor, 60) == tensor
    assert GuardText().shortened(tensor, 54) == "tensor 'd[?]' rank mismatch. expected 2, actual 3"
    assert GuardText().shortened(tensor, 40) == "?"
