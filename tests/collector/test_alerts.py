# SPDX-License-Identifier: Apache-2.0
"""`prometheus/alerts.yaml`: each alert on both sides of its threshold, by `promtool test rules` and in a real Prometheus."""

import json
import re
import subprocess
import urllib.error
import urllib.request

import pytest
import yaml
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

import torchspan
import torchspan.observers
from support import backends, otlp, scraped
from support.fake_time import FakeTime
from support.hostile_endpoints import closed_port
from support.needs import program
from support.receiver import Receiver
from torchspan.engine import RUNNING
from torchspan.words import phase, semconv

promtool = pytest.mark.needs("promtool")

RULES = backends.CONFIGURATIONS / "prometheus" / "alerts.yaml"
RUNBOOK = backends.CONFIGURATIONS.parent / "docs" / "how-to" / "runbook.md"
ALERTS = {
    rule["alert"]: rule
    for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
}
APP = 'job="app",instance="i1"'


def run(folder, *cases):
    """Run `promtool test rules`.

    cases: (alert, series, at, fired). series: name with labels → a value each minute. fired: (labels, value in the description)
    of each alert that fires at that time.
    """
    tests = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "name": f"{alert} {sorted(series)[0]}",
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "alert_rule_test": [
                    {"alertname": alert, "eval_time": at, "exp_alerts": [expected(alert, *each) for each in fired]}
                ],
            }
            for alert, series, at, fired in cases
        ],
    }
    file = folder / "tests.yaml"
    file.write_text(json.dumps(tests), encoding="utf-8")
    done = subprocess.run(
        [program("promtool"), "test", "rules", file], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


def expected(alert, labels, value):
    """An alert that fires, as promtool describes it."""
    rule = ALERTS[alert]
    return {
        "exp_labels": {**rule["labels"], **labels},
        "exp_annotations": {key: filled(text, labels, value) for key, text in rule["annotations"].items()},
    }


def filled(text, labels, value):
    """An annotation with the values in it."""
    text = re.sub(
        r"\{\{ or (.*?) \}\}",
        lambda found: next(
            labels[key] for key in re.findall(r"\w+", found[1].replace("$labels.", "")) if key in labels
        ),
        text,
    )
    text = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: labels[found[1]], text)
    return re.sub(r"\{\{ \$value.*? \}\}", value, text)


# --- counters -----------------------------------------------------------------------------------------------------

FRAME = 'torchspan_phase="torch.compile_frame"'
REJECTED = 'torch_tensorrt_engine_cache_result="rejected"'
COUNTERS = {
    # alert: the series, and the labels of what fires
    "TorchspanCompiledWhileServing": (
        f'torchspan_serving_compilations_total{{{APP},{FRAME},torchspan_serving_kind="recompilation"}}',
        {"job": "app", "torchspan_phase": "torch.compile_frame", "torchspan_serving_kind": "recompilation"},
    ),
    "TorchspanFallbackAfterFailure": (
        f'torch_tensorrt_fallback_subgraphs_total{{{APP},torch_tensorrt_fallback_reason_class="compile_failed"}}',
        {"job": "app"},
    ),
    "TorchspanRecompileLimitReached": (
        f'torch_compile_limits_reached_total{{{APP},torch_compile_recompile_limit="recompile_limit"}}',
        {"job": "app", "torch_compile_recompile_limit": "recompile_limit"},
    ),
    "TorchspanSpansDropped": (
        f'torchspan_span_dropped_total{{{APP},torchspan_dropped_reason="paused"}}',
        {"job": "app", "torchspan_dropped_reason": "paused"},
    ),
    "TorchspanSdkLosesSpans": (
        f'otel_sdk_processor_span_processed_total{{{APP},otel_component_type="batching_span_processor",error_type="queue_full"}}',
        {"job": "app", "otel_component_type": "batching_span_processor", "error_type": "queue_full"},
    ),
    "TorchspanCacheRejections": (
        f'torch_tensorrt_engine_cache_lookups_total{{{APP},{REJECTED},torch_tensorrt_engine_cache_reason="settings"}}',
        {"job": "app", "torch_tensorrt_engine_cache_reason": "settings"},
    ),
}
OF_THE_COLLECTOR = {
    f'otelcol_{name}{{job="collector",instance="c1",{label}="it"}}': {"job": "collector", "instance": "c1", label: "it"}
    for name, label in (
        ("exporter_send_failed_spans", "exporter"),
        ("exporter_enqueue_failed_spans", "exporter"),
        ("receiver_refused_spans", "receiver"),
        ("processor_tail_sampling_sampling_trace_dropped_too_early", "processor"),
    )
}
SERIES = [(alert, *of) for alert, of in COUNTERS.items()] + [
    ("TorchspanCollectorDropsSpans", series, labels) for series, labels in OF_THE_COLLECTOR.items()
]


@promtool
@pytest.mark.parametrize(
    ("values", "at", "value"),
    [
        pytest.param("0x60", "30m", None, id="nothing was counted"),
        pytest.param("0x28 1x60", "30m", "1", id="it rose by 1"),
        pytest.param("7x28 12x60", "30m", "5", id="it rose by 5 from 7"),
        pytest.param("7x90", "80m", None, id="what it counted long ago"),
        pytest.param("_x28 4x60", "30m", "4", id="the series is born with its value"),
        pytest.param("_x28 4 stale", "31m", "4", id="the process ended after its first export"),
        pytest.param("_x28 4 stale", "40m", None, id="the process ended more than 10 minutes ago"),
        pytest.param("9x25 2x60", "30m", "2", id="started again under its old name"),
        pytest.param("0x19 1x60", "29m", "1", id="9 minutes ago"),
        pytest.param("0x19 1x60", "30m", None, id="10 minutes ago"),
        pytest.param("5x9 _x30 5x60", "45m", None, id="a gap of half an hour in the data"),
    ],
)
def test_a_counter_fires_for_ten_minutes_after_it_rose(tmp_path, values, at, value):
    run(
        tmp_path,
        *((alert, {series: values}, at, [(labels, value)] if value else []) for alert, series, labels in SERIES),
    )


@promtool
def test_what_processes_of_a_service_counted_is_added_up(tmp_path):
    run(
        tmp_path,
        *(
            (
                alert,
                {series: "_x25 2x60", series.replace("i1", "i2"): "_x25 4 stale", series.replace("i1", "idle"): "3x90"},
                "30m",
                [(labels, "6")],
            )
            for alert, (series, labels) in COUNTERS.items()
        ),
    )


@promtool
def test_each_service_has_an_alert_of_its_own(tmp_path):
    run(
        tmp_path,
        *(
            (
                alert,
                {series: "0x20 1x60", series.replace('"app"', '"other"'): "0x20 3x60"},
                "25m",
                [(labels, "1"), ({**labels, "job": "other"}, "3")],
            )
            for alert, (series, labels) in COUNTERS.items()
        ),
    )


@promtool
@pytest.mark.parametrize(
    ("alert", "series"),
    [
        ("TorchspanSpansDropped", f'torchspan_span_dropped_total{{{APP},torchspan_dropped_reason="budget"}}'),
        ("TorchspanSpansDropped", f'torchspan_span_dropped_total{{{APP},torchspan_dropped_reason="rank"}}'),
        (
            "TorchspanFallbackAfterFailure",
            COUNTERS["TorchspanFallbackAfterFailure"][0].replace("compile_failed", "no_converter"),
        ),
        ("TorchspanCacheRejections", COUNTERS["TorchspanCacheRejections"][0].replace("rejected", "miss")),
    ],
)
def test_what_was_asked_for_does_not_fire(tmp_path, alert, series):
    run(tmp_path, (alert, {series: "0x20 5x60"}, "25m", []))


# --- builds -------------------------------------------------------------------------------------------------------

LONGEST = [f"{name}_seconds{{{APP}}}" for name in ("torch_tensorrt_build_longest", "torch_compile_longest")]


@promtool
@pytest.mark.parametrize("longest", LONGEST, ids=["build", "frame"])
@pytest.mark.parametrize(
    ("values", "at", "value"),
    [
        pytest.param("0+60x10 0x30", "10m", None, id="600 s"),
        pytest.param("1+60x10 0x30", "10m", "10m 1s", id="601 s"),
        pytest.param("0+60x20 0x30", "15m", "15m 0s", id="it is still running"),
        pytest.param("0+60x20 0x30", "22m", None, id="it has ended"),
        pytest.param("0+60x20 stale", "22m", None, id="the process was killed"),
        pytest.param(
            "0 300 30 300 30 300 30 300 30 300 30 300 30 300", "12m", None, id="one short build after the other"
        ),
    ],
)
def test_a_build_fires_while_it_has_been_running_for_more_than_10_minutes(tmp_path, longest, values, at, value):
    fired = [({"job": "app", "instance": "i1"}, value)] if value else []
    run(tmp_path, ("TorchspanBuildLongerThan10Minutes", {longest: values}, at, fired))


@promtool
def test_a_build_in_a_frame_fires_once_with_the_time_of_the_frame(tmp_path):
    build, frame = LONGEST
    fired = [({"job": "app", "instance": "i1"}, "15m 30s")]
    run(tmp_path, ("TorchspanBuildLongerThan10Minutes", {build: "0+60x20", frame: "30+60x20"}, "15m", fired))


# --- the file -----------------------------------------------------------------------------------------------------


@promtool
def test_promtool_finds_nothing_wrong_with_the_rules():
    command = [program("promtool"), "check", "rules", "--lint=all", "--lint-fatal", RULES]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def anchor(heading):
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@pytest.mark.parametrize("alert", ALERTS)
def test_each_alert_has_a_section_in_the_runbook_that_names_it(alert):
    page, _, section = ALERTS[alert]["annotations"]["runbook"].partition("#")
    assert page == "docs/how-to/runbook.md"
    text = RUNBOOK.read_text(encoding="utf-8")
    sections = {anchor(each.partition("\n")[0]): each for each in text.split("\n## ")[1:]}
    assert f"`{alert}`" in sections[section]


def test_each_alert_is_tested():
    assert set(ALERTS) == {alert for alert, _, _ in SERIES} | {"TorchspanBuildLongerThan10Minutes"}


# --- with real metrics --------------------------------------------------------------------------------------------


def fires(api):
    """Names of the alerts that fire in a Prometheus."""
    with urllib.request.urlopen(f"{api}/api/v1/alerts", timeout=30) as answer:
        alerts = json.load(answer)["data"]["alerts"]
    return {each["labels"]["alertname"] for each in alerts if each["state"] == "firing"}


@pytest.fixture
def serving():
    torchspan.mark_ready()
    yield
    torchspan.mark_not_ready()


@pytest.mark.needs("otelcol-torchspan", "prometheus")
def test_every_alert_fires_in_a_real_prometheus_for_what_a_program_measured(instrument, serving, monkeypatch):
    nowhere = {"exporters": {"otlp_http/backend": {"sending_queue": {"enabled": False}}}}
    with (
        Receiver() as backend,
        backends.collector("base.yaml", nowhere, environment={"TORCHSPAN_OTLP_ENDPOINT": backend.url}) as collector,
    ):
        targets = {"app": collector.metrics, "collector": collector.own_metrics}
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(RULES)],
            "scrape_configs": [
                {"job_name": name, "honor_labels": True, "static_configs": [{"targets": [url.split("/")[2]]}]}
                for name, url in targets.items()
            ],
        }
        reader = PeriodicExportingMetricReader(
            OTLPMetricExporter(endpoint=f"{collector.http}/v1/metrics"), export_interval_millis=3_600_000
        )
        resource = Resource({"service.name": "app", "service.instance.id": "i1"})
        meters = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
        monkeypatch.setenv("OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED", "true")
        tracers = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
        others = TracerProvider(shutdown_on_exit=False)
        dead = OTLPSpanExporter(f"http://127.0.0.1:{closed_port()}/v1/traces", timeout=1, meter_provider=meters)
        others.add_span_processor(SimpleSpanProcessor(dead))
        instrument(meter_provider=meters, tracer_provider=tracers)
        with backends.prometheus(config) as prometheus:
            scraped.query(prometheus.api, "sum(up) == 2")
            assert fires(prometheus.api) == set()
            clock, engine = FakeTime(monkeypatch), RUNNING.engine
            compilation = engine.open(phase.COMPILE, {})
            conversion = engine.open(phase.CONVERSIONS[0], {})
            conversion.additions.update({semconv.CACHE_RESULT: "rejected", semconv.CACHE_REASON: "settings"})
            engine.close(conversion)
            clock.jump(601)
            meters.force_flush()
            otlp.wait_until(lambda: "TorchspanBuildLongerThan10Minutes" in fires(prometheus.api))
            compilation.additions.update(
                {
                    semconv.FALLBACK_TOTAL_REASONS: ["compile_failed"],
                    semconv.FALLBACK_TOTAL_OPERATORS: [0],
                    semconv.FALLBACK_TOTAL_SUBGRAPHS: [1],
                }
            )
            engine.close(compilation)
            others.get_tracer("app").start_span("lost").end()
            frame = engine.open(phase.COMPILE_FRAME, {})
            frame.additions[semconv.RECOMPILE_LIMIT] = "recompile_limit"
            engine.close(frame)
            meters.force_flush()
            backend.status = 400  # the backend will never take it
            made = otlp.Ids(1)
            with pytest.raises(urllib.error.HTTPError):
                otlp.send(collector.http, [otlp.make_span(made, "torch_tensorrt.compile", made.trace())])
            expected = set(ALERTS) - {"TorchspanBuildLongerThan10Minutes"}
            otlp.wait_until(lambda: fires(prometheus.api) == expected)
            meters.shutdown()
