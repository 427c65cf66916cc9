# SPDX-License-Identifier: Apache-2.0
"""Modules whose calls are followed (`TORCHSPAN_INPUTS`): each gets one hook, a `Traffic` that counts, and what follows
that.

A call is an event on the span around it when it is sampled. Counts and sizes are gathered until a reader collects.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from torchspan.base import reading
from torchspan.base.by_identity import ByIdentity
from torchspan.base.forks import renewed
from torchspan.base.logs import Log
from torchspan.engine import Engine, Event
from torchspan.hooks.adapters.input_limits import CallLimits, Measurement
from torchspan.hooks.adapters.machinery.ports import Notes, Ports
from torchspan.hooks.adapters.machinery.provenance import EngineIds
from torchspan.hooks.probes import Call
from torchspan.hooks.probes.describe.compilation import FROM_DYNAMO
from torchspan.inputs.port import (
    CallHook,
    CallShape,
    CallSignature,
    Traffic,
    WatchedClass,
    any_call,
    public_label,
    signature_of,
)
from torchspan.words import semconv

logger = Log("torchspan")

MODULES_LIMIT = 256
"""Modules that are followed at a time."""

TENSORS_LIMIT = 20
"""Tensors of a call that its event names."""

DIMENSIONS_LIMIT = 64
"""Dimensions of tensors in the process whose sizes are a metric."""

SIZES_LIMIT = 4_096
"""Different sizes of dimensions that are held for the metric until a reader collects."""

_LOADED = "GraphModule"
"""The class of a module of a program that was loaded, which does not know the model's. PyTorch derives one from it each
time."""

_Size = tuple[tuple[str, str, int], int]
"""The size of a dimension, which is known by module, place in the arguments and number."""


class ModuleInputs:
    """Follows modules.

    Args:
        every: One call in so many is sampled.
        ids: The ids of engines.
    """

    def __init__(self, engine: Engine, ports: Ports, every: int, ids: EngineIds) -> None:
        self._engine = engine
        self._every = every
        self._ids = ids
        self._notes = Notes(engine, ports)
        self._sizes = _Sizes()
        self._lock = renewed(threading.RLock())
        self._of: ByIdentity[_Following] = ByIdentity()
        self._all: list[_Following] = []
        """Those of modules that are gone, too, until they have been read."""
        self._classes: list[WatchedClass] = []
        self._refused: set[str] = set()
        self._is_full = False

    # --- what is followed --------------------------------------------------------------------------------------------
    def watch(self, path: str) -> None:
        """Follow each object of the class `module:Class` that is made from now on."""
        self._classes.append(WatchedClass(path, self.follow, partial(self._refuse, path)))

    def _refuse(self, path: str, problem: str) -> None:
        self._refused.add(path)
        logger.warning("TORCHSPAN_INPUTS: no call of %s is followed: %s.", path, problem)

    def follow_compiled(self, module: Any, _call: Call, event: Event | None) -> None:
        """Follow what a compilation returned, or had returned before it ended.

        What was loaded refuses a call outside of its program's ranges in a hook of its own, before which torchspan's
        runs.

        Args:
            event: Its own; None: it was loaded.
        """
        if event is None:
            self._follow(module, _LOADED, signature_of(module.forward), comes_first=True)
            return
        entry_point = event.attributes.get(semconv.ENTRY_POINT)
        is_graph = entry_point == FROM_DYNAMO
        name = entry_point if is_graph else event.attributes.get(semconv.MODEL_CLASS, entry_point)
        # The names of a graph's inputs are made of whatever the program's arguments are in, keys of dictionaries
        # included.
        signature = any_call() if is_graph else signature_of(module.forward)
        self._follow(module, name, signature)

    def follow(self, module: Any) -> None:
        """Follow a module of the program."""
        if reading.is_a(module, reading.loaded("torch.nn", "Module")):
            self._follow(module, reading.class_name(type(module)), signature_of(module.forward))

    def _follow(
        self,
        module: Any,
        name: str | None,
        signature: CallSignature,
        *,
        comes_first: bool = False,
    ) -> None:
        if not self._engine.active:
            return
        with self._lock:
            if self._of.get(module) is not None:
                return
            if len(self._of) >= MODULES_LIMIT:
                self._warn_once()
                return
            name = semconv.identifier(name)
            limits = self._engine.guard.call(
                "following the calls of a module", CallLimits.of, module, name, signature, self._notes, self._ids
            )
            following = _Following(module, name, limits, self._notes, self._sizes)
            following.follow(module, signature, self._every, comes_first=comes_first)
            self._of[module] = following
            if len(self._all) >= 2 * MODULES_LIMIT:
                self._all = self._living()
            self._all.append(following)

    def _living(self) -> list[_Following]:
        return [following for following in self._all if following.module() is not None]

    def _warn_once(self) -> None:
        if not self._is_full:
            self._is_full = True
            logger.warning(
                "TORCHSPAN_INPUTS names more than %d modules that are alive; the calls of further ones are not followed.",
                MODULES_LIMIT,
            )

    # --- what was gathered -------------------------------------------------------------------------------------------
    def measurements(self) -> Iterator[Measurement]:
        """What has been gathered since the last time."""
        with self._lock:
            followed, self._all = self._all, self._living()
            for calls in followed:
                yield from calls.new_calls()
            yield from self._sizes.taken()

    def close(self) -> None:
        """Take the hooks off. What has been gathered stays."""
        for watched in self._classes:
            if watched.problem is not None and watched.path not in self._refused:
                logger.warning("TORCHSPAN_INPUTS: no call of %s was followed: %s.", watched.path, watched.problem)
            watched.close()
        with self._lock:
            following = self._living()
        for calls in following:
            calls.hook.detach()


class _Following:
    """One module that is followed, and how much of it has been measured.

    It is the `Follower` that makes the sampled calls events, on the open event of torchspan or else on the program's current span, and
    adds their sizes.

    Attributes:
        module: Weakly.
    """

    hook: CallHook
    _traffic: Traffic

    def __init__(self, module: Any, name: str, limits: CallLimits | None, notes: Notes, sizes: _Sizes) -> None:
        self.module = weakref.ref(module)
        self._name = name
        self._limits = limits
        self._notes = notes
        self._sizes = sizes
        self._known: dict[int | None, _Described] = {}
        self._calls = self._overflow = 0

    def follow(self, module: Any, signature: CallSignature, every: int, *, comes_first: bool) -> None:
        """Follow its calls from now on."""
        self._traffic = Traffic(signature, every, [self] if self._limits is None else [self, self._limits])
        self.hook = CallHook(module, self._traffic.begin, comes_first=comes_first)

    def new_shape(self, _shape: CallShape) -> None:
        """Nothing is done at each call."""

    def sampled(self, shape: CallShape, *, is_new: bool) -> None:
        """The call is an event. The sizes of 1 in N alone are added, since new shapes are not typical ones."""
        counted: dict[str, Any] = {semconv.CALL_IS_NEW: is_new}
        described = self._known.get(shape.number)
        if described is None:
            described = _described(self._name, shape)
        if shape.number is not None:
            self._known[shape.number] = described
            counted[semconv.CALL_COUNT] = shape.count
        self._notes.add_again(semconv.CALL_EVENT, described.labels, counted)
        if not is_new:
            self._sizes.add(described.sizes)

    def new_calls(self) -> Iterator[Measurement]:
        calls, overflow = self._traffic.calls(), self._traffic.beyond_limit
        facts: dict[str, Any] = {semconv.CALL_MODULE: self._name}
        if calls > self._calls:
            yield semconv.METRIC_INPUT_CALLS, calls - self._calls, facts
        if overflow > self._overflow:
            yield semconv.METRIC_INPUT_OVERFLOW, overflow - self._overflow, facts
        self._calls, self._overflow = calls, overflow
        if self._limits is not None:
            yield from self._limits.new_calls()


class _Described(NamedTuple):
    """What every call of a shape says, as it leaves the process, and its sizes."""

    labels: Mapping[str, Any]
    sizes: list[_Size]


def _described(name: str, shape: CallShape) -> _Described:
    tensors = list(shape.tensors.items())[:TENSORS_LIMIT]
    labels = semconv.emitted(
        {
            semconv.CALL_MODULE: name,
            semconv.CALL_PATHS: [public_label(path) for path, _ in tensors],
            semconv.CALL_SHAPES: [str(list(leaf.shape)) for _, leaf in tensors],
            semconv.CALL_DTYPES: [str(leaf.dtype).removeprefix("torch.") for _, leaf in tensors],
        }
    )
    sizes = [
        ((name, public_label(path), axis), size)
        for path, leaf in shape.tensors.items()
        for axis, size in enumerate(leaf.shape)
    ]
    return _Described(labels, sizes)


# --- sizes -----------------------------------------------------------------------------------------------------------
class _Sizes:
    """Sizes of dimensions in sampled calls, held until a reader collects."""

    def __init__(self) -> None:
        self._lock = renewed(threading.RLock())
        self._dimensions: set[tuple[str, str, int]] = set()
        self._held: Counter[_Size] = Counter()

    def add(self, sizes: list[_Size]) -> None:
        """Add these sizes."""
        with self._lock:
            for size in sizes:
                dimension = size[0]
                if dimension not in self._dimensions:
                    if len(self._dimensions) >= DIMENSIONS_LIMIT:
                        continue
                    self._dimensions.add(dimension)
                if size in self._held or len(self._held) < SIZES_LIMIT:
                    self._held[size] += 1

    def taken(self) -> Iterator[Measurement]:
        """What is held; it is not held any more."""
        with self._lock:
            pending, self._held = self._held, Counter()
        for ((module, path, axis), size), number in pending.items():
            facts: dict[str, Any] = {semconv.CALL_MODULE: module, semconv.CALL_PATH: path, semconv.CALL_AXIS: axis}
            for _ in range(number):
                yield semconv.METRIC_INPUT_SIZE, size, facts
