# SPDX-License-Identifier: Apache-2.0
"""`tools/generate_dashboards.py`: what it writes is committed, and what it writes is what Grafana's Foundation SDK reads."""

import json
import sys

import pytest

import generate_dashboards
from torchspan.words import semconv

pytestmark = pytest.mark.skipif(
    sys.version_info < (3, 11), reason="Grafana's Foundation SDK needs Python 3.11 or newer"
)


@pytest.fixture(scope="module")
def made():
    return generate_dashboards.documents()


def test_the_committed_dashboards_are_what_the_sources_say(made):
    assert {path.name: path.read_text("utf-8") for path in generate_dashboards.FOLDER.iterdir()} == made


def test_a_second_run_makes_the_same(made):
    assert generate_dashboards.documents() == made


def test_the_check_fails_for_dashboards_that_are_not_current(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(generate_dashboards, "FOLDER", tmp_path / "dashboards")
    assert generate_dashboards.main(["--check"]) == 1
    assert "make docs" in capsys.readouterr().err
    assert generate_dashboards.main([]) == 0
    assert generate_dashboards.main(["--check"]) == 0

    (tmp_path / "dashboards" / "old.json").write_text("{}")
    assert generate_dashboards.main(["--check"]) == 1
    assert "old.json" in capsys.readouterr().err
    assert generate_dashboards.main([]) == 0
    assert sorted(each.name for each in (tmp_path / "dashboards").iterdir()) == sorted(generate_dashboards.documents())


@pytest.mark.parametrize("name", ["compiles", "torch-compile", "runtime", "bridge-health"])
def test_grafanas_foundation_sdk_reads_them_without_loss(made, name):
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.models.dashboard import Dashboard

    register_default_plugins()
    read = Dashboard.from_json(json.loads(made[f"{name}.json"]))
    assert json.loads(JSONEncoder().encode(read)) == json.loads(made[f"{name}.json"])


def test_a_histogram_cannot_be_counted_as_a_counter():
    from dashboards import promql

    assert promql.measured(semconv.METRIC_COMPILE_DURATION) == promql.Histogram(
        "torch_tensorrt_compile_duration_seconds", promql.SERVICES
    )
    assert promql.measured(semconv.METRIC_CACHE_LOOKUPS) == promql.Counter(
        "torch_tensorrt_engine_cache_lookups_total", promql.SERVICES
    )
    assert promql.measured(semconv.METRIC_BUILD_ACTIVE) == promql.Level("torch_tensorrt_build_active", promql.SERVICES)


def test_the_readme_shows_how_counters_are_counted():
    from dashboards import promql

    text = (generate_dashboards.FOLDER.parent / "README.md").read_text("utf-8")
    assert promql._risen("x", "R") in text


def test_a_counter_is_what_it_rose_since_and_whole_where_it_was_born_within_the_window():
    from dashboards import promql

    risen = promql.Counter("a_total", 'job="x"').counted("5m", by=[semconv.PHASE], where={semconv.ERROR_TYPE: ""})
    one = 'a_total{job="x", error_type=""}'
    assert risen == (
        f"sum by (torchspan_phase) ((last_over_time({one}[5m]) - last_over_time({one}[1h] offset 5m)) >= 0 "
        f"or last_over_time({one}[5m]))"
    )
