# SPDX-License-Identifier: Apache-2.0
"""The keys of OpenTelemetry's conventions."""

import importlib
import pkgutil

from opentelemetry.semconv import _incubating, attributes


def standard_keys():
    """The keys in the installed package of the conventions."""
    modules = [
        importlib.import_module(module.name)
        for package in (attributes, importlib.import_module(f"{_incubating.__name__}.attributes"))
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
    ]
    return {
        value for module in modules for name, value in vars(module).items() if name.isupper() and type(value) is str
    }
