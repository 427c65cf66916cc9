# SPDX-License-Identifier: Apache-2.0
"""Observed calls as a table for the terminal."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torchspan.inputs.aligned.alignment import Alignment, LeafSummary
from torchspan.inputs.aligned.findings import Finding
from torchspan.inputs.observed.leaves import Path, label
from torchspan.inputs.observed.observations import Snapshot
from torchspan.inputs.observed.signatures import WithheldName
from torchspan.inputs.written.portable import WithheldKey, as_pair, name_of

_HEADINGS = ("argument", "type", "calls", "rank", "axis", "min", "usual", "max", "distinct", "sizes")
_RIGHT = frozenset({"rank", "axis", "min", "usual", "max", "distinct"})
_BARS = "▁▂▃▄▅▆▇█"
_NO_CALL = "·"
_BUCKETS = 8
_GAP, _NARROW_GAP = "  ", " "
_FEWEST_COLUMNS = _HEADINGS.index("max") + 1
"""Columns that every table has. Those to the right of them are left out where the terminal is too narrow."""
_SHORTEST_NAME = 12
"""Characters of an argument's name that remain where the terminal is too narrow."""
_PLACES = 4
"""Places that are named for one finding."""

_WITHHELD = "`#` stands for a key or a keyword that was not written. to_json(values=True) writes it, and so does TORCHSPAN_CAPTURE=text."

Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _ReportRow:
    """What the table says of one leaf.

    Args:
        rows: Without the argument's name.
    """

    path: Path
    rows: tuple[Row, ...]

    @property
    def like(self) -> tuple[object, ...]:
        """Equal for leaves of one argument of which the table says the same, at places that differ in positions alone."""
        return (*("*" if type(part) is int else part for part in self.path), self.rows)


def report(name: str, snapshot: Snapshot, alignment: Alignment | None, findings: Sequence[Finding], width: int) -> str:
    """The table, and the findings below it.

    Args:
        name: The observed method.
        alignment: None where there are no calls.
        width: Columns of the text.
    """
    calls = snapshot.counts.completed
    kept = len(snapshot.shapes) if alignment is None else len(alignment.shapes)
    more = "more than " if snapshot.counts.beyond_limit else ""
    lines = _wrapped(f"{name}: {_number(calls, 'call')}, {more}{_number(kept, 'shape')}", width, "")
    if alignment is not None:
        entries = list(_entries(alignment))
        lines += ["", *_table(_folded(entries), width)]
        if any(isinstance(key, (WithheldKey, WithheldName)) for row in entries for key in row.path):
            lines += [
                "",
                *_wrapped(_WITHHELD, width, ""),
            ]
    if findings:
        lines += ["", "findings"]
        for (kind, message), paths in _merged(findings).items():
            lines += _wrapped(f"{', '.join([kind, *paths])}: {message}", width, "  ")
    return "\n".join(_printable(line).rstrip() for line in lines)


def _merged(findings: Sequence[Finding]) -> dict[tuple[str, str], list[str]]:
    """Kind and message → the places of which it is said, the first ones by name."""
    places: dict[tuple[str, str], list[str]] = {}
    for finding in findings:
        places.setdefault((finding.kind, finding.message), []).extend([finding.path] if finding.path else [])
    return {
        said: paths[:_PLACES] + ([f"and {len(paths) - _PLACES:,} more"] if len(paths) > _PLACES else [])
        for said, paths in places.items()
    }


def _entries(alignment: Alignment) -> Iterator[_ReportRow]:
    calls = sum(shape.count for shape in alignment.shapes)
    template = {path: index for index, (path, _) in enumerate(alignment.template_leaves())}
    order = {name: index for index, name in enumerate(alignment.names)}
    for path in sorted(alignment.summaries, key=lambda path: (order[str(path[0])], template.get(path, len(template)))):
        summary = alignment.summaries[path]
        rows = [*_rows_of_tensors(path, summary, alignment), *_rows_of_others(summary)]
        if rows:
            with_calls = max(calls, summary.calls)
            counted = f"{summary.calls:,}" if summary.calls == with_calls else f"{summary.calls:,} of {with_calls:,}"
            first = (rows[0][0], counted, *rows[0][2:])
            yield _ReportRow(path, (first, *rows[1:]))


def _rows_of_tensors(path: Path, summary: LeafSummary, alignment: Alignment) -> Iterator[Row]:
    dtypes = ", ".join(str(dtype).removeprefix("torch.") for dtype, count in summary.ranges.dtypes.items() if count)
    for rank, (count, low, high) in sorted(summary.ranges.by_rank.items()):
        if not count:  # what stands for a missing argument
            continue
        if rank == 0:
            yield dtypes, "", "0", "", "", "", "", "", ""
        for axis in range(rank):
            sizes = _sizes(path, axis, rank, alignment)
            beyond = count > sum(sizes.values())
            usual = sizes.most_common(1)[0][0] if sizes else None
            yield (
                "" if axis else dtypes,
                "",
                "" if axis else str(rank),
                str(axis),
                f"{low[axis]:,}",
                "?" if usual is None else f"{usual:,}",
                f"{high[axis]:,}",
                f"{len(sizes):,}{'+' * beyond}",
                _histogram(sizes),
            )


def _sizes(path: Path, axis: int, rank: int, alignment: Alignment) -> Counter[int]:
    """How many calls had each size, in order of first appearance."""
    sizes: Counter[int] = Counter()
    ranks = alignment.ranks(path)
    for size, of_rank, shape in zip(alignment.sizes(path, axis), ranks, alignment.shapes, strict=True):
        if size is not None and of_rank == rank:
            sizes[size] += shape.count
    return sizes


def _histogram(sizes: Counter[int]) -> str:
    """A bar for each of a few ranges of sizes of one width, from the smallest to the largest."""
    if len(sizes) < 2:
        return ""
    low, high = min(sizes), max(sizes)
    number = min(_BUCKETS, high - low + 1)
    buckets = [0] * number
    for size, count in sizes.items():
        buckets[(size - low) * number // (high - low + 1)] += count
    most = max(buckets)
    return "".join(_BARS[-(-bucket * len(_BARS) // most) - 1] if bucket else _NO_CALL for bucket in buckets)


def _rows_of_others(summary: LeafSummary) -> Iterator[Row]:
    blank = ("",) * 7
    if summary.constants:
        kinds = ", ".join(dict.fromkeys(as_pair(constant)[0].__name__ for constant in summary.constants))
        number = len(summary.constants)
        count = sum(summary.constants.values())
        said = (
            f"constant in {_number(count, 'call')}" if number == 1 else f"{number} values in {_number(count, 'call')}"
        )
        yield kinds, "", said, *blank[1:]
    for kind in summary.opaque:
        yield name_of(kind), "", "not recorded", *blank[1:]


def _folded(entries: Sequence[_ReportRow]) -> Iterator[tuple[str, tuple[Row, ...]]]:
    """Leaves of which the table says the same as one entry: a cache has the same tensors for each layer."""
    alike = Counter(row.like for row in entries)
    said = set()
    for row in entries:
        if row.like not in said:
            said.add(row.like)
            more = alike[row.like] - 1
            yield label(row.path) + (f" and {more:,} more" if more else ""), row.rows


def _table(entries: Iterator[tuple[str, tuple[Row, ...]]], width: int) -> list[str]:
    rows: list[Row] = [_HEADINGS]
    for name, of_entry in entries:
        for index, row in enumerate(of_entry):
            rows.append(("" if index else name, *row))
    lines = _in_columns(rows, _GAP)
    return lines if _widest(lines) <= width else _narrow(rows, width)


def _narrow(rows: Sequence[Row], width: int) -> list[str]:
    """The table with classes without their modules, shorter names of arguments, and, if it has to be, fewer columns."""
    longest = max(len(row[0]) for row in rows)
    columns = len(_HEADINGS) + 1
    name = 0
    while name < min(longest, _SHORTEST_NAME) and columns > _FEWEST_COLUMNS:
        columns -= 1
        shown = [(row[0], row[1].rpartition(".")[2], *row[2:columns]) for row in rows]
        name = longest - max(_widest(_in_columns(shown, _NARROW_GAP)) - width, 0)
    name = max(name, min(longest, _SHORTEST_NAME))
    lines = _in_columns([(_cut(row[0], name), *row[1:]) for row in shown], _NARROW_GAP)
    left_out = _HEADINGS[columns:]
    if left_out:
        lines += ["", *_wrapped(f"Left out in {width} columns: {' and '.join(left_out)}.", width, "")]
    return lines


def _cut(name: str, length: int) -> str:
    """The beginning and the end of a name that is too long."""
    return name if len(name) <= length else f"{name[: length // 2]}…{name[len(name) - (length - 1) // 2 :]}"


def _widest(lines: Sequence[str]) -> int:
    return max(len(line.rstrip()) for line in lines)


def _in_columns(rows: Sequence[Row], gap: str) -> list[str]:
    widths = [
        max(len(row[column]) for row in rows if row[4] or column < 3)  # without an axis a text goes through the columns
        for column in range(len(rows[0]))
    ]
    return [_line(row, widths, gap) for row in rows]


def _line(row: Row, widths: Sequence[int], gap: str) -> str:
    """A row in columns. Where it has no axis, the text of the fourth column takes the room of the others."""
    cells = [
        cell.rjust(width) if heading in _RIGHT and (row[4] or cell.isdigit()) else cell.ljust(width)
        for heading, cell, width in zip(_HEADINGS, row, widths, strict=False)
    ]
    return gap.join(cells)


def _wrapped(text: str, width: int, indent: str) -> list[str]:
    return textwrap.wrap(
        text, max(width, 40), initial_indent=indent, subsequent_indent=f"{indent}  " if indent else "",
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def _printable(text: str) -> str:
    """A keyword of the program may have any characters."""
    return (
        text
        if text.isprintable()
        else "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)
    )


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"
