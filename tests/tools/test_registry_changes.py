# SPDX-License-Identifier: Apache-2.0
"""What counts as a change of the registry, which changes break the promise, and which the changelog must name."""

import pytest

import registry_changes
from registry_changes import Change

RELEASED = {
    "attributes": {
        "lib.kind": {"stability": "stable", "type": "string", "values": ["a", "b"]},
        "lib.draft": {"stability": "development", "type": "int"},
    },
    "metrics": {
        "lib.runs": {"stability": "stable", "unit": "{run}", "instrument": "counter", "attributes": ["lib.kind"]},
    },
    "spans": {"lib.run": {"stability": "stable", "attributes": ["lib.draft", "lib.kind"]}},
}


def changed(kind, name, **facts):
    """The names of the release, with other facts of one."""
    now = {kind: dict(names) for kind, names in RELEASED.items()}
    now[kind][name] = {**now[kind].get(name, {}), **facts}
    return list(registry_changes.changes(RELEASED, now))


def gone(kind, name):
    """The names of the release without one."""
    now = {kind: dict(names) for kind, names in RELEASED.items()}
    del now[kind][name]
    return list(registry_changes.changes(RELEASED, now))


def test_without_a_change_there_is_none():
    assert list(registry_changes.changes(RELEASED, RELEASED)) == []


def test_another_type_of_a_stable_attribute_breaks_the_promise():
    assert changed("attributes", "lib.kind", type="int") == [
        Change("lib.kind", "attribute lib.kind: type was string, is int", is_break=True)
    ]


def test_another_type_of_an_attribute_in_development_breaks_none():
    assert changed("attributes", "lib.draft", type="double") == [
        Change("lib.draft", "attribute lib.draft: type was int, is double", is_break=False)
    ]


def test_a_value_less_breaks_the_promise_and_a_new_value_does_not():
    assert changed("attributes", "lib.kind", values=["a", "c"]) == [
        Change("lib.kind", "attribute lib.kind: c is new in values", is_break=False),
        Change("lib.kind", "attribute lib.kind: b is gone from values", is_break=True),
    ]


def test_a_stable_name_that_goes_breaks_the_promise():
    assert gone("metrics", "lib.runs") == [Change("lib.runs", "metric lib.runs is gone", is_break=True)]


def test_a_name_in_development_may_go():
    assert gone("attributes", "lib.draft") == [Change("lib.draft", "attribute lib.draft is gone", is_break=False)]


@pytest.mark.parametrize(("fact", "value"), [("unit", "s"), ("instrument", "histogram"), ("stability", "development")])
def test_another_fact_of_a_stable_metric_breaks_the_promise(fact, value):
    (change,) = changed("metrics", "lib.runs", **{fact: value})
    assert change.is_break


def test_a_stable_span_keeps_its_stable_attributes_and_may_lose_the_others():
    assert changed("spans", "lib.run", attributes=[]) == [
        Change("lib.draft", "span lib.run: lib.draft is gone from attributes", is_break=False),
        Change("lib.kind", "span lib.run: lib.kind is gone from attributes", is_break=True),
    ]


def test_a_metric_keeps_the_attributes_that_opentelemetry_defines():
    released = {"metrics": {"lib.runs": {"stability": "stable", "attributes": ["error.type"]}}}
    now = {"metrics": {"lib.runs": {"stability": "stable", "attributes": []}}}
    assert [change.is_break for change in registry_changes.changes(released, now)] == [True]


def test_a_new_name_must_be_in_the_changelog():
    found = changed("attributes", "lib.new", stability="development", type="int")
    changelog = "## [Unreleased]\n\n- `lib.new.er`, and not lib.newer.\n\n## [0.1.0] - 2027-01-31\n\n- `lib.new`\n"
    assert list(registry_changes.unmentioned(found, changelog, "0.1.0")) == [
        "attribute lib.new is new; CHANGELOG.md has no line with lib.new"
    ]


def test_a_name_at_the_end_of_a_sentence_of_the_changelog_counts():
    found = changed("attributes", "lib.new", stability="development", type="int")
    assert list(registry_changes.unmentioned(found, "## [Unreleased]\n\n- There is lib.new.\n", "0.1.0")) == []


def test_what_breaks_the_promise_is_a_sentence_with_the_difference():
    assert list(registry_changes.broken(changed("attributes", "lib.kind", type="int"))) == [
        "attribute lib.kind: type was string, is int, but it is stable"
    ]


def test_what_is_written_for_a_release_is_read_again(tmp_path):
    registry_changes.write_released("0.2.0", RELEASED, tmp_path / "released.json")
    assert registry_changes.read_released(tmp_path / "released.json") == ("0.2.0", RELEASED)
    assert registry_changes.read_released(tmp_path / "none.json") == (None, {})
