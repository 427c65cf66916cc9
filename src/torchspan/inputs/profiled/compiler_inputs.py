# SPDX-License-Identifier: Apache-2.0
"""A profile as `torch_tensorrt.Input` objects, and as the program text that makes them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from torchspan.inputs.aligned.findings import calls_text
from torchspan.inputs.observed.leaves import Absent, Constant, NotWrittenError, Opaque, Path, TensorShape, label
from torchspan.inputs.observed.trees import Container, Tree
from torchspan.inputs.written.portable import WithheldKey

if TYPE_CHECKING:
    from torchspan.inputs.profiled.profiles import InputProfile, TensorProfile

_UNKNOWN_TO_TENSORRT = frozenset(
    {"int8", "int16", "uint16", "uint32", "uint64", "complex32", "complex64", "complex128"}
)
"""Types that `torch_tensorrt.Input` refuses, or whose inputs it takes for something else."""


def made_inputs(profile: InputProfile) -> dict[str, Any]:
    """`arg_inputs` and `kwarg_inputs`. Raises RuntimeError, ImportError."""
    import torch_tensorrt

    if profile.shared and not hasattr(torch_tensorrt.Input, "shared_dims"):
        raise RuntimeError(
            f"Torch-TensorRT {torch_tensorrt.__version__} cannot declare these dimensions as equal, which 2.13 can: "
            f"{'; '.join(map(str, profile.shared))}. Call export(model) of the observer, and give its program to "
            "torch_tensorrt.dynamo.compile."
        )
    args, kwargs = _arranged(profile, made_input)
    return {"arg_inputs": args, "kwarg_inputs": kwargs}


def python_text(profile: InputProfile) -> str:
    """The program text of `made_inputs`. Raises RuntimeError."""
    args, kwargs = _arranged(profile, _text)
    lines = [
        "import torch",
        "import torch_tensorrt",
        "",
        f"# From {calls_text(profile.calls)}, {profile.calls_at_opt:,} of them with the opt shapes.",
        *(f"# {tensor.name}: {'; '.join(map(str, tensor.dimensions))}" for tensor in profile if tensor.dimensions),
        *(f"# {tensor.name}: {tensor}" for tensor in profile.shared),
        *(f"# {finding}" for finding in profile.findings),
        f"arg_inputs = {_source(args)}",
        f"kwarg_inputs = {_source(kwargs)}",
        "program = torch_tensorrt.dynamo.trace(model, arg_inputs=arg_inputs, kwarg_inputs=kwarg_inputs)",
        "compiled = torch_tensorrt.dynamo.compile(program, arg_inputs=arg_inputs, kwarg_inputs=kwarg_inputs)",
    ]
    return "\n".join(lines) + "\n"


# --- structure -------------------------------------------------------------------------------------------------------
def _arranged(
    profile: InputProfile, of_tensor: Callable[[TensorProfile], Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What goes by position and by keyword, with what `of_tensor` returns for each tensor. Raises RuntimeError.

    `trace` takes containers by keyword alone.
    """
    layout = profile.layout
    arguments: dict[str, Any] = {}
    tensors = {tensor.path: tensor for tensor in profile.tensors}
    for name, tree in profile.arguments.items():
        is_variadic = name == layout.rest or profile.signature.is_extra(name)
        reason = "it is an argument of `*args` or `**kwargs`" if is_variadic else _refused(tree, (name,))
        if reason is not None:
            raise RuntimeError(_message(name, reason))
        arguments[name] = _rebuilt(tree, (name,), lambda path: of_tensor(tensors[path]))
    by_position = [name for name in layout.by_position if name in arguments]
    count = next(
        (i for i, name in enumerate(by_position) if isinstance(profile.arguments[name], Container)), len(by_position)
    )
    args = tuple(arguments.pop(name) for name in by_position[:count])
    stuck = next((name for name in arguments if name in profile.signature.positional_only), None)
    if stuck is not None:
        raise RuntimeError(_message(stuck, "it goes by position alone, after an argument that has to go by keyword"))
    return args, arguments


def _message(name: str, reason: str) -> str:
    return (
        f"torch_tensorrt.dynamo.trace cannot take the argument {name}: {reason}. Call export(model) of the observer, which "
        "passes every structure to torch.export, and give its program to torch_tensorrt.dynamo.compile."
    )


def _refused(tree: Tree, path: Path) -> str | None:
    """Why `trace` cannot take a structure; None where it can."""
    if isinstance(tree, TensorShape):
        dtype = str(tree.dtype).removeprefix("torch.")
        return f"{label(path)} has the type {dtype}" if dtype in _UNKNOWN_TO_TENSORRT else None
    if not isinstance(tree, Container):
        return f"{label(path)} is {_KINDS[type(tree)]}"
    if tree.kind is dict:
        if any(isinstance(key, WithheldKey) for key in tree.keys):
            raise NotWrittenError(
                f"The keys of the dictionary {label(path)} were not written to the file, so the inputs cannot be made. Write the "
                "file with values, or leave the argument out with remove_inputs."
            )
        refusals = (_refused(child, (*path, key)) for key, child in zip(tree.keys, tree.children, strict=True))
        return next((refusal for refusal in refusals if refusal is not None), None)
    if tree.kind is not list:
        what = "a tuple, which `trace` makes a list of" if tree.kind is tuple else "an object of a class of its own"
        return f"{label(path)} is {what}"
    for key, child in zip(tree.keys, tree.children, strict=True):
        if isinstance(child, Container):
            return f"{label(path)} has a container in a list"
        reason = _refused(child, (*path, key))
        if reason is not None:
            return reason
    return None


_KINDS = {Absent: "None", Constant: "a constant", Opaque: "an object of which nothing is recorded"}


def _rebuilt(tree: Tree, path: Path, of_path: Callable[[Path], Any]) -> Any:
    """Lists and dictionaries with what `of_path` returns for each tensor."""
    if not isinstance(tree, Container):
        return of_path(path)
    parts = [_rebuilt(child, (*path, key), of_path) for key, child in zip(tree.keys, tree.children, strict=True)]
    if tree.kind is dict:
        return dict(zip(tree.keys, parts, strict=True))
    return parts


# --- tensors ---------------------------------------------------------------------------------------------------------
def made_input(tensor: TensorProfile) -> Any:
    """A `torch_tensorrt.Input`. Raises ImportError."""
    import torch_tensorrt

    if not tensor.is_dynamic:
        return torch_tensorrt.Input(shape=tensor.opt_shape, dtype=tensor.dtype, name=tensor.name)
    return torch_tensorrt.Input(
        min_shape=tensor.min_shape,
        opt_shape=tensor.opt_shape,
        max_shape=tensor.max_shape,
        dtype=tensor.dtype,
        name=tensor.name,
        **({"shared_dims": tensor.shared_dims} if tensor.shared_dims else {}),  # since 2.13
    )


class _Text(str):
    """A piece of program text; `repr` is the text itself."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _text(tensor: TensorProfile) -> _Text:
    shapes = f"shape={tensor.opt_shape}"
    if tensor.is_dynamic:
        shapes = f"min_shape={tensor.min_shape}, opt_shape={tensor.opt_shape}, max_shape={tensor.max_shape}"
    shared = f", shared_dims={tensor.shared_dims}" if tensor.shared_dims else ""
    dtype = str(tensor.dtype).removeprefix("torch.")
    return _Text(f"torch_tensorrt.Input({shapes}, dtype=torch.{dtype}, name={tensor.name!r}{shared})")


def _source(value: Any, indent: str = "") -> str:
    """A literal, each part on a line of its own."""
    if not isinstance(value, (list, tuple, dict)) or not value:
        return repr(value)
    inner = indent + "    "
    if isinstance(value, dict):
        lines = [f"{inner}{_key(key)}: {_source(element, inner)},\n" for key, element in value.items()]
        return "{\n" + "".join(lines) + indent + "}"
    lines = [f"{inner}{_source(element, inner)},\n" for element in value]
    opening, closing = ("(", ")") if isinstance(value, tuple) else ("[", "]")
    return f"{opening}\n{''.join(lines)}{indent}{closing}"


def _key(key: Hashable) -> str:
    if type(key) not in _LITERALS:
        raise RuntimeError(
            f"A key of the class {type(key).__name__} has no literal in Python. Call to_torch_tensorrt of the observer instead."
        )
    return repr(key)


_LITERALS = frozenset({bool, bytes, int, str, type(None)})
