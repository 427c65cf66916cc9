# SPDX-License-Identifier: Apache-2.0
"""Messages of PyTorch's and Torch-TensorRT's that quote what the program gave them, in spans of observed functions."""

import threading

import torch
import torch_tensorrt
from torch.utils import checkpoint

X = torch.ones(2, 4)


def plant(place):
    """Each call is observed on its own: a function has ten spans a second, and another function its own ten."""
    for name, call in {**_checks(place), **_quotes(place)}.items():
        with place.raises(name):
            place.call(call)


def _checks(place):
    """What a program hands to functions that raise it: the text is the program's, the frame that raises is PyTorch's."""
    return {
        "check.plain": lambda: torch._check(False, lambda: place("check.plain")),
        "check.value": lambda: torch._check_value(False, lambda: place("check.value")),
        "check.type": lambda: torch._check_type(False, lambda: place("check.type")),
        "check.index": lambda: torch._check_index(False, lambda: place("check.index")),
        "check.not_implemented": lambda: torch._check_not_implemented(False, lambda: place("check.not_implemented")),
        "check.tensor_all": lambda: torch._check_tensor_all(torch.tensor([False]), lambda: place("check.tensor_all")),
        "check.is_size": lambda: torch._check_is_size(-1, lambda: place("check.is_size")),
        "assert.torch": lambda: torch._assert(False, place("assert.torch")),
        "assert.async.operator": lambda: torch.ops.aten._assert_async.msg(
            torch.tensor(False), place("assert.async.operator")
        ),
        "assert.async": lambda: torch._assert_async(torch.tensor(False), place("assert.async")),
        "assert.close": lambda: torch.testing.assert_close(X, X + 1, msg=place("assert.close")),
        "assert.close.names": lambda: torch.testing.assert_close({place("assert.close.names"): X}, {}),
        "assert.in_thread": lambda: _in_thread(place, lambda: torch._check(False, lambda: place("assert.in_thread"))),
    }


def _in_thread(place, call):
    failures = []

    def run():
        try:
            place.call(call)
        except RuntimeError as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    raise failures[0]


def _quotes(place):
    functional, linear = torch.nn.functional, torch.nn.Linear(2, 2)
    return {
        "library.gain": lambda: torch.nn.init.calculate_gain(place("library.gain")),
        "library.reduction": lambda: functional.mse_loss(X, X, reduction=place("library.reduction")),
        "library.interpolate": lambda: functional.interpolate(X[None], scale_factor=2, mode=place("library.interpolate")),
        "library.padding": lambda: torch.nn.Conv2d(1, 1, 1, padding_mode=place("library.padding")),
        "library.einsum": lambda: torch.einsum(place("library.einsum"), X),
        "library.device": lambda: torch.device(place("library.device")),
        "library.device.torch_tensorrt": lambda: torch_tensorrt.Device(place("library.device.torch_tensorrt")),
        "library.dtype": lambda: torch_tensorrt.Input((1, 2), dtype=place("library.dtype")),
        "library.input_format": lambda: torch_tensorrt.Input((1, 2), format=place("library.input_format")),
        "library.overload": lambda: getattr(torch.ops.aten.add, place("library.overload")),
        "library.operator.missing": lambda: getattr(torch.ops.aten, place("library.operator.missing")),
        "library.namespace.missing": lambda: getattr(torch.ops, place("library.namespace.missing")).add(X),
        "library.attribute.module": lambda: getattr(linear, place("library.attribute.module")),
        "library.attribute.quoted": lambda: getattr(linear, f"o'brien's \"{place('library.attribute.quoted')}\""),
        "library.attribute.tensor": lambda: getattr(X, place("library.attribute.tensor")),
        "library.submodule.missing": lambda: linear.get_submodule(place("library.submodule.missing")),
        "library.parameter.missing": lambda: linear.get_parameter(place("library.parameter.missing")),
        "library.parameter.dot": lambda: linear.register_parameter(place("library.parameter.dot"), None),
        "library.parameter.taken": lambda: _twice(linear, place("library.parameter.taken")),
        "library.module.taken": lambda: _module_twice(linear, place("library.module.taken")),
        "library.state_dict.unexpected": lambda: linear.load_state_dict(
            {**linear.state_dict(), place("library.state_dict.unexpected"): X}
        ),
        "library.state_dict.missing": lambda: _missing(place("library.state_dict.missing")),
        "library.state_dict.strict_key": lambda: linear.load_state_dict(place("library.state_dict.strict_key")),
        "library.module_dict.key": lambda: torch.nn.ModuleDict()[place("library.module_dict.key")],
        "library.load.quotes": lambda: torch.load(f"/srv/alice's \"x\" {place('library.load.quotes')}/m.pt"),
        "library.save.folder": lambda: torch.save(X, f"{place('library.save.folder')}/x.pt"),
        "library.jit_load": lambda: torch.jit.load(place("library.jit_load")),
        "library.hub": lambda: torch.hub.load(place("library.hub"), "model", source="local"),
        "library.autocast": lambda: torch.autocast(place("library.autocast")),
        "library.generator": lambda: torch.Generator(device=place("library.generator")),
        "library.schema": lambda: torch.library.Library("canaries", "FRAGMENT").define(place("library.schema")),
        "library.layout": lambda: torch.zeros(1, layout=place("library.layout")),
        "library.memory_format": lambda: X.to(memory_format=place("library.memory_format")),
        "library.distributed.backend": lambda: torch.distributed.init_process_group(place("library.distributed.backend")),
        "library.checkpoint.keyword": lambda: checkpoint.checkpoint(
            torch.relu, X, use_reentrant=True, **{place("library.checkpoint.keyword"): 1}
        ),
        "library.data_loader.raises": lambda: list(
            torch.utils.data.DataLoader(_Data(place("library.data_loader.raises")))
        ),
        "library.data_loader.keyword": lambda: torch.utils.data.DataLoader(
            [], **{place("library.data_loader.keyword"): 1}
        ),
        "library.optimizer.keyword": lambda: torch.optim.SGD([], **{place("library.optimizer.keyword"): 1}),
        "library.optimizer.value": lambda: torch.optim.Adam(linear.parameters(), betas=(place("library.optimizer.value"),) * 2),
        "library.fx.symbolic": lambda: torch.fx.symbolic_trace(_Branches(place("library.fx.symbolic"))),
        "library.fx.target": lambda: _graph(place("library.fx.target")),
        "library.dispatch_key": lambda: torch.library.Library("aten", "IMPL", place("library.dispatch_key")),
        "library.profiler": lambda: torch.profiler.profile(activities=[place("library.profiler")]).start(),
        "library.rnn.mode": lambda: torch.nn.RNN(1, 1, nonlinearity=place("library.rnn.mode")),
        "library.activation": lambda: torch.nn.TransformerEncoderLayer(4, 2, activation=place("library.activation")),
        "library.norm": lambda: torch.norm(X, p=place("library.norm")),
        "library.multiprocessing": lambda: torch.multiprocessing.set_sharing_strategy(place("library.multiprocessing")),
        "library.classes": lambda: getattr(torch.classes.canaries, place("library.classes")),
        "library.fft.norm": lambda: torch.fft.fft(X, norm=place("library.fft.norm")),
        "library.indexing": lambda: X[place("library.indexing")],
        "library.linalg": lambda: torch.linalg.norm(X, ord=place("library.linalg")),
        "library.meshgrid": lambda: torch.meshgrid(X[0], X[0], indexing=place("library.meshgrid")),
    }  # fmt: skip


def _twice(module, name):
    module.register_parameter(name, None)
    module.plain = 1
    module.register_buffer(name, X)


def _module_twice(module, name):
    module.register_buffer(name, X)
    module.add_module(name, torch.nn.ReLU())


def _missing(name):
    module = torch.nn.Module()
    module.add_module(name, torch.nn.Linear(2, 2))
    module.load_state_dict({})


class _Data(torch.utils.data.Dataset):
    def __init__(self, text):
        self.text = text

    def __len__(self):
        return 1

    def __getitem__(self, index):
        raise RuntimeError(self.text)


class _Branches(torch.nn.Module):
    def __init__(self, text):
        super().__init__()
        self.text = text

    def forward(self, x):
        return getattr(x, self.text).anything if x.sum() > 0 else {self.text: x}[self.text + "?"]


def _graph(name):
    graph = torch.fx.Graph()
    graph.call_module(name)
    graph.output(None)
    torch.fx.GraphModule(torch.nn.Module(), graph)(X)
