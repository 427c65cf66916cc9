# SPDX-License-Identifier: Apache-2.0
"""What `torchspan doctor` says of OTLP endpoints, which the exporters of a program ask: real receivers, and hostile ones."""

import datetime as dt
import errno
import functools
import os
import socket
from importlib.metadata import version

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import hostile_endpoints as hostile
from support.hostile_endpoints import Authority, Endpoint, GrpcEndpoint, http
from support.receiver import GrpcReceiver, Receiver
from torchspan.cli.doctor import _endpoints as endpoints
from torchspan.cli.doctor._check import Context, State
from torchspan.cli.doctor._outcomes import MEANINGS, meaning
from torchspan.probes import parse_version

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
        "endpoint": receiver.url,
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


# --- over HTTP ----------------------------------------------------------------------------------------------------
def of_http(endpoint, scheme="http", **variables):
    with endpoint:
        return row(HTTP, at(endpoint.port, scheme), variables).facts["answer"]


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        ("401 Unauthorized", "http 401"),
        ("404 Not Found", "http 404"),
        ("418 I'm a Teapot", "http 418"),
        ("503 Service Unavailable", "http 503"),
        ("503 Busy t0ken-89", "http later"),
    ],
)
def test_a_status_of_http_is_named_and_one_that_is_tried_again_by_its_phrase_alone(status, answer):
    assert of_http(http(status)) == answer


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        (b"\0\0\x12\x04\0\0\0\0\0" + b"\0" * 18, "speaks grpc"),
        (b"\x15\x03\x01\0\x02\x02\x46", "speaks tls"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "no http"),
        (hostile.CLOSE, "reset"),
    ],
)
def test_a_port_that_does_not_answer_in_http_is_known_by_its_first_line(line, answer):
    assert of_http(Endpoint(line)) == answer


def test_a_port_of_grpc_is_known_over_http():
    assert of_http(GrpcEndpoint()) == "speaks grpc"


def test_a_proxy_that_cannot_be_reached_is_named_as_such():
    proxy = f"http://127.0.0.1:{hostile.closed_port()}"
    variables = {"HTTP_PROXY": proxy, "http_proxy": proxy, "NO_PROXY": "", "no_proxy": ""}
    assert row(HTTP, {TO: "http://collector.test:4318"}, variables).facts["answer"] == "proxy"


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        ({"host": "127.0.0.2"}, "tls name"),
        ({"not_after": dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc)}, "tls expired"),
    ],
    ids=["name", "expired"],
)
def test_a_certificate_that_does_not_hold_is_named_over_http(options, answer, tmp_path):
    authority = Authority(tmp_path, **options)
    endpoint = Endpoint(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", tls=authority.server)
    assert of_http(endpoint, "https", **{CA: authority.file}) == answer


# --- over gRPC ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("code", ["UNAUTHENTICATED", "PERMISSION_DENIED", "UNIMPLEMENTED", "INTERNAL"])
def test_a_status_of_grpc_is_named(code):
    with GrpcEndpoint(code, "no key t0ken-89") as endpoint:
        only = row(GRPC, at(endpoint.port))

    assert (only.state, only.facts["answer"]) == (State.FAILED, f"grpc {code}")
    assert "t0ken-89" not in str(only)


def test_unavailable_with_details_that_are_not_known_cannot_be_reached_and_nothing_is_guessed():
    with GrpcEndpoint("UNAVAILABLE", "t0ken-89 is on holiday") as endpoint:
        only = row(GRPC, at(endpoint.port))

    assert only.summary == f"http://127.0.0.1:{endpoint.port} over gRPC ({TO}): it cannot be reached."


@pytest.mark.parametrize(
    ("endpoint", "scheme", "answer"),
    [
        pytest.param(
            lambda _authority: http("200 OK"),
            "http",
            "speaks http",
            marks=pytest.mark.skipif(
                parse_version(version("grpcio")) < (1, 70), reason="grpcio says nothing of such an answer before 1.70"
            ),
        ),
        (lambda _authority: http("404 Not Found"), "http", "speaks http"),
        (lambda _authority: http("200 OK"), "https", "speaks no tls"),
        (lambda _authority: GrpcEndpoint(), "https", "speaks no tls"),
        (lambda authority: GrpcEndpoint(credentials=authority.grpc_server), "https", "tls untrusted"),
        (lambda authority: GrpcEndpoint(credentials=authority.grpc_server), "http", "reset"),
        (lambda _authority: Endpoint(hostile.CLOSE), "http", "reset"),
    ],
    ids=["http", "status", "http+tls", "grpc+tls", "untrusted", "needs tls", "closes"],
)
def test_what_grpc_says_of_a_connection_is_named(endpoint, scheme, answer, authority):
    with endpoint(authority) as made:
        assert row(GRPC, at(made.port, scheme)).facts["answer"] == answer


def test_a_certificate_for_another_name_is_named_over_grpc(tmp_path):
    authority = Authority(tmp_path, host="collector.test")
    with GrpcEndpoint(credentials=authority.grpc_server) as endpoint:
        assert row(GRPC, at(endpoint.port, "https"), {CA: authority.file}).facts["answer"] == "tls name"


# --- over both ----------------------------------------------------------------------------------------------------
@PROTOCOLS
def test_a_port_on_which_nothing_listens_is_refused(protocol):
    port = hostile.closed_port()
    only = row(protocol, at(port))

    over = "HTTP" if protocol is HTTP else "gRPC"
    assert only.state is State.FAILED
    assert only.summary == f"http://127.0.0.1:{port} over {over} ({TO}): no program listens on that port."
    assert only.remedy == "Start the Collector, or correct the endpoint."


@PROTOCOLS
def test_a_name_that_cannot_be_resolved_is_named(protocol):
    assert row(protocol, {TO: "http://collector.invalid:4317"}).facts["answer"] == "name"


@PROTOCOLS
def test_a_network_that_does_not_reach_the_endpoint_is_named(protocol):
    with socket.socket() as probe:
        if probe.connect_ex(("255.255.255.255", 4317)) != errno.ENETUNREACH:
            pytest.skip("this machine does not refuse the broadcast address as unreachable")
    assert row(protocol, {TO: "http://255.255.255.255:4317"}).facts["answer"] == "unreachable"


@PROTOCOLS
def test_an_endpoint_that_hangs_does_not_answer(protocol):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert row(protocol, at(listener.getsockname()[1])).facts["answer"] == "timeout"


@PROTOCOLS
def test_a_file_of_certificates_that_is_missing_is_named(protocol, tmp_path):
    only = row(protocol, {TO: "https://127.0.0.1:1", CA: str(tmp_path / "none.pem")})
    assert only.facts["answer"] == "tls file"


def test_an_endpoint_without_a_scheme_is_not_an_address_over_http():
    assert row(HTTP, {TO: "collector:4318"}).facts["answer"] == "address"


def test_a_process_that_does_not_end_is_ended_at_the_limit():
    (only,) = rows(HTTP, at(hostile.closed_port()), limit_s=0.01)
    assert only.facts["answer"] == "timeout"


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


def test_a_refusal_names_the_headers_and_no_value():
    headers = {"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20t0ken-89"}
    with http("401 t0ken-89", b"no key t0ken-89 here", content_type="text/plain") as endpoint:
        only = row(HTTP, headers, at(endpoint.port))

    assert only.summary.endswith(": HTTP 401: it does not accept the credentials (headers: authorization).")
    assert "t0ken-89" not in str(only)


def test_nothing_is_asked_where_the_sdk_is_disabled():
    assert rows({"OTEL_SDK_DISABLED": "true"}) == []


# --- what is printed ----------------------------------------------------------------------------------------------
@settings(deadline=None, max_examples=100)
@given(secret=st.text(st.characters(codec="ascii", exclude_categories=["C", "Z"]), min_size=4, max_size=20))
def test_no_part_of_an_endpoint_that_may_be_a_credential_is_shown(secret):
    assert endpoints.shown(f"http://jane:{secret}@h:1/v1/traces") in ("http://***@h:1", "***")
    assert endpoints.shown(f"http://h:1/v1/traces?key={secret}") in ("http://h:1", "***")
    assert endpoints.shown(f"http://h:1/{secret}/traces") in ("http://h:1", "***")


def test_every_word_has_a_meaning_and_a_remedy():
    for word in (*MEANINGS, "http 500", "grpc INTERNAL", "failed ValueError"):
        assert all(meaning(word))
