# SPDX-License-Identifier: Apache-2.0
"""The calls that several processes observed, as if one had observed them all.

Counts, ranges and shapes add up exactly, in whatever order. Where one part has no values, the whole has none.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from torchspan.inputs.written.decoder import decoded
from torchspan.inputs.written.documents import title
from torchspan.inputs.written.encoder import Record, encoded


def merged(records: Sequence[Record]) -> Record:
    """All of them as one.

    Args:
        records: At least one. Raises ValueError where they are of several classes, or the method has several signatures.
    """
    first, *others = _alike(records)
    for other in others:
        if title(other) != title(first):
            raise ValueError(
                f"Calls of {title(first)} and of {title(other)} cannot be merged: they are calls of two methods. Merge the calls of each method separately."
            )
        if other["parameters"] != first["parameters"]:
            raise ValueError(
                f"Calls of {title(first)} cannot be merged: the method has different parameters, or different default values, in some of "
                "them. Observe it in one version of the program."
            )
    parts = [first, *others]
    return {
        **first,
        "removed": sorted({name for part in parts for name in part["removed"]}),
        "if_missing": {name: tree for part in reversed(parts) for name, tree in part["if_missing"].items()},
        "by_keyword": sorted({name for part in parts for name in part["by_keyword"]}),
        "counts": {name: sum(part["counts"][name] for part in parts) for name in first["counts"]},
        "shapes": _shapes([shape for part in parts for shape in part["shapes"]]),
        "ranges": _ranges([row for part in parts for row in part["ranges"]]),
    }


def grouped(records: Sequence[Record]) -> list[Record]:
    """Those of one class with one signature merged, in the order in which they come."""
    groups: dict[str, list[Record]] = {}
    for record in _alike(records):
        groups.setdefault(_text([record["class"], record["parameters"]]), []).append(record)
    return [merged(group) for group in groups.values()]


def _alike(records: Sequence[Record]) -> Sequence[Record]:
    """All with values or all without."""
    if all(record["values"] for record in records):
        return records
    return [encoded(decoded(record), values=False) if record["values"] else record for record in records]


def _shapes(shapes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The shapes in an order that is the same everywhere; of equal ones the first stands for the others."""
    ordered = sorted(shapes, key=lambda shape: (shape["first"], _text(shape["arguments"])))
    by_identity: dict[str, dict[str, Any]] = {}
    for shape in ordered:
        identity = _text({name: _identity(tree) for name, tree in shape["arguments"].items()})
        total = by_identity.get(identity)
        if total is None:
            by_identity[identity] = copy.deepcopy({**shape})
            continue
        total["calls"] += shape["calls"]
        for name, tree in shape["arguments"].items():
            _add(total["arguments"][name], tree)
    return list(by_identity.values())


def _identity(tree: Any) -> Any:
    """Equal for trees of one shape: without values of constants, and whatever the order of keys."""
    if tree is None or "dtype" in tree or "unknown" in tree:
        return tree
    if "type" in tree:
        return tree["type"]
    return tree["container"], sorted((key, _text(_identity(part))) for key, part in _parts(tree).items())


def _add(total: Any, tree: Any) -> None:
    """Add the counts of the constants of a tree to those of another one of the same shape."""
    if tree is not None and "type" in tree:
        total["calls"] = dict(sorted((Counter(total["calls"]) + Counter(tree["calls"])).items()))
    elif tree is not None and "container" in tree:
        parts = _parts(total)
        for key, part in _parts(tree).items():
            _add(parts[key], part)


def _parts(tree: Mapping[str, Any]) -> dict[str, Any]:
    items = tree["items"]
    return dict(zip(map(_text, tree.get("keys", range(len(items)))), items, strict=True))


def _ranges(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    by_path: dict[str, dict[str, Any]] = {}
    for row in rows:
        total = by_path.setdefault(_text(row["path"]), {"path": row["path"], "dtypes": {}, "ranks": []})
        total["dtypes"] = dict(Counter(total["dtypes"]) + Counter(row["dtypes"]))
        ranks = {rank: bounds for rank, *bounds in total["ranks"]}
        for rank, count, low, high in row["ranks"]:
            calls, lowest, highest = ranks.get(rank, (0, low, high))
            ranks[rank] = [calls + count, [*map(min, lowest, low)], [*map(max, highest, high)]]
        total["ranks"] = [[rank, *bounds] for rank, bounds in sorted(ranks.items())]
    return list(by_path.values())


def _text(written: Any) -> str:
    return json.dumps(written, sort_keys=True)
