# SPDX-License-Identifier: Apache-2.0
"""The rules of a registry: one broken registry for each."""

import copy

import pytest

import registry_rules

KIND = {
    "key": "lib.kind",
    "type": {"members": [{"id": "a", "value": "a", "stability": "stable"}]},
    "stability": "stable",
    "brief": "Which.",
}
SIZE = {"key": "lib.size", "type": "int", "stability": "development", "brief": "How many."}
RUNS = {
    "name": "lib.runs",
    "instrument": "counter",
    "unit": "{run}",
    "stability": "stable",
    "brief": "Number of runs.",
    "attributes": [{"ref": "lib.kind"}, {"ref": "error.type"}],
}
RUN = {
    "type": "lib.run",
    "stability": "stable",
    "brief": "One run.",
    "attributes": [{"ref": "lib.size", "sampling_relevant": True}, {"ref_group": "lib.any"}],
}
FAILED = {"name": "lib.failed", "stability": "development", "brief": "It failed.", "attributes": [{"ref": "lib.size"}]}
FILES = {
    "attributes": {"attributes": [KIND, SIZE], "attribute_groups": [{"id": "lib.any", "attributes": []}]},
    "spans": {"spans": [RUN]},
    "events": {"events": [FAILED]},
    "metrics": {"metrics": [RUNS]},
}


def findings(change):
    """What is found after `change` altered a copy of the rows."""
    files = copy.deepcopy(FILES)
    (kind, size), (span,) = files["attributes"]["attributes"], files["spans"]["spans"]
    (event,), (metric,) = files["events"]["events"], files["metrics"]["metrics"]
    change(kind=kind, size=size, span=span, event=event, metric=metric)
    return list(registry_rules.findings(files, {"error.type"}))


def test_a_registry_that_keeps_the_rules_has_no_finding():
    assert findings(lambda **_: None) == []


@pytest.mark.parametrize(
    ("finding", "change"),
    [
        ("lib.size has the type integer", lambda size, **_: size.update(type="integer")),
        ("lib.size has the stability beta", lambda size, **_: size.update(stability="beta")),
        ("lib.size has no brief", lambda size, **_: size.update(brief=" ")),
        (
            "lib.kind has a twice",
            lambda kind, **_: kind["type"]["members"].append({"id": "b", "value": "a", "stability": "stable"}),
        ),
        (
            "lib.kind has a member with the id A-B",
            lambda kind, **_: kind["type"]["members"].append({"id": "A-B", "value": "A-B", "stability": "stable"}),
        ),
        (
            "lib.kind is stable and its member b is not",
            lambda kind, **_: kind["type"]["members"].append({"id": "b", "value": "b", "stability": "development"}),
        ),
        ("metric lib.runs has the unit run", lambda metric, **_: metric.update(unit="run", instrument="gauge")),
        ("metric lib.runs has the instrument sum", lambda metric, **_: metric.update(instrument="sum")),
        ("metric lib.runs counts things: its unit is {thing}, not 1", lambda metric, **_: metric.update(unit="1")),
        ("metric lib.total is named for its unit or its type", lambda metric, **_: metric.update(name="lib.total")),
        (
            "metric lib.duration is a duration in By, not in s",
            lambda metric, **_: metric.update(name="lib.duration", unit="By"),
        ),
        (
            "metric lib.runs is stable and its attribute lib.size is not",
            lambda metric, **_: metric["attributes"].append({"ref": "lib.size"}),
        ),
        (
            "lib.runs refers to lib.none, which neither torchspan nor OpenTelemetry defines",
            lambda metric, **_: metric["attributes"].append({"ref": "lib.none"}),
        ),
        (
            "lib.runs refers to lib.kind twice",
            lambda metric, **_: metric["attributes"].append({"ref": "lib.kind"}),
        ),
        (
            "lib.run refers to the group lib.some, which is not defined",
            lambda span, **_: span["attributes"].append({"ref_group": "lib.some"}),
        ),
        (
            "lib.failed says that samplers see lib.size; only spans are sampled",
            lambda event, **_: event["attributes"][0].update(sampling_relevant=True),
        ),
        ("span lib is not lower-case words between dots", lambda span, **_: span.update(type="lib")),
        ("event lib.failed has no brief", lambda event, **_: event.update(brief="")),
        ("span lib.run has the stability beta", lambda span, **_: span.update(stability="beta")),
    ],
)
def test_a_broken_rule_is_found(finding, change):
    assert findings(change) == [finding]


def test_a_key_must_not_be_the_name_space_of_another():
    def change(kind, metric, **_):
        kind["key"] = "lib.size.kind"
        metric["attributes"][0]["ref"] = "lib.size.kind"

    assert findings(change) == ["lib.size is a name space of other attributes"]


def test_two_keys_must_not_be_the_same_with_underscores():
    def change(kind, metric, **_):
        kind["key"] = "lib_size.x"
        metric["attributes"][0]["ref"] = "lib_size.x"

    def both(kind, metric, size, span, event, **_):
        change(kind=kind, metric=metric)
        size["key"] = "lib.size.x"
        span["attributes"][0]["ref"] = event["attributes"][0]["ref"] = "lib.size.x"

    assert findings(both) == ["lib.size.x and lib_size.x are the same with underscores"]


def test_an_attribute_that_is_on_no_signal_is_found():
    def change(metric, **_):
        del metric["attributes"][0]

    assert findings(change) == ["lib.kind is on no signal"]


def test_what_is_defined_twice_is_found():
    files = copy.deepcopy(FILES)
    files["spans"]["spans"] *= 2
    assert list(registry_rules.findings(files, {"error.type"})) == ["span lib.run is defined twice"]
