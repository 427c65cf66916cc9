# SPDX-License-Identifier: Apache-2.0
"""`torchspan show --what-leaves`: every distinct string of files, with its type, for a security review."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from torchspan.reading.answers.lines import Line, Style, printable
from torchspan.reading.answers.units import plural
from torchspan.reading.traces import Part, Place
from torchspan.words import phase, semconv
from torchspan.words.redaction.kinds_of_text import Text

_REJECTED, _UNTYPED, _LOCAL, _NO_MESSAGE = "!", "*", "=", "~"
"""What stands before a string that its type does not let through, before one without a type, before a whole text, which is in this
file alone, and before a message that is not in the table of messages."""


@dataclass(frozen=True)
class _Type:
    """What torchspan lets through at a place.

    Args:
        title: In the words of the table.
        accepts: None where torchspan has no type for what stands there.
        kind: Of the row, where there is one.
    """

    title: str
    accepts: Callable[[str], bool] | None = None
    kind: semconv.Kind | None = None

    @classmethod
    def of(cls, row: semconv.Attribute) -> _Type:
        """What a row lets through; of numbers and booleans no string."""
        kind = row.kind
        return cls.one_of(row.type, ()) if kind is None else cls(kind.title, kind.accepts, kind)

    @classmethod
    def one_of(cls, title: str, values: Iterable[str]) -> _Type:
        return cls(title, frozenset(values).__contains__)


def _is_span_name(text: str) -> bool:
    return text.partition(" ")[0] in _PHASES and semconv.span_name(text) == text


def _is_record_name(text: str) -> bool:
    return semconv.event_name(text) == text or (text.endswith(".exception") and text[: -len(".exception")] in _PHASES)


_PHASES = frozenset(row.name for row in phase.SPANS)
_ROWS: Mapping[str, semconv.Attribute] = {str(row): row for row in semconv.ATTRIBUTES}
_ATTRIBUTES = frozenset(part for part in Part if part.name.endswith("ATTRIBUTE") and part is not Part.SCOPE_ATTRIBUTE)
_WHOLE_TEXT = _Type("whole text, in this file alone", lambda _text: True)
_NO_ROW = _Type("no row in the table")
_NO_TYPE = _Type("no type")
_NO_ID = _Type.one_of("not an id", ())
_EVENT = _Type("name of an event", lambda text: semconv.event_name(text) == text)
_OF_TORCHSPAN: Mapping[Part, _Type] = {
    Part.NAME: _Type("name of a span", _is_span_name),
    Part.EVENT: _EVENT,
    Part.LOG_EVENT: _Type("name of an event", _is_record_name),
    Part.LOG_TEXT: _Type.one_of("severity", ("INFO", "WARN", "ERROR", "FATAL")),
    Part.STATUS: _Type.of(semconv.BUILD_ERROR),
    Part.METRIC: _Type.one_of("name of a metric", semconv.METRICS),
    Part.METRIC_TEXT: _Type.one_of("description in the table", (row.brief for row in semconv.METRICS)),
    Part.UNIT: _Type.one_of("unit in the table", (row.unit for row in semconv.METRICS)),
    Part.SCOPE: _Type.one_of("torchspan's scope", [semconv.SCOPE_NAME]),
    Part.SCOPE_VERSION: _Type.of(semconv.IMPORT_VERSION),
    Part.SCHEMA: _Type.one_of("torchspan's schema", [semconv.SCHEMA_URL]),
}


def _type_at(place: Place) -> _Type:
    """What torchspan lets through at the place. On spans of the program it is what torchspan adds to them."""
    is_own = place.scope == semconv.SCOPE_NAME
    if is_own and place.key.startswith(semconv.LOCAL):
        return _WHOLE_TEXT
    if place.part in _ATTRIBUTES:
        row = _ROWS.get(place.key)
        is_of_run = row is not None and row.resource and place.part is Part.RESOURCE_ATTRIBUTE
        if row is not None and (is_own or is_of_run or place.key.startswith(semconv.NAMESPACES)):
            return _Type.of(row)
        return _NO_ROW if is_own else _NO_TYPE
    if place.part is Part.ID:
        return _NO_ID
    return _OF_TORCHSPAN.get(place.part, _NO_TYPE) if is_own else _NO_TYPE


@dataclass
class Listing:
    """The strings by section and place, as lines. `rejected` counts those that their types do not let through."""

    texts: Mapping[Place, set[str]]
    shows_texts: bool = False
    rejected: int = 0
    _whole: int = field(default=0, init=False)
    _untyped: int = field(default=0, init=False)
    _local: int = field(default=0, init=False)
    _no_messages: int = field(default=0, init=False)

    def lines(self) -> Iterator[Line]:
        """A section for torchspan, one for the resource, one for each other scope; then what is not of its type.

        In each, attributes that have numbers or booleans alone come last.
        """
        section = None
        for place in sorted(self.texts, key=lambda place: _position(place, has_strings=bool(self.texts[place]))):
            name = _section(place)
            if name != section:
                if section is not None:
                    yield [("", Style.PLAIN)]
                yield [(name, Style.STRONG)]
                section = name
            type_ = _type_at(place)
            key = f" {_spelled(place.key)}" if place.key else ""
            yield [(f"  {place.part.value}{key}", Style.PLAIN), (f": {type_.title}", Style.DIM)]
            if type_ is _WHOLE_TEXT and not self.shows_texts:
                self._local += len(self.texts[place])
                yield [(f"    {_LOCAL} {plural(len(self.texts[place]), 'text')}; --text shows them", Style.PLAIN)]
                continue
            for text in sorted(self.texts[place]):
                yield self._line(text, type_)
        yield [("", Style.PLAIN)]
        yield from self._summary()

    def _line(self, text: str, type_: _Type) -> Line:
        mark, style = " ", Style.PLAIN
        if type_ is _WHOLE_TEXT:
            self._local += 1
            mark = _LOCAL
        elif type_.accepts is None:
            self._untyped += 1
            mark, style = _UNTYPED, Style.FALLBACK
        elif not type_.accepts(text) and isinstance(type_.kind, Text):
            self._no_messages += 1
            mark = _NO_MESSAGE
        elif not type_.accepts(text):
            self.rejected += 1
            self._whole += type_.kind is not None and type_.kind.leaves_with_text is not None
            mark, style = _REJECTED, Style.ERROR
        return [(f'    {mark} "{_spelled(text)}"', style)]

    def _summary(self) -> Iterator[Line]:
        count = sum(map(len, self.texts.values()))
        yield [(f"{plural(count, 'distinct string')} in {plural(len(self.texts), 'place')}", Style.STRONG)]
        if self.rejected:
            whole = f"; {self._whole} where TORCHSPAN_CAPTURE=text records whole texts" if self._whole else ""
            yield [(f"{_REJECTED} {self.rejected} not let through by the type{whole}", Style.ERROR)]
        if self._no_messages:
            line = "not in the table of messages: words of a library's code, or whole texts (TORCHSPAN_CAPTURE=text)"
            yield [(f"{_NO_MESSAGE} {self._no_messages} {line}", Style.PLAIN)]
        if self._local:
            line = f"{_LOCAL} {self._local} in this file alone: torchspan show --redact FILE COPY writes a copy without them"
            yield [(line, Style.PLAIN)]
        if self._untyped:
            yield [(f"{_UNTYPED} {self._untyped} without a type: the program's or OpenTelemetry's own", Style.FALLBACK)]


def _position(place: Place, *, has_strings: bool) -> tuple[int, str, bool, int, str]:
    order = 0 if place.scope == semconv.SCOPE_NAME else 1 if place.part is Part.RESOURCE_ATTRIBUTE else 2
    return order, place.scope, not has_strings, _ORDER[place.part], place.key


_ORDER = {part: number for number, part in enumerate(Part)}


def _section(place: Place) -> str:
    if place.part is Part.RESOURCE_ATTRIBUTE:
        return "resource"
    return f"scope {_spelled(place.scope)}" if place.scope else "no scope"


def _spelled(text: str) -> str:
    """The text on one line, so that no two texts look alike because of what is written out (`printable`)."""
    return printable(text.replace("\\", r"\\"))
