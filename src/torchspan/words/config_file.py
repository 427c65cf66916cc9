# SPDX-License-Identifier: Apache-2.0
"""What the file of OTEL_CONFIG_FILE says of torchspan's instrumentation.

OpenTelemetry's declarative configuration hands the options of the node to `instrument()`. It does not say that a node is
disabled: `opentelemetry-instrument` continues to load every instrumentation that is installed, and so this reads the node.
"""

from __future__ import annotations

import errno
import importlib
import json
import os
import re
import stat
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

VARIABLE = "OTEL_CONFIG_FILE"

PLACE = "instrumentation/development.python.torchspan"
"""The node, by its keys from the root of the file."""

PACKAGE = "opentelemetry-configuration"

_WITHOUT_VALUES = re.compile(r"Plugin '[\w.-]{1,64}' not found|(?:(?!, got [^a-z]|'|\n).)+")
"""The part of OpenTelemetry's own messages about a file that repeats no value of it."""


class InstrumentationNode(NamedTuple):
    """The node of torchspan's instrumentation.

    Attributes:
        is_enabled: False where the node says `enabled: false`.
        options: The others that it has, as YAML reads them.
    """

    is_enabled: bool
    options: Mapping[str, Any]


class UnreadableFileError(ValueError):
    """The file cannot be read. The text says why, without a full stop."""


def named(environment: Mapping[str, str] | None = None) -> str | None:
    """The file that is to be read; None where the variable is not set.

    Args:
        environment: Default: the process's.
    """
    return (os.environ if environment is None else environment).get(VARIABLE) or None


def missing_package(environment: Mapping[str, str] | None = None) -> str | None:
    """Why the file is not read, if it is for want of the package: a sentence without a full stop.

    OpenTelemetry's configurator fails then, and sets up nothing at all.
    """
    if named(environment) is None or _is_installed():
        return None
    return f"{VARIABLE} is set, but the package {PACKAGE} that reads it is not installed"


def disables(environment: Mapping[str, str] | None = None) -> bool:
    """Whether the file disables torchspan. A file that cannot be read does not."""
    path = named(environment)
    if path is None:
        return False
    try:
        node = read(path)
    except UnreadableFileError:
        return False
    return node is not None and not node.is_enabled


def read(path: str) -> InstrumentationNode | None:
    """The node, with the variables that it refers to filled in; None where the file has none.

    The schema of the file is not checked: OpenTelemetry does so, and takes half a second for it.

    Raises UnreadableFileError where there is no such file, where it is not YAML or JSON, and without the package that OpenTelemetry
    reads it with.
    """
    if not _is_installed():
        raise UnreadableFileError(f"the package {PACKAGE} that reads {VARIABLE} is not installed")
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):  # a pipe would be waited for
            raise OSError(errno.EINVAL, "not a file")
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UnreadableFileError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    if "torchspan" not in text:
        return None
    node = _parsed(path, text)
    for key in ("instrumentation/development", "python", "torchspan"):
        node = node.get(key) if isinstance(node, dict) else None
    if not isinstance(node, dict):
        return None
    try:
        values = {str(name): _filled_in(value) for name, value in node.items()}
    except Exception as error:  # up to 0.65 of the package, for a variable that is not set and has no default
        raise UnreadableFileError(f"{path}: {error}") from error
    return InstrumentationNode(bool(values.pop("enabled", True)), values)


def reason(error: BaseException) -> str:
    """Why OpenTelemetry cannot use the file: what is wrong, and where, without a value of the file. That could be a credential."""
    cause = error.__cause__
    if cause is not None:
        return f"{type(error).__name__}: {_place(cause)}"
    if type(error).__module__.startswith("opentelemetry.configuration"):
        match = _WITHOUT_VALUES.match(str(error))
        return f"{type(error).__name__}: {match[0].removesuffix('.')}" if match else type(error).__name__
    return type(error).__name__


def _place(cause: BaseException) -> str:
    kind = type(cause).__name__
    mark = getattr(cause, "problem_mark", None)
    if isinstance(cause, OSError):
        return cause.strerror or kind
    if kind == "ValidationError":
        place = ".".join(map(str, getattr(cause, "absolute_path", ()))) or "its top level"
        return f"{place} does not match OpenTelemetry's schema (rule `{getattr(cause, 'validator', 'unknown')}`)"
    if mark is not None:
        return f"line {mark.line + 1}, column {mark.column + 1} is not YAML ({kind})"
    if isinstance(cause, json.JSONDecodeError):
        return f"line {cause.lineno}, column {cause.colno} is not JSON"
    return f"{kind} while reading it"


def _parsed(path: str, text: str) -> Any:
    try:
        return json.loads(text) if path.lower().endswith(".json") else _yaml().safe_load(text)
    except Exception as error:
        raise UnreadableFileError(f"{path}: {_place(error)}") from error


def _filled_in(value: Any) -> Any:
    """A value with its `${VARIABLE:-default}` replaced: read as YAML then, so that `${ON:-false}` is a bool."""
    if not isinstance(value, str) or "$" not in value:
        return value
    from opentelemetry.configuration.file import substitute_env_vars

    text = substitute_env_vars(value)
    try:
        return _yaml().safe_load(text)
    except Exception:
        return text


def _yaml() -> Any:
    return importlib.import_module("yaml")  # the package depends on it


def _is_installed() -> bool:
    try:
        return find_spec("opentelemetry.configuration") is not None
    except (ImportError, ValueError):
        return False
