# SPDX-License-Identifier: Apache-2.0
"""What an observer recorded, call by call, with the words of `torch.onnx.InputObserver`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torchspan.inputs.observed.leaves import TensorShape
from torchspan.inputs.observed.observations import ModuleCall
from torchspan.inputs.observed.trees import Tree, leaves

if TYPE_CHECKING:
    from torchspan.inputs.aligned.alignment import Alignment
    from torchspan.inputs.observed.observations import Snapshot
    from torchspan.inputs.observed.signatures import CallSignature


@dataclass(frozen=True, slots=True)
class InputCandidate:
    """One recorded call.

    Attributes:
        arguments: The arguments by the names of the parameters, with a `TensorShape` in place of each tensor.
        flat_list: The tensors among the arguments, in the order of the signature.
        aligned_flat_list: The same, with None for each tensor that another call has and this call does not. None if
            the call raised.
        flat_outputs: The tensors that the call returned.
        failed: Whether the call raised.
    """

    arguments: dict[str, Tree]
    flat_list: list[TensorShape]
    aligned_flat_list: list[TensorShape | None] | None
    flat_outputs: list[TensorShape]
    failed: bool

    def __len__(self) -> int:
        """The number of tensors among the arguments."""
        return len(self.flat_list)


class InputObserverInfo:
    """The calls that an observer had recorded when `InputObserver.info` was read.

    Attributes:
        inputs: The first 1,024 calls that returned, in the order in which they began.
        failed: The first 32 calls that raised.
        num_failed: The number of calls that raised.
        signature_names: The names of the method's parameters.
        default_values: The default values, by the names of the parameters.
        args_name_and_position: The name and the position of `*args`; None if the method has none.
        kwargs_name: The name of `**kwargs`; None if the method has none.
    """

    inputs: list[InputCandidate]
    failed: list[InputCandidate]
    num_failed: int
    signature_names: list[str]
    default_values: dict[str, Any]
    args_name_and_position: tuple[str, int] | None
    kwargs_name: str | None
    _completed: int

    @classmethod
    def _of(cls, snapshot: Snapshot, signature: CallSignature, alignment: Alignment | None) -> InputObserverInfo:
        self = cls()
        order = signature.in_order
        self.inputs = [_candidate(call, alignment, order(set(call.arguments))) for call in snapshot.calls]
        self.failed = [_candidate(call, None, order(set(call.arguments))) for call in snapshot.failed]
        self.num_failed = snapshot.counts.failed
        self.signature_names = [*signature.names]
        self.default_values = dict(signature.defaults)
        name = signature.var_positional
        self.args_name_and_position = None if name is None else (name, signature.names.index(name))
        self.kwargs_name = signature.var_keyword
        self._completed = snapshot.counts.completed
        return self

    def __len__(self) -> int:
        """The number of calls that returned. `inputs` may have fewer."""
        return self._completed


def _candidate(call: ModuleCall, alignment: Alignment | None, names: list[str]) -> InputCandidate:
    arguments = {name: call.arguments[name] for name in names}
    return InputCandidate(
        arguments,
        [
            leaf
            for name, tree in arguments.items()
            for _, leaf in leaves(tree, (name,))
            if isinstance(leaf, TensorShape)
        ],
        None if alignment is None else alignment.aligned(call),
        []
        if call.outputs is None
        else [leaf for _, leaf in leaves(call.outputs, ("",)) if isinstance(leaf, TensorShape)],
        call.failed,
    )
