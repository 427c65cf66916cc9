# SPDX-License-Identifier: Apache-2.0
"""Exceptions, functions, observers and callbacks of the program's, and its own telemetry."""

import asyncio
import contextvars
import json
import logging
import subprocess
import sys
import threading
import types
import warnings
from concurrent.futures import ThreadPoolExecutor

import torch
import torch_tensorrt
from opentelemetry import baggage, context, metrics, trace

from torchspan import observers
from torchspan.callbacks import RecordFunctionCallback, add_global_callback, record_function, remove_callback
from torchspan.observers import Observer, observable

IS_3_11 = sys.version_info >= (3, 11)


def plant(place):
    """Everything that needs no compilation."""
    _exceptions(place)
    _classes(place)
    _functions(place)
    _files(place)
    _observers(place)
    _callbacks(place)
    _describing(place)
    _surroundings(place)
    _own_telemetry(place)


def raised(place, error, *names):
    """The error passes an observed function."""

    def body():
        raise error

    with place.raises(*names):
        place.call(body)


# --- exceptions ------------------------------------------------------------------------------------------------
def _exceptions(place):
    class Thing:
        def __init__(self, text):
            self.text = text

        def __repr__(self):
            return self.text

    class Text(str):
        __slots__ = ()

    said, shown = place("exception.str"), place("exception.repr")

    class Says(Exception):
        def __str__(self):
            return said

        def __repr__(self):
            return shown

    plain = {
        "exception.message": ValueError,
        "exception.argument.dict": lambda text: ValueError({text: text}),
        "exception.argument.object": lambda text: ValueError(Thing(text)),
        "exception.argument.subclass": lambda text: ValueError(Text(text)),
        "exception.lines": lambda text: ValueError(f"{text}\n{text}\n\n{text}"),
        "exception.large": lambda text: ValueError(f"{text} " * 20_000),
        "exception.key": KeyError,
        "exception.unicode": lambda text: UnicodeDecodeError("utf-8", text.encode(), 0, 1, text),
        "exception.attribute": lambda text: AttributeError(text, name=text, obj=text),
        "exception.subprocess.command": lambda text: subprocess.CalledProcessError(1, [text], text, text),
        "exception.json": lambda text: json.JSONDecodeError(text, text, 0),
    }
    for name, make in plain.items():
        raised(place, make(place(name)), name)
    raised(place, FileNotFoundError(2, "No such file", place("exception.os.path"), None, place("exception.os.second_path")), "exception.os.path")  # fmt: skip
    raised(place, Says(), "exception.str")
    with place.raises("exception.import.name"):
        place.call(lambda: __import__(place("exception.import.name")))
    noted = RuntimeError("noted")
    noted.__notes__ = [place("exception.note")]
    raised(place, noted, "exception.note")
    for name, kind in (("exception.cause", "__cause__"), ("exception.context", "__context__")):
        error = RuntimeError("chained")
        setattr(error, kind, ValueError(place(name)))
        raised(place, error, name)
    suppressed = RuntimeError("suppressed")
    suppressed.__context__, suppressed.__suppress_context__ = ValueError(place("exception.suppressed")), True
    raised(place, suppressed, "exception.suppressed")
    message, member = place("exception.group.message"), place("exception.group.member")
    if IS_3_11:
        raised(place, ExceptionGroup(message, [ValueError(member)]), "exception.group.message")  # noqa: F821


def _classes(place):
    def made(name, **names):
        return type(name, (Exception,), {"__module__": "program", **names})

    raised(place, made(place("exception.class.identifier"))("x"), "exception.class.identifier")
    raised(place, made(place("exception.class.text"))("x"), "exception.class.text")
    raised(place, made("Own", __module__=place("exception.class.module"))("x"), "exception.class.module")
    raised(place, made("Own", __qualname__=place("exception.class.qualname"))("x"), "exception.class.qualname")
    nested = made("Own", __qualname__=f"outer.<locals>.{place('exception.class.nested')}")
    raised(place, nested("x"), "exception.class.nested")
    derived = type(place("exception.from_torch.class"), (torch.cuda.OutOfMemoryError,), {"__module__": "torch"})
    with place.raises("exception.from_torch.class"):
        place.call(lambda: torch._check_with(derived, False, lambda: "x"))
    with place.raises("exception.handed_to_torch"):
        place.call(_raises_in_torch, place("exception.handed_to_torch"))


def _raises_in_torch(text):
    """The program's exception, raised again by PyTorch's frame."""

    class Module(torch.nn.Module):
        def __getattr__(self, name):
            raise AttributeError(text)

    torch.nn.Module.get_submodule(Module(), "missing")


# --- functions -------------------------------------------------------------------------------------------------
def _functions(place):
    def called(name, *args, **kwargs):
        def function(*_args, **_kwargs):
            return None

        function.__qualname__ = function.__name__ = name
        place.call(function, *args, **kwargs)

    called(place("function.name.identifier"))
    called(place("function.name.text"))
    called(f"{place('function.name.control')}\x1b[31m\n\u202e")
    called(place("function.name.long") * 10_000)
    for name in ("function.module.identifier", "function.module.text"):

        def function():
            raise ValueError

        module = types.FunctionType(function.__code__, {"__name__": place(name), "__builtins__": __builtins__})
        module.__module__ = place(name)
        with place.raises(name):
            place.call(module)
    called("plain", place("function.argument"), **{place("function.keyword.name"): place("function.keyword.value")})

    secret, default = place("function.closure"), place("function.default")

    def whole(x=default):
        local = place("function.local")
        return place("function.result"), local, secret

    whole.__annotations__ = {"x": place("function.annotation")}
    whole.__doc__ = place("function.docstring")
    place.call(whole)
    for name in ("function.raises.name.identifier", "function.raises.name.text"):

        def raises():
            raise ValueError

        renamed = raises.__code__.replace(co_name=place(name), **({"co_qualname": place(name)} if IS_3_11 else {}))
        with place.raises(name):
            place.call(lambda code=renamed: types.FunctionType(code, globals())())

    @observable
    def generator():
        yield place("function.generator")
        raise ValueError(place("function.generator"))

    with place.raises("function.generator"):
        list(generator())

    @observable
    async def coroutine():
        raise ValueError(place("function.coroutine"))

    with place.raises("function.coroutine"):
        asyncio.run(coroutine())


def _files(place):
    """Where code is: under a text for a file's name, in a home folder, in a file of the user's naming."""
    names = {
        "function.file.text": f"<{place('function.file.text')} select * from users>",
        "function.file.home": str(_written(place.folder / "home" / place("function.file.home") / "model.py")),
        "function.file.name": str(_written(place.folder / "home" / f"{place('function.file.name')}.py")),
    }
    sys.path.insert(0, str(place.folder / "home"))
    for name, file in names.items():
        scope = {"__name__": "users_module"}
        exec(compile("def fails():\n    raise ValueError", file, "exec"), scope)
        with place.raises(name):
            place.call(scope["fails"])
    sys.path.pop(0)


def _written(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("def fails():\n    raise ValueError\n", encoding="utf-8")
    return path


# --- observers and callbacks -----------------------------------------------------------------------------------
def _observers(place):
    def fails(*_args, **_kwargs):
        raise ValueError(place("observer.raises"))

    fails.__qualname__ = fails.__name__ = place("observer.callback.name")

    def body():
        for name in ("observer.name.identifier", "observer.name.text"):
            observer = Observer(place(name))
            with observer.add(lambda *_args, **_kwargs: None), observer.add(fails):
                for _ in range(5):
                    observer.observe(place("observer.argument"))
        theirs = getattr(torch_tensorrt.dynamo, "observer", None)
        name = place("observer.tensorrt.name")
        if theirs is not None:
            theirs.Observer(name).observe(place("observer.argument"))

    with observers.torch.export.pre.add(fails):
        place.call(body)
    body()


def _callbacks(place):
    def start(_record):
        raise ValueError(place("callback.raises.start"))

    def end(_record, _context):
        raise ValueError(place("callback.raises.end"))

    start.__qualname__ = start.__name__ = place("callback.name")
    handles = [
        add_global_callback(RecordFunctionCallback(start, needs_inputs=True)),
        add_global_callback(RecordFunctionCallback(lambda _record: None, end, needs_outputs=True)),
    ]
    for _ in range(5):
        with record_function(place("record.name"), inputs=(place("record.input"),)) as record:
            record.set_outputs(place("record.output"))
        place.call(lambda: None)
    for handle in handles:
        remove_callback(handle)


def _describing(place):
    """Objects whose own code raises while they are described; the library calls it as well, or does not."""

    class Raises:
        def __init__(self, name, text):
            vars(self).update(name=name, text=text)

        @property
        def shape(self):
            raise ValueError(self.text)

    class NoClass:
        def __init__(self, text):
            vars(self)["text"] = text

        @property
        def __class__(self):
            raise ValueError(vars(self)["text"])

    class NoAttributes:
        def __init__(self, text):
            object.__setattr__(self, "text", text)

        def __getattr__(self, name):
            raise ValueError(object.__getattribute__(self, "text"))

    given = (
        Raises("shape", place("describe.shape.raises")),
        NoClass(place("describe.class.raises")),
        NoAttributes(place("describe.getattr.raises")),
    )
    for each in given:
        try:
            torch_tensorrt.dynamo.trace(torch.nn.ReLU(), arg_inputs=(each,))
        except Exception:
            continue


# --- what is around --------------------------------------------------------------------------------------------
def _surroundings(place):
    def fails():
        raise ValueError

    def attempt():
        with place.raises("thread.name"):
            place.call(fails)

    thread = threading.Thread(target=attempt, name=place("thread.name"))
    thread.start()
    thread.join()
    with ThreadPoolExecutor(1, thread_name_prefix=place("thread.pool.prefix")) as pool:
        pool.submit(attempt).result()

    async def task():
        await asyncio.create_task(asyncio.sleep(0), name=place("task.name"))
        place.call(lambda: None)

    asyncio.run(task())
    contextvars.ContextVar(place("context_variable.name")).set(place("context_variable.value"))
    logger = logging.getLogger(place("logger.name"))
    with place.raises("logger.message"):
        place.call(_logs, logger, place("logger.message"))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        place.call(warnings.warn, place("warning.text"))


def _logs(logger, text):
    try:
        raise ValueError(text)
    except ValueError:
        logger.exception(text)
        raise


def _own_telemetry(place):
    """The program's own spans and metrics: what it writes there is its own, and stays there."""
    tracer = trace.get_tracer(place("user.scope.name"))
    link = trace.Link(trace.SpanContext(1, 2, is_remote=True), {"text": place("user.link.attribute")})
    carried = baggage.set_baggage(place("baggage.key"), place("baggage.value"))
    state = trace.TraceState([(place("tracestate").lower(), "value")])
    parent = trace.SpanContext(0xABC << 100 | 1, 0xDEF << 40 | 1, True, trace.TraceFlags(1), state)
    token = context.attach(trace.set_span_in_context(trace.NonRecordingSpan(parent), carried))
    try:
        with tracer.start_as_current_span(place("user.span.name"), links=[link]) as span:
            span.set_attribute("text", place("user.span.attribute"))
            span.add_event(place("user.event.name"))
            span.set_status(trace.Status(trace.StatusCode.ERROR, place("user.status")))
            observable(lambda: None)()
    finally:
        context.detach(token)
    counter = metrics.get_meter("user").create_counter(place("user.metric.name"))
    counter.add(1, {"text": place("user.metric.attribute")})
