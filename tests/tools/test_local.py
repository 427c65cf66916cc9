# SPDX-License-Identifier: Apache-2.0
"""`make up`, `make down` and `make demo-up`: with stand-ins for the programs here, with the real ones in `tests/local`."""

import json
import os
import signal
import socket
import sys
import time
import urllib.request
from pathlib import Path

import pytest

import backends
import local
import running
import services

# The line after the first is a command for the shell, and a text for Python: no path with a space can stand in the first.
STAND_IN = """\
#!/bin/sh
"exec" "{python}" "-S" "$0" "$@"
import http.server, json, os, pathlib, re, sys, threading, time

here, name = pathlib.Path(__file__).parent, pathlib.Path(__file__).name

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        spans = [dict(startTime=int(each)) for each in here.joinpath("spans").read_text().split()]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(dict(data=[dict(spans=spans)] if spans else [])).encode())

if here.joinpath(name + ".fails").exists():
    sys.exit(name + ": bad configuration")
environment = dict((k, v) for k, v in os.environ.items() if k.startswith(("TORCHSPAN_", "OTEL_", "JAEGER_", "PROMETHEUS_")))
here.joinpath(name + ".started").write_text(json.dumps([sys.argv[1:], environment]))
ports = [int(value) for key, value in environment.items() if key.startswith({prefix!r}) and key.endswith("_PORT")]
servers = [http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler) for port in ports]
for server in servers:
    threading.Thread(target=server.serve_forever, daemon=True).start()
while True:
    time.sleep(60)
"""
PREFIXES = {"otelcol-torchspan": "TORCHSPAN_", "jaeger": "JAEGER_", "prometheus": "PROMETHEUS_"}


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with stand-ins for the three programs, which answer every request, and with free ports for them."""
    for each in backends.BACKENDS:
        monkeypatch.delenv(each.variable, raising=False)
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "spans").write_text("")
    for name, prefix in PREFIXES.items():
        path = programs / name
        path.write_text(STAND_IN.format(python=sys.executable, prefix=prefix), encoding="utf-8")
        path.chmod(0o755)
        monkeypatch.setenv(backends.BY_NAME[name].variable, str(path))
    names = [name for kind in local.KINDS for name in kind.PORTS]
    for name, port in zip(names, running.free_ports(len(names)), strict=True):
        monkeypatch.setenv(name, str(port))
    monkeypatch.setenv("TORCHSPAN_LOCAL", str(tmp_path / "stack"))
    made = []

    class Running(running.Running):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            made.append(self)

    monkeypatch.setattr(running, "Running", Running)
    yield programs
    for each in made:
        each.kill()


def started(machine, name):
    """(arguments, environment) that a stand-in was started with."""
    return json.loads((machine / f"{name}.started").read_text(encoding="utf-8"))


def test_up_starts_the_programs_and_prints_their_addresses(machine, capsys):
    assert local.main(["up"]) == 0

    ports = {name: os.environ[name] for kind in local.KINDS for name in kind.PORTS}
    assert (
        capsys.readouterr().out
        == f"""\
Up, with data in {os.environ["TORCHSPAN_LOCAL"]}; make down ends it and removes them.
  Jaeger      http://127.0.0.1:{ports["JAEGER_API_PORT"]}
  Prometheus  http://127.0.0.1:{ports["PROMETHEUS_PORT"]}
  Collector   http://127.0.0.1:{ports["TORCHSPAN_HTTP_PORT"]} (OTLP/HTTP), http://127.0.0.1:{ports["TORCHSPAN_GRPC_PORT"]} (OTLP/gRPC)
Send it the traces of a program, or of the demo with `make demo-up`:
  OTEL_SERVICE_NAME=torchspan-demo OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:{ports["TORCHSPAN_HTTP_PORT"]} \\
  OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf OTEL_LOGS_EXPORTER=none opentelemetry-instrument python app.py
The trace of the last compilation of torchspan-demo, as JSON of Jaeger's:
http://127.0.0.1:{ports["JAEGER_API_PORT"]}/api/traces?service=torchspan-demo&operation=torch_tensorrt.compile&limit=1
"""
    )
    arguments, environment = started(machine, "otelcol-torchspan")
    files = [services.CONFIGURATIONS / name for name in ("base.yaml", "metrics.yaml")]
    assert arguments == ["--config", str(files[0]), "--config", str(files[1])]
    assert environment["TORCHSPAN_OTLP_ENDPOINT"] == f"http://127.0.0.1:{ports['JAEGER_OTLP_PORT']}"


def test_up_again_prints_the_addresses_again_and_starts_nothing(machine, capsys):
    assert local.main(["up"]) == 0
    processes = [each.pid for each in local.Stack(local.default_folder()).started]
    first = capsys.readouterr().out
    assert local.main(["up"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == first.splitlines()[1:]
    assert [each.pid for each in local.Stack(local.default_folder()).started] == processes


def test_down_ends_the_programs_and_removes_their_data_and_again_is_not_an_error(machine, capsys):
    assert local.main(["up"]) == 0
    processes = local.Stack(local.default_folder()).started
    capsys.readouterr()

    assert local.main(["down"]) == 0
    assert capsys.readouterr().out == "Down: otelcol-torchspan, prometheus, jaeger.\n"
    assert not any(each.runs() for each in processes)
    assert not local.default_folder().exists()
    assert local.main(["down"]) == 0
    assert capsys.readouterr().out == "Nothing was up.\n"


def test_prometheus_reads_the_collector_on_the_ports_that_it_has(machine):
    assert local.main(["up"]) == 0
    arguments, _ = started(machine, "prometheus")
    folder = Path(arguments[0].removeprefix("--config.file=")).parent
    assert json.loads((folder / "metrics.json").read_text()) == [
        {"targets": [f"127.0.0.1:{os.environ['TORCHSPAN_METRICS_PORT']}"]}
    ]
    assert json.loads((folder / "own-metrics.json").read_text()) == [
        {"targets": [f"127.0.0.1:{os.environ['TORCHSPAN_SELF_PORT']}"]}
    ]


def test_a_port_that_is_taken_is_named_with_the_variable_that_chooses_another(machine, capsys, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setenv("TORCHSPAN_HTTP_PORT", str(port))
        assert local.main(["up"]) == 1
    assert capsys.readouterr().err == (
        f"local: port {port} (spans and metrics of programs, OTLP/HTTP) is taken by another program. Choose another: "
        "make up TORCHSPAN_HTTP_PORT=…\n"
    )
    assert not local.default_folder().exists()


def test_a_port_that_is_asked_for_twice_and_one_that_is_none_are_named(machine, capsys, monkeypatch):
    monkeypatch.setenv("TORCHSPAN_SELF_PORT", os.environ["TORCHSPAN_METRICS_PORT"])
    monkeypatch.setenv("JAEGER_GRPC_PORT", "99999")
    assert local.main(["up"]) == 1
    port = os.environ["TORCHSPAN_METRICS_PORT"]
    assert (
        capsys.readouterr().err
        == f"""\
local: JAEGER_GRPC_PORT=99999 is not a port
local: port {port} is asked for twice, the second time for the Collector's own metrics: make up TORCHSPAN_SELF_PORT=…
"""
    )


def test_where_a_program_does_not_start_its_output_is_shown_and_the_others_are_ended(machine, capsys):
    (machine / "otelcol-torchspan.fails").touch()
    assert local.main(["up"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "local: otelcol-torchspan ended with 1 before it was ready:",
        "local: otelcol-torchspan: bad configuration",
    ]
    assert not local.default_folder().exists()
    for name in ("JAEGER_API_PORT", "PROMETHEUS_PORT"):
        assert running.is_free(int(os.environ[name]))


def test_a_program_that_has_ended_since_is_named(machine, capsys):
    assert local.main(["up"]) == 0
    jaeger = local.Stack(local.default_folder()).started[0]
    os.kill(jaeger.pid, signal.SIGKILL)
    while jaeger.runs():
        time.sleep(0.01)
    assert local.main(["up"]) == 1
    assert "local: jaeger has ended, and the others run" in capsys.readouterr().err
    assert local.main(["demo", "--", "true"]) == 1


def test_what_is_left_of_a_machine_that_was_disabled_is_not_a_hindrance(machine, capsys):
    assert local.main(["up"]) == 0
    stack = local.Stack(local.default_folder())
    for each in stack.started:
        os.kill(each.pid, signal.SIGKILL)
    while any(each.runs() for each in stack.started):
        time.sleep(0.01)
    assert local.main(["up"]) == 0
    assert "Up, with data in" in capsys.readouterr().out


def test_a_process_that_has_the_id_of_one_that_ended_is_left_alone(machine):
    own = local.Started("jaeger", os.getpid(), "another time", 1)
    assert not own.runs()
    own.stop()
    assert local.Started("jaeger", os.getpid(), local._begun(os.getpid()), 1).runs()


def test_a_folder_that_another_user_could_have_put_there_is_not_read(machine, capsys, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    local.default_folder().symlink_to(tmp_path / "elsewhere")
    assert local.main(["up"]) == 1
    assert local.main(["down"]) == 1
    assert capsys.readouterr().err.splitlines() == 2 * [
        f"local: {local.default_folder()} belongs to another user. Name another: TORCHSPAN_LOCAL=/path/of/a/folder"
    ]
    local.default_folder().unlink()


@pytest.mark.parametrize("state", [None, "[]", '{"version": 4}', "not JSON"])
def test_a_folder_that_up_did_not_make_is_neither_used_nor_removed(machine, capsys, state):
    """`TORCHSPAN_LOCAL=~/data make down` removed ~/data with everything in it."""
    folder = local.default_folder()
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "model.pt").write_text("precious")
    if state is not None:
        (folder / "state.json").write_text(state)
    assert local.main(["down"]) == 1
    assert local.main(["up"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"local: `make up` did not make {folder}: nothing is removed. {local.ANOTHER}",
        f"local: {folder} is there already, and `make up` did not make it. {local.ANOTHER}",
    ]
    assert (folder / "deep" / "model.pt").read_text() == "precious"


def test_the_folder_is_readable_by_its_user_alone(machine):
    assert local.main(["up"]) == 0
    assert local.default_folder().stat().st_mode & 0o777 == 0o700


def test_a_jaeger_that_runs_elsewhere_gets_the_traces(machine, capsys, monkeypatch):
    monkeypatch.setenv("TORCHSPAN_TEST_JAEGER", "http://127.0.0.1:1,http://127.0.0.1:2")
    assert local.main(["up"]) == 0
    assert "  Jaeger      http://127.0.0.1:1\n" in capsys.readouterr().out
    assert started(machine, "otelcol-torchspan")[1]["TORCHSPAN_OTLP_ENDPOINT"] == "http://127.0.0.1:2"


def test_traces_go_to_a_tempo_too_where_one_is_given(machine, capsys, monkeypatch):
    monkeypatch.setenv("TORCHSPAN_TEST_TEMPO", "http://127.0.0.1:3,http://127.0.0.1:4")
    assert local.main(["up"]) == 0
    assert (
        "http://127.0.0.1:3/api/search?q=%7B+resource.service.name+%3D+%22torchspan-demo%22+%26%26+name+%3D+"
        "%22torch_tensorrt.compile%22+%7D&limit=1\n"
    ) in capsys.readouterr().out
    arguments, environment = started(machine, "otelcol-torchspan")
    assert arguments[-1] == str(services.LOCAL / "with-tempo.yaml")
    assert environment["TORCHSPAN_TEMPO_ENDPOINT"] == "http://127.0.0.1:4"


def test_what_is_missing_is_built_first_and_how_long_that_takes_is_said(machine, capsys, monkeypatch, tmp_path):
    built = []

    def build(program, say):
        built.append(program.name)
        monkeypatch.setenv(program.variable, given[program.name])

    given = {name: os.environ[backends.BY_NAME[name].variable] for name in PREFIXES}
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("TORCHSPAN_BACKENDS", str(tmp_path / "cache"))
    for name in ("jaeger", "otelcol-torchspan"):
        monkeypatch.delenv(backends.BY_NAME[name].variable)
    monkeypatch.setattr(backends, "build", build)
    assert local.main(["up"]) == 0
    assert built == ["jaeger", "otelcol-torchspan"]
    assert capsys.readouterr().out.splitlines()[0] == (
        "To be built first: jaeger, otelcol-torchspan; about 8 min on two idle cores and a download of 0.8 GB. Once."
    )


def test_the_settings_of_the_users_own_telemetry_do_not_reach_the_programs(machine, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=secret")
    assert local.main(["up"]) == 0
    assert [name for name in started(machine, "otelcol-torchspan")[1] if name.startswith("OTEL_")] == []
    assert started(machine, "jaeger")[1]["OTEL_TRACES_SAMPLER"] == "always_off"


PROGRAM = """
import json, os, pathlib, sys, time
pathlib.Path(sys.argv[1], "spans").write_text(str(time.time_ns() // 1000))
pathlib.Path(sys.argv[1], "environment").write_text(json.dumps(dict(os.environ)))
"""


def test_the_demo_is_run_with_the_collectors_address_and_waited_for(machine, capsys, monkeypatch):
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    assert local.main(["up"]) == 0
    capsys.readouterr()
    assert local.main(["demo", "--", sys.executable, "-S", "-c", PROGRAM, str(machine)]) == 0
    environment = json.loads((machine / "environment").read_text())
    assert {name: value for name, value in environment.items() if name.startswith("OTEL_")} == {
        "OTEL_SERVICE_NAME": "torchspan-demo",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{os.environ['TORCHSPAN_HTTP_PORT']}",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_TRACES_EXPORTER": "otlp",
        "OTEL_METRICS_EXPORTER": "otlp",
        "OTEL_LOGS_EXPORTER": "none",
    }
    address = capsys.readouterr().out.splitlines()[-1]
    with urllib.request.urlopen(address) as response:
        assert len(json.load(response)["data"]) == 1


ONE_BY_ONE = """
import os, pathlib, sys, time
now = str(time.time_ns() // 1000) + "\\n"
if os.fork() == 0:  # spans arrive after the program has ended
    for number in range(4):
        time.sleep(0.4)
        with open(pathlib.Path(sys.argv[1], "spans"), "a") as file:
            file.write(now)
    os._exit(0)
"""


def test_a_trace_is_waited_for_until_no_more_of_it_comes(machine, monkeypatch):
    monkeypatch.setattr(local, "STEADY_S", 2)
    assert local.main(["up"]) == 0
    assert local.main(["demo", "--", sys.executable, "-S", "-c", ONE_BY_ONE, str(machine)]) == 0
    assert len((machine / "spans").read_text().split()) == 4


def test_a_trace_of_an_earlier_demo_is_not_taken_for_this_one(machine, capsys, monkeypatch):
    monkeypatch.setattr(local, "FETCH_S", 0.3)
    (machine / "spans").write_text("1000000")
    assert local.main(["up"]) == 0
    assert local.main(["demo", "--", "true"]) == 1
    assert capsys.readouterr().err == "local: the trace did not arrive in Jaeger within 0.3 s of the program's end\n"


def test_a_demo_that_fails_has_its_own_status(machine):
    assert local.main(["up"]) == 0
    assert local.main(["demo", "--", sys.executable, "-S", "-c", "raise SystemExit(7)"]) == 7


def test_without_a_stack_the_demo_says_what_to_do_first(machine, capsys):
    assert local.main(["demo", "--", "true"]) == 1
    assert capsys.readouterr().err == "local: nothing is up: make up\n"
