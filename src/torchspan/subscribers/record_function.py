# SPDX-License-Identifier: Apache-2.0
"""One event as the user's callbacks see it."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torchspan import _dynamo_safety
from torchspan._base.errors import FAILED
from torchspan.subscribers.entry import Entry
from torchspan.subscribers.interest import Interest
from torchspan.subscribers.registry import REGISTRY, Registry
from torchspan.subscribers.sampling import CURRENT_TREE, Tree
from torchspan.subscribers.scope import RecordScope, Scope

if TYPE_CHECKING:
    from torchspan.engine.event import Event

_EMPTY: Mapping[str, Any] = {}
_thread_ids, _handles = itertools.count(1), itertools.count(1)


class _Thread(threading.local):
    def __init__(self) -> None:
        self.id = next(_thread_ids)


_THREAD = _Thread()


def current_thread_id() -> int:
    """The logical id of the calling thread: small, never 0, and never another thread's."""
    return _THREAD.id


class _Inside:
    """A context manager: `tree` is the current one inside, if there is one."""

    __slots__ = ("_before", "_tree")

    def __init__(self, tree: Tree | None) -> None:
        self._tree = tree

    def __enter__(self) -> None:
        if self._tree is not None:
            self._before = CURRENT_TREE.get()
            CURRENT_TREE.set(self._tree)

    def __exit__(self, *_exception: object) -> None:
        if self._tree is not None:
            CURRENT_TREE.set(self._before)


class RecordFunction:
    """A range that callbacks run for, with the words of `at::RecordFunction`.

    Made, it has decided which callbacks run; `before` runs the starts, `end` the ends, once, on any thread. An object that
    is not active does nothing. `record_function` is the same as a decorator and context manager.

    scope: what kind of range it is, a phase where the bridge is the source. sequence_nr: links a backward function to its
    forward function, -1 for none. thread_id: logical id of the thread that ran the starts. forward_thread_id: that of the
    forward function, 0 for none. handle: unique, 0 unless a callback needs ids. debug_handle: -1 for none. operator_name,
    operator_schema: of an operator, else None. is_async: the end came, or is to come, on another thread. error: in an end,
    the exception that ended the range, else None. attributes: what is known of an event of the bridge; empty elsewhere.
    """

    name = ""
    sequence_nr = -1
    debug_handle = -1
    thread_id = 0
    forward_thread_id = 0
    handle = 0
    operator_name: str | None = None
    operator_schema: Any = None
    is_async = False
    error: BaseException | None = None
    attributes: Mapping[str, Any] = _EMPTY
    num_inputs = 0
    # Defaults of the class: setting a dozen attributes would be most of what an event costs.
    _tree: Tree | None = None
    _is_root = False
    _inputs: tuple[Any, ...] | None = None
    _kwinputs: Mapping[str, Any] = _EMPTY
    _outputs: tuple[Any, ...] = ()

    def __init__(self, scope: RecordScope = RecordScope.FUNCTION) -> None:
        if _dynamo_safety.is_tracing() or _dynamo_safety.is_symbolic(()):
            self._prepare(scope, REGISTRY, ())
        else:
            tree, _ = REGISTRY.tree()
            self._prepare(scope, REGISTRY, REGISTRY.picked(REGISTRY.interest(scope), tree))

    def _prepare(self, scope: Scope, registry: Registry, entries: Sequence[Entry]) -> None:
        self.scope = scope
        self._registry = registry
        self._entries = entries
        self._pairs: list[tuple[Entry, Any]] = []

    @classmethod
    def opened(cls, interest: Interest, *, resumes: bool = False) -> RecordFunction | None:
        """One whose start and end share a frame: what is fired inside belongs to its tree. None where it is of no use.

        resumes: its body is left and entered again (`inside`).
        """
        tree, is_root = REGISTRY.tree()
        entries = REGISTRY.picked(interest, tree)
        if not (entries or is_root or (resumes and tree is not None)):
            return None
        self = cls.__new__(cls)
        self._prepare(interest.scope, REGISTRY, entries)
        if tree is not None:
            self._tree, self._is_root = tree, is_root
        if is_root and not resumes:
            CURRENT_TREE.set(tree)
        return self

    @classmethod
    def of_event(cls, event: Event, registry: Registry) -> RecordFunction:
        """How the user's callbacks see an event of the bridge, which runs them itself."""
        self = cls.__new__(cls)
        self._prepare(event.phase, registry, ())
        self._inputs = ()
        self.name = event.name
        self.thread_id = current_thread_id()
        self.handle = next(_handles)
        self.attributes = event.attributes
        return self

    # --- its callbacks ----------------------------------------------------------------------------------------
    @property
    def is_active(self) -> bool:
        """Whether a callback runs, or has run, for it."""
        return bool(self._entries or self._pairs)

    @property
    def needs_inputs(self) -> bool:
        """Whether a callback needs the inputs; else they need not be gathered."""
        return any(each.needs_inputs for each in self._entries)

    @property
    def needs_outputs(self) -> bool:
        """Whether a callback needs the outputs; else they need not be gathered."""
        return any(each.needs_outputs for each in self._entries)

    # --- what goes in and comes out ---------------------------------------------------------------------------
    @property
    def inputs(self) -> tuple[Any, ...]:
        """The positional inputs; empty where no callback needs inputs. Raises RuntimeError outside a start callback."""
        return self._valid_inputs()

    @property
    def kwinputs(self) -> Mapping[str, Any]:
        """The inputs by name. As `inputs`."""
        self._valid_inputs()
        return self._kwinputs

    def _valid_inputs(self) -> tuple[Any, ...]:
        if self._inputs is None:
            raise RuntimeError("Called inputs outside RecordFunction start callback")
        return self._inputs

    @property
    def outputs(self) -> tuple[Any, ...]:
        """What came out, from `set_outputs` to the last end callback; empty where no callback needs outputs."""
        return self._outputs

    @property
    def num_outputs(self) -> int:
        """How many outputs there are."""
        return len(self._outputs)

    def set_outputs(self, outputs: Any) -> None:
        """Give the outputs before the end. outputs: a tuple of them; anything else is the only one."""
        if not _dynamo_safety.is_tracing() and self.needs_outputs:
            self._outputs = outputs if type(outputs) is tuple else (outputs,)

    def set_async(self) -> None:
        """Say that the end will come on another thread."""
        if not _dynamo_safety.is_tracing():
            self.is_async = True

    # --- start and end ----------------------------------------------------------------------------------------
    def before(
        self,
        name: str,
        inputs: tuple[Any, ...] = (),
        kwinputs: Mapping[str, Any] = _EMPTY,
        *,
        sequence_nr: int = -1,
    ) -> None:
        """Run the start callbacks. The inputs are let go when they have run."""
        if not _dynamo_safety.is_tracing() and self._entries:
            _dynamo_safety.undisturbed(self.start, name, inputs, kwinputs, sequence_nr)

    def start(self, name: str, inputs: tuple[Any, ...], kwinputs: Mapping[str, Any], sequence_nr: int) -> None:
        """What `before` does, for a caller who is undisturbed already."""
        self.name = name
        self.sequence_nr = sequence_nr
        self.thread_id = _THREAD.id
        for entry in self._entries:
            if entry.needs_ids and not self.handle:
                self.handle = next(_handles)
            if entry.needs_inputs:
                self._inputs, self._kwinputs = tuple(inputs), kwinputs
                self.num_inputs = len(self._inputs) + len(kwinputs)
        if self._inputs is None:
            self._inputs = ()
        busy = self._registry.busy
        busy.now = True
        try:
            for entry in self._entries:
                context = entry.begin(self)
                if context is not FAILED:
                    self._pairs.append((entry, context))
        except BaseException as interrupt:  # the program's own: what has started is closed before it passes
            self._let_inputs_go()
            self.finish(interrupt)
            raise
        finally:
            busy.now = False
            self._let_inputs_go()

    def _let_inputs_go(self) -> None:
        self._inputs, self._kwinputs = None, _EMPTY

    def inside(self) -> _Inside:
        """While its body runs: what is fired there belongs to its tree, what is fired between does not."""
        return _Inside(self._tree)

    def end(self, error: BaseException | None = None) -> None:
        """Run the end callbacks of those whose start ran, last started first. A second call does nothing."""
        if not _dynamo_safety.is_tracing() and (self._pairs or self._is_root):
            _dynamo_safety.undisturbed(self.finish, error)

    def finish(self, error: BaseException | None) -> None:
        """What `end` does, for a caller who is undisturbed already."""
        if self._is_root and self._tree is not None:
            self._tree.is_open = False
        if self.thread_id != _THREAD.id:
            self.is_async = True
        if not self._pairs:
            self._outputs = ()
            return
        busy = self._registry.busy
        was_busy, busy.now = busy.now, True
        self.error = error
        try:
            self._run_ends()
        finally:
            busy.now = was_busy
            self.error = None
            self._outputs = ()

    def _run_ends(self) -> None:
        while self._pairs:
            try:
                entry, context = self._pairs.pop()
            except IndexError:  # another thread took the last one
                return
            try:
                entry.finish(self, context)
            except BaseException:  # the program's own: the others end before it passes
                self._run_ends()
                raise

    def __del__(self) -> None:
        """A pair that has started ends, also when nothing kept the range: the header's destructor."""
        if getattr(self, "_pairs", None):
            self.finish(None)
