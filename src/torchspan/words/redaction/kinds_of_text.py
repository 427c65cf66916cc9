# SPDX-License-Identifier: Apache-2.0
"""The kinds of text that an attribute may contain.

Each row of the table that has strings has a kind. The kind reduces any text to one that may leave the process, and
describes that text in plain words; the privacy page consists of these sentences. A kind reads only the text and what is
already loaded in the process. It imports no library.
"""

from __future__ import annotations

import re
from functools import cached_property, lru_cache
from typing import ClassVar

from torchspan.base import source_places
from torchspan.words.phase import BUILD_PHASE, SPANS
from torchspan.words.redaction import UNKNOWN
from torchspan.words.redaction.bounds import cut
from torchspan.words.redaction.message_table import graph_breaks
from torchspan.words.redaction.messages import LibraryMessage, of_text
from torchspan.words.redaction.type_names import BUILD_PHASES

OTHER_VALUE = "other"
"""Replaces a value that is not in an enumeration."""
NAME_LIMIT = 128
"""Maximum number of characters of a name."""
LAYERS_IN_A_NAME = 8
"""Maximum number of names of layers that TensorRT has joined."""


class Kind:
    """What the strings of an attribute may contain.

    A kind has its own `reduced`, or only its own `accepts` if a text leaves as a whole or not at all.

    Attributes:
        title: The kind's name, in lower case.
        leaves_with_text: A description of what leaves it with `TORCHSPAN_CAPTURE=text`; None if that is the same.
        is_local: Whether the whole text is in the user's own file with `TORCHSPAN_CAPTURE=local`.
        is_left_out: Whether a message of which nothing leaves is left out. Otherwise it is `?`.
    """

    title: ClassVar[str]
    leaves_with_text: ClassVar[str | None] = None
    is_local: ClassVar[bool] = False
    is_left_out: ClassVar[bool] = False

    @cached_property
    def leaves(self) -> str:
        """What leaves the process, for the privacy page: what the docstring of the kind says below its first line."""
        texts = ((each.__doc__ or "").partition("\n\n")[2] for each in type(self).__mro__)
        return " ".join(next(filter(None, texts)).split())

    def accepts(self, text: str) -> bool:
        """Whether `text` may be a value of this kind, unless texts are captured."""
        return self.reduced(text) == text

    def reduced(self, text: str) -> str:
        """The text as it may leave the process: `text` itself or a replacement. `accepts` is true of the result."""
        return text if self.accepts(text) else UNKNOWN

    def whole(self, text: str) -> str:
        """The text as it may leave the process with `TORCHSPAN_CAPTURE=text`, at most 2 KiB."""
        return self.reduced(text) if self.leaves_with_text is None else cut(text)

    def of_message(self, message: LibraryMessage) -> str:
        """A message as it may leave the process: only the kinds of messages take what was reduced where it was read."""
        return self.reduced(str(message))

    def shortened(self, text: str, _limit: int) -> str:
        """The replacement for a reduced text longer than `_limit` bytes, in a list that is too long as a whole."""
        return UNKNOWN if len(text) > len(UNKNOWN) else text


class Formed(Kind):
    """A text that matches a regular expression.

    Attributes:
        form: The expression for the whole text, compiled when it is first needed. No text can match it in two ways, so
            a mismatch is found in one pass.
    """

    form: ClassVar[str]

    def accepts(self, text: str) -> bool:
        """See `Kind`."""
        return re.fullmatch(self.form, text, re.ASCII) is not None or text == UNKNOWN


class Enumeration(Kind):
    """One of the values; anything else is `other`."""

    title = "enumeration"

    def __init__(self, *values: str) -> None:
        self.values = frozenset(values)
        listed = ", ".join(f"`{value}`" for value in values)
        self.leaves = f"One of {listed}. Anything else is `{OTHER_VALUE}`."

    @classmethod
    def of(cls, constants: type) -> Enumeration:
        """The values that a class has as constants, except for that of anything else."""
        values = (value for name, value in vars(constants).items() if name.isupper())
        return cls(*(value for value in values if value != OTHER_VALUE))

    def reduced(self, text: str) -> str:
        """See `Kind`."""
        return text if text in self.values or text == UNKNOWN else OTHER_VALUE


_PLAIN_PART = r"(?:[A-Za-z_]\w*|<[A-Za-z_]\w*>|\?)"
_PLAIN_NAME = re.compile(rf"{_PLAIN_PART}(?:\.{_PLAIN_PART})*", re.ASCII)
_INVISIBLE = frozenset("\u115f\u1160\u3164\uffa0")
"""Characters of the category letter that no font shows."""


@lru_cache(maxsize=2048)
def is_short_name(text: str) -> bool:
    """Whether a text of at most `NAME_LIMIT` characters is a name with dots."""
    if _PLAIN_NAME.fullmatch(text):
        return True
    return not text.isascii() and all(_is_word(part) for part in text.split("."))


def _is_word(part: str) -> bool:
    if part == UNKNOWN:
        return True
    if part.startswith("<") and part.endswith(">"):
        part = part[1:-1]
    return (
        part.isidentifier()
        and all(
            character == "_" or character.isalnum() for character in part
        )  # an identifier may have any number of combining marks
        and _INVISIBLE.isdisjoint(part)
    )


def is_name(text: str) -> bool:
    """Whether the text is a name with dots (`package.module.f.<locals>.Model`) of at most `NAME_LIMIT` characters."""
    return len(text) <= NAME_LIMIT and is_short_name(text)


class Identifier(Kind):
    """The name of a class, a function, an engine and similar, which the program may have chosen.

    A name of letters, digits, `_`, `.` and `<>`, at most 128 characters. The program may have chosen the name. Anything else is `?`,
    and a part of the name may be `?` as well.
    """

    title = "identifier"

    def accepts(self, text: str) -> bool:
        """See `Kind`."""
        return is_name(text)

    def reduced(self, text: str) -> str:
        """See `Kind`."""
        return text if is_name(text) else UNKNOWN


class ModulePath(Kind):
    """The path of a module inside a model.

    Names of letters, digits and `_`, and positions in lists of modules, of at most 4 digits (`encoder.layers.0`); at most 128
    characters. The program has chosen the names. A name below a module that is not called itself is `?`, because it may be a key of a
    `ModuleDict`. Any other text is `?` as a whole.
    """

    title = "path of a module"

    def accepts(self, text: str) -> bool:
        """See `Kind`."""
        return len(text) <= NAME_LIMIT and all(is_name(part) or self._is_position(part) for part in text.split("."))

    @staticmethod
    def _is_position(part: str) -> bool:
        return len(part) <= 4 and part.isascii() and part.isdigit()


class Digest(Formed):
    """A digest that torchspan computed.

    Hexadecimal digits of a digest that torchspan computed, at most 64. Equal digests mean equal contents. Anyone who knows or guesses
    the contents can compute the digest.
    """

    title = "digest"
    form = r"[0-9a-f]{1,64}"


class KeyedDigest(Digest):
    """A digest that torchspan computed under a key of the user.

    Hexadecimal digits of a digest that torchspan computed under a key, at most 64. Among the traces of one user, equal digests mean
    equal contents. The key is random. It is in a file that only this user can read, so that no one else can compute the digest of a
    guess.
    """

    title = "digest under a key"


class KeyPart(Formed):
    """The name of a part of a cache's key.

    PyTorch's name for a part of the key of a cache: an identifier, and in brackets an identifier, a number or `*` (`example_inputs[0]`,
    `inductor_config[triton.*]`). Anything else is `?`. Never a value.
    """

    title = "part of a key"
    form = r"[A-Za-z_]\w{0,63}(?:\[(?:\*|\w{1,64}(?:\.\w{1,64}){0,3}(?:\.\*)?)\])?"


class RandomId(Digest):
    """A randomly generated id: of a span, a trace or a run.

    Randomly generated hexadecimal digits.
    """

    title = "random id"


class Version(Formed):
    """The version of a library.

    A version that begins with a digit and has at most 64 letters, digits, `.`, `+`, `-` and `_`. Anything else is `?`.
    """

    title = "version"
    form = r"[0-9][0-9A-Za-z.+_-]{0,63}"


class RunId(Formed):
    """The id that a launcher gave to a run of several processes.

    The id that a launcher gave to a job: at most 64 letters, digits, `.`, `-` and `_`. Anything else is left out. The user who started
    the job may have chosen the id.
    """

    title = "id of a run"
    form = r"[0-9A-Za-z][0-9A-Za-z_.-]{0,63}"


class HostName(Formed):
    """The name of a machine.

    The name of the machine or the container: at most 253 letters, digits, `.`, `-` and `_`. Anything else is left out. Recorded only if
    `OTEL_EXPERIMENTAL_RESOURCE_DETECTORS` contains `torchspan`.
    """

    title = "name of a host"
    form = r"[0-9A-Za-z][0-9A-Za-z_.-]{0,252}"


class CompileId(Formed):
    """Dynamo's number of a compilation: `0/0`, `!1/0/0`.

    The numbers by which Dynamo identifies a compilation: `0/1`. Anything else is `?`.
    """

    title = "compile id"
    form = r"!?[0-9]{1,9}(?:/[0-9]{1,9}){0,2}"


class Text(Kind):
    """A message of a library.

    A message, or its first line, that the [table of messages](../reference/messages.md) knows, with types, shapes, operators and sizes;
    or one whose words are in the code of the library's function that raised it, with data types. Every other value in it is `?`, and so
    is any other message. What TensorRT writes around a message is kept: its function, the error code, and the place in its source.
    """

    title = "message"
    leaves_with_text = "The whole message with everything that it quotes, at most 2 KiB."
    is_local = True

    def reduced(self, text: str) -> str:
        """See `Kind`. One with the words of a library's code is not accepted: which code raised it is not known any more."""
        return str(of_text(text))

    def of_message(self, message: LibraryMessage) -> str:
        """See `Kind`."""
        return str(message)

    def shortened(self, text: str, limit: int) -> str:
        """See `Kind`."""
        return cut(text, limit)


class ErrorMessage(Text):
    """The message of an exception."""

    is_left_out = True


class GraphBreakType(Kind):
    """PyTorch's name for a kind of graph break.

    One of PyTorch's own phrases for kinds of graph breaks (`Data-dependent branching`). Anything else is `?`.
    """

    title = "type of a graph break"

    def accepts(self, text: str) -> bool:
        """See `Kind`."""
        return text in graph_breaks()[0] or text == UNKNOWN


class ProgramText(Kind):
    """A text that the program wrote.

    Nothing: it is `?`.
    """

    title = "text of the program"
    leaves_with_text = "The whole text, at most 2 KiB."
    is_local = True
    is_left_out = True

    def accepts(self, text: str) -> bool:
        """See `Kind`."""
        return text == UNKNOWN


class BuildPhaseName(Kind):
    """TensorRT's name for a phase of a build.

    The name of a phase of a build that TensorRT is known to report (`Building engine`). Anything else is `?`.
    """

    title = "build phase"

    def accepts(self, text: str) -> bool:
        """See `Kind`."""
        return text in BUILD_PHASES or text == UNKNOWN


class LayerName(Kind):
    """TensorRT's name of a layer of an engine, which may join the names of several that were fused.

    Of a name that Torch-TensorRT made, the type of the layer and the operator: `[CONVOLUTION]-[aten_ops.convolution.default]-[?]`.
    Names that TensorRT itself made: `__myl_ConvAct_myl0_1`, `(Unnamed Layer* 3) [Convolution]`. Any other name, such as that of a
    module, is `?`. Of names that are joined with ` + `, at most 8.
    """

    title = "layer"
    leaves_with_text = "The whole name, at most 2 KiB."
    is_local = True
    _OF_TORCH_TENSORRT = re.compile(r"(\[[A-Z_]{1,64}\]-\[[A-Za-z_][\w.]{0,127}\]-)\[.*\]", re.ASCII | re.DOTALL)
    _OF_TENSORRT = re.compile(r"__myl_\w{1,128}|\(Unnamed Layer\* \d{1,6}\) \[[A-Z][A-Za-z]{1,64}\]", re.ASCII)

    def reduced(self, text: str) -> str:
        """See `Kind`."""
        return " + ".join(map(self._reduced, text.split(" + ", LAYERS_IN_A_NAME)[:LAYERS_IN_A_NAME]))

    def _reduced(self, name: str) -> str:
        if self._OF_TENSORRT.fullmatch(name):
            return name
        match = self._OF_TORCH_TENSORRT.fullmatch(name)
        return UNKNOWN if match is None else f"{match[1]}[{UNKNOWN}]"


class SpanName(Kind):
    """The name of a span of torchspan, or of a step that has no span.

    The kind of work (`torch_tensorrt.convert`). If the work has a target, an identifier follows; for a phase of a build, its name
    follows. The name of a step without a span is only an identifier. Anything else is `?`.
    """

    title = "name of a span"
    _TARGETS: ClassVar[dict[str, Kind]] = {
        row.name: BuildPhaseName() if row is BUILD_PHASE else Identifier() for row in SPANS if row.has_target
    }

    def reduced(self, text: str) -> str:
        """See `Kind`. A target that is too long is replaced as a whole."""
        if is_name(text):
            return text
        phase_name, _, target = text.partition(" ")
        kind = self._TARGETS.get(phase_name) if target else None
        return UNKNOWN if kind is None else f"{phase_name} {kind.reduced(target)}"


class ProgramsSpanName(Kind):
    """The name of a span that the program itself started.

    The name of an open span, which may be one of the program's own spans, at most 256 bytes. Recorded only in the file of `torchspan
    run`, which contains the program's spans as well.
    """

    title = "name of the program's span"
    _LIMIT = 256

    def reduced(self, text: str) -> str:
        """See `Kind`."""
        return cut(text, self._LIMIT)

    def shortened(self, text: str, limit: int) -> str:
        """See `Kind`."""
        return cut(text, limit)


# --- Places in source code ------------------------------------------------------------------------------------------
class PlaceText(Kind):
    """The file of a piece of code.

    The path of a source file, relative to the folder on Python's import path that contains it (`models/net.py`), or only the file's
    name if no such folder contains it. Code without a file has `<string>` or similar. A folder or file whose name has characters other
    than ASCII letters, digits, `_`, `.`, `+` and `-` is `?`, and so is anything that is not a file.
    """

    title = "place"
    leaves_with_text = "The absolute path of the file, which may contain the name of a user."

    def accepts(self, text: str) -> bool:
        """See `Kind`."""
        return source_places.is_reduced(text)

    def reduced(self, text: str) -> str:
        """See `Kind`."""
        return source_places.reduced(text)


class LineText(PlaceText):
    """A line of a file, as one text.

    The path of a source file as in a place, a colon and the number of a line (`models/net.py:12`). Anything else is `?`. In a list that
    is too long as a whole, the path is only the file's name.
    """

    title = "line of code"
    leaves_with_text = (
        "The absolute path of the file, which may contain the name of a user, and the number of the line."
    )

    def accepts(self, text: str) -> bool:
        """See `Kind`."""
        file, _, line = text.rpartition(":")
        return text == UNKNOWN or (_is_line_number(line) and source_places.is_reduced(file))

    def reduced(self, text: str) -> str:
        """See `Kind`."""
        file, _, line = text.rpartition(":")
        path = source_places.reduced(file) if _is_line_number(line) else UNKNOWN
        return UNKNOWN if path == UNKNOWN else f"{path}:{line}"

    def shortened(self, text: str, limit: int) -> str:
        """See `Kind`."""
        name = text.rpartition("/")[2]
        return name if len(name) <= limit and self.accepts(name) else UNKNOWN


def _is_line_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9
