# SPDX-License-Identifier: Apache-2.0
"""What `torchspan doctor` says of OTLP endpoints, which the exporters of a program ask: real receivers, and hostile ones."""

import contextlib
import functools
import os
import re
import socket
from types import SimpleNamespace
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import hostile_endpoints as hostile
from support.hostile_endpoints import Authority, Endpoint, GrpcEndpoint, http
from support.receiver import GrpcReceiver, Receiver
from torchspan.cli.doctor import _endpoints as endpoints
from torchspan.cli.doctor._check import Context, State

pytestmark = pytest.mark.slow

TRACES_ALONE = {"OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}
ALL = {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_METRICS_EXPORTER": "otlp", "OTEL_LOGS_EXPORTER": "otlp"}
HTTP = {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}
GRPC = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
TO = "OTEL_EXPORTER_OTLP_ENDPOINT"
CA = "OTEL_EXPORTER_OTLP_CERTIFICATE"
THIS_MACHINES = {"REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"} | {
    name for name in os.environ if name.lower().endswith("_proxy")
}
"""Variables that win over those of the exporters."""
PROTOCOLS = pytest.mark.parametrize("protocol", [HTTP, GRPC], ids=["http", "grpc"])


def rows(*variables, limit_s=120.0):
    """The rows in this process's environment with these variables."""
    own = {name: value for name, value in os.environ.items() if name not in THIS_MACHINES}
    environment = functools.reduce(lambda one, other: one | other, variables, {**own, **TRACES_ALONE})
    return list(endpoints.reachable(Context(environment), limit_s))


def row(*variables):
    (only,) = rows(*variables)
    return only


def at(port, scheme="http"):
    return {TO: f"{scheme}://127.0.0.1:{port}"}


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


# --- accepted -----------------------------------------------------------------------------------------------------
@PROTOCOLS
def test_each_signal_is_asked_once_with_a_request_without_content_and_the_headers(protocol):
    headers = {"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20t0ken-89, X-Team = blue"}
    with Receiver() if protocol is HTTP else GrpcReceiver() as receiver:
        answered = rows(protocol, ALL, headers, {TO: receiver.url})

    over = "HTTP" if protocol is HTTP else "gRPC"
    assert [(each.name, each.state, each.summary) for each in answered] == [
        (f"endpoints.{signal}", State.OK, f"{receiver.url} over {over} ({TO}): it accepts {signal}.")
        for signal in ("traces", "metrics", "logs")
    ]
    assert sorted(path for path, _, _ in receiver.bodies) == ["/v1/logs", "/v1/metrics", "/v1/traces"]
    assert {body for _, _, body in receiver.bodies} == {b""}
    assert [each.facts["headers"] for each in answered] == [["authorization", "x-team"]] * 3
    assert "t0ken-89" not in str(answered)


def test_the_facts_say_endpoint_source_and_answer():
    with Receiver() as receiver:
        only = row(HTTP, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{receiver.url}/v1/traces"})

    assert only.facts == {
        "endpoint": f"{receiver.url}/v1/traces",
        "source": "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        "headers": [],
        "answer": "accepted",
    }


@PROTOCOLS
def test_a_private_authority_is_trusted_where_the_variable_names_it(protocol, authority):
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    secure = (
        Endpoint(answer, tls=authority.server) if protocol is HTTP else GrpcEndpoint(credentials=authority.grpc_server)
    )
    with secure as endpoint:
        assert row(protocol, at(endpoint.port, "https"), {CA: authority.file}).state is State.OK


# --- not accepted: what the exporter says -------------------------------------------------------------------------
def answer(made, protocol, scheme="http", **variables):
    with made as endpoint:
        found = row(protocol, at(endpoint.port, scheme), variables)
    assert (found.state, found.facts["answer"] in found.summary) == (State.FAILED, True)
    return found.facts["answer"]


CLOSED = contextlib.nullcontext(SimpleNamespace(port=hostile.closed_port()))
SAID = {
    "401": (HTTP, lambda _: http("401 Unauthorized"), "http", "401, reason: Unauthorized"),
    "404": (HTTP, lambda _: http("404 Not Found"), "http", "404, reason: Not Found"),
    "418": (HTTP, lambda _: http("418 I'm a Teapot"), "http", "418"),
    "503": (HTTP, lambda _: http("503 Service Unavailable"), "http", "Service Unavailable"),
    "307": (
        HTTP,
        lambda _: http("307 Temporary Redirect", Location="http://127.0.0.1:9/v1/traces"),
        "http",
        "HTTP 307, a redirection, which exporters do not follow",
    ),
    "page": (
        HTTP,
        lambda _: http("200 OK", b"<html>Sign in</html>", content_type="text/html; charset=utf-8"),
        "http",
        "HTTP 200 with text/html; charset=utf-8, which is no answer of OTLP",
    ),
    "http to grpc": (HTTP, lambda _: GrpcEndpoint(), "http", "BadStatusLine"),
    "http to ssh": (HTTP, lambda _: Endpoint(b"SSH-2.0-OpenSSH_9.6\r\n"), "http", "SSH-2.0-OpenSSH_9.6"),
    "http closes": (HTTP, lambda _: Endpoint(hostile.CLOSE), "http", "Remote end closed connection without response"),
    "http untrusted": (HTTP, lambda authority: Endpoint(tls=authority.server), "https", "CERTIFICATE_VERIFY_FAILED"),
    "http refused": (HTTP, lambda _: CLOSED, "http", "Connection refused"),
    "UNAUTHENTICATED": (GRPC, lambda _: GrpcEndpoint("UNAUTHENTICATED", "no key"), "http", "UNAUTHENTICATED"),
    "UNIMPLEMENTED": (GRPC, lambda _: GrpcEndpoint("UNIMPLEMENTED", "unknown service"), "http", "unknown service"),
    "UNAVAILABLE": (GRPC, lambda _: GrpcEndpoint("UNAVAILABLE", "on holiday"), "http", "on holiday"),
    "grpc untrusted": (
        GRPC,
        lambda authority: GrpcEndpoint(credentials=authority.grpc_server),
        "https",
        "CERTIFICATE_VERIFY_FAILED",
    ),
    "grpc to no tls": (GRPC, lambda _: GrpcEndpoint(), "https", "WRONG_VERSION_NUMBER"),
    "grpc closes": (GRPC, lambda _: Endpoint(hostile.CLOSE), "http", "UNAVAILABLE"),
    "grpc refused": (GRPC, lambda _: CLOSED, "http", "Connection refused"),
}


@pytest.mark.parametrize("case", SAID)
def test_what_the_exporter_says_of_its_request_is_shown(case, authority):
    protocol, endpoint, scheme, said = SAID[case]
    assert said in answer(endpoint(authority), protocol, scheme)


@PROTOCOLS
def test_an_endpoint_that_hangs_does_not_answer(protocol):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        found = row(protocol, at(listener.getsockname()[1]))
    assert found.state is State.FAILED
    assert re.search(r"timed out|No answer within|DEADLINE_EXCEEDED|Deadline|timeout", found.facts["answer"])


@PROTOCOLS
def test_a_file_of_certificates_that_is_missing_is_named(protocol, tmp_path):
    file = str(tmp_path / "none.pem")
    assert file in row(protocol, {TO: "https://127.0.0.1:1", CA: file}).facts["answer"]


def test_a_process_that_does_not_end_is_ended_at_the_limit():
    (only,) = rows(HTTP, at(hostile.closed_port()), limit_s=0.01)
    assert only.facts["answer"] == "no result within 0.01 s"


SECRET = "k3n\nt0ken"
HEADERS = {"OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer%20{quote(SECRET, safe='')}"}
SENT = {"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20t0ken-89"}


@pytest.mark.parametrize(
    ("protocol", "headers", "endpoint"),
    [
        (HTTP, HEADERS, lambda: http("200 OK")),
        (GRPC, HEADERS, GrpcEndpoint),
        (HTTP, SENT, lambda: http("401 no key t0ken-89", b"t0ken-89", content_type="text/plain")),
        (HTTP, SENT, lambda: http("503 Bearer t0ken-89 is busy")),
        (GRPC, SENT, lambda: GrpcEndpoint("UNAUTHENTICATED", "no key t0ken-89")),
        (GRPC, SENT, lambda: GrpcEndpoint("INTERNAL", "x" * 395 + " t0ken-89")),
    ],
    ids=["http refuses the header", "grpc refuses the header", "401", "503", "UNAUTHENTICATED", "long"],
)
def test_a_header_is_named_and_its_value_is_never_shown(protocol, headers, endpoint):
    with endpoint() as made:
        only = row(protocol, headers, at(made.port))

    assert only.state is State.FAILED
    assert only.summary.endswith(" (headers: authorization).")
    assert [part for part in ("k3n", "t0ken", "ken-89") if part in str(only)] == []
    assert "\n" not in only.summary
    assert len(only.facts["answer"]) <= 400


def test_user_password_path_and_query_of_an_endpoint_that_the_exporter_repeats_are_not_shown():
    at_port = f"127.0.0.1:{hostile.closed_port()}"
    only = row(HTTP, {TO: f"http://jane:p%40ss/w0rd@{at_port}/tok3n/path?key=k3y-of-it"})
    assert [part for part in ("jane", "p%40ss", "w0rd", "tok3n", "k3y") if part in str(only)] == []


# --- what fails and what does not ---------------------------------------------------------------------------------
def test_an_endpoint_that_no_variable_names_is_a_warning_with_what_to_set():
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    (only,) = endpoints.reachable(Context({**environment, **TRACES_ALONE}))

    assert only.summary.startswith("http://localhost:4317 over gRPC (the exporter's default): ")
    assert only.state in (State.WARNING, State.OK)  # the port may be in use on this machine


def test_metrics_that_share_the_endpoint_for_all_do_not_fail_where_they_are_not_asked_for():
    off = {"OTEL_TRACES_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}
    with GrpcEndpoint("UNIMPLEMENTED", "unknown service") as endpoint:
        environment = {**os.environ, **off, **at(endpoint.port)}
        environment.pop("OTEL_METRICS_EXPORTER", None)
        (shared,) = endpoints.reachable(Context(environment))
        (asked,) = endpoints.reachable(Context({**environment, "OTEL_METRICS_EXPORTER": "otlp"}))

    assert (shared.name, shared.state, asked.state) == ("endpoints.metrics", State.WARNING, State.FAILED)


def test_nothing_is_asked_where_the_sdk_is_disabled():
    assert rows({"OTEL_SDK_DISABLED": "true"}) == []


# --- what is printed ----------------------------------------------------------------------------------------------
@settings(deadline=None, max_examples=100)
@given(secret=st.text(st.characters(codec="ascii", exclude_categories=["C", "Z"]), min_size=8, max_size=20))
def test_no_part_of_an_endpoint_that_may_be_a_credential_is_shown(secret):
    for url, said in (
        (f"http://jane:{secret}@h:1/v1/traces", repr(secret)),
        (f"http://h:1/v1/traces?key={secret}", f"url: /v1/traces?key={secret}"),
        (f"http://h:1/{secret}", f"url: /{secret}/v1/traces"),
    ):
        secrets = Context({TO: url}).secrets
        assert secret not in secrets.line(f"cannot send to {url!r}: {said}")
