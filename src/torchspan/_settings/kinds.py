# SPDX-License-Identifier: Apache-2.0
"""The values that a setting may have, in code, in a variable and in a configuration file."""

# Every Python that an instrumented program starts imports this: what only some kinds need is imported there.

from __future__ import annotations

from typing import Any, get_args


class SettingKind:
    """The values that a setting may have.

    Attributes:
        expected: These values in words, for messages and tables.
    """

    expected: str

    def parse(self, value: object) -> Any:
        """The value of an argument. Raises ValueError for an invalid one."""
        raise NotImplementedError

    def read(self, text: str) -> Any:
        """The value of a variable, whatever its case. Raises ValueError for an invalid one."""
        return self.parse(text.lower())

    def read_option(self, value: object) -> Any:
        """The value of an option in a configuration file. Raises ValueError for an invalid one."""
        return self.read(value.strip()) if isinstance(value, str) else self.parse(value)


class Choice(SettingKind):
    """One of a few words.

    Args:
        literal: The `Literal` type that lists them.
    """

    def __init__(self, literal: Any) -> None:
        self.choices: tuple[str, ...] = get_args(literal)
        self.expected = f"one of {', '.join(self.choices)}"

    def parse(self, value: object) -> str:
        """The word. Raises ValueError if it is not one of the choices."""
        if isinstance(value, str) and value in self.choices:
            return value
        raise ValueError(self.expected)

    def read_option(self, value: object) -> str:
        """The word. In YAML, `on` and `off` without quotes are booleans."""
        if isinstance(value, bool):
            return self.parse("on" if value else "off")
        return str(super().read_option(value))


class Switch(SettingKind):
    """On or off: a bool in code, a word in a variable."""

    expected = "one of 0, 1, false, true"
    _WORDS = {"1": True, "true": True, "0": False, "false": False}  # noqa: RUF012 - nothing changes it

    def parse(self, value: object) -> bool:
        """Whether it is on. Raises ValueError for any other value."""
        if isinstance(value, bool):
            return value
        on = self._WORDS.get(str(value).lower()) if isinstance(value, (int, str)) else None
        if on is None:
            raise ValueError(self.expected)
        return on


class Seconds(SettingKind):
    """A duration between two bounds, or 0."""

    def __init__(self, shortest: float, longest: float) -> None:
        self._shortest, self._longest = shortest, longest
        self.expected = f"0 for none, or {shortest:g} to {longest:.0f} seconds"

    def parse(self, value: object) -> float:
        """The seconds. Raises ValueError if they are neither 0 nor within the bounds."""
        numeric: Any = None if isinstance(value, bool) else value
        try:
            seconds = float(numeric)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(self.expected) from None
        if seconds == 0 or self._shortest <= seconds <= self._longest:
            return seconds
        raise ValueError(self.expected)


class Number(SettingKind):
    """A number that is not negative.

    Args:
        expected: The values in words.
        largest: The largest of them.
        zero: Whether 0 is one.
    """

    def __init__(self, expected: str, largest: float, *, zero: bool) -> None:
        self._largest, self._zero = largest, zero
        self.expected = expected

    def parse(self, value: object) -> float:
        """The number. Raises ValueError if the value is not a number, or outside the bounds."""
        numeric: Any = None if isinstance(value, bool) else value
        try:
            number = float(numeric)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(self.expected) from None
        if 0 < number <= self._largest or (self._zero and number == 0):
            return number
        raise ValueError(self.expected)


class FunctionPath(SettingKind):
    """The path of a function: its module, and its name in the module."""

    expected = "module:function, of a module that the program imports"

    def parse(self, value: object) -> str:
        """The text. Raises ValueError if it is not such a path, or if it leads into the script that runs."""
        module, colon, path = value.partition(":") if isinstance(value, str) else ("", "", "")
        parts = (*module.split("."), *path.split("."))
        if colon and module != "__main__" and all(map(str.isidentifier, parts)):
            return f"{module}:{path}"
        raise ValueError(self.expected)

    def read(self, text: str) -> str:
        """As `parse`. The case of a name matters."""
        return self.parse(text)


class EngineLayers(SettingKind):
    """The engine whose layers are timed, and in how many runs."""

    expected = "off, or the name of an engine or *, and after a colon a number of runs from 1 to 10000 (*:50)"

    def parse(self, value: object) -> str:
        """The text with its number of runs, `NAME:RUNS`; `off`. Raises ValueError for anything else."""
        name, colon, runs = value.partition(":") if isinstance(value, str) else ("", "", "")
        if name.lower() == "off" and not colon:
            return "off"
        number = runs if colon else "20"
        is_number = number.isascii() and number.isdigit() and len(number) <= 5
        if (name == "*" or name.isidentifier()) and is_number and 1 <= int(number) <= 10_000:
            return f"{name}:{int(number)}"
        raise ValueError(self.expected)

    def read(self, text: str) -> str:
        """As `parse`. The case of a name matters."""
        return self.parse(text)

    def read_option(self, value: object) -> str:
        """The text. In YAML, `off` without quotes is a boolean."""
        return "off" if value is False else str(super().read_option(value))


class Ranks(SettingKind):
    """Some ranks of a job, or all of its processes."""

    expected = "all, or ranks such as 0, 0-7 or 0,4-6"

    def parse(self, value: object) -> str:
        """The text without spaces. Raises ValueError if it selects nothing."""
        from torchspan._sampling.ranks import ALL, Selection

        if value == ALL:
            return ALL
        numeric = isinstance(value, int) and not isinstance(value, bool)
        if not (numeric or isinstance(value, str)):
            raise ValueError(self.expected)
        try:
            return str(Selection(str(value)))
        except ValueError:
            raise ValueError(self.expected) from None


FOLLOW_NONE, FOLLOW_COMPILED = "off", "compiled"
"""Words of `Followed`."""


class FollowedClasses(SettingKind):
    """The modules whose calls are followed: none, those that Torch-TensorRT compiled, and the objects of classes."""

    expected = "off, or compiled and module:Class, separated by commas, of modules that the program imports"

    def parse(self, value: object) -> str:
        """The text without spaces, each part once. Raises ValueError if a part cannot be followed."""
        parts = [part.strip() for part in value.split(",")] if isinstance(value, str) else [""]
        if parts == [FOLLOW_NONE] or all(part == FOLLOW_COMPILED or self._is_class(part) for part in parts):
            return ",".join(dict.fromkeys(parts))
        raise ValueError(self.expected)

    def read(self, text: str) -> str:
        """As `parse`: the case of a name matters."""
        return self.parse(",".join(part if ":" in part else part.lower() for part in text.split(",")))

    def read_option(self, value: object) -> str:
        """The text. In YAML, `off` without quotes is a boolean."""
        return FOLLOW_NONE if value is False else str(super().read_option(value))

    @staticmethod
    def _is_class(text: str) -> bool:
        module, colon, name = text.partition(":")
        parts = (*module.split("."), *name.split("."))
        return bool(colon) and module != "__main__" and all(map(str.isidentifier, parts))


class Whole(SettingKind):
    """A whole number from 1 on."""

    _MOST = 1_000_000_000
    expected = "a whole number from 1 to 1000000000"

    def parse(self, value: object) -> int:
        """The number. Raises ValueError for any other value."""
        if isinstance(value, str) and value.isascii() and value.isdecimal():
            value = int(value[:12])
        if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= self._MOST:
            return value
        raise ValueError(self.expected)


class Permissions(SettingKind):
    """The permissions of a file, in octal digits."""

    expected = "a file's permissions in octal digits, such as 640"
    _LEAST, _MOST = 0o600, 0o666

    def parse(self, value: object) -> int:
        """The permissions, which include the owner's. Raises ValueError for any other value."""
        digits = str(value).removeprefix("0o")
        mode = int(digits[:8], 8) if digits.isascii() and digits.isdecimal() and not set(digits) & {"8", "9"} else 0
        if len(digits) <= 8 and mode & self._LEAST == self._LEAST and mode & ~self._MOST == 0:
            return mode
        raise ValueError(self.expected)


class Bytes(SettingKind):
    """A positive number of bytes."""

    expected = "a positive number of bytes"

    def parse(self, value: object) -> int:
        """The bytes. Raises ValueError if the value is not a positive whole number."""
        try:
            size = int(str(value))
        except ValueError:
            raise ValueError(self.expected) from None
        if size > 0:
            return size
        raise ValueError(self.expected)


class AnyText(SettingKind):
    """Any text."""

    expected = "a text"

    def parse(self, value: object) -> str:
        """The text."""
        return str(value)

    def read(self, text: str) -> str:
        """As `parse`: the case matters."""
        return text
