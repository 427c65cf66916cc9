# SPDX-License-Identifier: Apache-2.0
"""The options of `torchspan run` and `torchspan demo` that are settings."""

from __future__ import annotations

import argparse

from torchspan.words.settings import SETTINGS
from torchspan.words.settings.kinds import Choice, Switch


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the option of each setting that has one."""
    for setting in SETTINGS:
        value = "1" if isinstance(setting.kind, Switch) else setting.option_value
        if setting.option is not None and value is not None:
            text = (
                _help(setting.doc)
                if setting.option_value is None
                else f"{setting.variable}={value}: {_help(setting.doc)}"
            )
            parser.add_argument(setting.option, dest=setting.name, action="store_const", const=value, help=text)
        elif setting.option is not None:
            default = f"default: {setting.variable}, else {_help(setting.default_text or setting.default)}"
            text = f"{_help(setting.doc)} ({default})"
            choices = setting.kind.choices if isinstance(setting.kind, Choice) else None
            parser.add_argument(setting.option, dest=setting.name, choices=choices, help=text)


def variables(arguments: argparse.Namespace) -> dict[str, str]:
    """The environment variables that the given options stand for."""
    values = {setting.variable: getattr(arguments, setting.name) for setting in SETTINGS if setting.option is not None}
    return {variable: value for variable, value in values.items() if value is not None}


def _help(doc: str) -> str:
    text = doc.replace("`", "").replace("%", "%%").removesuffix(".")
    return text[:1].lower() + text[1:]
