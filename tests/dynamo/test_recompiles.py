# SPDX-License-Identifier: Apache-2.0
"""Why frames are compiled again: the guards of all compiled versions, held against PyTorch's own log of recompilations."""

import functools
import logging
import re
import threading

import pytest
import torch

CLASS, REASON = "torch.compile.recompile.class", "torch.compile.recompile.reason"
REASONS, LIMIT_VALUE = "torch.compile.recompile.reasons", "torch.compile.recompile.limit_value"

eager = functools.partial(torch.compile, backend="eager")
static = functools.partial(torch.compile, backend="eager", dynamic=False)


@pytest.fixture
def why(spans):
    """Class and guards of each frame that was compiled again."""

    def why():
        attributes = [span.attributes for span in spans("torch.compile_frame")]
        return [(each[CLASS], each.get(REASONS, each[REASON])) for each in attributes if CLASS in each]

    return why


@pytest.fixture
def said():
    """PyTorch's log of recompilations: for each, the compiled versions that it names."""
    messages = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    torch._logging.set_logs(recompiles=True)
    logger = logging.getLogger("torch._dynamo.guards.__recompiles")
    logger.addHandler(handler)
    yield lambda: [re.findall(r"^ *- (\d+/\d+): ", message, re.MULTILINE) for message in messages]
    logger.removeHandler(handler)
    torch._logging.set_logs()


def linear():
    return torch.nn.Linear(6, 2)


# --- several compiled versions ----------------------------------------------------------------------------------------
def test_each_compiled_version_has_its_own_guard(why, said):
    run = eager(linear())
    run(torch.ones(8, 6))
    with torch.no_grad():
        run(torch.ones(8, 6))
    run(torch.ones(5, 6))
    size = "tensor 'args[?]' size mismatch at index 0. expected 8, actual 5"
    assert why() == [
        ("state", "GLOBAL_STATE changed: grad_mode"),
        ("several", ("0/1: GLOBAL_STATE changed: grad_mode", f"0/0: {size}")),
    ]
    assert said() == [["0/0"], ["0/1", "0/0"]]


def test_versions_that_agree_have_one_class(why):
    @static
    def doubled(x):
        return x * 2

    for rows in (4, 5, 6):
        doubled(torch.ones(rows))
    mismatch = "tensor 'x' size mismatch at index 0. expected {}, actual {}"
    assert why() == [
        ("size", mismatch.format(4, 5)),
        ("size", (f"0/1: {mismatch.format(5, 6)}", f"0/0: {mismatch.format(4, 6)}")),
    ]


def test_of_many_versions_the_first_eight_are_kept_and_all_decide_about_the_class(dynamo, why, said):
    @static
    def scaled(x, number):
        return x * number

    with dynamo.config.patch(recompile_limit=20):
        scaled(torch.ones(3, dtype=torch.float64), 0)
        for number in range(10):
            scaled(torch.ones(3), number)
    *_, (kind, reasons) = why()
    assert kind == "several"  # the data type is the guard of the oldest version
    assert reasons == tuple(f"0/{version}: number == ?" for version in range(9, 1, -1))
    assert said()[-1][:8] == [f"0/{version}" for version in range(9, 1, -1)]


def test_no_code_of_the_program_runs_again_for_the_guards(why):
    class Counted:
        compared = 0

        def __eq__(self, other):
            Counted.compared += 1
            return NotImplemented

        __hash__ = None

    @static
    def first(x, _given):
        return x + 1

    given = Counted()
    for rows in (3, 4, 5):
        first(torch.ones(rows), given)
    assert (len(why()), Counted.compared) == (2, 0)


# --- PyTorch's state --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (torch.no_grad, "GLOBAL_STATE changed: grad_mode"),
        (functools.partial(torch.autocast, "cpu", dtype=torch.bfloat16), "GLOBAL_STATE changed: autocast(cpu)_enabled"),
        (functools.partial(torch.device, "cpu"), "___check_torch_function_mode_stack()"),
    ],
)
def test_a_setting_of_pytorch_leaves_by_its_own_name(why, state, reason):
    @eager
    def product(x):
        return x @ x

    product(torch.ones(3, 3))
    with state():
        product(torch.ones(3, 3))
    assert why() == [("state", reason)]


KEYS = "tensor 'x' dispatch key set mismatch. expected DispatchKeySet({}), actual DispatchKeySet({})"


def test_a_tensor_of_inference_mode_is_on_the_same_device(why):
    @eager
    def doubled(x):
        return x * 2

    with torch.inference_mode():
        made = torch.ones(4)
    with torch.no_grad():
        doubled(made)
        doubled(torch.ones(4))
    plain = "CPU, BackendSelect, ADInplaceOrView"
    assert why() == [("inference_mode", KEYS.format(plain, f"{plain}, AutogradCPU"))]


@pytest.mark.parametrize(
    ("other", "kind"),
    [
        (lambda: torch.ones(4, 4, device="meta"), "device"),
        (lambda: torch.eye(4).to_sparse(), "dispatch_keys"),
        (lambda: torch.ones(4, 4, dtype=torch.complex64).conj(), "dispatch_keys"),
    ],
)
def test_only_another_device_is_a_device(why, other, kind):
    @eager
    def doubled(x):
        return x * 2

    doubled(torch.ones(4, 4, dtype=other().dtype))
    doubled(other())
    ((found, reason),) = why()
    assert found == kind
    assert reason.startswith("tensor 'x' dispatch key set mismatch. expected DispatchKeySet(CPU, ")


# --- what a guard concerns --------------------------------------------------------------------------------------------
class Named(torch.nn.Module):
    """A module with attributes whose names resemble settings of PyTorch."""

    def __init__(self):
        super().__init__()
        self.autocast_level = 1
        self.grad_mode = 0.5

    def forward(self, x, default_device_count):
        return x * self.autocast_level * self.grad_mode + default_device_count


@pytest.mark.parametrize(
    ("name", "kind"), [("autocast_level", "module_int"), ("grad_mode", "value"), ("default_device_count", "value")]
)
def test_names_of_the_program_do_not_decide(why, name, kind):
    module = Named()
    run = static(module)
    run(torch.ones(3), 1)
    if hasattr(module, name):
        setattr(module, name, 3)
    run(torch.ones(3), 3 if name == "default_device_count" else 1)
    guard = f"self.{name} == ?" if hasattr(module, name) else f"{name} == ?"
    assert why()[0][1].startswith(("___check_type_id", guard))
    assert why()[0][0] == ("type" if why()[0][1].startswith("___check") else kind)


def test_the_float_and_the_text_of_a_plain_object_are_values(why):
    class Service:
        def __init__(self, gain, unit):
            self.gain, self.unit = gain, unit

        def run(self, x):
            return x * self.gain if self.unit == "db" else x

    for gain, unit in ((0.5, "db"), (0.25, "db"), (0.25, "hz")):
        eager(Service(gain, unit).run)(torch.ones(3))
    first, second = why()
    assert first == ("value", "self.gain == ?")
    assert second[0] == "value"


def test_other_keys_are_contents_and_another_class_of_tensor_is_a_type(why):
    @eager
    def total(tensors):
        return sum(tensors.values())

    @eager
    def doubled(x):
        return x * 2

    total({"wanda": torch.ones(3)})
    total({"krol": torch.ones(3)})
    doubled(torch.ones(3))
    doubled(torch.nn.Parameter(torch.ones(3), requires_grad=False))
    types = "<class 'torch.Tensor'>, but found <class 'torch.nn.parameter.Parameter'>"
    assert why() == [
        ("contents", "list(dict.keys(tensors))[?] == ?"),
        ("type", f"expected type of 'x' to be {types}"),
    ]


def test_one_tensor_for_two_arguments_is_an_identity(why):
    @eager
    def product(k, q):
        return k @ q

    x = torch.ones(3, 3)
    product(x, x)
    product(x, x.clone())
    assert why() == [("identity", "k is q")]


def test_an_argument_that_was_none_is_a_type(why):
    @eager
    def masked(x, mask=None):
        return x + 1 if mask is None else x * mask

    masked(torch.ones(3), torch.ones(3))
    masked(torch.ones(3))
    assert why() == [
        ("type", "expected type of 'mask' to be <class 'torch.Tensor'>, but found <class 'NoneType'>"),
    ]


@pytest.mark.parametrize("inside", [True, False])
def test_train_and_eval_of_a_module_are_a_class_of_their_own(why, inside):
    class Dropping(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.dropout = torch.nn.Dropout()

        def forward(self, x):
            return self.dropout(x) if inside else x * (2 if self.training else 3)

    module = Dropping()
    run = eager(module)
    run(torch.ones(3))
    module.eval()
    run(torch.ones(3))
    ((kind, reason),) = why()
    assert kind == "training"
    assert reason == ("self._modules[?].training == ?" if inside else "self.training == ?")


def test_an_attribute_called_training_of_a_plain_object_is_a_value(why):
    class Trainer:
        def __init__(self):
            self.training = True

        def step(self, x):
            return x + 1 if self.training else x + 2

    trainer = Trainer()
    run = eager(trainer.step)
    run(torch.ones(3))
    trainer.training = False
    run(torch.ones(3))
    assert why()[0][0] == "value"


def test_a_parameter_is_known_however_it_is_reached(why):
    @eager
    def doubled(w):
        return w * 2

    class Scaled(torch.nn.Module):
        def __init__(self, size):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(size))

        def forward(self, x):
            return x * self.weight.sum()

    for size in (4, 6):
        doubled(torch.nn.Parameter(torch.ones(size)))
    for size in (4, 6):
        eager(Scaled(size))(torch.ones(2))
    assert why() == [
        ("parameter", "tensor 'w' size mismatch at index 0. expected 4, actual 6"),
        ("parameter", "tensor 'self._parameters[?]' size mismatch at index 0. expected 4, actual 6"),
    ]


def test_a_number_that_the_program_compares_with_a_size_does_not_leave(why):
    class Pinned(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.pin = 4711

        def forward(self, x):
            return x * 2 if x.shape[0] > self.pin else x * 3

    run = torch.compile(Pinned(), backend="eager", dynamic=True)
    for rows in (3, 5000, 1):
        run(torch.ones(rows))
    assert why() == [
        ("shape", "2 <= x.size()[0] <= ?"),
        ("shape", ("0/1: ? <= x.size()[0]", "0/0: 2 <= x.size()[0] <= ?")),
    ]


# --- threads ----------------------------------------------------------------------------------------------------------
def test_the_limit_is_that_of_the_thread_that_reached_it(dynamo, spans):
    @static
    def added(x, number):
        return x + number

    def serve():
        with dynamo.config.patch(recompile_limit=2):
            for number in range(4):
                added(torch.ones(3), number)

    with dynamo.config.patch(recompile_limit=64):
        worker = threading.Thread(target=serve)
        worker.start()
        worker.join()
    *_, last = spans("torch.compile_frame")
    assert (last.attributes["torch.compile.outcome"], last.attributes[LIMIT_VALUE]) == ("limit", 2)
