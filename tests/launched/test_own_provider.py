# SPDX-License-Identifier: Apache-2.0
"""A program that sets no tracer provider: `run`'s own, which is never the global one."""

import json
import shlex
import sys

import pytest

SPANS = """
import os, sys
from opentelemetry import trace
early = trace.get_tracer("early", "1.0", schema_url="https://example.org/schema", attributes={"scope.key": "value"})
with early.start_as_current_span("first"):
    with trace.get_tracer("app").start_as_current_span("second"):
        pass
"""

STATE = """
print(type(trace.get_tracer_provider()).__name__, trace._TRACER_PROVIDER)
from opentelemetry import metrics, _logs
print(type(metrics.get_meter_provider()).__name__, type(_logs.get_logger_provider()).__name__)
"""


def lines(app):
    return [json.loads(line) for line in (app.folder / "run.jsonl").read_text().splitlines()]


def resources(app):
    found = [resource["resource"]["attributes"] for line in lines(app) for resource in line["resourceSpans"]]
    return [{each["key"]: next(iter(each["value"].values())) for each in attributes} for attributes in found]


def test_spans_are_in_the_file_and_no_global_provider_is_set(program):
    app = program(SPANS + STATE)
    alone, below = app.alone(), app.below_run()

    assert below.filed == [("first", "torchspan.run"), ("second", "first")]
    assert (below.out, below.err) == (alone.out, alone.err)
    assert below.out == "ProxyTracerProvider None\n_ProxyMeterProvider ProxyLoggerProvider\n"
    assert [(report.provider, report.errors) for report in below.reports] == [("run", [])]


def test_the_environment_is_the_programs_own_except_for_two_variables(program):
    app = program("import os, sys\nprint(sorted(os.environ.items()))\nprint(sys.path)\n" + SPANS)
    alone, below = app.alone(), app.below_run()

    before, after = (dict(eval(ran.out.splitlines()[0])) for ran in (alone, below))
    assert {name for name in after if after[name] != before.get(name)} <= {"PYTHONPATH", "TORCHSPAN_RUN"}
    assert set(before) <= set(after)
    assert alone.out.splitlines()[1] == below.out.splitlines()[1]


@pytest.mark.parametrize("disabled", ["", "threading"], ids=["contrib imports threads' pools", "nothing does"])
def test_a_first_import_of_torch_alone_is_a_span(program, disabled):
    """The span is made once the main thread has ended, when `concurrent.futures.thread` can no longer be imported."""
    app = program("import torch")
    (app.folder / "torch.py").write_text("__version__ = '2.14.0'")  # the name is all that counts here

    below = app.below_run(OTEL_PYTHON_DISABLED_INSTRUMENTATIONS=disabled)

    assert (below.filed, below.err) == ([("torchspan.import", "torchspan.run")], "")


FIRST = """
import sys

from torchspan import observers

@observers.observable()
def work():
    pass

def loaded():
    return {name for name in sys.modules if name.startswith(("torchspan", "opentelemetry"))}

before = loaded()
work()
print(sorted(loaded() - before))
"""


@pytest.mark.parametrize("exporter", ["none", "otlp"])
def test_the_first_recorded_call_imports_nothing(program, exporter):
    app = program(FIRST)
    below = app.below_run(
        exit_s=0.2,
        OTEL_TRACES_EXPORTER=exporter,
        OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
        OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9",
    )

    assert (below.filed, below.out) == ([("torchspan.observed work", "torchspan.run")], "[]\n")


TRANSIENT = """
import resource
from opentelemetry import trace
from torchspan.base import errors

now = [100.0]
errors.monotonic = lambda: now[0]
tracer = trace.get_tracer("app")
before = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
tracer.start_span("without file descriptors").end()
resource.setrlimit(resource.RLIMIT_NOFILE, before)
tracer.start_span("in the pause").end()
now[0] += 1
tracer.start_span("after the pause").end()
"""


def test_a_failure_at_the_first_span_that_passes_does_not_end_the_tracing_of_the_process(program):
    below = program(TRANSIENT).below_run()

    assert below.filed == [("after the pause", "torchspan.run")]
    (report,) = below.reports
    assert report.paused == {"starting OpenTelemetry's SDK": 1}
    assert len(report.errors) == 1
    assert "Too many open files" in report.errors[0]


def test_scopes_are_those_that_the_program_asked_for(program):
    app = program(SPANS)
    app.below_run()

    scopes = [scope for line in lines(app) for resource in line["resourceSpans"] for scope in resource["scopeSpans"]]
    assert [(scope["scope"], scope.get("schemaUrl")) for scope in scopes] == [
        ({"name": "app"}, None),
        (
            {
                "name": "early",
                "version": "1.0",
                "attributes": [{"key": "scope.key", "value": {"stringValue": "value"}}],
            },
            "https://example.org/schema",
        ),
    ]


def test_the_service_is_the_script_and_neither_arguments_nor_variables_are_recorded(program):
    app = program(SPANS, "app.py", "--token=hunter2")
    app.below_run(PASSWORD="hunter2")

    assert {resource["service.name"] for resource in resources(app)} == {"app.py"}
    assert {key for resource in resources(app) for key in resource} == {
        "process.pid",
        "service.instance.id",
        "service.name",
        "telemetry.sdk.language",
        "telemetry.sdk.name",
        "telemetry.sdk.version",
        "torchspan.run.id",
    }
    assert "hunter2" not in (app.folder / "run.jsonl").read_text()


def test_the_service_of_a_module_is_its_name_and_of_a_shell_word_none(program):
    app = program(SPANS, "-m", "app")
    app.below_run()
    assert {resource["service.name"] for resource in resources(app)} == {"app"}

    package = app.folder / "pkg"
    package.mkdir()
    (package / "__main__.py").write_text(SPANS)
    for command, name in (["-m", "pkg"], "pkg"), (["pkg"], "pkg"), (["-c", f"TOKEN='hunter2'\n{SPANS}"], "python"):
        (app.folder / "run.jsonl").unlink()
        app.command[1:] = command
        app.below_run()
        assert {resource["service.name"].rstrip("0123456789.") for resource in resources(app)} == {name}


def test_no_word_of_a_command_line_becomes_the_service_but_a_plain_name(program):
    app = program(SPANS)
    names = ("OPENAI_API_KEY=sk-live-4711 python run.py", "TOKEN=sk-live.py", "acme merger.py")
    for name in names:
        (app.folder / name).write_text(SPANS)
    for words, expected in (
        (["sh", "-c", f"HF_TOKEN=hf_SECRETsecret DB_PASSWORD=hunter2 {shlex.quote(sys.executable)} app.py"], "app.py"),
        (["sh", "-c", f"{shlex.quote(sys.executable)} - hunter2.py < app.py"], "python"),
        (["env", "TOKEN=sk-live.py", sys.executable, "app.py", "-m", "SECRET message"], "app.py"),
        ([sys.executable, names[0]], "python"),
        ([sys.executable, names[1]], "python"),
        ([sys.executable, "-m", "acme merger"], "python"),
    ):
        app.command = words
        app.below_run()
        assert {resource["service.name"].rstrip("0123456789.") for resource in resources(app)} == {expected}
        (app.folder / "run.jsonl").unlink()


def test_a_service_name_and_resource_attributes_of_the_programs_are_kept(program):
    app = program(SPANS)
    app.below_run(OTEL_SERVICE_NAME="mine", OTEL_RESOURCE_ATTRIBUTES="team=ml")

    assert {(resource["service.name"], resource["team"]) for resource in resources(app)} == {("mine", "ml")}


SERVES = """
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind
tracer = trace.get_tracer("app")
def span(name, kind=SpanKind.INTERNAL, context=None):
    with tracer.start_as_current_span(name, kind=kind, context=context):
        pass
span("set-up")
span("of an empty context", context=Context())
span("message", SpanKind.CONSUMER)
span("more set-up")
with tracer.start_as_current_span("request", kind=SpanKind.SERVER):
    span("work")
span("between requests")
span("second request", SpanKind.SERVER)
"""


def test_roots_are_below_the_run_until_the_first_request(program):
    assert program(SERVES).below_run().filed == [
        ("between requests", None),
        ("message", None),
        ("more set-up", "torchspan.run"),
        ("of an empty context", "torchspan.run"),
        ("request", None),
        ("second request", None),
        ("set-up", "torchspan.run"),
        ("work", "request"),
    ]


def test_a_sampler_that_decides_by_trace_id_decides_for_each_root(program):
    app = program(
        "from opentelemetry import trace\n"
        "tracer = trace.get_tracer('app')\n"
        "for number in range(400):\n"
        "    with tracer.start_as_current_span('root'), tracer.start_as_current_span('child'):\n"
        "        pass\n"
    )
    below = app.below_run(OTEL_TRACES_SAMPLER="parentbased_traceidratio", OTEL_TRACES_SAMPLER_ARG="0.5")

    roots = [span for span in below.filed if span[0] == "root"]
    assert 100 < len(roots) < 300
    assert set(roots) == {("root", None)}
    assert len(below.filed) == 2 * len(roots)


STARTS = """
import multiprocessing, os, subprocess, sys, threading
from opentelemetry import trace
tracer = trace.get_tracer("app")
def work(name):
    with tracer.start_as_current_span(name):
        pass
def forked():
    work("forked")
def spawned():
    work("spawned")
if __name__ == "__main__":
    if len(sys.argv) > 1:
        work(sys.argv[1])
    else:
        command = [sys.executable, "app.py"]
        with tracer.start_as_current_span("main"):
            subprocess.run([*command, "child"], check=True)
            subprocess.run([*command, "given"], check=True, env={**os.environ, "MORE": "1"})
            subprocess.run([*command, "outside"], check=True, env={"PATH": os.environ["PATH"]})
            for method, target in ("spawn", spawned), ("fork", forked):
                process = multiprocessing.get_context(method).Process(target=target)
                process.start(); process.join()
            thread = threading.Thread(target=work, args=("thread",))
            thread.start(); thread.join()
        subprocess.run([*command, "afterwards"], check=True)
"""


def test_what_is_started_inside_a_span_has_it_as_parent_also_in_other_processes(program):
    below = program(STARTS).below_run()

    assert (below.status, below.err) == (0, "")
    assert below.filed == [
        ("afterwards", "torchspan.run"),
        ("child", "main"),
        ("forked", "main"),
        ("given", "main"),
        ("main", "torchspan.run"),
        ("spawned", "main"),
        ("thread", "main"),
    ]


def test_a_child_that_sets_a_provider_of_its_own_gets_no_foreign_parent(program):
    app = program(
        "import subprocess, sys\n"
        "from opentelemetry import trace\n"
        "if len(sys.argv) > 1:\n"
        "    from receiver import *\n"
        "    trace.set_tracer_provider(receiving())\n"
        "with trace.get_tracer('app').start_as_current_span('child' if len(sys.argv) > 1 else 'main'):\n"
        "    if len(sys.argv) == 1:\n"
        "        subprocess.run([sys.executable, 'app.py', 'child'], check=True)\n"
    )
    alone, below = app.alone(), app.below_run()

    assert below.received == alone.received
    assert below.filed == [("child", None), ("main", "torchspan.run")]


def test_the_exporter_that_a_variable_names_gets_the_spans_too(program):
    below = program(SPANS).below_run(OTEL_TRACES_EXPORTER="console, torchspan_file")

    assert [json.loads(text)["name"] for text in below.out.split("\n}\n") if text.strip() for text in [text + "}"]] == [
        "second",
        "first",
    ]
    assert below.filed == [("first", "torchspan.run"), ("second", "first")]
    assert [report.undelivered for report in below.reports] == [{}]


def test_an_exporter_that_does_not_exist_is_reported_and_the_file_is_written(program):
    below = program(SPANS).below_run(OTEL_TRACES_EXPORTER="nosuch,console")

    assert (below.status, below.err) == (0, "")
    assert below.out.count('"name":') == 2
    assert below.filed == [("first", "torchspan.run"), ("second", "first")]
    unknown = "Requested component 'nosuch' not found in entry point 'opentelemetry_traces_exporter'"
    assert [report.errors for report in below.reports] == [
        [f"OTEL_TRACES_EXPORTER=nosuch,console: {unknown}; to check the exporters: torchspan doctor"]
    ]


def test_a_disabled_sdk_is_reported(program):
    below = program(SPANS).below_run(OTEL_SDK_DISABLED="true")

    assert (below.status, below.err, below.filed) == (0, "", [])
    assert [report.sdk_disabled for report in below.reports] == [True]


MEASURES = """
import torchspan
from torchspan import observers
@observers.observable()
def work():
    pass
work()
from opentelemetry import metrics
print(type(metrics.get_meter_provider()).__name__, metrics._internal._METER_PROVIDER)
"""


def test_metrics_of_torchspan_go_to_the_exporter_that_a_variable_names_and_none_is_global(program):
    app = program(MEASURES)
    below = app.below_run(OTEL_METRICS_EXPORTER="console")

    assert below.err == ""
    assert below.out.startswith("_ProxyMeterProvider None\n")
    (scope,) = json.loads(below.out.partition("\n")[2])["resource_metrics"][0]["scope_metrics"]
    assert scope["scope"]["name"] == "torchspan"


def test_metrics_go_to_the_programs_own_provider_where_it_sets_one(program):
    text = """
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
reader = InMemoryMetricReader()
metrics.set_meter_provider(MeterProvider([reader]))
metrics.get_meter("app").create_counter("counted").add(1)
import torchspan
torchspan.instrument()
from torchspan import observers, phase
from torchspan.engine import RUNNING
RUNNING.engine.close(RUNNING.engine.open(phase.COMPILE, {}))
data = reader.get_metrics_data()
# Alone no span is emitted: the program sets no tracer provider.
print([(scope.scope.name, [metric.name for metric in scope.metrics if metric.name != "torchspan.span.emitted"])
       for resource in data.resource_metrics for scope in resource.scope_metrics])
"""
    app = program(text)
    alone, below = app.alone(), app.below_run(OTEL_METRICS_EXPORTER="console")

    assert (below.out, below.err) == (alone.out, alone.err)
    assert "counted" in below.out
    assert "torch_tensorrt.compile.duration" in below.out


def test_a_log_provider_of_the_programs_receives_what_it_receives_without_run(program):
    text = """
from opentelemetry import _logs, trace
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
exporter = InMemoryLogRecordExporter()
provider = LoggerProvider()
provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
_logs.set_logger_provider(provider)
_logs.get_logger("app").emit(body="said")
print([(each.log_record.body, each.log_record.trace_id) for each in exporter.get_finished_logs()])
"""
    app = program(text)
    alone, below = app.alone(), app.below_run()

    assert (below.status, below.out, below.err) == (alone.status, alone.out, alone.err)
    assert below.out == "[('said', 0)]\n"


def test_the_sdk_is_not_imported_before_the_first_span(program):
    text = (
        "import sys\nloaded = lambda: sorted(each for each in sys.modules if each.startswith('opentelemetry.sdk'))[:1]\n"
        "print(loaded())\n" + SPANS + "print(loaded())\n"
    )
    assert program(text).below_run().out == "[]\n['opentelemetry.sdk']\n"


def test_python_is_the_interpreter_that_was_asked_for(program):
    app = program("import sys\nprint(sys.executable, sys.argv)\n", "app.py", "x")
    assert app.below_run().out == f"{sys.executable} ['app.py', 'x']\n"


@pytest.mark.parametrize("variable", ["OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_SCHEDULE_DELAY"])
def test_the_file_has_the_spans_where_the_sdk_refuses_the_variables_of_the_exporter(program, variable):
    below = program(SPANS).below_run(**{"OTEL_TRACES_EXPORTER": "otlp", variable: "-1"})

    assert below.filed == [("first", "torchspan.run"), ("second", "first")]
    ((error,),) = [report.errors for report in below.reports]
    assert error.startswith(
        "the exporter otlp_proto_grpc is not used, because the SDK refuses the OTEL_BSP_* variables: "
    )


POOL = """
import threading
from concurrent.futures import ThreadPoolExecutor
from opentelemetry import trace
trace.get_tracer("app").start_span("first").end()
print(ThreadPoolExecutor().submit(lambda: threading.current_thread().name).result(), threading.Thread().name)
"""


def test_threads_of_the_program_and_of_its_pools_have_the_names_that_they_have_alone(program):
    below = program(POOL).below_run()

    assert (below.out, below.filed) == ("ThreadPoolExecutor-0_0 Thread-1\n", [("first", "torchspan.run")])


MOCKED = """
from unittest import mock
from torchspan import observers

@observers.observable()
def work():
    pass

with mock.patch("time.time_ns", return_value=0):
    work()
"""


def test_a_span_of_a_test_that_replaces_the_clock_has_the_true_time(program):
    app = program(MOCKED)
    app.below_run()

    (span,) = [span for line in lines(app) for each in line["resourceSpans"] for span in each["scopeSpans"][0]["spans"]]
    assert int(span["startTimeUnixNano"]) > 1_700_000_000 * 10**9


def test_an_exception_in_a_block_of_a_span_is_recorded_as_with_a_provider_of_the_programs():
    from opentelemetry.sdk.trace import TracerProvider

    from torchspan.hooks.propagation.own_spans import OwnSpan

    span = TracerProvider(shutdown_on_exit=False).get_tracer("program").start_span("work")
    with pytest.raises(ValueError, match="no"), OwnSpan(span) as entered:
        assert type(entered) is OwnSpan
        raise ValueError("no")
    assert ([event.name for event in span.events], span.end_time is None) == (["exception"], False)
