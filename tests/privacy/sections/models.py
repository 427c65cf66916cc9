# SPDX-License-Identifier: Apache-2.0
"""A model with a value of the user's wherever a model can have one, compiled and run; and exports that fail."""

import builtins
import collections
import contextlib
import dataclasses
import logging
import warnings

import torch
import torch_tensorrt

ONE = {"min_block_size": 1}


def plant(place):
    """One compilation that works, and calls that do not get as far as one."""
    model, keywords = _model(place)
    x = _bytes(place("forward.input.value"), 16)
    with place.part("the model"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.export(model, (x,), keywords)
        torch.compile(model, backend="tensorrt", options=ONE)(x, **keywords)
        torch._dynamo.reset()
        compiled = torch_tensorrt.compile(
            model,
            ir="dynamo",
            arg_inputs=[x],
            torch_executed_ops={place("compile.executed_op.text"), place("compile.executed_op.name")},
            timing_cache_path=str(place.folder / place("compile.timing_cache_path")),
            **{place("compile.option.name"): place("compile.option.value")},
            **ONE,
        )
        for _ in range(3):
            compiled(x)
    with place.part("refused calls"):
        _refused(place)
    with place.part("exports"):
        _exports(place)
    with place.part("custom operators"):
        _operators(place)


def _bytes(text, size):
    """Letters as the values of a tensor."""
    return torch.tensor([float(letter) for letter in text.encode()[:size].ljust(size)]).reshape(1, size)


class _Base(torch.nn.Module):
    pass


def _model(place):
    field, member, result = (
        place("forward.dataclass.field"),
        place("forward.namedtuple.field"),
        place("forward.output.name"),
    )
    data = dataclasses.make_dataclass(place("forward.dataclass.name"), [(field, torch.Tensor)])
    torch.export.register_dataclass(data)
    pair = collections.namedtuple(place("forward.namedtuple.name"), [member])  # noqa: PYI024
    literal, local, argument = (
        place("forward.branch.literal"),
        place("forward.local.name"),
        place("forward.argument.name"),
    )
    submodule, parameter, buffer = (place(f"model.{each}.name") for each in ("submodule", "parameter", "buffer"))
    attribute, own, customer = (
        place("model.attribute.name"),
        place("model.submodule.identifier"),
        place("model.module_dict.key"),
    )
    key, text = place("forward.keyword.dict.key"), place("forward.keyword.dict.value")

    def init(self):
        torch.nn.Module.__init__(self)
        for name in (submodule, own):
            self.add_module(name, torch.nn.Linear(16, 16))
        self.customers = torch.nn.ModuleDict({customer: torch.nn.Linear(16, 16)})
        self.register_parameter(parameter, torch.nn.Parameter(_bytes(place("model.parameter.value"), 16)))
        self.register_buffer(buffer, _bytes(place("model.buffer.value"), 16))
        setattr(self, attribute, 2.0)
        self.text = place("model.attribute.string")
        self.table = {place("model.attribute.dict"): 1.0}

    scope = {
        "torch": torch, "logging": logging, "warnings": warnings, "names": (submodule, parameter, buffer, attribute, own, customer),
        "said": [place(f"forward.{each}") for each in ("print", "warning", "logging.message", "logging.argument")],
        "literal": literal, "key": key, "member": member, "field": field, "result": result, "shown": lambda *_: None,
    }  # fmt: skip
    source = f"""
def forward({argument}, self_, prompt="", options=None, data=None, pair=None):
    submodule, parameter, buffer, attribute, own, customer = names
    {local} = {argument}.get_submodule(submodule)(self_) + {argument}.get_parameter(parameter)
    {local} = {local} + {argument}.get_buffer(buffer) * getattr({argument}, attribute)
    if prompt == literal or options and options[key] == literal or {argument}.text == literal:
        {local} = {local} + len(prompt)
    if data is not None:
        {local} = {local} + getattr(data, field) + getattr(pair, member)
    {local} = {argument}.get_submodule(own)({local})
    return {{result: {argument}.customers[customer](torch.special.i1e(torch.relu({local}))) * 2}}
"""
    exec(compile(source, __file__, "exec"), scope)
    kind = type(
        place("model.class.identifier"),
        (_Base,),
        {
            "__init__": init,
            "__doc__": place("model.class.docstring"),
            "__module__": __name__,
            "forward": scope["forward"],
            "get_extra_state": lambda _self: place("model.extra_state"),
            "set_extra_state": lambda _self, _state: None,
        },
    )
    model = kind().eval()
    model.state_dict()._metadata[place("model.state_dict.metadata")] = 1

    def hook(_module, _args, output):
        with contextlib.suppress(Exception):
            if not torch.compiler.is_compiling():
                builtins.print(scope["said"][0], file=_Nowhere())
                logging.getLogger("users").warning(scope["said"][2], scope["said"][3])
                warnings.warn(scope["said"][1], stacklevel=1)
        return output

    hook.__name__ = hook.__qualname__ = place("model.hook.name")
    model.register_forward_hook(hook)
    x = torch.ones(1, 16)
    keywords = {
        "prompt": place("forward.keyword.string"),
        "options": {key: text},
        "data": data(x),
        "pair": pair(x),
    }
    return model, keywords


class _Nowhere:
    def write(self, text):
        pass


# --- calls that fail before anything is compiled -----------------------------------------------------------------
def _refused(place):
    relu, x = torch.nn.ReLU(), torch.ones(2, 4)
    named = type(place("model.class.text"), (torch.nn.ReLU,), {})

    def compiling(name, **options):
        with place.raises(name):
            torch_tensorrt.compile(named(), **{"ir": "dynamo", "arg_inputs": [x], **ONE, **options})

    class Text(str):
        __slots__ = ()

    compiling("compile.ir", ir=place("compile.ir"))
    compiling("compile.ir.string_subclass", ir=Text(place("compile.ir.string_subclass")))
    compiling("compile.min_block_size", min_block_size=place("compile.min_block_size"))
    compiling("compile.optimization_level", optimization_level=place("compile.optimization_level"))
    cache = place.folder / place("compile.engine_cache_dir")
    cache.write_text("a file where a folder is to be made", encoding="utf-8")
    compiling(
        "compile.engine_cache_dir",
        engine_cache_dir=str(cache / "cache"), cache_built_engines=True, reuse_cached_engines=True,
        immutable_weights=False,
    )  # fmt: skip
    with contextlib.suppress(Exception):
        given = torch_tensorrt.Input((2, 4), name=place("compile.input.name"))
        torch_tensorrt.dynamo.trace(relu, arg_inputs=[given], kwarg_inputs={place("compile.kwarg_input.name"): x})

    shown, raised = place("compile.input.object.repr"), place("compile.input.raises")

    class Dtype:
        name = place("compile.input.object.dtype")

    class Given:
        shape = (place("compile.input.object.shape"),)
        dtype = Dtype()

        def __repr__(self):
            return shown

    class Raises:
        dtype = None

        @property
        def shape(self):
            raise ValueError(raised)

    for each in (Given(), Raises()):
        with contextlib.suppress(Exception):
            torch_tensorrt.dynamo.trace(relu, arg_inputs=(each,))


def _exports(place):
    def export(name, module, args, **options):
        with place.raises(name):
            torch.export.export(module, args, **options)

    class Fixed(torch.nn.Module):
        def forward(self, x):
            return x.reshape(2, 4)

    class Checks(torch.nn.Module):
        def forward(self, x):
            raise ValueError(place("export.strict.exception"))

    class Scales(torch.nn.Module):
        def forward(self, x):
            return x * 2

    class Branches(torch.nn.Module):
        def forward(self, x):
            return x + 1 if x.sum() > 0 else x - 1

    parameter, keyword = place("export.parameter.name"), place("export.keyword.name")
    scope = {}
    exec(f"def forward(self, {parameter}, **more):\n    return {parameter} + more[{keyword!r}]", scope)
    named = type("Named", (torch.nn.Module,), {"forward": scope["forward"]})()
    x = torch.ones(2, 4)
    torch.export.export(named, (x,), {keyword: x})
    torch.export.export(torch.nn.Linear(4, 4), (x,)).run_decompositions()
    given = torch_tensorrt.Input((2, 4), name=place("export.input.name"))
    with contextlib.suppress(torch._dynamo.exc.UserError):  # before 2.14, no input may be one of `**more`
        torch_tensorrt.dynamo.trace(named, arg_inputs=[given], kwarg_inputs={keyword: torch_tensorrt.Input((2, 4))})
    violated = torch.export.Dim(place("export.dim.violated"), min=1, max=8)
    export("export.dim.violated", Fixed(), (x,), dynamic_shapes=({0: violated},))
    dim = torch.export.Dim(place("export.dim.name"), min=1, max=8)
    torch.export.export(Scales(), (x,), dynamic_shapes=({0: dim},))
    export("export.argument.missing", Scales(), (), kwargs={place("export.argument.missing"): x})
    export("export.dynamic_shapes.key", Scales(), (x,), dynamic_shapes={place("export.dynamic_shapes.key"): {0: dim}})
    for strict in (False, True):
        export("export.strict.exception", Checks(), (x,), strict=strict)
    export(
        "export.preserved.module", Scales(), (x,), preserve_module_call_signature=(place("export.preserved.module"),)
    )


_LIBRARIES = []


def _operators(place):
    """Operators of the program's, known to PyTorch's registry: their names are names, what they are given is not."""
    space, name = place("operator.custom.namespace"), place("operator.custom.name")
    argument = place("operator.custom.argument.name")
    if not _LIBRARIES:
        library = torch.library.Library(space, "DEF")
        _LIBRARIES.append(library)
        for each in (name, f"{name}_fails", f"{name}_without_fake"):
            library.define(f"{each}(Tensor x, str {argument}) -> Tensor")

        def kernel(x, text):
            if torch.compiler.is_exporting():
                return x + 1
            raise ValueError(place("operator.custom.kernel.raises"))

        def fake(x, text):
            raise ValueError(place("operator.custom.fake.raises"))

        library.impl(name, kernel, "CompositeExplicitAutograd")
        library.impl(f"{name}_fails", kernel, "CompositeExplicitAutograd")
        library.impl(f"{name}_without_fake", kernel, "CPU")
        torch.library.register_fake(f"{space}::{name}", lambda x, text: torch.empty_like(x), lib=library)
        torch.library.register_fake(f"{space}::{name}_fails", fake, lib=library)
    text = place("operator.custom.argument.string")
    fails, unfaked, works = (
        getattr(getattr(torch.ops, space), each) for each in (f"{name}_fails", f"{name}_without_fake", name)
    )

    class Uses(torch.nn.Module):
        def __init__(self, operator):
            super().__init__()
            self.operator = operator

        def forward(self, x):
            return self.operator(torch.relu(x) + 1, text) * 2

    x = torch.ones(2, 4)
    with place.raises("operator.custom.fake.raises"):
        torch_tensorrt.compile(Uses(fails), ir="dynamo", arg_inputs=[x], **ONE)
    with place.raises("operator.custom.name"):
        torch.export.export(Uses(unfaked), (x,))
    with place.raises("operator.custom.name"):
        torch_tensorrt.compile(Uses(works), ir="dynamo", arg_inputs=[x], require_full_compilation=True, **ONE)
    compiled = torch_tensorrt.compile(Uses(works), ir="dynamo", arg_inputs=[x], **ONE)
    with place.raises("operator.custom.kernel.raises"):
        compiled(x)
