# SPDX-License-Identifier: Apache-2.0
"""The registry in OpenTelemetry's format: it keeps the rules, and what the last release promised."""

import re
from pathlib import Path

import pytest
import yaml

import generate_registry
import registry_changes
import registry_rules
from support.standard_keys import standard_keys
from torchspan import phase
from torchspan.base.version import __version__
from torchspan.words import semconv

ROOT = Path(__file__).resolve().parents[2]
FACTS = registry_changes.facts_of(registry_changes.documents())


def test_the_registry_keeps_the_rules():
    assert list(registry_rules.findings(registry_changes.documents(), standard_keys())) == []


def test_the_registry_depends_on_the_conventions_of_the_declared_schema():
    manifest = yaml.safe_load((registry_changes.REGISTRY / "manifest.yaml").read_text(encoding="utf-8"))
    assert manifest == {
        "schema_url": f"https://torchspan.invalid/schemas/{__version__}",
        "description": "What torchspan emits of torch.compile, Torch-TensorRT and TensorRT.",
        "stability": "development",
        "dependencies": [
            {
                "schema_url": "https://opentelemetry.io/schemas/1.44.0",
                "registry_path": "https://github.com/open-telemetry/semantic-conventions/archive/refs/tags/v1.44.0.tar.gz[model]",
            }
        ],
    }


def test_an_enumeration_is_a_type_with_members():
    (definition,) = (row for row in generate_registry.attributes() if row["key"] == "torch_tensorrt.compile.outcome")
    assert definition == {
        "key": "torch_tensorrt.compile.outcome",
        "type": {
            "members": [
                {"id": "complete", "value": "complete", "stability": "stable"},
                {"id": "failed", "value": "failed", "stability": "stable"},
                {"id": "fallback", "value": "fallback", "stability": "stable"},
            ]
        },
        "stability": "stable",
        "brief": semconv.COMPILE_OUTCOME.brief,
    }


def test_a_span_says_which_of_its_attributes_samplers_see():
    references = generate_registry.span(phase.OBSERVED)["attributes"]
    seen = [reference["ref"] for reference in references if reference.get("sampling_relevant")]
    assert seen == [str(row) for row in semconv.ATTRIBUTES if phase.OBSERVED in row.on and row.at_start]
    assert "code.function.name" in seen


def test_a_metric_has_the_instrument_in_the_words_of_the_format():
    metrics = {row["name"]: row["instrument"] for row in map(generate_registry.metric, semconv.METRICS)}
    assert metrics["torch.compile.active"] == "updowncounter"
    assert metrics["torch.compile.longest"] == "gauge"
    assert metrics["torch.compile.recompiles"] == "counter"
    assert metrics["torch_tensorrt.compile.duration"] == "histogram"


def test_no_stable_name_has_changed_since_the_last_release():
    _, released = registry_changes.read_released()
    assert list(registry_changes.broken(registry_changes.changes(released, FACTS))) == []


def test_the_changelog_has_each_name_that_changed_since_the_last_release():
    version, released = registry_changes.read_released()
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    found = registry_changes.changes(released, FACTS)
    assert list(registry_changes.unmentioned(found, changelog, version)) == []


USED = [
    *(ROOT / "collector-config").rglob("*.yaml"),
    *(ROOT / "collector-config").rglob("*.json"),
    ROOT / "docs" / "how-to" / "traceql.md",
    ROOT / "docs" / "how-to" / "runbook.md",
]
"""Dashboards, alerts, the Collector's configuration and the queries of the documentation."""


def uses(row, text):
    """Whether a text has the name, or that of a metric as Prometheus has it."""
    suffixes = r"(?:_seconds|_bytes|_ratio)?(?:_total|_bucket|_sum|_count)?"
    flat = row.replace(".", "_")
    if row not in text and flat not in text:
        return False
    scope = r"(?:(?:span|resource|event)\.)?"
    names = (rf"{scope}{re.escape(row)}(?!\.?\w)", rf"{re.escape(flat)}{suffixes}(?!\w)")
    return any(re.search(rf"(?<![\w.]){name}", text) for name in names)


def test_dashboards_alerts_and_documented_queries_use_stable_names_alone():
    rows = [row for row in (*semconv.ATTRIBUTES, *semconv.METRICS) if row.startswith(semconv.NAMESPACES)]
    text = "\n".join(path.read_text(encoding="utf-8") for path in USED)
    used = {row for row in rows if uses(row, text)}
    assert len(used) > 40
    assert [str(row) for row in used if not row.stable] == []


@pytest.mark.parametrize("metric", [row for row in semconv.METRICS if row.stable], ids=str)
def test_the_attributes_of_a_stable_metric_are_stable(metric):
    own = [row for row in metric.attributes if row.startswith(semconv.NAMESPACES)]
    assert [str(row) for row in own if not row.stable] == []
