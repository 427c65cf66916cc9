# SPDX-License-Identifier: Apache-2.0
"""The calls of one module in production: every call counted by its shape, in bounded memory, without values.

A call is known by a key that is cheap to make: shapes and data types of its tensors, and the types of everything else.
What a key means, its arguments by name and the path of each tensor, is found out once for each key. Whatever follows
the calls of a module is a `Follower`: it looks at a new shape once, and says what is to be done at each call of that
shape.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from itertools import count, repeat
from operator import length_hint
from typing import Any, Protocol

from torchspan.base import dynamo_safety
from torchspan.base.boundaries import Failures, is_programs, log_failure
from torchspan.base.forks import renewed
from torchspan.inputs.observed.leaves import Path, TensorShape
from torchspan.inputs.observed.observations import SHAPES_LIMIT
from torchspan.inputs.observed.signatures import CallSignature, UnfitCallError
from torchspan.inputs.observed.trees import (
    DEPTH_LIMIT,
    LEAVES_LIMIT,
    Reader,
    SymbolicCallError,
    TooManyLeavesError,
    Tree,
    leaves,
    shape_key,
)

KEYS_LIMIT = 4 * SHAPES_LIMIT
"""Keys whose shapes are remembered: one shape has several, since its arguments may come by position or by keyword."""

_WITHOUT_PARTS = frozenset(map(id, (type(None), bool, int, float, complex, str)))
"""Types of arguments that hold no tensor, by identity: a class of the program's may have code that makes its hash."""

Action = Callable[["CallShape"], None]
"""What is done at a call of a shape."""


class CallShape:
    """All calls of one shape.

    Args:
        number: The how-manieth shape it is, from 0 on; None for a call beyond `SHAPES_LIMIT`, whose shape is not kept.
        tensors: The tensors by path, in the order of the signature, with the devices of the first call.
        actions: What followers do at each call of this shape.
        add_one: Counts one call, without a lock.
    """

    __slots__ = ("_left", "actions", "add_one", "number", "tensors")

    def __init__(self, number: int | None, tensors: Mapping[Path, TensorShape]) -> None:
        self.number = number
        self.tensors = tensors
        self.actions: tuple[Action, ...] = ()
        self._left = repeat(None, sys.maxsize)
        self.add_one = self._left.__next__

    @property
    def count(self) -> int:
        """Calls so far, the present one included."""
        return sys.maxsize - length_hint(self._left)


class Follower(Protocol):
    """Looks at the calls of one module. It is called in the call's thread, before the module runs, and must be
    quick.
    """

    def new_shape(self, shape: CallShape) -> Action | None:
        """Calls of a new shape begin. Returns what is to be done at each call of this shape, this one included; None:
        nothing.

        It is called once for each of the first `SHAPES_LIMIT` shapes, and at each call beyond them. Threads wait for
        it: it makes no call of the module, and emits nothing.
        """

    def sampled(self, shape: CallShape, *, is_new: bool) -> None:
        """A call is sampled: the first of each shape that is kept, and 1 in N of all calls."""


class Traffic:
    """Counts the calls of one module by shape. Safe from any thread; what goes wrong in here never reaches the call.

    Not counted are calls that do not fit the signature, come from a tracer, or have too many arguments.

    Args:
        every: One in so many calls is sampled, and the first of each shape.
    """

    def __init__(self, signature: CallSignature, every: int, followers: Iterable[Follower] = ()) -> None:
        torch: Any = sys.modules["torch"]
        self._signature = signature
        self._every = every
        self._followers = tuple(followers)
        self._tensor: Any = torch.Tensor
        self._torch_c = torch._C
        self._lock = renewed(threading.RLock())  # a signal handler may call the module as well
        self._making = renewed(threading.RLock())
        self._next_number = count(1).__next__
        self._by_key: dict[Hashable, CallShape] = {}
        self._by_shape: dict[Hashable, CallShape] = {}
        self._has_failed = False
        self.beyond_limit = 0
        """Counted calls whose shape is not kept."""

    # --- a call ------------------------------------------------------------------------------------------------------
    # It runs at every call of the module: what is a function of its own elsewhere stands in it.
    def begin(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """A call begins. Raises nothing."""
        try:
            torch_c, tensor = self._torch_c, self._tensor
            key: Hashable
            if torch_c._len_torch_function_stack() or torch_c._len_torch_dispatch_stack():
                key = self._key_below_modes(args, kwargs)
            elif torch_c._get_tracing_state() is not None:
                raise SymbolicCallError
            elif len(args) == 1 and type(args[0]) is tensor and not kwargs:
                key = (args[0].shape, args[0].dtype)
            else:
                parts: list[Hashable] = []
                for value in args:
                    parts += (value.shape, value.dtype) if type(value) is tensor else (self._part(value),)
                if kwargs:
                    for name, value in kwargs.items():
                        parts += (
                            (name, value.shape, value.dtype) if type(value) is tensor else (name, self._part(value))
                        )
                key = tuple(parts)
            shape = self._by_key.get(key)
            if shape is None:
                self._begin_unknown(key, args, kwargs)
                return
            shape.add_one()
            for action in shape.actions:
                action(shape)
            if not self._next_number() % self._every:
                self._sample(shape, is_new=False)
        except (SymbolicCallError, UnfitCallError, TooManyLeavesError):
            return
        except Exception as error:
            if is_programs(error):
                raise
            self._failed()

    def _key_below_modes(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Hashable:
        """The key, while the program or a tracer has a mode: it must see no question about a shape."""
        if self._torch_c._get_tracing_state() is not None or dynamo_safety.is_symbolic(()):
            raise SymbolicCallError
        with self._torch_c.DisableTorchFunction():
            parts: list[Hashable] = []
            for value in args:
                parts += (value.shape, value.dtype) if type(value) is self._tensor else (self._part(value),)
            for name, value in kwargs.items():
                is_tensor = type(value) is self._tensor
                parts += (name, value.shape, value.dtype) if is_tensor else (name, self._part(value))
            return tuple(parts)

    def _part(self, value: Any) -> Hashable:
        """What an argument that is not a plain tensor adds to the key."""
        kind = id(type(value))
        if kind in _WITHOUT_PARTS:
            return kind
        parts: list[Hashable] = []
        self._walk(value, parts, 0)
        return tuple(parts)

    def _walk(self, value: Any, parts: list[Hashable], depth: int) -> None:
        """Add what is known of a value: shape and type of a tensor, or the class of anything else with its parts after
        it.
        """
        if len(parts) > 2 * LEAVES_LIMIT:
            raise TooManyLeavesError
        tensor: Any = self._tensor
        kind: type = type(value)
        if kind is tensor:
            parts += (value.shape, value.dtype)
            return
        parts.append(id(kind))
        if id(kind) in _WITHOUT_PARTS:
            return
        children: Iterable[Any] = ()
        if (kind is tuple or kind is list) and depth <= DEPTH_LIMIT:
            parts.append(len(value))
            children = value
        elif kind is dict and depth <= DEPTH_LIMIT:
            parts.append(tuple([part if id(type(part)) in _WITHOUT_PARTS else id(type(part)) for part in value]))
            children = value.values()
        else:
            with self._torch_c.DisableTorchFunction():
                parts += shape_key(Reader().read(value, ()), ())
        for child in children:
            if type(child) is tensor:
                parts += (child.shape, child.dtype)
            else:
                self._walk(child, parts, depth + 1)

    # --- a new shape -------------------------------------------------------------------------------------------------
    def _begin_unknown(self, key: Hashable, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """A call begins whose key is not known: of a new shape, or of one that is known by another key."""
        with self._torch_c.DisableTorchFunction():
            reader, bound = Reader(), self._signature.bind(args, kwargs)
            trees_by_name = {name: reader.read(argument, (name,)) for name, argument in bound.arguments.items()}
        trees = {name: trees_by_name[name] for name in self._signature.in_order(set(trees_by_name))}
        identity = frozenset(
            part for name, tree in trees.items() for part in _without_devices(shape_key(tree, (name,)))
        )
        with self._making:
            shape = self._by_shape.get(identity)
            is_new = shape is None
            if shape is None:
                number = len(self._by_shape) if len(self._by_shape) < SHAPES_LIMIT else None
                shape = CallShape(number, _tensors(trees))
                shape.actions = tuple(self._actions(shape))
            is_kept = shape.number is not None
            with self._lock:
                shape.add_one()
                if is_kept and len(self._by_key) < KEYS_LIMIT:
                    self._by_key[key] = shape
                if is_kept:
                    self._by_shape[identity] = shape
                else:
                    self.beyond_limit += 1
        for action in shape.actions:
            action(shape)
        is_sampled = not self._next_number() % self._every
        if is_sampled or (is_new and is_kept):
            self._sample(shape, is_new=is_new)

    def _actions(self, shape: CallShape) -> Iterator[Action]:
        for follower in self._followers:
            try:
                action = follower.new_shape(shape)
            except Exception as error:
                if is_programs(error):
                    raise
                self._failed()
                continue
            if action is not None:
                yield action

    def _sample(self, shape: CallShape, *, is_new: bool) -> None:
        for follower in self._followers:
            follower.sampled(shape, is_new=is_new)

    def _failed(self) -> None:
        Failures.total += 1
        if not self._has_failed:
            self._has_failed = True
            log_failure("%s failed; the program continues.", "The observation of a module's inputs")

    def calls(self) -> int:
        """Calls that were counted until now."""
        with self._lock:
            return self.beyond_limit + sum(shape.count for shape in self._by_shape.values())


def _tensors(trees: Mapping[str, Tree]) -> dict[Path, TensorShape]:
    """The tensors of a call, by path."""
    all_leaves = (leaf for name, tree in trees.items() for leaf in leaves(tree, (name,)))
    return {path: leaf for path, leaf in all_leaves if isinstance(leaf, TensorShape)}


def _without_devices(parts: Iterable[Hashable]) -> Iterator[Hashable]:
    """The parts of a shape's key; a key that is cheap to make does not tell devices apart."""
    for part in parts:
        if isinstance(part, tuple) and isinstance(part[-1], TensorShape):
            yield *part[:-1], part[-1].shape, part[-1].dtype
        else:
            yield part
