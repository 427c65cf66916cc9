# SPDX-License-Identifier: Apache-2.0
"""What an observer recorded, call by call, with the words of `torch.onnx.InputObserver`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torchspan.inputs.leaves import TensorShape
from torchspan.inputs.observations import Call
from torchspan.inputs.trees import Tree, leaves

if TYPE_CHECKING:
    from torchspan.inputs.alignment import Alignment
    from torchspan.inputs.observations import Snapshot
    from torchspan.inputs.signatures import CallSignature


@dataclass(frozen=True, slots=True)
class InputCandidate:
    """One recorded call.

    arguments: what the call was given, by the names of the parameters: a `TensorShape` in place of each tensor. flat_list:
    its tensors, in the order of the signature. aligned_flat_list: the same, with None for each tensor that another call has
    and this one does not; None where the call raised. flat_outputs: the tensors that it returned. failed: it raised.
    """

    arguments: dict[str, Tree]
    flat_list: list[TensorShape]
    aligned_flat_list: list[TensorShape | None] | None
    flat_outputs: list[TensorShape]
    failed: bool

    def __len__(self) -> int:
        """How many tensors it was given."""
        return len(self.flat_list)


class InputObserverInfo:
    """The calls that an observer recorded up to the moment when it was asked.

    inputs: the first 1,024 calls that returned, in the order in which they began. failed: the first 32 calls that raised.
    signature_names: names of the method's parameters. default_values: those that have a default. args_name_and_position,
    kwargs_name: of `*args` and `**kwargs`, None where the signature has none. num_failed: how many calls raised.
    """

    def __init__(self, snapshot: Snapshot, signature: CallSignature, alignment: Alignment | None) -> None:
        order = signature.in_order
        self.inputs = [_candidate(each, alignment, order(set(each.arguments))) for each in snapshot.calls]
        self.failed = [_candidate(each, None, order(set(each.arguments))) for each in snapshot.failed]
        self.num_failed = snapshot.counts.failed
        self.signature_names = [*signature.names]
        self.default_values: dict[str, Any] = dict(signature.defaults)
        name = signature.var_positional
        self.args_name_and_position = None if name is None else (name, signature.names.index(name))
        self.kwargs_name = signature.var_keyword
        self._completed = snapshot.counts.completed

    def __len__(self) -> int:
        """How many calls returned; `inputs` may have fewer."""
        return self._completed


def _candidate(call: Call, alignment: Alignment | None, names: list[str]) -> InputCandidate:
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
