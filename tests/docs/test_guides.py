# SPDX-License-Identifier: Apache-2.0
"""What the how-to guides list is complete, and what they name exists."""

import json
import re

import pytest
import yaml

from support import pages
from torchspan import environment_variables
from torchspan.words import semconv
from torchspan.words.semconv import METRICS
from torchspan.words.semconv.torch import BreakClass, GuardClass

HOW_TO = "docs/how-to"
GUIDES = {
    name: (pages.ROOT / HOW_TO / f"{name}.md").read_text(encoding="utf-8")
    for name in (
        "why-did-it-recompile",
        "where-did-the-graph-break",
        "the-first-step",
        "slow-build",
        "fallback",
        "engine-cache",
        "test-without-a-gpu",
        "plain-tensorrt",
        "threads-and-workers",
        "serving",
        "long-builds",
        "crash",
        "dashboards",
        "kubernetes",
    )
}
EXPLANATIONS = {
    name: (pages.ROOT / "docs/explanation" / f"{name}.md").read_text(encoding="utf-8")
    for name in ("context-propagation", "sampling")
}


def values(holder):
    return {value for name, value in vars(holder).items() if name.isupper()}


def first_column(text):
    """What is in backticks in the first cell of each row of a page's tables."""
    cells = re.findall(r"^\| ([^|]*) \|", text, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


@pytest.mark.parametrize("name", GUIDES)
def test_a_guide_starts_with_the_answer(name):
    """The first block is a command, a mark in a file, or a call, and not further than a few sentences down."""
    block = pages.blocks(GUIDES[name])[0]
    assert block.language in {"shell", "yaml", "python"}
    assert block.line <= 8


def test_the_page_on_fallback_has_every_reason():
    left_out = {semconv.FallbackReason.CACHE_ENTRY_REJECTED}  # nothing of it runs in PyTorch
    assert values(semconv.FallbackReason) - left_out == first_column(GUIDES["fallback"])


def test_the_page_on_recompilations_has_every_class_of_guards():
    assert values(GuardClass) - {GuardClass.OTHER} == first_column(GUIDES["why-did-it-recompile"])


def test_the_page_on_graph_breaks_has_every_class():
    assert values(BreakClass) - {BreakClass.OTHER} == first_column(GUIDES["where-did-the-graph-break"])


@pytest.mark.parametrize("name", ["why-did-it-recompile", "where-did-the-graph-break", "the-first-step"])
def test_the_programs_of_the_guides_on_torch_compile_need_torch_alone(name):
    assert [block.file for block in pages.blocks(GUIDES[name]) if block.file and "tensorrt" in block.text] == []


def test_the_page_on_the_cache_has_every_reason():
    reasons = values(semconv.CacheReason)
    assert {reason for reason in reasons if f"`{reason}`" not in GUIDES["engine-cache"]} == set()
    assert first_column(GUIDES["engine-cache"]) <= reasons


def test_the_page_on_sampling_has_every_rule_and_every_reason_for_a_lost_span():
    named = first_column(EXPLANATIONS["sampling"])
    rules = {name for name in vars(environment_variables) if name.startswith("TORCHSPAN_SAMPLE_")}
    assert {name for name in rules if f"`{name}`" not in EXPLANATIONS["sampling"]} == set()
    assert values(semconv.DroppedReason) <= named


def test_the_metrics_of_the_page_on_dashboards_exist():
    assert first_column(GUIDES["dashboards"]) - set(METRICS) == {
        "compiles.json",
        "torch-compile.json",
        "runtime.json",
        "bridge-health.json",
    }


def test_the_page_on_dashboards_has_every_dashboard():
    folder = pages.ROOT / "collector-config/grafana/dashboards"
    files = {file.name for file in folder.glob("*.json") if json.loads(file.read_text(encoding="utf-8"))["uid"]}
    assert files == {name for name in first_column(GUIDES["dashboards"]) if name.endswith(".json")}


def test_the_annotation_on_the_page_is_that_of_the_example():
    page = yaml.safe_load(pages.blocks(GUIDES["kubernetes"])[0].text)["metadata"]["annotations"]
    program = yaml.safe_load((pages.ROOT / "collector-config/kubernetes/program.yaml").read_text(encoding="utf-8"))
    assert page.items() <= program["spec"]["template"]["metadata"]["annotations"].items()


def test_the_files_that_the_page_applies_exist():
    files = re.findall(r"-f (\S+\.yaml)", GUIDES["kubernetes"])
    assert files == ["namespace.yaml", "backend.yaml", "one-tier.yaml", "instrumentation.yaml"]
    assert [file for file in files if not (pages.ROOT / "collector-config/kubernetes" / file).exists()] == []


def test_the_rows_of_doctor_on_the_page_exist():
    reference = (pages.ROOT / "docs/reference/doctor.md").read_text(encoding="utf-8")
    rows = re.findall(r"^(?:ok|failed|warning|note) +(\S+)$", GUIDES["kubernetes"], re.MULTILINE)
    assert rows == ["instrumentation.enabled", "exporters.traces", "endpoints.traces"]
    assert [row for row in rows if f"`{row}`" not in reference] == []


@pytest.mark.parametrize("name", [*GUIDES, *EXPLANATIONS])
def test_the_settings_that_a_page_names_exist(name):
    named = set(re.findall(r"\bTORCHSPAN_\w*[A-Z]\b", {**GUIDES, **EXPLANATIONS}[name]))
    of_the_collector = {"TORCHSPAN_OTLP_ENDPOINT"}
    assert named - of_the_collector - set(vars(environment_variables)) == set()


@pytest.mark.parametrize("name", [*GUIDES, *EXPLANATIONS])
def test_the_attributes_spans_and_metrics_that_a_page_names_exist(name):
    table = (pages.ROOT / "docs/reference/semantic-conventions.md").read_text(encoding="utf-8")
    known = set(re.findall(r"`((?:torch_tensorrt|tensorrt)\.[a-z_.]+)[` ]", table)) | set(METRICS)
    text = {**GUIDES, **EXPLANATIONS}[name]
    named = set(re.findall(r"`((?:torch_tensorrt|tensorrt)\.[a-z_.]+)`", text))
    functions = {"torch_tensorrt.save"}
    assert named - known - functions == set()
