# SPDX-License-Identifier: Apache-2.0
"""What has changed in registry/ since the last release, which registry/released.json has; `make release-check` writes that file.

A stable name may get attributes and values. It keeps its type, its unit, its instrument, its values and those of its attributes that
are stable, and it does not go. Everything else may change, with a line in CHANGELOG.md that has the name.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
REGISTRY = ROOT / "registry"
RELEASED = REGISTRY / "released.json"
SIGNALS = {"spans": "type", "events": "name", "metrics": "name"}
"""What a file of the registry defines -> the key of its name."""


@dataclass(frozen=True)
class Change:
    """One difference. name: what CHANGELOG.md must have. is_break: whether it breaks the promise of a stable name."""

    name: str
    sentence: str
    is_break: bool


def documents(folder=REGISTRY):
    """The registry's documents: `attributes`, `spans`, `events` and `metrics`."""
    names = ("attributes", *SIGNALS)
    return {name: yaml.safe_load((folder / f"{name}.yaml").read_text(encoding="utf-8")) for name in names}


def facts_of(files):
    """The facts of each name in the registry's documents: kind -> name -> fact -> value. Facts are texts, or lists of names."""
    groups = {group["id"]: _references(group, {}) for group in files["attributes"]["attribute_groups"]}
    facts = {"attributes": {row["key"]: _attribute(row) for row in files["attributes"]["attributes"]}}
    for kind, key in SIGNALS.items():
        facts[kind] = {row[key]: _signal(row, groups) for row in files[kind][kind]}
    return facts


def _attribute(row):
    if isinstance(row["type"], str):
        return {"stability": row["stability"], "type": row["type"]}
    members = sorted(str(member["value"]) for member in row["type"]["members"])
    return {"stability": row["stability"], "type": "string", "values": members}


def _signal(row, groups):
    facts = {fact: row[fact] for fact in ("stability", "unit", "instrument") if fact in row}
    return {**facts, "attributes": sorted(_references(row, groups))}


def _references(row, groups):
    """The keys of a signal's or a group's attributes."""
    keys = set()
    for reference in row["attributes"]:
        keys |= {reference["ref"]} if "ref" in reference else groups[reference["ref_group"]]
    return keys


def changes(released, now):
    """The differences between the facts of a release and those of now, kind by kind."""
    in_development = {name for name, facts in released.get("attributes", {}).items() if not _is_stable(facts)}
    for kind in now:
        before, after = released.get(kind, {}), now[kind]
        word = kind.removesuffix("s")
        for name in sorted(before.keys() | after.keys()):
            if name not in before:
                yield Change(name, f"{word} {name} is new", is_break=False)
            elif name not in after:
                yield Change(name, f"{word} {name} is gone", is_break=_is_stable(before[name]))
            else:
                yield from _differences(f"{word} {name}", name, before[name], after[name], in_development)


def _differences(title, name, before, after, in_development):
    is_stable = _is_stable(before)
    for fact in sorted(before.keys() | after.keys()):
        old, new = before.get(fact), after.get(fact)
        if isinstance(old, list) and isinstance(new, list):
            # An attribute that a signal gets or loses is found in CHANGELOG.md under its own name.
            named = name if fact == "values" else None
            for entry in sorted(set(new) - set(old)):
                yield Change(named or entry, f"{title}: {entry} is new in {fact}", is_break=False)
            for entry in sorted(set(old) - set(new)):
                is_break = is_stable and entry not in in_development
                yield Change(named or entry, f"{title}: {entry} is gone from {fact}", is_break=is_break)
        elif old != new:
            yield Change(name, f"{title}: {fact} was {old}, is {new}", is_break=is_stable)


def _is_stable(facts):
    return facts["stability"] == "stable"


def unmentioned(found, changelog, version):
    """Sentences: the changes whose name is in no section of the changelog above that of the released version."""
    newer = re.split(rf"^## \[{re.escape(version)}\]", changelog, maxsplit=1, flags=re.MULTILINE)[0]
    for change in found:
        if not re.search(rf"(?<![\w.]){re.escape(change.name)}(?![\w.]*\w)", newer):
            yield f"{change.sentence}; CHANGELOG.md has no line with {change.name}"


def broken(found):
    """Sentences: the changes that break the promise of a stable name."""
    yield from (f"{change.sentence}, but it is stable" for change in found if change.is_break)


def read_released(path=RELEASED):
    """The version of the last release and its facts; None and no facts if there was none."""
    if not path.exists():
        return None, {}
    content = json.loads(path.read_text(encoding="utf-8"))
    return content.pop("version"), content


def write_released(version, facts, path=RELEASED):
    """Make the facts those of the release with this version. A name is a line of the file."""
    kinds = [
        f"{json.dumps(kind)}: {{\n"
        + ",\n".join(f"  {json.dumps(name)}: {json.dumps(names[name])}" for name in sorted(names))
        + "\n }"
        for kind, names in facts.items()
    ]
    path.write_text(f'{{\n "version": {json.dumps(version)},\n ' + ",\n ".join(kinds) + "\n}\n", encoding="utf-8")
