# SPDX-License-Identifier: Apache-2.0
"""The file of OpenTelemetry's declarative configuration, read as OpenTelemetry reads it."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

from torchspan import _config_file
from torchspan._config_file import VARIABLE

LOST = "OpenTelemetry's set-up fails, and no span leaves the program."


class ConfigurationFile(NamedTuple):
    """What happened to the file.

    Attributes:
        path: As the variable gives it.
        configuration: OpenTelemetry's model of what it says; None where nothing can be read.
        problem: Why not, with what to do about it; both empty where it can. No value of the file stands in it.
    """

    path: str
    configuration: Any = None
    problem: str = ""
    remedy: str = ""

    def node(self, *path: str) -> Any:
        """The part of the configuration behind these names; None where the file does not have it."""
        node = self.configuration
        for name in path:
            node = node.get(name) if isinstance(node, Mapping) else getattr(node, name, None)
        return node

    def options(self) -> dict[str, Any] | None:
        """What the file says to torchspan's instrumentor; None where it does not name it."""
        node = self.node("instrumentation_development", "python", "torchspan")
        return dict(node) if isinstance(node, Mapping) else None


def configuration_file(environment: Mapping[str, str]) -> ConfigurationFile | None:
    """The file that the environment names; None where it is not set. Raises nothing."""
    path = _config_file.named(environment)
    if path is None:
        return None
    missing = _config_file.missing_package(environment)
    if missing is not None:
        return ConfigurationFile(path, problem=f"{missing}: {LOST}", remedy="Install it: pip install 'torchspan[auto]'")
    try:
        from opentelemetry.configuration import load_config_file

        with silence():  # the loader logs what it raises, with values of the file
            return ConfigurationFile(path, load_config_file(path))
    except Exception as error:
        problem = f"{VARIABLE}={path} cannot be used ({_config_file.reason(error)}): {LOST}"
        return ConfigurationFile(path, problem=problem, remedy="Correct the file, or unset the variable.")


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """What a library logs while it is looked at has no place between the rows."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def headers(model: Any) -> Iterator[str]:
    """The headers that a configuration gives to its exporters, those of plug-ins too, as `name=value`."""
    waiting, seen = [model], set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:  # YAML can say that a node holds itself
            continue
        seen.add(id(node))
        members = _members(node)
        if isinstance(members.get("headers_list"), str):
            yield members["headers_list"]
        headers = members.get("headers")
        if isinstance(headers, Mapping):
            yield from (f"{name}={value}" for name, value in headers.items())
        for member in map(_members, headers) if isinstance(headers, list) else ():
            yield f"{member.get('name')}={member.get('value')}"
        waiting.extend(node if isinstance(node, (list, tuple)) else members.values())


def _members(node: Any) -> Mapping[str, Any]:
    """The parts of a node by their names, those that OpenTelemetry's schema does not have included."""
    if isinstance(node, Mapping):
        return node
    if not is_dataclass(node) or isinstance(node, type):
        return {}
    members = {field.name: getattr(node, field.name) for field in fields(node)}
    return {**getattr(node, "additional_properties", {}), **members}
