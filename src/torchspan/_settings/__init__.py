# SPDX-License-Identifier: Apache-2.0
"""Every setting, once: a row of `SETTINGS`. What reads, documents or offers a setting derives from its row.

An argument wins over an option of a configuration file, the option over the environment variable, the variable over the
default.
"""

# Every Python that an instrumented program starts imports this: what only an error needs is imported there.

from __future__ import annotations

import enum
import functools
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, get_type_hints

from torchspan import environment_variables as env
from torchspan._base.logs import Log
from torchspan._sampling.rules import SETTING, SamplingRules
from torchspan._settings.kinds import (
    AnyText,
    Bytes,
    Choice,
    EngineLayers,
    FollowedClasses,
    FunctionPath,
    Number,
    Permissions,
    Ranks,
    Seconds,
    SettingKind,
    Switch,
    Whole,
)
from torchspan.exceptions import ConfigurationError

logger = Log("torchspan", names_itself=True)

Detail = Literal["stages", "passes"]
BuildPhases = Literal["auto", "on", "off"]
Capture = Literal["local", "none", "text"]
Events = Literal["span", "log"]
Propagation = Literal["on", "links", "off"]
Operators = Literal["off", "sampled", "on"]
GpuTime = Literal["off", "sampled"]


class Settings(NamedTuple):
    """The settings in use: a field for each row of `SETTINGS`, with the row's default."""

    # A frozen dataclass would take 1.5 ms to make, half of what starting torchspan takes.

    detail: Detail = "stages"
    build_phases: BuildPhases = "auto"
    capture: Capture = "local"
    events: Events = "span"
    propagation: Propagation = "on"
    heartbeat: float | None = None
    without_gpu: bool = False
    ready_after: str | None = None
    sample_other: float | None = None
    sample_execute: float | None = None
    sample_execute_per_second: float | None = None
    sample_execute_target: float | None = None
    ranks: str = "all"
    graph_runs: bool = False
    operators: Operators = "off"
    gpu_time: GpuTime = "off"
    layers: str = "off"
    inputs: str = "off"
    inputs_every: int = 100


@functools.cache
def options() -> type:
    """A dataclass of what a configuration file may set: the fields of `Settings`, each None where it is not given.

    OpenTelemetry's declarative configuration hands the values that are not None to `instrument()`. With the defaults of
    `Settings`, a file that sets one of them would keep the environment from setting the others. An option that does not
    exist is one warning: if it raised, OpenTelemetry would log the traceback and drop the other options.
    """
    import dataclasses

    def init(self: Any, **options: Any) -> None:
        for name in options:
            if name not in Settings._fields:
                _warn_of_unknown_option(name)
        for name in Settings._fields:
            object.__setattr__(self, name, options.get(name))

    fields = [(name, hint | None, None) for name, hint in get_type_hints(Settings).items()]
    namespace = {"__module__": __name__, "__init__": init}
    return dataclasses.make_dataclass("Options", fields, namespace=namespace, frozen=True, init=False)


# A NamedTuple takes ten times as long to make as a class with slots, at every start.


class Setting:
    """One setting.

    Args:
        name: The argument of `instrument()` and the field of `Settings`.
        variable: The environment variable.
        kind: The values that it may have.
        default: The value in use when neither argument, option nor variable is given.
        doc: What it does, for the tables and the help of commands.
        option: The option of `torchspan run` and `torchspan demo`; None: they have none.
        default_text: The default in words, where `default` alone does not say what happens.
        option_value: The value that the option stands for, if it takes none.
    """

    __slots__ = ("default", "default_text", "doc", "kind", "name", "option", "option_value", "variable")

    def __init__(
        self,
        name: str,
        variable: str,
        kind: SettingKind,
        default: Any,
        doc: str,
        option: str | None = None,
        default_text: str | None = None,
        option_value: str | None = None,
    ) -> None:
        self.name, self.variable, self.kind, self.default = name, variable, kind, default
        self.doc, self.option, self.default_text, self.option_value = doc, option, default_text, option_value


class Variable:
    """An environment variable that is not an argument of `instrument()`.

    Args:
        doc: What it does.
        default: The text that holds without it, empty if nothing does.
        kind: The values that it may have.
    """

    __slots__ = ("default", "doc", "kind", "variable")

    def __init__(self, variable: str, doc: str, default: str = "", kind: SettingKind | None = None) -> None:
        self.variable, self.doc, self.default, self.kind = variable, doc, default, kind or AnyText()


class Source(enum.Enum):
    """Where the value of a setting comes from. The first one that has a valid value wins."""

    ARGUMENT = "argument"
    FILE = "configuration file"
    VARIABLE = "variable"
    DEFAULT = "default"


class Resolved:
    """A setting or a variable, and what holds for it.

    Args:
        refused: The message about the values that are invalid, with where they are given, what is allowed, and what
            is used instead; None if there is none.
    """

    __slots__ = ("refused", "setting", "source", "value")

    def __init__(self, setting: Setting | Variable, value: Any, source: Source, refused: str | None) -> None:
        self.setting, self.value, self.source, self.refused = setting, value, source, refused


PREFIX = "TORCHSPAN_"
"""What the name of each variable begins with."""

LONGEST_NAME = 64
"""Characters of a name that are compared with the known ones."""

SHOWN = 500
"""Characters of an invalid value in a message."""

SHARE = Number("a number from 0 to 1", 1, zero=True)
RATE = Number("a number above 0, at most 1000000", 1_000_000, zero=False)

SETTINGS = (
    Setting(
        "detail",
        env.TORCHSPAN_DETAIL,
        Choice(Detail),
        "stages",
        "`stages`: a span for each stage of a compilation. `passes`: a span for each lowering pass, too.",
        option="--detail",
    ),
    Setting(
        "build_phases",
        env.TORCHSPAN_BUILD_PHASES,
        Choice(BuildPhases),
        "auto",
        "Whether TensorRT's build phases are spans below the engine build. "
        "`auto`: only under `torchspan run` and `torchspan demo`, with TensorRT-RTX.",
    ),
    Setting(
        "heartbeat",
        env.TORCHSPAN_HEARTBEAT,
        Seconds(0.1, 86_400),
        None,
        "Seconds between the `torchspan.progress` spans of a long compilation. "
        "The first comes after 2 s at the latest. Not set: 2, 7, 17, 37 and 77 s after its start, then every 60 s.",
        default_text="gaps of 5 to 60 s",
    ),
    Setting(
        "capture",
        env.TORCHSPAN_CAPTURE,
        Choice(Capture),
        "local",
        "Who gets the texts of messages and guards whole. `local`: the file that `torchspan run` makes, the terminal on which it "
        "ends, and `torchspan.testing.capture()`. Exporters get what the table of messages lets through. `none`: no one. `text`: "
        "exporters too, and paths of source files are absolute.",
    ),
    Setting(
        "events",
        env.TORCHSPAN_EVENTS,
        Choice(Events),
        "span",
        "What torchspan's events are, such as graph breaks and lines of TensorRT's log. `span`: events of spans. `log`: log records with "
        "the ids of their spans; events of spans where no logger provider accepts them. The file of `torchspan run` and "
        "`torchspan.testing.capture()` have them on spans in any case.",
    ),
    Setting(
        "propagation",
        env.TORCHSPAN_PROPAGATION,
        Choice(Propagation),
        "on",
        "`on`: the context is propagated into threads, pools and processes. `links`: the same, but the span that started this "
        "process becomes a link instead of a parent. `off`: the context is not propagated.",
    ),
    Setting(
        "without_gpu",
        env.TORCHSPAN_WITHOUT_GPU,
        Switch(),
        False,
        "Run Torch-TensorRT's pipeline on a machine without a GPU.",
        option="--without-gpu",
    ),
    Setting(
        "ready_after",
        env.TORCHSPAN_READY_AFTER,
        FunctionPath(),
        None,
        "`module:function`: the program is ready to serve once this function has returned; later compilations are marked "
        "`torchspan.while_serving`.",
        default_text="when the program calls `torchspan.mark_ready()`",
    ),
    Setting(
        "sample_other",
        env.TORCHSPAN_SAMPLE_OTHER,
        SHARE,
        None,
        "With torchspan's sampler: the share of traces in which the program's own spans are kept.",
        default_text="`1`",
    ),
    Setting(
        "sample_execute",
        env.TORCHSPAN_SAMPLE_EXECUTE,
        SHARE,
        None,
        "The share of engine runs outside every span that begin a trace. With another sampler than torchspan's, a value above "
        "`0` leaves the decision to that sampler.",
        default_text="`0`",
    ),
    Setting(
        "sample_execute_per_second",
        env.TORCHSPAN_SAMPLE_EXECUTE_PER_SECOND,
        RATE,
        None,
        "How many runs of one engine may be spans within a second, in addition to its first run and failed runs.",
        default_text="`10`, none with a target",
    ),
    Setting(
        "sample_execute_target",
        env.TORCHSPAN_SAMPLE_EXECUTE_TARGET,
        RATE,
        None,
        "With torchspan's sampler: how many engine runs per second are spans in a process, however many runs there are.",
        default_text="no target",
    ),
    Setting(
        "ranks",
        env.TORCHSPAN_RANKS,
        Ranks(),
        "all",
        "The ranks of a distributed job that record torchspan's spans. Every rank records metrics. A process without a rank "
        "records spans.",
    ),
    Setting(
        "graph_runs",
        env.TORCHSPAN_GRAPH_RUNS,
        Switch(),
        False,
        "Runs of graphs that `torch.compile` compiles after instrumentation are spans, within the limits and rules of engine runs.",
    ),
    Setting(
        "operators",
        env.TORCHSPAN_OPERATORS,
        Choice(Operators),
        "off",
        "Where PyTorch's operators are spans. `off`: only in blocks `with torchspan.operators()`. `sampled`: also below runs of engines "
        "and compiled graphs, and observed functions, in traces that the sampler has kept. `on`: below each of these that is recorded; "
        "runs that nothing surrounds are recorded as well, within their limits. Needs a library that "
        "`python -m torchspan.native build` builds.",
        option="--operators",
        option_value="on",
    ),
    Setting(
        "gpu_time",
        env.TORCHSPAN_GPU_TIME,
        Choice(GpuTime),
        "off",
        "`sampled`: runs of engines and compiled graphs that have a span also have their time on the device, between two CUDA events "
        "on the program's stream. torchspan never waits for the device.",
    ),
    Setting(
        "layers",
        env.TORCHSPAN_LAYERS,
        EngineLayers(),
        "off",
        "The engine whose layers TensorRT times in its next runs that are spans: its name, or `*` for each engine, and after a colon the "
        "number of these runs (`*:50`; without it 20). TensorRT waits for the device at the end of each of these runs.",
    ),
    Setting(
        "inputs",
        env.TORCHSPAN_INPUTS,
        FollowedClasses(),
        "off",
        "The modules whose calls are counted by the shapes of their arguments. `compiled`: the modules that Torch-TensorRT "
        "compiles, or that the program loads, after instrumentation. `module:Class`: the objects of a class that are created after "
        "instrumentation. Separate several by commas.",
    ),
    Setting(
        "inputs_every",
        env.TORCHSPAN_INPUTS_EVERY,
        Whole(),
        100,
        "Of the calls that `inputs` counts, one in this many is an event on the current span, and so is the first of each shape.",
    ),
)

VARIABLES = (
    Variable(
        env.TORCHSPAN_FILE,
        "File of the exporter `torchspan_file` (`OTEL_TRACES_EXPORTER=torchspan_file`). "
        "`%p` is the process id, `%t` the time at which the process started. Pipes, devices and links are refused.",
        "torchspan-%t-%p.jsonl",
    ),
    Variable(
        env.TORCHSPAN_FILE_MAX_SIZE, "Bytes at which that exporter stops writing to its file.", "268435456", Bytes()
    ),
    Variable(
        env.TORCHSPAN_FILE_MODE,
        "Permissions of the files of traces that torchspan creates, in octal digits: `640` lets the group read them.",
        "600",
        Permissions(),
    ),
    Variable(
        env.TORCHSPAN_RUN_EXIT_TIMEOUT,
        "Seconds that a program under `torchspan run` and its processes may wait at their ends for exporters that `run` created.",
        "2",
        Number("0 to 86400 seconds", 86_400, zero=True),
    ),
    Variable(
        env.TORCHSPAN_NATIVE_BUILD,
        "`on`: a program that records operators builds the library for it where there is none for its PyTorch (up to 30 "
        "seconds). `off`: it says which command builds it.",
        "off",
        Choice(Literal["off", "on"]),
    ),
    Variable(
        env.TORCHSPAN_RUN,
        "Set by `torchspan run` for the processes that it starts: what they need to know about the run, as JSON.",
    ),
)

PROVIDERS = {"tracer_provider": "get_tracer", "meter_provider": "get_meter", "logger_provider": "get_logger"}
"""The other arguments of `instrument()`, and the method that each value must have."""

CONVENTIONAL = frozenset({"logger_provider", "skip_dep_check", "raise_exception_on_conflict"})
"""Arguments that distros and OpenTelemetry's loader pass to every instrumentor."""

ARGUMENTS = (*PROVIDERS, *(setting.name for setting in SETTINGS))
"""The names that `instrument()` takes."""


_warned: dict[tuple[str, ...], object] = {}
"""What this process has been warned of, and the call that did so."""


def load(
    arguments: Mapping[str, Any], environment: Mapping[str, str] | None = None, file: Mapping[str, Any] | None = None
) -> Settings:
    """The settings that `resolved` finds. Each invalid value is one warning in a process, however often it is read.

    Raises ConfigurationError for an argument with an invalid value.
    """
    environment = os.environ if environment is None else environment
    rows = resolved(arguments, file=file, environment=environment)
    for row in rows:
        _warn(row, environment, file)
    for name, meant in unknown_variables(environment).items():
        # Where a service is called torchspan, Kubernetes sets TORCHSPAN_SERVICE_HOST and more: these mean something else.
        if meant is not None and _is_first(name):
            logger.warning("Unknown variable %s, ignored (did you mean %s?)", name[:LONGEST_NAME], meant)
    return Settings(**{row.setting.name: row.value for row in rows if isinstance(row.setting, Setting)})


def resolved(
    arguments: Mapping[str, Any], *, file: Mapping[str, Any] | None = None, environment: Mapping[str, str] | None = None
) -> tuple[Resolved, ...]:
    """What holds for each of `SETTINGS`, in their order. An invalid value counts as none.

    Raises ConfigurationError for an argument with an invalid value.

    Args:
        arguments: Those of `instrument()`; None: not given.
        file: The options in a configuration file; None: not given.
        environment: Default: the process's.
    """
    environment = os.environ if environment is None else environment
    in_code = passed(arguments)
    return tuple(_resolved(setting, in_code, file or {}, environment) for setting in SETTINGS)


def unknown_variables(environment: Mapping[str, str] | None = None) -> dict[str, str | None]:
    """The variables that begin as torchspan's do and are none, each with the name that was meant, as far as that is clear."""
    environment = os.environ if environment is None else environment
    variables = {row.variable for row in (*SETTINGS, *VARIABLES)}
    unknown = sorted(name for name in environment if name.startswith(PREFIX) and name not in variables)
    return {name: _meant_variable(name, variables) for name in unknown}


def resolved_variables(environment: Mapping[str, str] | None = None) -> tuple[Resolved, ...]:
    """What holds for each of `VARIABLES`, in their order."""
    environment = os.environ if environment is None else environment
    return tuple(resolved_variable(row.variable, environment) for row in VARIABLES)


def resolved_variable(name: str, environment: Mapping[str, str] | None = None) -> Resolved:
    """What holds for one of `VARIABLES`, by its name. An invalid value counts as none."""
    environment = os.environ if environment is None else environment
    (row,) = (row for row in VARIABLES if row.variable == name)
    text = environment.get(name, "").strip()
    refused: list[str] = []
    if text:
        try:
            return Resolved(row, row.kind.read(text), Source.VARIABLE, None)
        except ValueError:
            refused.append(f"{name}={_shown(environment[name])}")
    value = row.kind.read(row.default) if row.default else None
    return Resolved(row, value, Source.DEFAULT, _refusal(refused, f"default {row.default}", row.kind))


def value_of(name: str, environment: Mapping[str, str] | None = None) -> Any:
    """The value of one of `VARIABLES`, by its name. An invalid one is one warning in a process, and the default holds."""
    environment = os.environ if environment is None else environment
    resolved = resolved_variable(name, environment)
    _warn(resolved, environment, None)
    return resolved.value


def sampling(settings: Settings) -> dict[str, float]:
    """Those of the sampler's rules that are set, by their names as rules."""
    values = settings._asdict()
    rules = {name: values[f"{SETTING}{name}"] for name in SamplingRules._fields}
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
                raise ConfigurationError(_invalid(name, provider, f"an object with the method {method}"))
            values[name] = provider
    for setting in SETTINGS:
        value = arguments.get(setting.name)
        if value is not None:
            try:
                values[setting.name] = setting.kind.parse(value)
            except ValueError:
                raise ConfigurationError(_invalid(setting.name, value, setting.kind.expected)) from None
    return values


def _invalid(name: str, value: object, expected: str) -> str:
    return f"invalid value for {name}: {_shown(value)} (expected {expected})"


def _resolved(
    setting: Setting, in_code: Mapping[str, Any], file: Mapping[str, Any], environment: Mapping[str, str]
) -> Resolved:
    sources = {Source.DEFAULT: setting.default}
    refused: list[str] = []
    text, option = environment.get(setting.variable, "").strip(), file.get(setting.name)
    if text:
        try:
            sources[Source.VARIABLE] = setting.kind.read(text)
        except ValueError:
            refused.append(f"{setting.variable}={_shown(environment[setting.variable])}")
    if option is not None:
        try:
            sources[Source.FILE] = setting.kind.read_option(option)
        except ValueError:
            refused.append(f"{setting.name}={_shown(option)} in the configuration file")
    if setting.name in in_code:
        sources[Source.ARGUMENT] = in_code[setting.name]
    source = next(source for source in Source if source in sources)
    in_use = f"{source.value} {describe(setting.name, sources[source])}"
    if source is Source.DEFAULT and setting.default_text:
        in_use = f"the default ({setting.default_text})"
    return Resolved(setting, sources[source], source, _refusal(refused, in_use, setting.kind))


def _refusal(refused: list[str], in_use: str, kind: SettingKind) -> str | None:
    return f"Invalid {' and '.join(refused)}, using {in_use} (expected {kind.expected})" if refused else None


def _warn(row: Resolved, environment: Mapping[str, str], file: Mapping[str, Any] | None) -> None:
    """Log what was refused, unless that has been done: the sampler, the exporters and each `instrument()` read settings."""
    if row.refused is None:
        return
    name, option = row.setting.variable, None
    if isinstance(row.setting, Setting) and file:
        option = file.get(row.setting.name)
    if _is_first(name, environment.get(name, ""), _shown(option)):
        logger.warning("%s", row.refused)


def _is_first(*about: str) -> bool:
    if _parent_has_warned():
        return False
    call = object()
    return _warned.setdefault(about, call) is call  # of two threads, one


_INSTRUMENTED_BY = ("opentelemetry.instrumentation.auto_instrumentation", "torchspan.propagation._processes")
"""Modules that are loaded before the settings are read, where the environment or the starting process enables torchspan."""


def _parent_has_warned() -> bool:
    """Whether `multiprocessing` started this process from one with the same settings, which has read them."""
    by_multiprocessing = any("from multiprocessing." in text for text in sys.orig_argv[:20])
    return by_multiprocessing and any(name in sys.modules for name in _INSTRUMENTED_BY)


def _meant_variable(name: str, names: Iterable[str]) -> str | None:
    from torchspan._base.spelling import closest

    # The beginning that they share would allow for more mistakes in the rest.
    meant = closest(name.removeprefix(PREFIX)[:LONGEST_NAME], [candidate.removeprefix(PREFIX) for candidate in names])
    return None if meant is None else PREFIX + meant


def _warn_of_unknown_option(name: str) -> None:
    from torchspan._base.spelling import closest
    from torchspan._config_file import PLACE

    meant = closest(name[:LONGEST_NAME], Settings._fields)
    hint = f"did you mean {meant!r}?" if meant else f"expected one of {', '.join(sorted(Settings._fields))}"
    if _is_first(PLACE, name):
        logger.warning("Unknown option %s of %s in the configuration file, ignored (%s)", _shown(name), PLACE, hint)


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


def refuse_unknown(names: Iterable[str]) -> None:
    """Raises TypeError for the first name that `instrument()` does not take; suggests the name that was meant."""
    for name in names:
        if name not in ARGUMENTS:
            meant = _meant(name)
            hint = f"did you mean {meant!r}?" if meant else f"expected one of {', '.join(sorted(ARGUMENTS))}"
            raise TypeError(f"instrument() got an unexpected argument {name!r} ({hint})")


def refuse_misspelled(names: Iterable[str]) -> None:
    """Raises TypeError for the first name that is almost one that `instrument()` takes. Leaves other names alone."""
    refuse_unknown(name for name in names if name not in ARGUMENTS and _meant(name))


def _meant(name: str) -> str | None:
    if name in CONVENTIONAL:
        return None
    from torchspan._base.spelling import closest  # a millisecond, with the search, of each start

    return closest(name, ARGUMENTS)
