# SPDX-License-Identifier: Apache-2.0
"""Servers with two workers each: gunicorn forks them from a process that has imported the application, uvicorn spawns them."""

import sys
from collections import Counter
from pathlib import Path

import pytest

from children.programs import INSTRUMENT, Server, by_process, measured, receiver_of

GUNICORN = [
    *("gunicorn", "--preload", "--workers=2", "--bind=127.0.0.1:0"),
    *("--no-control-socket", "--graceful-timeout=60", "serving:wsgi"),
]
UVICORN = ["uvicorn", "--workers=2", "--port=0", "serving:asgi"]


def command(server):
    return [INSTRUMENT, str(Path(sys.executable).with_name(server[0])), *server[1:]]


def requests(receiver):
    """Number of the request -> its span and those below it, by name."""
    found = {}
    for span in receiver.spans():
        if span.trace_id.startswith("0" * 16):
            found.setdefault(int(span.trace_id, 16), {})[span.name] = span
    return found


class Served:
    """A server that has answered requests and ended."""

    def __init__(self, server, environment, receiver, folder):
        running = Server(command(server), environment, folder / "log.txt")
        try:
            self.answers = running.ask_until_all_have_answered(2)
        finally:
            self.status = running.stop()
        self.log = running.log()
        self.requests = requests(receiver)
        self.compilations = by_process(receiver.spans())
        self.measured = measured(receiver)

    def answered(self):
        """How many requests each worker has answered, fewest first."""
        return sorted(Counter(each["pid"] for each in self.answers).values())

    def assert_requests_have_right_parents(self):
        assert sorted(self.requests) == [number + 1 for number in range(len(self.answers))]
        for number, spans in self.requests.items():
            request, inferred = spans["request"], spans["torchspan.observed infer"]
            assert request.parent_id == f"{number:016x}"
            assert inferred.parent_id == request.span_id
            assert spans["torch_tensorrt.compile"].parent_id == inferred.span_id


@pytest.fixture(scope="module", params=["grpc", "http"])
def gunicorn(request, surroundings, tmp_path_factory):
    with receiver_of(request.param) as receiver:
        environment = surroundings(receiver, request.param)
        return Served(GUNICORN, environment, receiver, tmp_path_factory.mktemp("gunicorn"))


def test_requests_to_preforked_workers_continue_the_callers_traces(gunicorn):
    gunicorn.assert_requests_have_right_parents()


def test_preforked_workers_have_no_thread_of_torchspans_before_their_first_compilation(gunicorn):
    first = {each["pid"]: each["threads"] for each in reversed(gunicorn.answers)}
    assert list(first.values()) == [[], []]


def test_preforked_workers_export_what_is_theirs_alone(gunicorn):
    master, *workers = sorted(gunicorn.compilations.values(), key=lambda models: "AtRequest" in models)
    assert master == Counter(AtImport=1)
    assert sorted(each["AtRequest"] for each in workers) == gunicorn.answered()
    assert all(set(each) == {"AtRequest"} for each in workers)


def test_metrics_of_preforked_workers_count_each_compilation_once(gunicorn):
    spans = {process: sum(models.values()) for process, models in gunicorn.compilations.items()}
    assert gunicorn.measured == spans


@pytest.mark.fault("processes", "a server that forks its workers")
def test_gunicorn_ends_as_it_does_without_torchspan(gunicorn):
    assert gunicorn.status == 0
    assert "Traceback" not in gunicorn.log
    assert "WARNING" not in gunicorn.log.upper()


@pytest.fixture(scope="module")
def uvicorn(surroundings, tmp_path_factory):
    """uvicorn ends its workers by SIGTERM, without exit handlers: the application flushes when it shuts down."""
    with receiver_of("grpc") as receiver:
        return Served(UVICORN, surroundings(receiver), receiver, tmp_path_factory.mktemp("uvicorn"))


def test_requests_to_spawned_workers_continue_the_callers_traces(uvicorn):
    uvicorn.assert_requests_have_right_parents()


def test_each_spawned_worker_exports_its_own_spans_and_metrics(uvicorn):
    assert sorted(each["AtRequest"] for each in uvicorn.compilations.values()) == uvicorn.answered()
    assert [each["AtImport"] for each in uvicorn.compilations.values()] == [1, 1]
    assert uvicorn.measured == {process: sum(models.values()) for process, models in uvicorn.compilations.items()}


def test_uvicorn_ends_as_it_does_without_torchspan(uvicorn):
    assert uvicorn.status == 0
    assert "Traceback" not in uvicorn.log


@pytest.mark.slow  # gunicorn's processes take long to end once torch is loaded
def test_requests_that_compile_in_preforked_workers_are_whole_traces(surroundings, tmp_path):
    server = [each.replace("serving:", "compiling_server:") for each in GUNICORN]
    with receiver_of("grpc") as receiver:
        environment = surroundings(receiver, TORCHSPAN_WITHOUT_GPU="1", XDG_CACHE_HOME=str(tmp_path))
        served = Served([*server[:1], "--timeout=300", *server[1:]], environment, receiver, tmp_path)
    expected = {"request", "torch_tensorrt.compile", "torch_tensorrt.partition", "torch_tensorrt.convert"}
    expected |= {"tensorrt.build_engine", "torch_tensorrt.execute"}
    assert [expected - set(spans) for spans in served.requests.values()] == [set()] * len(served.answers)
    for number, spans in served.requests.items():
        assert spans["request"].parent_id == f"{number:016x}"
        assert spans["torch_tensorrt.compile"].parent_id == spans["request"].span_id
    assert sum(served.measured.values()) == len(served.answers)
