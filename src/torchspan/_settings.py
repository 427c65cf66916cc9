# SPDX-License-Identifier: Apache-2.0
"""Every setting, once: a row of `SETTINGS`. What reads, documents or offers a setting derives from its row.

An argument wins over its environment variable, the variable over the default.
"""

# Every Python that an instrumented program starts imports this: what only an error needs is imported there.

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, get_args, get_type_hints

from torchspan import environment_variables as env
from torchspan._base.sampling_rules import SETTING, SamplingRules
from torchspan.exceptions import ConfigurationError

logger = logging.getLogger("torchspan")

Detail = Literal["stages", "passes"]
BuildPhases = Literal["auto", "on", "off"]
Capture = Literal["none", "text"]
Propagation = Literal["on", "links", "off"]


class Settings(NamedTuple):
    """The settings in use: a field for each row of `SETTINGS`, with the row's default."""

    # A frozen dataclass would take 1.5 ms to make, half of what starting torchspan takes.

    detail: Detail = "stages"
    build_phases: BuildPhases = "auto"
    capture: Capture = "none"
    propagation: Propagation = "on"
    heartbeat: float | None = None
    without_gpu: bool = False
    engine_dir: str | None = None
    log_correlation: bool = False
    sample_other: float | None = None
    sample_execute: float | None = None
    sample_execute_per_second: float | None = None
    sample_execute_target: float | None = None


@functools.cache
def options() -> type:
    """A dataclass of what a configuration file may set: the fields of `Settings`, each None where it is not given.

    OpenTelemetry's declarative configuration hands the values that are not None to `instrument()`. With the defaults of
    `Settings`, a file that sets one of them would keep the environment from setting the others.
    """
    import dataclasses

    fields = [(name, hint | None, None) for name, hint in get_type_hints(Settings).items()]
    return dataclasses.make_dataclass("Options", fields, namespace={"__module__": __name__}, frozen=True, kw_only=True)


class _Kind:
    """The values that a setting may have."""

    expected: str

    def parse(self, value: object) -> Any:
        """The value of an argument. Raises ValueError if it is none."""
        raise NotImplementedError

    def read(self, text: str) -> Any:
        """The value of a variable, in capitals or not. Raises ValueError if it is none."""
        return self.parse(text.lower())


class Choice(_Kind):
    """A word out of a few.

    literal: the `Literal` type that lists them.
    """

    def __init__(self, literal: Any) -> None:
        self.choices: tuple[str, ...] = get_args(literal)
        self.expected = f"one of {', '.join(self.choices)}"

    def parse(self, value: object) -> str:
        """The word. Raises ValueError if it is none of the choices."""
        if isinstance(value, str) and value in self.choices:
            return value
        raise ValueError(self.expected)


class Switch(_Kind):
    """On or off: a bool in code, a word in a variable."""

    expected = "one of 0, 1, false, true"
    _WORDS = {"1": True, "true": True, "0": False, "false": False}  # noqa: RUF012 - nothing changes it

    def parse(self, value: object) -> bool:
        """Whether it is on. Raises ValueError if the value says neither."""
        if isinstance(value, bool):
            return value
        on = self._WORDS.get(str(value).lower()) if isinstance(value, (int, str)) else None
        if on is None:
            raise ValueError(self.expected)
        return on


class Seconds(_Kind):
    """A duration between two bounds, or 0."""

    def __init__(self, shortest: float, longest: float) -> None:
        self._shortest, self._longest = shortest, longest
        self.expected = f"0 for none, or {shortest:g} to {longest:.0f} seconds"

    def parse(self, value: object) -> float:
        """The seconds. Raises ValueError if they are not 0 and outside the bounds."""
        numeric: Any = None if isinstance(value, bool) else value
        try:
            seconds = float(numeric)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(self.expected) from None
        if seconds == 0 or self._shortest <= seconds <= self._longest:
            return seconds
        raise ValueError(self.expected)


class Number(_Kind):
    """A number that is not negative.

    expected: the values in words. largest: the largest of them. zero: whether 0 is one.
    """

    def __init__(self, expected: str, largest: float, *, zero: bool) -> None:
        self._largest, self._zero = largest, zero
        self.expected = expected

    def parse(self, value: object) -> float:
        """The number. Raises ValueError if it is none, or outside the bounds."""
        numeric: Any = None if isinstance(value, bool) else value
        try:
            number = float(numeric)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(self.expected) from None
        if 0 < number <= self._largest or (self._zero and number == 0):
            return number
        raise ValueError(self.expected)


class Folder(_Kind):
    """A path, made absolute: processes that start elsewhere mean the same folder."""

    expected = "the path of a folder"

    def parse(self, value: object) -> str:
        """The absolute path. Raises ValueError if the value is no path."""
        from pathlib import Path

        path = os.fspath(value) if isinstance(value, os.PathLike) else value
        if isinstance(path, str) and path:
            try:
                return str(Path(path).expanduser().absolute())
            except RuntimeError as error:  # no home to expand
                raise ValueError(self.expected) from error
        raise ValueError(self.expected)

    def read(self, text: str) -> str:
        """As `parse`: the case of a path matters."""
        return self.parse(text)


class Setting(NamedTuple):
    """One setting.

    name: the argument of `instrument()` and the field of `Settings`.
    variable: the environment variable.
    kind: the values that it may have.
    default: the value in use when neither argument nor variable is given.
    doc: what it does, for the tables and the help of commands.
    option: the option of `torchspan run` and `torchspan demo`; None: they have none.
    default_text: the default in words, where `default` alone does not say what happens.
    """

    name: str
    variable: str
    kind: Choice | Switch | Seconds | Number | Folder
    default: Any
    doc: str
    option: str | None = None
    default_text: str | None = None


class Variable(NamedTuple):
    """An environment variable that is no argument of `instrument()`.

    doc: what it does. default: what holds without it, empty if nothing does.
    """

    variable: str
    doc: str
    default: str = ""


SHARE = Number("0 to 1", 1, zero=True)
RATE = Number("more than 0, at most 1000000", 1_000_000, zero=False)

SETTINGS = (
    Setting(
        "detail",
        env.TORCHSPAN_DETAIL,
        Choice(Detail),
        "stages",
        "`stages`: the stages of a compilation. `passes`: each lowering pass is a span, too.",
        option="--detail",
    ),
    Setting(
        "build_phases",
        env.TORCHSPAN_BUILD_PHASES,
        Choice(BuildPhases),
        "auto",
        "TensorRT's build phases are spans below the engine build. "
        "`auto`: under `torchspan run` and `torchspan demo`, on TensorRT-RTX.",
    ),
    Setting(
        "heartbeat",
        env.TORCHSPAN_HEARTBEAT,
        Seconds(0.1, 86_400),
        None,
        "Seconds between the `torchspan.progress` spans of a long compilation. "
        "Not set: they come 5, 15, 35, 75 and 135 s after its start, then every 60 s.",
        default_text="gaps of 5 to 60 s",
    ),
    Setting(
        "capture",
        env.TORCHSPAN_CAPTURE,
        Choice(Capture),
        "none",
        "`text`: exception messages and lines of TensorRT's log are recorded whole, paths of source files absolute. "
        "`none`: their first line, with `?` for every word that is not a library's; paths from the import path on.",
    ),
    Setting(
        "log_correlation",
        env.TORCHSPAN_LOG_CORRELATION,
        Switch(),
        False,
        "Log records of Torch-TensorRT and TensorRT get `otelTraceID`, `otelSpanID`, `otelTraceSampled` and "
        "`otelServiceName`, for the program's formatters.",
    ),
    Setting(
        "propagation",
        env.TORCHSPAN_PROPAGATION,
        Choice(Propagation),
        "on",
        "The context follows the work into threads, pools and processes. "
        "`links`: the span that started this process is linked to, and is no parent.",
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
        "engine_dir",
        env.TORCHSPAN_ENGINE_DIR,
        Folder(),
        None,
        "Where engines that were built without a GPU are kept, so that other processes can run them.",
        option="--engine-dir",
        default_text="`torchspan` in the user's folder for caches",
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
        "The share of engine runs outside every span that begin a trace. Under another sampler than torchspan's: more than "
        "`0` asks that sampler about them.",
        default_text="`0`",
    ),
    Setting(
        "sample_execute_per_second",
        env.TORCHSPAN_SAMPLE_EXECUTE_PER_SECOND,
        RATE,
        None,
        "Runs of one engine that are spans within a second, besides its first run and failed ones.",
        default_text="`10`, none with a target",
    ),
    Setting(
        "sample_execute_target",
        env.TORCHSPAN_SAMPLE_EXECUTE_TARGET,
        RATE,
        None,
        "With torchspan's sampler: how many engine runs a second are spans in a process, whatever their number.",
        default_text="no target",
    ),
)

VARIABLES = (
    Variable(
        env.TORCHSPAN_FILE,
        "File of the exporter `torchspan_file` (`OTEL_TRACES_EXPORTER=torchspan_file`). "
        "`%p` is the process id, `%t` the time at which the process started.",
        "torchspan-%t-%p.jsonl",
    ),
    Variable(env.TORCHSPAN_FILE_MAX_SIZE, "Bytes at which that exporter stops writing to its file.", "268435456"),
    Variable(
        env.TORCHSPAN_FILE_MODE,
        "Permissions of the files of traces that torchspan makes, in octal digits: `640` lets the group read them.",
        "600",
    ),
    Variable(
        env.TORCHSPAN_RUN_EXIT_TIMEOUT,
        "Seconds after its own end for which a program under `torchspan run` may wait for exporters that `run` made.",
        "2",
    ),
    Variable(
        env.TORCHSPAN_RUN,
        "Set by `torchspan run` for the processes below it: what they need to know of the run, as JSON.",
    ),
)

PROVIDERS = {"tracer_provider": "get_tracer", "meter_provider": "get_meter"}
"""The other arguments of `instrument()`, and the method that each value must have."""

ARGUMENTS = (*PROVIDERS, *(setting.name for setting in SETTINGS))
"""The names that `instrument()` takes."""


def load(arguments: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> Settings:
    """The settings from `arguments` (None: not given) over `environment` (default: the process's) over the defaults.

    A variable with an invalid value is logged, and the default used. Raises ConfigurationError for an argument with an
    invalid value.
    """
    environment = os.environ if environment is None else environment
    values = {setting.name: setting.default for setting in SETTINGS}
    values |= _from_environment(environment)
    values |= {name: value for name, value in given(arguments).items() if name in values}
    return Settings(**values)


def sampling(settings: Settings) -> dict[str, float]:
    """Those of the sampler's rules that are set, by their names as rules."""
    values = settings._asdict()
    rules = {name: values[f"{SETTING}{name}"] for name in SamplingRules._fields}
    return {name: value for name, value in rules.items() if value is not None}


def given(arguments: Mapping[str, Any]) -> dict[str, Any]:
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
    return f"invalid value for {name}: {value!r} (expected {expected})"


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for setting in SETTINGS:
        text = environment.get(setting.variable, "").strip()
        if not text:
            continue
        try:
            values[setting.name] = setting.kind.read(text)
        except ValueError:
            logger.warning(
                "Invalid %s=%r, using default %s (expected %s)",
                setting.variable,
                environment[setting.variable],
                describe(setting.name, setting.default),
                setting.kind.expected,
            )
    return values


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
    from torchspan._base.spelling import closest

    # `logger_provider` is conventional: distros hand it to every instrumentor.
    return closest(name, ARGUMENTS) if name != "logger_provider" else None
