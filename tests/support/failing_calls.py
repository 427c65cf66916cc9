# SPDX-License-Identifier: Apache-2.0
"""Calls of torchspan's functions are counted, and one of them fails.

`install()` adds a first statement to each function of torchspan while its module is compiled, so it must run before torchspan is
imported. It works on every Python that torchspan supports, unlike `sys.monitoring`. With a trace function, Dynamo would behave
differently.
"""

import ast
import builtins
import importlib.machinery
import signal
import sys
import threading
import weakref
from pathlib import Path

NAME = "__torchspan_call__"
"""What the first statement of each function calls, with the function's name."""

SWALLOWED = {
    "base.forks": ("_before", "_in_child", "Actions.run", "Actions.add.<lambda>"),
    "hooks.adapters.log_lines": ("tap_log.observed_log",),
    "hooks.adapters.tensorrt.build": (
        "monitor_for.ProgressMonitor.__init__", "monitor_for.ProgressMonitor.phase_start",
        "monitor_for.ProgressMonitor.step_complete", "monitor_for.ProgressMonitor.phase_finish",
    ),
}  # fmt: skip
"""Module -> functions that Python calls at a fork, or TensorRT in a build. Both print and ignore what these raise, also an interrupt."""

ABOVE_THE_GUARDS = SWALLOWED | {
    "base.background": ("Background._work",),
    "base.boundaries": ("ErrorBoundary.attempt", "ErrorBoundary.end", "ErrorBoundary.end.ending", "ErrorBoundary._attempt"),
    "base.errors": (
        "Guard.call", "Guard.end", "Guard._end_again", "Guard.caught",
    ),
    "base.flushing": ("_Call._run",),
    "base.imports": ("AroundImport.find_spec", "_wrap_loader.exec_module", "run_body"),
    "base.context.span_ends": ("_ending.end",),
    "base.context.threads": (
        "_starting.start", "_begin", "_submitting.submit", "_making.make", "within",
    ),
    "hooks.operators._block": (
        "operators.__init__", "operators.__enter__", "operators.__exit__", "operators.__call__", "operators.__call__.recorded",
        "_suspended_kind",
    ),
    "hooks.adapters.dynamo.compile_lock": (
        "_FollowedLock.__enter__", "_FollowedLock._take", "_FollowedLock._give_back", "_FollowedLock._wait", "_FollowedLock._guarded",
        "_Wait.__init__",
    ),
    "hooks.adapters.dynamo": ("_reporting.reported", "_returning.compiling"),
    "hooks.adapters.dynamo.workers": ("Workers.thread.submit",),
    "hooks.adapters.torch_tensorrt.passes": ("wrap_pass_manager.observed_passes",),
    "hooks.adapters.torch_tensorrt.observers": ("tap_observe.observed_observe",),
    "hooks.adapters.dynamo.frames": ("Frames.__init__.<lambda>",),
    "hooks.adapters.machinery.around": ("around.observed",),
    "hooks.adapters.machinery.wrap": ("RecordedCalls.bare.observed_event",),
    "hooks.adapters.engine_runs": (
        "EngineRuns._of_function.observed_run", "EngineRuns._of_module.observed_forward",
        "EngineRuns.decide", "EngineRuns._timing.timed", "EngineRuns._counting.counted", "EngineRuns._holding.hold",
    ),
    "words.sampling.ids": (
        "IdGenerator.generate_span_id", "IdGenerator.generate_trace_id", "IdGenerator.is_trace_id_random", "IdGenerator._number",
    ),
    "output.server_span": (
        "ServerSpans._make_processor.ServerSpanProcessor.on_start",
        "ServerSpans._make_processor.ServerSpanProcessor.on_end",
    ),
    "start.instrumentor": (
        "TorchspanInstrumentor.instrument", "TorchspanInstrumentor._enabling", "TorchspanInstrumentor.uninstrument",
        "instrument", "uninstrument", "flush",
    ),
    "engine.subscribers.record_function": ("RecordFunction.__del__",),
    "hooks.batching": ("batch.__init__", "_checked", "batch.__enter__", "batch.__exit__"),
    "engine.subscribers.function_wrappers": (
        "_before.recorded", "_of_function.recorded", "_of_function.observe", "_of_coroutine.recorded", "_of_generator.recorded",
        "_of_async_generator.recorded", "_begun", "_InBody.__init__", "_InBody.__enter__", "_InBody.__exit__",
        "_Steps.__init__", "_Steps.__iter__", "_Steps.__next__", "_Steps.send", "_Steps.throw", "_Steps.close",
        "_Ending.__init__", "_Ending.__enter__", "_Ending.__exit__", "_AsyncSteps.__init__", "_AsyncSteps.advance",
        "_AsyncSteps.send", "_AsyncSteps.throw",
    ),
    "output.sdk._file_exporter": ("FileSpanExporter.export",),
    "output.sdk._file_processor": (
        "RunFileProcessor.on_start", "RunFileProcessor.on_end", "RunFileProcessor.force_flush", "RunFileProcessor._write_later",
    ),
    "output.sdk._operator_spans": (
        "OperatorSpanProcessor.on_start", "OperatorSpanProcessor.on_end", "OperatorSpanProcessor.force_flush",
    ),
    "output.sdk._sampler": (
        "TorchspanSampler.should_sample", "TorchspanIdGenerator.generate_span_id", "TorchspanIdGenerator.generate_trace_id",
        "TorchspanIdGenerator.is_trace_id_random",
    ),
    "output.writer._instruments": ("_guarded.<lambda>",),
    "engine.subscribers.ranges": ("record_function", "RecordedRange.__init__", "RecordedRange.__enter__", "RecordedRange.__exit__"),
}  # fmt: skip
"""Module -> functions whose own failure would be the program's: nothing of torchspan's runs around them. `faults.md` lists them."""

_ABOVE = frozenset(f"torchspan.{module}.{name}" for module, names in ABOVE_THE_GUARDS.items() for name in names)


class _CallFirst(ast.NodeTransformer):
    """Adds the statement to functions, after a docstring, and to lambda expressions."""

    def __init__(self, module):
        self._path = [module]

    def visit_ClassDef(self, node):
        self._path.append(node.name)
        self.generic_visit(node)
        self._path.pop()
        return node

    def visit_FunctionDef(self, node):
        call = self._call(node, node.name)
        self._path.append(node.name)
        self.generic_visit(node)
        self._path.pop()
        has_docstring = ast.get_docstring(node, clean=False) is not None
        node.body.insert(1 if has_docstring else 0, ast.copy_location(ast.Expr(call), node))
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node):
        self.generic_visit(node)
        both = ast.Tuple([self._call(node, "<lambda>"), node.body], ast.Load())
        body = ast.Subscript(both, ast.Constant(1), ast.Load())
        for added in (both, body, body.slice):
            ast.copy_location(added, node)
        node.body = body
        return node

    def _call(self, node, name):
        place = ast.Constant(".".join([*self._path, name]))
        call = ast.Call(ast.Name(NAME, ast.Load()), [place], [])
        return ast.fix_missing_locations(ast.copy_location(call, node))


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname):
        path = self.get_filename(fullname)
        tree = ast.parse(Path(path).read_bytes(), path)
        return compile(_CallFirst(fullname).visit(tree), path, "exec", dont_inherit=True)


class _Finder:
    """Finds torchspan's modules where Python finds them."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] != "torchspan" or name.startswith(
            ("torchspan.hooks.without_gpu", "torchspan.testing")
        ):  # the stand-in for a GPU
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


class Calls:
    """The calls of torchspan's functions, from `count` or `fail` to `stop`."""

    def __init__(self):
        self.places = []
        """The names of the functions that were called since `count`, in the order of their calls."""
        self.stack = []
        """The innermost frames of the call that has failed, outermost first: `module, line`."""
        self.is_in_thread = False
        """Whether another thread than the main one has made it. Python prints there what is not handled."""
        self._is_counting = False
        self._left = 0
        self._error = None

    def count(self):
        self.places, self._is_counting = [], True

    def fail(self, number, error):
        """Let call `number`, from 1, raise `error`: an exception, or a signal, which Python handles as one from outside."""
        self._left, self._error = number, error

    def stop(self):
        self._is_counting, self._left = False, 0

    def __call__(self, place):
        if place in _ABOVE:
            return
        if self._is_counting:
            self.places.append(place)
        if self._left:
            self._left -= 1
            if not self._left:
                self.stack = _stack(sys._getframe(1))
                self.is_in_thread = threading.current_thread() is not threading.main_thread()
                if isinstance(self._error, signal.Signals):
                    signal.raise_signal(self._error)
                else:
                    raise self._error


def _stack(frame, depth=12):
    places = []
    while frame is not None and len(places) < depth:
        places.insert(0, f"{frame.f_globals.get('__name__')}:{frame.f_lineno} {frame.f_code.co_name}")
        frame = frame.f_back
    return places


CALLS = Calls()


class Locks:
    """The locks that torchspan makes."""

    def __init__(self):
        self._made = weakref.WeakKeyDictionary()

    def watch(self):
        for name in ("Lock", "RLock"):
            setattr(threading, name, self._remembering(getattr(threading, name)))

    def _remembering(self, make):
        def made():
            lock = make()
            caller = sys._getframe(1)
            if caller.f_globals.get("__name__", "").startswith("torchspan"):
                self._made[lock] = f"{caller.f_globals['__name__']}:{caller.f_lineno}"
            return lock

        return made

    def held(self):
        """Where the locks were made that another thread cannot take now."""
        held = []

        def take():
            for lock, place in list(self._made.items()):
                if lock.acquire(blocking=False):
                    lock.release()
                else:
                    held.append(place)

        thread = threading.Thread(target=take)
        thread.start()
        thread.join()
        return sorted(held)


LOCKS = Locks()


def install():
    """Raises RuntimeError when torchspan has been imported."""
    if "torchspan" in sys.modules:
        raise RuntimeError("torchspan has been imported already")
    setattr(builtins, NAME, CALLS)
    LOCKS.watch()
    sys.meta_path.insert(0, _Finder())
