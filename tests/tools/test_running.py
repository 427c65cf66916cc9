# SPDX-License-Identifier: Apache-2.0
"""Programs that are started, waited for and stopped. They are small servers in Python here."""

import signal
import socket
import sys
import time

import pytest

import running

SERVER = """
import http.server, os, signal, sys, time

status, port = int(sys.argv[1]), int(sys.argv[2])
if "deaf" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(status)
        self.end_headers()
print("listening, GREETING is", os.environ["GREETING"], flush=True)
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


@pytest.fixture
def start(tmp_path):
    """Starts a server that answers with a status, or another program; they are ended after the test."""
    started = []

    def start(*arguments, code=SERVER, status=200):
        (port,) = running.free_ports(1)
        command = [sys.executable, "-S", "-c", code, status, port, *arguments]
        url = f"http://127.0.0.1:{port}/"
        started.append(running.Running("server", command, tmp_path / "server.log", {"GREETING": "grüß"}, url))
        return started[-1]

    yield start
    for each in started:
        each.kill()


def test_free_ports_are_different_and_can_be_listened_on_and_no_outgoing_connection_gets_them():
    ports = running.free_ports(20)
    assert len(set(ports)) == 20
    assert max(ports) < 32_768
    for port in ports:
        with socket.socket() as listening:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as programs that listen do
            listening.bind(("127.0.0.1", port))


def test_a_port_that_is_taken_is_not_free(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        (free,) = running.free_ports(1)
        drawn = iter([port, port, free])
        monkeypatch.setattr(running.random, "choice", lambda _: next(drawn))
        assert running.free_ports(1) == [free]


def test_a_program_is_ready_when_it_answers_and_its_output_is_kept(start):
    server = start()
    server.wait_until_ready()
    assert running.answers(server._ready_url)
    assert "listening, GREETING is grüß" in server.said()


def test_a_program_that_is_asked_to_end_ends_and_asking_again_is_not_an_error(start):
    server = start()
    server.wait_until_ready()
    assert server.stop() == -signal.SIGTERM
    assert server.stop() == -signal.SIGTERM
    assert not running.answers(server._ready_url)


def test_a_program_that_does_not_end_when_asked_is_killed(start):
    server = start("deaf")
    server.wait_until_ready()
    assert server.stop(limit_s=0.1) == -signal.SIGKILL


def test_of_a_program_that_ends_before_it_is_ready_the_status_and_the_output_are_said(start):
    with pytest.raises(running.NotReadyError, match=r"server ended with 3 before it was ready:\nno such key: exporter"):
        start(code="print('no such key: exporter'); raise SystemExit(3)").wait_until_ready()


def test_a_program_that_answers_with_another_status_is_not_ready(start):
    begun = time.monotonic()
    with pytest.raises(running.NotReadyError, match=r"server did not answer http://127.0.0.1:\d+/ in 0.5 s:"):
        start(status=503).wait_until_ready(0.5)
    assert time.monotonic() - begun >= 0.5
