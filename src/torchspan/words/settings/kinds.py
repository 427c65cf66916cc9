# SPDX-License-Identifier: Apache-2.0
"""The values that a setting may have, in code, in a variable and in a configuration file."""

# Every Python that an instrumented program starts imports this: what only some kinds need is imported there.

from __future__ import annotations

from typing import Any


class SettingKind:
    """The values that a setting may have.

    Attributes:
        expected: These values in words, for messages and tables.
        annotation: Their type in the signature of `instrument()`.
        keeps_case: Whether upper and lower case differ in a variable.
    """

    expected: str
    annotation = "str"
    keeps_case = False

    def parse(self, value: Any) -> Any:
        """The value of an argument, in the one form in which torchspan uses it. Raises ValueError for an invalid one."""
        try:
            meaning = self._meaning(value)
        except (AttributeError, TypeError, ValueError, OverflowError):
            meaning = None
        if meaning is None:
            raise ValueError(self.expected)
        return meaning

    def read(self, text: str) -> Any:
        """The value of a variable. Raises ValueError for an invalid one."""
        return self.parse(text if self.keeps_case else text.lower())

    def read_option(self, value: object) -> Any:
        """The value of an option in a configuration file. Raises ValueError for an invalid one."""
        if isinstance(value, bool):  # in YAML, `on` and `off` without quotes are booleans
            value = "on" if value else "off"
        return self.read(value.strip()) if isinstance(value, str) else self.parse(value)

    def _meaning(self, value: Any) -> Any:
        """What `parse` returns. None, or any of the errors that `parse` catches: the value is invalid."""
        raise NotImplementedError


class Choice(SettingKind):
    """One of a few words."""

    def __init__(self, *choices: str) -> None:
        self.choices = choices
        self.expected = f"one of {', '.join(choices)}"
        self.annotation = f"Literal[{', '.join(map(repr, choices))}]".replace("'", '"')

    def _meaning(self, value: Any) -> str | None:
        return value if isinstance(value, str) and value in self.choices else None


class Switch(SettingKind):
    """On or off: a bool in code, a word in a variable."""

    expected = "one of 0, 1, false, true"
    annotation = "bool"
    _WORDS = {"1": True, "true": True, "0": False, "false": False}  # noqa: RUF012 - nothing changes it

    def read_option(self, value: object) -> Any:
        """The value of an option: a bool, or a word."""
        return self.parse(value.strip() if isinstance(value, str) else value)

    def _meaning(self, value: Any) -> bool | None:
        return self._WORDS.get(str(value).lower()) if isinstance(value, (int, str)) else None


class Number(SettingKind):
    """A number within bounds.

    Args:
        expected: The values in words.
        zero: Whether 0 is one of them, whatever the bounds.
        whole: Whether only whole numbers are.
    """

    def __init__(self, expected: str, least: float, most: float, *, zero: bool = False, whole: bool = False) -> None:
        self.expected = expected
        self.annotation = "int" if whole else "float"
        self._least, self._most, self._zero, self._whole = least, most, zero, whole

    def _meaning(self, value: Any) -> float | None:
        if isinstance(value, bool):
            return None
        number = int(str(value)) if self._whole else float(value)
        is_one = self._zero if number == 0 else self._least <= number <= self._most
        return number if is_one else None


class Permissions(SettingKind):
    """The permissions of a file, in octal digits. The owner's are among them."""

    expected = "a file's permissions in octal digits, such as 640"
    _LEAST, _MOST = 0o600, 0o666

    def _meaning(self, value: Any) -> int | None:
        mode = int(str(value), 8) if str(value).isascii() else 0
        return mode if mode & self._LEAST == self._LEAST and mode & ~self._MOST == 0 else None


class FunctionPath(SettingKind):
    """The path of a function: its module, and its name in the module. The script that runs is not such a module."""

    expected = "module:function, of a module that the program imports"
    keeps_case = True

    def _meaning(self, value: Any) -> str | None:
        return value if _is_path(value) else None


class EngineLayers(SettingKind):
    """The engine whose layers are timed, and in how many runs: `NAME:RUNS`, or `off`."""

    expected = "off, or the name of an engine or *, and after a colon a number of runs from 1 to 10000 (*:50)"
    keeps_case = True

    def _meaning(self, value: Any) -> str | None:
        if value.lower() == "off":
            return "off"
        name, colon, text = value.partition(":")
        runs = int(text) if colon else 20
        is_engine = name == "*" or (name.isidentifier() and name != "on")  # what YAML makes of `on` is no engine
        return f"{name}:{runs}" if is_engine and 1 <= runs <= 10_000 else None


class Ranks(SettingKind):
    """Some ranks of a job, or all of its processes: the text without spaces."""

    expected = "all, or ranks such as 0, 0-7 or 0,4-6"
    annotation = "str | int"

    def _meaning(self, value: Any) -> str | None:
        from torchspan.words.sampling.ranks import ALL, Selection

        if value == ALL:
            return ALL
        return str(Selection(str(value))) if type(value) in (int, str) else None


FOLLOW_NONE, FOLLOW_COMPILED = "off", "compiled"
"""Words of `FollowedClasses`."""


class FollowedClasses(SettingKind):
    """The modules whose calls are followed: none, those that Torch-TensorRT compiled, and the objects of classes.

    The text without spaces, each part once.
    """

    expected = "off, or compiled and module:Class, separated by commas, of modules that the program imports"
    keeps_case = True

    def _meaning(self, value: Any) -> str | None:
        parts = [part.strip() if ":" in part else part.strip().lower() for part in value.split(",")]
        is_known = parts == [FOLLOW_NONE] or all(part == FOLLOW_COMPILED or _is_path(part) for part in parts)
        return ",".join(dict.fromkeys(parts)) if is_known else None


class AnyText(SettingKind):
    """Any text."""

    expected = "a text"
    keeps_case = True

    def _meaning(self, value: Any) -> str:
        return str(value)


def _is_path(text: str) -> bool:
    """Whether it is `module:name`, dots in both, of another module than the script that runs."""
    module, colon, name = text.partition(":")
    return bool(colon) and module != "__main__" and all(map(str.isidentifier, (*module.split("."), *name.split("."))))
