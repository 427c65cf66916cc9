# SPDX-License-Identifier: Apache-2.0
"""The rules that registry/ keeps, also on a machine without Weaver: `findings` names what breaks them.

They are those of Weaver's `registry check` and of its live check for names, and OpenTelemetry's guidelines for names and units:
https://opentelemetry.io/docs/specs/semconv/general/naming/
"""

import re
from collections import Counter
from itertools import chain

import registry_changes

TYPES = {f"{name}{suffix}" for name in ("string", "int", "double", "boolean") for suffix in ("", "[]")}
INSTRUMENTS = {"counter", "updowncounter", "gauge", "histogram"}
UNITS = re.compile(r"s|By|1|%|\{[a-z_]+\}")
"""Of UCUM: seconds, bytes, ratios, percentages, and things in braces."""
NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9][a-z0-9_]*)+")
MEMBER = re.compile(r"[a-z0-9_]+")
STABILITIES = {"stable", "development"}


def findings(files, standard_keys):
    """Sentences: what breaks a rule.

    files: the registry's documents, `attributes`, `spans`, `events` and `metrics`. standard_keys: the keys of OpenTelemetry.
    """
    definitions = files["attributes"]["attributes"]
    groups = files["attributes"]["attribute_groups"]
    signals = {kind: files[kind][kind] for kind in registry_changes.SIGNALS}
    yield from _attributes(definitions)
    yield from _name_spaces([row["key"] for row in definitions])
    own = {row["key"]: row for row in definitions}
    referrers = [*groups, *chain.from_iterable(signals.values())]
    yield from _references(referrers, own, {group["id"] for group in groups}, standard_keys)
    yield from _sampling(signals["events"] + signals["metrics"])
    yield from _metrics(signals["metrics"], own)
    for kind, key in registry_changes.SIGNALS.items():
        yield from _signals(kind, [row[key] for row in signals[kind]], signals[kind])


def _attributes(definitions):
    for row in definitions:
        key, kind = row["key"], row["type"]
        yield from _definition(key, key, row)
        if isinstance(kind, dict):
            yield from _members(key, kind["members"], row["stability"])
        elif kind not in TYPES:
            yield f"{key} has the type {kind}"


def _definition(title, name, row):
    """What holds for attributes and signals."""
    if not NAME.fullmatch(name):
        yield f"{title} is not lower-case words between dots"
    if row["stability"] not in STABILITIES:
        yield f"{title} has the stability {row['stability']}"
    if not row["brief"].strip():
        yield f"{title} has no brief"


def _repeated(values):
    """Those that are there more than once, sorted."""
    return sorted(value for value, number in Counter(values).items() if number > 1)


def _members(key, members, stability):
    for fact in ("id", "value"):
        yield from (f"{key} has {value} twice" for value in _repeated(member[fact] for member in members))
    for member in members:
        if not MEMBER.fullmatch(member["id"]):
            yield f"{key} has a member with the id {member['id']}"
        if stability == "stable" and member["stability"] != "stable":
            yield f"{key} is stable and its member {member['id']} is not"


def _name_spaces(keys):
    """OpenTelemetry: an attribute's name must not be the name space of another; Prometheus makes dots underscores."""
    spaces = {key[:index] for key in keys for index, character in enumerate(key) if character == "."}
    yield from (f"{key} is a name space of other attributes" for key in sorted(set(keys) & spaces))
    flat = {}
    for key in keys:
        other = flat.setdefault(key.replace(".", "_"), key)
        if other != key:
            yield f"{key} and {other} are the same with underscores"
    yield from (f"{key} is defined twice" for key in _repeated(keys))


def _references(referrers, own, group_ids, standard_keys):
    used = set()
    for row in referrers:
        name = row.get("id") or row.get("type") or row.get("name")
        keys = [reference["ref"] for reference in row["attributes"] if "ref" in reference]
        used.update(keys)
        yield from (f"{name} refers to {key} twice" for key in _repeated(keys))
        for key in keys:
            if key not in own and key not in standard_keys:
                yield f"{name} refers to {key}, which neither torchspan nor OpenTelemetry defines"
        for reference in row["attributes"]:
            if reference.get("ref_group", "") not in {"", *group_ids}:
                yield f"{name} refers to the group {reference['ref_group']}, which is not defined"
    yield from (f"{key} is on no signal" for key in own if key not in used)


def _sampling(rows):
    for row in rows:
        for reference in row["attributes"]:
            if "sampling_relevant" in reference:
                yield f"{row['name']} says that samplers see {reference['ref']}; only spans are sampled"


def _signals(kind, names, rows):
    word = kind.removesuffix("s")
    yield from (f"{word} {name} is defined twice" for name in _repeated(names))
    for name, row in zip(names, rows, strict=True):
        yield from _definition(f"{word} {name}", name, row)


def _metrics(rows, own):
    for row in rows:
        name, unit, instrument = row["name"], row["unit"], row["instrument"]
        if not UNITS.fullmatch(unit):
            yield f"metric {name} has the unit {unit}"
        if instrument not in INSTRUMENTS:
            yield f"metric {name} has the instrument {instrument}"
        if instrument == "counter" and not unit.startswith("{") and unit not in {"s", "By"}:
            yield f"metric {name} counts things: its unit is {{thing}}, not {unit}"
        if name.endswith((".total", ".seconds", ".bytes")):
            yield f"metric {name} is named for its unit or its type"
        if name.endswith(".duration") and unit != "s":
            yield f"metric {name} is a duration in {unit}, not in s"
        if row["stability"] == "stable":
            for reference in row["attributes"]:
                definition = own.get(reference["ref"])
                if definition is not None and definition["stability"] != "stable":
                    yield f"metric {name} is stable and its attribute {reference['ref']} is not"
