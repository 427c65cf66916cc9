# SPDX-License-Identifier: Apache-2.0
"""Every setting, once: a row of `Settings` or of `Variables`. What reads, documents or offers a setting derives from its row.

An argument wins over an option of a configuration file, the option over the environment variable, the variable over the
default. `tools/generate_settings_page.py` writes the signature of `instrument()` and the page of settings from the rows.
"""

# Every Python that an instrumented program starts imports this: what only an error needs is imported there.

from __future__ import annotations

import enum
import functools
import math
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Generic, Literal, TypeVar

from torchspan.base.logs import Log
from torchspan.exceptions import ConfigurationError
from torchspan.words.sampling.rules import SETTING, SamplingRules
from torchspan.words.settings import kinds

logger = Log("torchspan", names_itself=True)

T = TypeVar("T")

PREFIX = "TORCHSPAN_"
"""What the name of each variable begins with."""

LONGEST_NAME = 64
"""Characters of a name that are compared with the known ones."""

SHOWN = 500
"""Characters of an invalid value in a message."""

SHARE = kinds.Number("a number from 0 to 1", 0, 1, zero=True)
RATE = kinds.Number("a number above 0, at most 1000000", 0, 1_000_000)


# --- the rows -------------------------------------------------------------------------------------------------------
class Setting(Generic[T]):
    """One setting: a row of a class, whose name there is that of the setting. It is read from an object of the class.

    Args:
        kind: The values that it may have.
        default: The value in use when neither argument, option nor variable is given.
        doc: What it does, for the tables and the help of commands.
        option: The option of `torchspan run` and `torchspan demo`; None: they have none.
        default_text: The default in words, where `default` alone does not say what happens.
        option_value: The value that the option stands for, if it takes none.

    Attributes:
        name: The argument of `instrument()`.
        variable: The environment variable.
    """

    __slots__ = ("default", "default_text", "doc", "kind", "name", "option", "option_value", "variable")

    def __init__(
        self,
        kind: kinds.SettingKind,
        default: T,
        doc: str,
        *,
        option: str | None = None,
        default_text: str | None = None,
        option_value: str | None = None,
    ) -> None:
        self.kind, self.default, self.doc = kind, default, doc
        self.option, self.default_text, self.option_value = option, default_text, option_value

    def __set_name__(self, owner: type, name: str) -> None:
        self.name, self.variable = name, f"{PREFIX}{name.upper()}"

    def __get__(self, settings: Any, owner: type | None = None) -> T:
        value: T = settings[self.name]
        return value


def _rows(owner: type) -> tuple[Setting[Any], ...]:
    return tuple(row for row in vars(owner).values() if isinstance(row, Setting))


class Settings(dict[str, Any]):
    """The settings in use, by name: those that are given, and the defaults of the others."""

    __slots__ = ()

    detail = Setting(
        kinds.Choice("stages", "passes"),
        "stages",
        "`stages`: a span for each stage of a compilation. `passes`: a span for each lowering pass, too.",
        option="--detail",
    )
    build_phases = Setting(
        kinds.Choice("auto", "on", "off"),
        "auto",
        "`on` or `off`: whether TensorRT's build phases are spans below the engine build. "
        "`auto`: only under `torchspan run` and `torchspan demo`, with TensorRT-RTX.",
    )
    heartbeat: Setting[float | None] = Setting(
        kinds.Number("0 for none, or 0.1 to 86400 seconds", 0.1, 86_400, zero=True),
        None,
        "Seconds between the `torchspan.progress` spans of a long compilation. "
        "The first comes after 2 s at the latest. Not set: 2, 7, 17, 37 and 77 s after its start, then every 60 s.",
        default_text="gaps of 5 to 60 s",
    )
    capture: Setting[Literal["local", "none", "text"]] = Setting(
        kinds.Choice("local", "none", "text"),
        "local",
        "Who gets the texts of messages and guards whole. `local`: the file that `torchspan run` makes, the terminal on which it "
        "ends, and `torchspan.testing.capture()`. Exporters get what the table of messages lets through. `none`: no one. `text`: "
        "exporters too, and paths of source files are absolute.",
    )
    events: Setting[Literal["span", "log"]] = Setting(
        kinds.Choice("span", "log"),
        "span",
        "What torchspan's events are, such as graph breaks and lines of TensorRT's log. `span`: events of spans. `log`: log records with "
        "the ids of their spans; events of spans where no logger provider accepts them. The file of `torchspan run` and "
        "`torchspan.testing.capture()` have them on spans in any case.",
    )
    propagation = Setting(
        kinds.Choice("on", "links", "off"),
        "on",
        "`on`: the context is propagated into threads, pools and processes. `links`: the same, but the span that started this "
        "process becomes a link instead of a parent. `off`: the context is not propagated.",
    )
    without_gpu = Setting(
        kinds.Switch(),
        False,
        "Run Torch-TensorRT's pipeline on a machine without a GPU.",
        option="--without-gpu",
    )
    ready_after: Setting[str | None] = Setting(
        kinds.FunctionPath(),
        None,
        "`module:function`: the program is ready to serve once this function has returned; later compilations are marked "
        "`torchspan.while_serving`.",
        default_text="when the program calls `torchspan.mark_ready()`",
    )
    sample_other: Setting[float | None] = Setting(
        SHARE,
        None,
        "With torchspan's sampler: the share of traces in which the program's own spans are kept.",
        default_text="`1`",
    )
    sample_execute: Setting[float | None] = Setting(
        SHARE,
        None,
        "The share of engine runs outside every span that begin a trace. With another sampler than torchspan's, a value above "
        "`0` leaves the decision to that sampler.",
        default_text="`0`",
    )
    sample_execute_per_second: Setting[float | None] = Setting(
        RATE,
        None,
        "How many runs of one engine may be spans within a second, in addition to its first run and failed runs.",
        default_text="`10`, none with a target",
    )
    sample_execute_target: Setting[float | None] = Setting(
        RATE,
        None,
        "With torchspan's sampler: how many engine runs per second are spans in a process, however many runs there are.",
        default_text="no target",
    )
    ranks = Setting(
        kinds.Ranks(),
        "all",
        "The ranks of a distributed job that record torchspan's spans. Every rank records metrics. A process without a rank "
        "records spans.",
    )
    graph_runs = Setting(
        kinds.Switch(),
        False,
        "Runs of graphs that `torch.compile` compiles after instrumentation are spans, within the limits and rules of engine runs.",
    )
    operators = Setting(
        kinds.Choice("off", "sampled", "on"),
        "off",
        "Where PyTorch's operators are spans. `off`: only in blocks `with torchspan.operators()`. `sampled`: also below runs of engines "
        "and compiled graphs, and observed functions, in traces that the sampler has kept. `on`: below each of these that is recorded; "
        "runs that nothing surrounds are recorded as well, within their limits. Needs a library that "
        "`python -m torchspan.native build` builds.",
        option="--operators",
        option_value="on",
    )
    gpu_time = Setting(
        kinds.Choice("off", "sampled"),
        "off",
        "`sampled`: runs of engines and compiled graphs that have a span also have their time on the device, between two CUDA events "
        "on the program's stream. torchspan never waits for the device.",
    )
    layers = Setting(
        kinds.EngineLayers(),
        "off",
        "The engine whose layers TensorRT times in its next runs that are spans: its name, or `*` for each engine, and after a colon the "
        "number of these runs (`*:50`; without it 20). TensorRT waits for the device at the end of each of these runs.",
    )
    inputs = Setting(
        kinds.FollowedClasses(),
        "off",
        "The modules whose calls are counted by the shapes of their arguments. `compiled`: the modules that Torch-TensorRT "
        "compiles, or that the program loads, after instrumentation. `module:Class`: the objects of a class that are created after "
        "instrumentation. Separate several by commas.",
    )
    inputs_every = Setting(
        kinds.Number("a whole number from 1 to 1000000000", 1, 1_000_000_000, whole=True),
        100,
        "Of the calls that `inputs` counts, one in this many is an event on the current span, and so is the first of each shape.",
    )

    def __init__(self, **given: Any) -> None:
        super().__init__({row.name: row.default for row in SETTINGS}, **given)


class Variables:
    """The environment variables that are not arguments of `instrument()`."""

    file = Setting(
        kinds.AnyText(),
        "torchspan-%t-%p.jsonl",
        "File of the exporter `torchspan_file` (`OTEL_TRACES_EXPORTER=torchspan_file`). "
        "`%p` is the process id, `%t` the time at which the process started. Pipes, devices and links are refused.",
    )
    file_max_size = Setting(
        kinds.Number("a positive number of bytes", 1, math.inf, whole=True),
        268_435_456,
        "Bytes at which that exporter stops writing to its file.",
    )
    file_mode = Setting(
        kinds.Permissions(),
        0o600,
        "Permissions of the files of traces that torchspan creates, in octal digits: `640` lets the group read them.",
        default_text="600",
    )
    run_exit_timeout = Setting(
        kinds.Number("0 to 86400 seconds", 0, 86_400, zero=True),
        2.0,
        "Seconds that a program under `torchspan run` and its processes may wait at their ends for exporters that `run` created.",
        default_text="2",
    )
    native_build = Setting(
        kinds.Choice("off", "on"),
        "off",
        "`on`: a program that records operators builds the library for it where there is none for its PyTorch (up to 30 "
        "seconds). `off`: it says which command builds it.",
        default_text="off",
    )
    run = Setting(
        kinds.AnyText(),
        None,
        "Set by `torchspan run` for the processes that it starts: what they need to know about the run, as JSON.",
        default_text="",
    )


SETTINGS = _rows(Settings)
VARIABLES = _rows(Variables)

PROVIDERS = {"tracer_provider": "get_tracer", "meter_provider": "get_meter", "logger_provider": "get_logger"}
"""The other arguments of `instrument()`, and the method that each value must have."""

CONVENTIONAL = frozenset({"logger_provider", "skip_dep_check", "raise_exception_on_conflict"})
"""Arguments that distros and OpenTelemetry's loader pass to every instrumentor."""

ARGUMENTS = (*PROVIDERS, *(setting.name for setting in SETTINGS))
"""The names that `instrument()` takes."""


# --- what holds -----------------------------------------------------------------------------------------------------
class Source(enum.Enum):
    """Where the value of a setting comes from. The first one that has a valid value wins."""

    ARGUMENT = "argument"
    FILE = "configuration file"
    VARIABLE = "variable"
    DEFAULT = "default"


class Resolved:
    """A setting, and what holds for it.

    Args:
        refused: The message about the values that are invalid, with where they are given, what is allowed, and what
            is used instead; None if there is none.
    """

    __slots__ = ("refused", "setting", "source", "value")

    def __init__(self, setting: Setting[Any], value: Any, source: Source, refused: str | None) -> None:
        self.setting, self.value, self.source, self.refused = setting, value, source, refused


_warned: dict[tuple[str, ...], object] = {}
"""What this process has been warned of, and the call that did so."""


def load(
    arguments: Mapping[str, Any], environment: Mapping[str, str] = os.environ, file: Mapping[str, Any] | None = None
) -> Settings:
    """The settings that `resolved` finds. Each invalid value is one warning in a process, however often it is read.

    Raises ConfigurationError for an argument with an invalid value.
    """
    rows = resolved(arguments, file=file, environment=environment)
    for row in rows:
        _warn(row, environment, file)
    for name, meant in unknown_variables(environment).items():
        # Where a service is called torchspan, Kubernetes sets TORCHSPAN_SERVICE_HOST and more: these mean something else.
        if meant is not None and _is_first(name):
            logger.warning("Unknown variable %s, ignored (did you mean %s?)", name[:LONGEST_NAME], meant)
    return Settings(**{row.setting.name: row.value for row in rows})


def resolved(
    arguments: Mapping[str, Any], *, file: Mapping[str, Any] | None = None, environment: Mapping[str, str] = os.environ
) -> tuple[Resolved, ...]:
    """What holds for each of `SETTINGS`, in their order. An invalid value counts as none.

    Raises ConfigurationError for an argument with an invalid value.

    Args:
        arguments: Those of `instrument()`; None: not given.
        file: The options in a configuration file; None: not given.
        environment: Default: the process's.
    """
    in_code = passed(arguments)
    return tuple(_resolved(setting, environment, in_code, file or {}) for setting in SETTINGS)


def resolved_variables(environment: Mapping[str, str] = os.environ) -> tuple[Resolved, ...]:
    """What holds for each of `VARIABLES`, in their order. An invalid value counts as none."""
    return tuple(_resolved(row, environment) for row in VARIABLES)


def resolved_variable(name: str, environment: Mapping[str, str] = os.environ) -> Resolved:
    """What holds for one of `VARIABLES`, by its name. An invalid value counts as none."""
    return next(_resolved(row, environment) for row in VARIABLES if row.variable == name)


def value_of(name: str, environment: Mapping[str, str] = os.environ) -> Any:
    """The value of one of `VARIABLES`, by its name. An invalid one is one warning in a process, and the default holds."""
    resolved = resolved_variable(name, environment)
    _warn(resolved, environment, None)
    return resolved.value


def sampling(settings: Settings) -> dict[str, float]:
    """Those of the sampler's rules that are set, by their names as rules."""
    rules = {name: settings[f"{SETTING}{name}"] for name in SamplingRules._fields}
    return {name: value for name, value in rules.items() if value is not None}


def passed(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the arguments that are given (not None); names that `instrument()` does not take are left out.

    Raises ConfigurationError for an invalid value.
    """
    values: dict[str, Any] = {}
    for name, method in PROVIDERS.items():
        provider = arguments.get(name)
        if provider is not None:
            if isinstance(provider, type) or not callable(getattr(provider, method, None)):
                raise _invalid(name, provider, f"an object with the method {method}")
            values[name] = provider
    for setting in SETTINGS:
        value = arguments.get(setting.name)
        if value is not None:
            try:
                values[setting.name] = setting.kind.parse(value)
            except ValueError:
                raise _invalid(setting.name, value, setting.kind.expected) from None
    return values


def _invalid(name: str, value: object, expected: str) -> ConfigurationError:
    return ConfigurationError(f"invalid value for {name}: {_shown(value)} (expected {expected})")


def _resolved(
    row: Setting[Any],
    environment: Mapping[str, str],
    in_code: Mapping[str, Any] = {},
    file: Mapping[str, Any] = {},
) -> Resolved:
    sources = {Source.DEFAULT: row.default}
    refused: list[str] = []
    text, option = environment.get(row.variable, "").strip(), file.get(row.name)
    if text:
        try:
            sources[Source.VARIABLE] = row.kind.read(text)
        except ValueError:
            refused.append(f"{row.variable}={_shown(environment[row.variable])}")
    if option is not None:
        try:
            sources[Source.FILE] = row.kind.read_option(option)
        except ValueError:
            refused.append(f"{row.name}={_shown(option)} in the configuration file")
    if row.name in in_code:
        sources[Source.ARGUMENT] = in_code[row.name]
    source = next(source for source in Source if source in sources)
    message = None
    if refused:
        in_use = f"{source.value} {sources[source]!r}"
        if source is Source.DEFAULT and row.default_text:
            in_use = f"the default ({row.default_text})" if row in SETTINGS else f"default {row.default_text}"
        message = f"Invalid {' and '.join(refused)}, using {in_use} (expected {row.kind.expected})"
    return Resolved(row, sources[source], source, message)


# --- what is said ---------------------------------------------------------------------------------------------------
class UnknownArgumentError(TypeError):
    """`instrument()` was called with an argument that it does not take."""


def refuse_unknown(names: Iterable[str]) -> None:
    """Raises UnknownArgumentError for the first name that `instrument()` does not take; suggests the name that was meant."""
    for name in names:
        if name not in ARGUMENTS:
            from torchspan.base.spelling import hint

            raise UnknownArgumentError(f"instrument() got an unexpected argument {name!r} ({hint(name, ARGUMENTS)})")


def refuse_misspelled(names: Iterable[str]) -> None:
    """Raises UnknownArgumentError for the first name that is almost one that `instrument()` takes. Leaves other names alone."""
    unknown = [name for name in names if name not in ARGUMENTS and name not in CONVENTIONAL]
    if unknown:
        from torchspan.base.spelling import closest  # a millisecond, with the search, of each start

        refuse_unknown(name for name in unknown if closest(name, ARGUMENTS))


def unknown_variables(environment: Mapping[str, str] = os.environ) -> dict[str, str | None]:
    """The variables that begin as torchspan's do and are none, each with the name that was meant, as far as that is clear."""
    known = {row.variable.removeprefix(PREFIX): row.variable for row in (*SETTINGS, *VARIABLES)}
    names = sorted(name.removeprefix(PREFIX) for name in environment if name.startswith(PREFIX))
    unknown = [name for name in names if name not in known]
    if unknown:
        from torchspan.base.spelling import closest
    # Without the beginning that they share: it would allow for more mistakes in the rest.
    return {f"{PREFIX}{name}": known.get(closest(name[:LONGEST_NAME], known) or "") for name in unknown}


@functools.cache
def options() -> type:
    """A dataclass of what a configuration file may set: a field for each setting, None where it is not given.

    OpenTelemetry's declarative configuration hands the values that are not None to `instrument()`. With the defaults of
    `Settings`, a file that sets one of them would keep the environment from setting the others. An option that does not
    exist is one warning: if it raised, OpenTelemetry would log the traceback and drop the other options.
    """
    import dataclasses

    names = [setting.name for setting in SETTINGS]

    def init(self: Any, **options: Any) -> None:
        for name in options:
            if name not in names:
                _warn_of_unknown_option(name, names)
        for name in names:
            object.__setattr__(self, name, options.get(name))

    fields = [(name, Any, None) for name in names]
    namespace = {"__module__": __name__, "__init__": init}
    return dataclasses.make_dataclass("Options", fields, namespace=namespace, frozen=True, init=False)


def _warn_of_unknown_option(name: str, known: Iterable[str]) -> None:
    from torchspan.base.spelling import hint
    from torchspan.words.config_file import PLACE

    if _is_first(PLACE, name):
        meant = hint(name[:LONGEST_NAME], known)
        logger.warning("Unknown option %s of %s in the configuration file, ignored (%s)", _shown(name), PLACE, meant)


def _warn(row: Resolved, environment: Mapping[str, str], file: Mapping[str, Any] | None) -> None:
    """Log what was refused, unless that has been done: the sampler, the exporters and each `instrument()` read settings."""
    option = None if file is None else file.get(row.setting.name)
    if row.refused and _is_first(row.setting.variable, environment.get(row.setting.variable, ""), _shown(option)):
        logger.warning("%s", row.refused)


def _is_first(*about: str) -> bool:
    if _parent_has_warned():
        return False
    call = object()
    return _warned.setdefault(about, call) is call  # of two threads, one


_INSTRUMENTED_BY = ("opentelemetry.instrumentation.auto_instrumentation", "torchspan.hooks.propagation._processes")
"""Modules that are loaded before the settings are read, where the environment or the starting process enables torchspan."""


def _parent_has_warned() -> bool:
    """Whether `multiprocessing` started this process from one with the same settings, which has read them."""
    by_multiprocessing = any("from multiprocessing." in text for text in sys.orig_argv[:20])
    return by_multiprocessing and any(name in sys.modules for name in _INSTRUMENTED_BY)


def _shown(value: object) -> str:
    """The value in a message: its beginning, where it is long."""
    try:
        text = repr(value)
    except Exception:  # an int of thousands of digits, or an object of the program's
        return f"<{type(value).__name__}>"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def describe(name: str, value: object) -> str:
    """The value of an argument, for a message."""
    texts = {setting.name: setting.default_text for setting in SETTINGS if setting.default_text}
    return texts[name] if value is None and name in texts else repr(value)
