# SPDX-License-Identifier: Apache-2.0
"""Programs started through `subprocess`: what is in their environment, and whose children their spans are."""

import asyncio
import contextlib
import ctypes
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Mapping

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState

from support.work import span_id, trace_id
from torchspan.hooks.propagation import _environment

pytestmark = pytest.mark.slow

SHOW = [sys.executable, "-S", "-c", "import json, os; print(json.dumps(dict(os.environ)))"]
WORK = [sys.executable, "-c", "from support import work; work.both('work')"]
THEIRS = "00-0000000000000000000000000000000a-000000000000000b-01"


def shown(output):
    return json.loads(output)


def by_run():
    return shown(subprocess.run(SHOW, capture_output=True, check=True).stdout)


def by_popen_with_everything_positional():
    child = subprocess.Popen(SHOW, -1, None, None, subprocess.PIPE, None, None, True, False, None, {"MINE": "1"})
    return shown(child.communicate()[0])


def by_asyncio():
    async def main():
        child = await asyncio.create_subprocess_exec(*SHOW, stdout=subprocess.PIPE)
        return shown((await child.communicate())[0])

    return asyncio.run(main())


def by_os_popen():
    with os.popen(f"'{SHOW[0]}' -S -c '{SHOW[3]}'") as pipe:
        return shown(pipe.read())


def by_a_subclass():
    class Own(subprocess.Popen):
        def __init__(self, command, **options):
            super().__init__(command, stdout=subprocess.PIPE, **options)

    return shown(Own(SHOW).communicate()[0])


@pytest.mark.parametrize(
    "start",
    [by_run, by_popen_with_everything_positional, by_asyncio, by_os_popen, by_a_subclass],
    ids=lambda each: each.__name__,
)
def test_the_current_span_is_in_the_childs_environment_and_not_in_the_parents(start, instrument, tracer):
    instrument()
    before = dict(os.environ)
    with tracer.start_as_current_span("request") as request:
        environment = start()
        assert dict(os.environ) == before
    assert environment["TRACEPARENT"] == f"00-{trace_id(request)}-{span_id(request)}-03"
    assert "TRACEPARENT" not in start()


def test_what_is_passed_stays_and_is_not_written_to(instrument, tracer):
    instrument()
    given = {"MINE": "1"}
    with tracer.start_as_current_span("request"):
        environment = shown(subprocess.check_output(SHOW, env=given))
    assert environment.keys() - {"LC_CTYPE"} == {"MINE", "TRACEPARENT"}
    assert given == {"MINE": "1"}


def test_state_and_baggage_travel_too(instrument):
    instrument()
    parent = SpanContext(0xA, 0xB, True, TraceFlags(1), TraceState([("vendor", "x")]))
    token = context.attach(baggage.set_baggage("tenant", "a b"))
    with trace.use_span(NonRecordingSpan(parent)):
        environment = by_run()
    context.detach(token)
    carried = {name: environment[name] for name in ("TRACEPARENT", "TRACESTATE", "BAGGAGE")}
    assert carried == {"TRACEPARENT": THEIRS, "TRACESTATE": "vendor=x", "BAGGAGE": "tenant=a+b"}


@pytest.mark.parametrize("name", ["TRACEPARENT", b"TRACEPARENT"])
def test_a_context_that_the_program_passes_itself_wins(name, instrument, tracer):
    instrument()
    value = THEIRS if isinstance(name, str) else THEIRS.encode()
    with tracer.start_as_current_span("request"):
        environment = shown(subprocess.check_output(SHOW, env={name: value}))
    assert environment["TRACEPARENT"] == THEIRS


def test_baggage_that_the_program_passes_itself_stays_alongside_our_parent(instrument, tracer):
    instrument()
    token = context.attach(baggage.set_baggage("tenant", "torchspans"))
    with tracer.start_as_current_span("request") as request:
        environment = shown(subprocess.check_output(SHOW, env={"BAGGAGE": "tenant=theirs"}))
    context.detach(token)
    assert environment["BAGGAGE"] == "tenant=theirs"
    assert span_id(request) in environment["TRACEPARENT"]


def test_what_this_process_only_inherited_is_replaced_state_and_baggage_included(tracer, monkeypatch):
    inherited = {"TRACEPARENT": THEIRS, "TRACESTATE": "vendor=x", "BAGGAGE": "tenant=a"}
    for name, value in inherited.items():
        monkeypatch.setitem(_environment.INHERITED, name, value)
    with tracer.start_as_current_span("request") as request:
        environment = _environment.of_child({**inherited, "MINE": "1"})
    assert environment == {"MINE": "1", "TRACEPARENT": f"00-{trace_id(request)}-{span_id(request)}-03"}


def test_outside_of_spans_what_is_inherited_continues(tracer, monkeypatch):
    monkeypatch.setitem(_environment.INHERITED, "TRACEPARENT", THEIRS)
    assert _environment.of_child(None) is None


def test_outside_of_spans_the_programs_own_object_is_what_is_passed_on(instrument):
    class Environment(dict):
        asked = False

        def keys(self):  # Python 3.13 hands it to posix_spawn, which asks for these
            self.asked = True
            return super().keys()

        def items(self):
            self.asked = True
            return super().items()

    instrument()
    given = Environment(MINE="1")
    subprocess.check_output(SHOW, env=given)
    assert given.asked


def test_the_place_of_env_is_the_one_that_python_has():
    parameters = list(inspect.signature(subprocess.Popen.__init__).parameters)
    assert parameters[_environment.ENV_PLACE + 1] == "env"


@pytest.mark.skipif(os.name != "posix", reason="there it is os.environ that children get")
def test_a_variable_that_a_library_has_set_reaches_the_child(instrument, tracer):
    libc = ctypes.CDLL(None)
    libc.setenv(b"SET_BY_A_LIBRARY", b"1", 1)
    try:
        instrument()
        with tracer.start_as_current_span("request"):
            environment = by_run()
    finally:
        libc.unsetenv(b"SET_BY_A_LIBRARY")
    assert (environment["SET_BY_A_LIBRARY"], "TRACEPARENT" in environment) == ("1", True)
    assert "SET_BY_A_LIBRARY" not in os.environ


@pytest.mark.skipif(os.name != "posix", reason="there it is os.environ that children get")
def test_a_variable_that_another_thread_removes_takes_no_other_one_from_the_child(monkeypatch):
    monkeypatch.setenv("REMOVED_MEANWHILE", "1")
    monkeypatch.setenv("SET_AFTER_IT", "2")

    def meanwhile(value, fsdecode=os.fsdecode):
        if value == b"REMOVED_MEANWHILE":
            os.unsetenv(value)
        return fsdecode(value)

    monkeypatch.setattr(os, "fsdecode", meanwhile)
    assert _environment.own_environment()["SET_AFTER_IT"] == "2"


def test_bytes_that_are_not_text_stay_what_they_are(instrument, tracer, monkeypatch):
    monkeypatch.setitem(os.environb, b"NOT_TEXT", b"\xff\xfe=\n")
    instrument()
    with tracer.start_as_current_span("request"):
        out = subprocess.check_output([sys.executable, "-S", "-c", "import os; print(os.environb[b'NOT_TEXT'])"])
    assert out.strip() == rb"b'\xff\xfe=\n'"


@pytest.mark.fault("processes", "a program that cannot be started")
@pytest.mark.parametrize(
    ("command", "options"),
    [
        (["no such program"], {}),
        (SHOW, {"env": [("A", "1")]}),
        (SHOW, {"env": {"A": 1}}),
        (SHOW, {"env": {"A=B": "1"}}),
        (SHOW, {"unknown": 1}),
    ],
)
def test_errors_are_those_without_us(command, options, instrument, tracer):
    with pytest.raises((OSError, TypeError, ValueError, AttributeError)) as bare:
        subprocess.Popen(command, **options)
    instrument()
    with tracer.start_as_current_span("request"), pytest.raises(bare.type) as torchspans:
        subprocess.Popen(command, **options)
    assert str(torchspans.value) == str(bare.value)


def test_an_instrumented_child_is_in_the_trace(instrument, tracer, instrumented, parents):
    instrument()
    with tracer.start_as_current_span("request") as request:
        subprocess.run(["opentelemetry-instrument", *WORK], env=instrumented, check=True, timeout=120)
    assert parents("work") == (span_id(request),) * 2


def test_grandchildren_below_an_uninstrumented_child_are_in_the_trace(instrument, tracer, instrumented, parents):
    instrument()
    with tracer.start_as_current_span("request") as request:
        command = ["sh", "-c", 'exec opentelemetry-instrument "$@"', "sh", *WORK]
        subprocess.run(command, env=instrumented, check=True, timeout=120)
    assert parents("work") == (span_id(request),) * 2


@pytest.mark.parametrize(
    "command", [["true"], [sys.executable, "-I", "-S", "-c", ""], [sys.executable, "-E", "-c", "import subprocess"]]
)
def test_children_that_know_nothing_of_us_run_as_usual(command, instrument, tracer):
    instrument()
    with tracer.start_as_current_span("request"):
        done = subprocess.run(command, capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")


def test_what_os_starts_without_subprocess_is_not_covered(instrument, tracer, tmp_path):
    instrument()
    with tracer.start_as_current_span("request"):
        os.system(f"env > '{tmp_path}/system'")
        os.waitpid(os.posix_spawn("/bin/sh", ["sh", "-c", f"env > '{tmp_path}/spawn'"], os.environ), 0)
    assert not [name for name in ("system", "spawn") if "TRACEPARENT" in (tmp_path / name).read_text()]


def test_disabled_children_get_nothing(instrument, tracer):
    instrument(propagation="off")
    with tracer.start_as_current_span("request"):
        assert "TRACEPARENT" not in by_run()


# --- environments that the program emptied ------------------------------------------------------------------------


@pytest.fixture
def tenant():
    """Baggage, and a span around."""
    token = context.attach(baggage.set_baggage("email", "alice@example.com"))
    yield
    context.detach(token)


def emptied():
    return [
        {},
        {"MINE": "1"},
        {"PATH": os.environ["PATH"], "MINE": "1"},
        {b"PATH": os.environb[b"PATH"]},
    ]


@pytest.mark.parametrize("number", range(len(emptied())))
def test_baggage_is_not_put_into_an_environment_that_was_emptied_and_the_parent_is(number, instrument, tracer, tenant):
    instrument()
    with tracer.start_as_current_span("request") as request:
        environment = shown(subprocess.check_output(SHOW, env=emptied()[number]))
    assert "BAGGAGE" not in environment
    assert span_id(request) in environment["TRACEPARENT"]


@pytest.mark.parametrize("propagation", ["on", "links"])
def test_baggage_is_put_into_an_environment_made_of_this_processs(propagation, instrument, tracer, tenant):
    instrument(propagation=propagation)
    without_one = dict(list(os.environ.items())[1:])
    with tracer.start_as_current_span("request"):
        for given in (None, os.environ, {**os.environ, "MINE": "1"}, without_one, dict(os.environb)):
            environment = shown(subprocess.check_output(SHOW, env=given))
            assert environment["BAGGAGE"] == "email=alice%40example.com"
            assert "TRACEPARENT" in environment


def test_propagation_that_is_off_puts_neither_into_an_emptied_environment(instrument, tracer, tenant):
    instrument(propagation="off")
    with tracer.start_as_current_span("request"):
        environment = shown(subprocess.check_output(SHOW, env={}))
    assert environment.keys() - {"LC_CTYPE"} == set()


def test_values_of_the_programs_environment_are_not_asked_for_a_text(tracer):
    class Path:
        def __fspath__(self):
            raise SystemExit("asked")

    with tracer.start_as_current_span("request"):
        assert _environment.of_child({"TRACEPARENT": Path()}) is None


class Expanding(dict):
    def items(self):
        return [(name, value.replace("$HOME", "/srv/me")) for name, value in super().items()]


class Telling(Mapping):
    def __init__(self, variables, calls):
        self._variables, self._calls = variables, calls

    def __getitem__(self, name):
        self._calls.append(f"get {name}")
        return self._variables[name]

    def __iter__(self):
        self._calls.append("iter")
        return iter(self._variables)

    def __len__(self):
        self._calls.append("len")
        return len(self._variables)


def test_a_mapping_whose_items_are_others_than_its_values_gives_the_child_its_items(instrument, tracer):
    instrument()
    with tracer.start_as_current_span("request") as request:
        environment = shown(subprocess.check_output(SHOW, env=Expanding(DATA="$HOME/data")))
    assert environment["DATA"] == "/srv/me/data"
    assert environment["TRACEPARENT"] == f"00-{trace_id(request)}-{span_id(request)}-03"


@pytest.mark.parametrize("command", [["true"], ["/bin/true"], ["/bin/no such file"]])
def test_the_programs_own_mapping_is_read_once_as_without_us(command, instrument, tracer):
    def reads():
        called = []
        with contextlib.suppress(OSError):
            subprocess.run(command, env=Telling({"PATH": "/usr/bin:/bin", "DATA": "1"}, called), check=True)
        return called.count("iter"), called.count("get DATA")

    alone = reads()
    instrument()
    with tracer.start_as_current_span("request"):
        assert reads() == alone == (1, 1)


BYTES = """
import os, subprocess, sys
from opentelemetry import trace
import torchspan
torchspan.instrument()
show = [sys.executable, "-S", "-c", "import os; print('TRACEPARENT' in os.environ, len(os.environ.get('TORCHSPAN_RUN', '')) > 0)"]
span = trace.NonRecordingSpan(trace.SpanContext(1, 2, is_remote=False, trace_flags=trace.TraceFlags(1)))
with trace.use_span(span) if "own" in sys.argv else trace.get_tracer("app").start_as_current_span("work"):
    variables = {**os.environb, b"TRACESTATE": b""}
    variables.pop(b"TRACESTATE")
    subprocess.run(show, env=variables)
    subprocess.run(show, env={**variables, "TEXT": "1"})
"""


@pytest.mark.parametrize("option", ["-b", "-bb"])
@pytest.mark.parametrize(
    ("started_by", "said"),
    [
        ((), "True False\nTrue False\n"),
        (("-m", "torchspan", "run", "--quiet", "--", sys.executable), "False True\n" * 2),
    ],
    ids=["instrumented in code", "below run"],
)
def test_an_environment_of_bytes_causes_no_warning_where_python_warns_of_bytes(tmp_path, started_by, said, option):
    (tmp_path / "app.py").write_text(BYTES)
    options = [*started_by, option, "app.py", *([] if started_by else ["own"])]
    done = subprocess.run([sys.executable, *options], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, said), done.stderr
    assert "BytesWarning" not in done.stderr
