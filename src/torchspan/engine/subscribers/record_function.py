# SPDX-License-Identifier: Apache-2.0
"""One event as the user's callbacks see it."""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torchspan.base import dynamo_safety
from torchspan.base.errors import FAILED
from torchspan.engine.subscribers.callback_registry import REGISTRY, Registry
from torchspan.engine.subscribers.checks import check_record_scope, check_text
from torchspan.engine.subscribers.entry import Entry
from torchspan.engine.subscribers.interest import Interest
from torchspan.engine.subscribers.sampling import CURRENT_TREE, Tree
from torchspan.engine.subscribers.scope import RecordScope, Scope

if TYPE_CHECKING:
    from torchspan.engine.event import Event

_EMPTY: Mapping[str, Any] = {}
_thread_ids, _handles = itertools.count(1), itertools.count(1)


class _Thread(threading.local):
    def __init__(self) -> None:
        self.id = next(_thread_ids)


_THREAD = _Thread()


def current_thread_id() -> int:
    """Return the logical id of the calling thread: a small integer of 1 or more, unique in the process."""
    return _THREAD.id


class RecordFunction:
    """A range for which callbacks run, with the names of `at::RecordFunction`. Callbacks receive it.

    Creating one decides which callbacks run. `before` runs the starts, and `end` runs the ends, once, on any thread. An
    object that is not active does nothing. `record_function` does the same as a decorator and as a context manager.

    Args:
        scope: What kind of range it is.

    Attributes:
        scope: What kind of range it is: a `RecordScope`, or a phase of torchspan.
        name: The name, from `before` on.
        sequence_nr: Links a backward function to its forward function; -1 for none.
        thread_id: The logical id of the thread that ran the starts.
        forward_thread_id: The logical id of the forward function's thread; 0 for none.
        handle: A unique number from `before` on, where a callback needs ids; else 0.
        debug_handle: The program's own number for the range; -1 for none.
        operator_name: The name of an operator, such as `aten::add.Tensor`; else None.
        operator_schema: The schema of an operator; else None.
        num_inputs: How many inputs there are, positional and by name; 0 where no callback needs inputs.
        is_async: Whether the end comes, or came, on another thread than the start.
        error: In an end, the exception that ended the range; else None.
        attributes: The attributes of a phase of torchspan; empty for other ranges.

    Raises:
        TypeError: `scope` is not a `RecordScope`.
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
        if dynamo_safety.is_tracing() or dynamo_safety.is_symbolic(()):
            self._prepare(scope, REGISTRY, ())
        else:
            if type(scope) is not RecordScope:
                check_record_scope(scope)
            tree, _ = REGISTRY.tree()
            self._prepare(scope, REGISTRY, REGISTRY.picked(REGISTRY.interest(scope), tree))

    def _prepare(self, scope: Scope, registry: Registry, entries: Sequence[Entry]) -> None:
        self.scope = scope
        self._registry = registry
        self._entries = entries
        self._pairs: list[tuple[Entry, Any]] = []

    @classmethod
    def _opened(cls, interest: Interest, *, resumes: bool = False) -> RecordFunction | None:
        """One whose start and end share a frame: what is fired inside belongs to its tree. None where it is of no use.

        Args:
            resumes: Its body is left and entered again (`_enter`).
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
    def _of_event(cls, event: Event, registry: Registry, entries: Sequence[Entry]) -> RecordFunction:
        """How the user's callbacks see an event of the bridge. Their starts run here."""
        self = cls.__new__(cls)
        self._prepare(event.phase, registry, entries)
        self.attributes = event.attributes
        self._start(event.name, (), _EMPTY, -1)
        return self

    # --- its callbacks ----------------------------------------------------------------------------------------
    @property
    def is_active(self) -> bool:
        """Whether a callback runs, or has run, for it."""
        return bool(self._entries or self._pairs)

    @property
    def needs_inputs(self) -> bool:
        """Whether a callback needs the inputs. Otherwise they need not be gathered."""
        return any(entry.callback.needs_inputs for entry in self._entries)

    @property
    def needs_outputs(self) -> bool:
        """Whether a callback needs the outputs. Otherwise they need not be gathered."""
        return any(entry.callback.needs_outputs for entry in self._entries)

    # --- what goes in and comes out ---------------------------------------------------------------------------
    @property
    def inputs(self) -> tuple[Any, ...]:
        """The positional inputs; empty where no callback needs inputs.

        Raises:
            RuntimeError: It is read outside a start callback.
        """
        return self._valid_inputs()

    @property
    def kwinputs(self) -> Mapping[str, Any]:
        """The inputs by name; empty where no callback needs inputs.

        Raises:
            RuntimeError: It is read outside a start callback.
        """
        self._valid_inputs()
        return self._kwinputs

    def _valid_inputs(self) -> tuple[Any, ...]:
        if self._inputs is None:
            raise RuntimeError(
                "Called inputs outside RecordFunction start callback: return what the end needs from start"
            )
        return self._inputs

    @property
    def outputs(self) -> tuple[Any, ...]:
        """The outputs, from `set_outputs` to the last end callback. Empty if no callback needs outputs."""
        return self._outputs

    @property
    def num_outputs(self) -> int:
        """How many outputs there are."""
        return len(self._outputs)

    def set_outputs(self, outputs: Any) -> None:
        """Set the outputs, before `end`.

        Args:
            outputs: A tuple of outputs. Anything else is the only output.
        """
        if not dynamo_safety.is_tracing() and self.needs_outputs:
            self._outputs = outputs if type(outputs) is tuple else (outputs,)

    def set_async(self) -> None:
        """Announce that `end` will be called on another thread."""
        if not dynamo_safety.is_tracing():
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
        """Run the start callbacks. No reference to the inputs is kept when they have run.

        Args:
            name: The range's name.
            inputs: The positional inputs.
            kwinputs: The inputs by name.
            sequence_nr: Links a backward function to its forward function; -1 for none.

        Raises:
            TypeError: `name` is not a string.
        """
        if type(name) is not str and not dynamo_safety.is_tracing():
            check_text("name", name)
        if not dynamo_safety.is_tracing() and self._entries:
            dynamo_safety.undisturbed(self._start, name, inputs, kwinputs, sequence_nr)

    def _start(self, name: str, inputs: tuple[Any, ...], kwinputs: Mapping[str, Any], sequence_nr: int) -> None:
        """What `before` does, for a caller who is undisturbed already."""
        self.name = name
        self.sequence_nr = sequence_nr
        self.thread_id = _THREAD.id
        for entry in self._entries:
            if entry.callback.needs_ids and not self.handle:
                self.handle = next(_handles)
            if entry.callback.needs_inputs:
                self._inputs, self._kwinputs = tuple(inputs), kwinputs
                self.num_inputs = len(self._inputs) + len(kwinputs)
        if self._inputs is None:
            self._inputs = ()
        busy = self._registry.busy
        was_busy, busy.now = busy.now, True
        try:
            for entry in self._entries:
                context = entry.begin(self)
                if context is not FAILED:
                    self._pairs.append((entry, context))
        except BaseException as interrupt:  # the program's own: what has started is closed before it passes
            self._let_inputs_go()
            self._finish(interrupt)
            raise
        finally:
            busy.now = was_busy
            self._let_inputs_go()

    def _let_inputs_go(self) -> None:
        self._inputs, self._kwinputs = None, _EMPTY

    def _enter(self) -> Callable[[], object] | None:
        """Its body runs: what is fired there belongs to its tree, what is fired between does not. Returns what ends that."""
        if self._tree is None:
            return None
        before = CURRENT_TREE.get()
        CURRENT_TREE.set(self._tree)
        return functools.partial(CURRENT_TREE.set, before)

    def end(self, error: BaseException | None = None) -> None:
        """Run the ends of the callbacks whose start ran, last started first. A second call does nothing.

        Args:
            error: The exception that ended the range, which callbacks get as `error`.
        """
        if not dynamo_safety.is_tracing() and (self._pairs or self._is_root):
            dynamo_safety.undisturbed(self._finish, error)

    def _finish(self, error: BaseException | None) -> None:
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
            self._finish(None)
