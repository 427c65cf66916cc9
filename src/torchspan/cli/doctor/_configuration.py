# SPDX-License-Identifier: Apache-2.0
"""The file of OpenTelemetry's declarative configuration, read as OpenTelemetry reads it."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from typing import Any, NamedTuple

from torchspan.words import config_file
from torchspan.words.config_file import VARIABLE

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


def configuration_file(environment: Mapping[str, str]) -> ConfigurationFile | None:
    """The file that the environment names; None where it is not set. Raises nothing."""
    path = config_file.named(environment)
    if path is None:
        return None
    missing = config_file.missing_package(environment)
    if missing is not None:
        return ConfigurationFile(path, problem=f"{missing}: {LOST}", remedy="Install it: pip install 'torchspan[auto]'")
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # the loader logs what it raises, with values of the file
    try:
        from opentelemetry.configuration import load_config_file

        return ConfigurationFile(path, load_config_file(path))
    except Exception as error:
        problem = f"{VARIABLE}={path} cannot be used ({config_file.reason(error)}): {LOST}"
        return ConfigurationFile(path, problem=problem, remedy="Correct the file, or unset the variable.")
    finally:
        logging.disable(before)


def named_texts(configuration: Any, names: Container[str]) -> Iterator[tuple[str, str]]:
    """Each value at or below a node with one of these names, plug-ins' too, with that name. The names of a list's headers are left out."""
    waiting, seen = [("", configuration)], set()
    while waiting:
        kind, node = waiting.pop()
        members = _members(node)
        if members is None:
            if kind:
                yield kind, str(node)
        elif (kind, id(node)) not in seen:  # YAML can say that a node holds itself
            seen.add((kind, id(node)))
            waiting += [(key if key in names else kind, each) for key, each in members if not (kind and key == "name")]


def _members(node: Any) -> Iterable[tuple[str, Any]] | None:
    """The parts of a node by their names, those that OpenTelemetry's schema does not have included; None for a value."""
    if isinstance(node, (list, tuple)):
        return [("", each) for each in node]
    if is_dataclass(node) and not isinstance(node, type):
        return vars(node).items()
    return node.items() if isinstance(node, Mapping) else None
