# SPDX-License-Identifier: Apache-2.0
"""What `torchspan doctor` says of OTLP endpoints: real receivers, and hostile ones."""

import contextlib
import datetime as dt
import functools
import socket
import threading

import pytest

from support import hostile_endpoints as hostile
from support.hostile_endpoints import Authority, Dripping, Endpoint, GrpcEndpoint, http
from support.receiver import GrpcReceiver, Receiver
from torchspan.cli.doctor import _endpoints as endpoints
from torchspan.cli.doctor._check import Context, State

TRACES_ALONE = {"OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}
HTTP = {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}
GRPC = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
TO = "OTEL_EXPORTER_OTLP_ENDPOINT"
TO_TRACES = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
PROTOCOLS = pytest.mark.parametrize("protocol", [HTTP, GRPC], ids=["http", "grpc"])


def rows(*settings, limit_s=10.0):
    environment = functools.reduce(lambda one, other: one | other, settings, TRACES_ALONE)
    return list(endpoints.reachable(Context(environment), limit_s))


def row(*settings, limit_s=10.0):
    (found,) = rows(*settings, limit_s=limit_s)
    return found


def said(found):
    """What stands behind the endpoint and the variable that names it."""
    return found.summary.partition("): ")[2]


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def secure_http(authority):
    with Endpoint(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", tls=authority.server) as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def secure_grpc(authority):
    with GrpcEndpoint(credentials=authority.grpc_server) as endpoint:
        yield endpoint


def test_each_signal_has_a_row_and_is_asked_with_a_request_without_content():
    with Receiver() as receiver:
        found = rows(HTTP, {TO: receiver.url, "OTEL_METRICS_EXPORTER": "otlp", "OTEL_LOGS_EXPORTER": "otlp"})

    assert [(each.name, each.state, said(each)) for each in found] == [
        ("endpoints.traces", State.OK, "accepts traces (HTTP 200 OK)."),
        ("endpoints.metrics", State.OK, "accepts metrics (HTTP 200 OK)."),
        ("endpoints.logs", State.OK, "accepts logs (HTTP 200 OK)."),
    ]
    assert sorted(path for path, _, _ in receiver.bodies) == ["/v1/logs", "/v1/metrics", "/v1/traces"]
    assert {body for _, _, body in receiver.bodies} == {b""}


def test_grpc_is_asked_with_the_method_of_each_signal():
    with GrpcReceiver() as receiver:
        found = rows({TO: receiver.url, "OTEL_METRICS_EXPORTER": "otlp", "OTEL_LOGS_EXPORTER": "otlp"})

    assert [said(each) for each in found] == [
        "accepts traces (gRPC OK).",
        "accepts metrics (gRPC OK).",
        "accepts logs (gRPC OK).",
    ]
    assert sorted(path for path, _, _ in receiver.bodies) == ["/v1/logs", "/v1/metrics", "/v1/traces"]


def test_the_facts_say_endpoint_protocol_source_and_answer():
    with Receiver() as receiver:
        found = row(HTTP, {TO_TRACES: f"{receiver.url}/v1/traces", "OTEL_EXPORTER_OTLP_HEADERS": "x-team=blue"})

    assert found.facts == {
        "endpoint": f"{receiver.url}/v1/traces",
        "protocol": "http/protobuf",
        "source": TO_TRACES,
        "headers": ["x-team"],
        "answer": "accepted",
    }


@PROTOCOLS
def test_headers_of_the_variable_are_sent(protocol):
    headers = {"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20abc, X-Team = blue"}
    with http("200 OK") if protocol is HTTP else GrpcEndpoint() as endpoint:
        found = row(protocol, headers, {TO: f"http://127.0.0.1:{endpoint.port}"})

    assert found.state is State.OK
    if protocol is HTTP:
        assert b"authorization: Bearer abc\r\nx-team: blue\r\n" in endpoint.requests[0]
    else:
        assert {**endpoint.metadata[0], "authorization": "Bearer abc", "x-team": "blue"} == endpoint.metadata[0]


@PROTOCOLS
def test_a_port_on_which_nothing_listens_refuses_the_connection(protocol):
    port = hostile.closed_port()
    found = row(protocol, {TO: f"http://127.0.0.1:{port}"})

    assert found.state is State.FAILED
    assert said(found) == f"connection refused: no program listens on port {port} of 127.0.0.1."
    assert found.facts["answer"] == "refused"


def test_a_default_that_no_variable_names_is_a_warning_with_what_to_set():
    """The port of the default may be in use on this machine: the state and the remedy hold only where it is not."""
    with Endpoint() as endpoint:
        context = Context({**TRACES_ALONE})
        named = Context({**TRACES_ALONE, TO: f"http://127.0.0.1:{endpoint.port}"})
        (default,), (failed,) = endpoints.reachable(context), endpoints.reachable(named)

    assert default.facts["source"] == ""
    assert default.summary.startswith("http://localhost:4317 over gRPC (the exporter's default): ")
    assert default.state in (State.WARNING, State.OK)
    assert failed.state is State.FAILED


def test_metrics_that_share_the_endpoint_for_all_do_not_fail_where_they_are_not_asked_for():
    with GrpcEndpoint("UNIMPLEMENTED", "unknown service") as endpoint:
        to = {TO: f"http://127.0.0.1:{endpoint.port}"}
        (shared,) = endpoints.reachable(Context({**to, "OTEL_TRACES_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}))
        (asked,) = rows(to, {"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "otlp"})

    assert (shared.name, shared.state, asked.state) == ("endpoints.metrics", State.WARNING, State.FAILED)
    assert said(asked) == "gRPC UNIMPLEMENTED, 'unknown service': it does not accept metrics."
    assert asked.remedy == "If that is intended: OTEL_METRICS_EXPORTER=none."


@PROTOCOLS
def test_a_hanging_endpoint_takes_no_longer_than_the_limit_and_says_what_was_waited_for(protocol):
    with Endpoint(hangs=True) as endpoint:
        found = row(protocol, {TO: f"http://127.0.0.1:{endpoint.port}"}, limit_s=0.3)

    assert said(found) == "no answer within 0.3 s, while waiting for an answer."
    assert (found.state, found.facts["answer"]) == (State.FAILED, "timeout")


def test_a_service_that_hangs_in_grpc_is_a_timeout():
    with GrpcEndpoint(hangs=True) as endpoint:
        found = row(GRPC, {TO: f"http://127.0.0.1:{endpoint.port}"}, limit_s=0.3)

    assert said(found) == "no answer within 0.3 s, while waiting for an answer."


def test_an_endpoint_that_never_ends_its_answer_is_a_timeout():
    with Dripping() as endpoint:
        found = row(HTTP, {TO: f"http://127.0.0.1:{endpoint.port}"}, limit_s=0.3)

    assert said(found) == "no answer within 0.3 s, while waiting for an answer."


def test_a_name_server_that_hangs_is_a_timeout(monkeypatch):
    asked = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: asked.wait(30))
    found = row(HTTP, {TO: "http://collector.invalid:4318"}, limit_s=0.3)
    asked.set()

    assert said(found) == "no answer within 0.3 s, while resolving its name."


def test_credentials_of_a_plug_in_are_not_known_so_that_a_refusal_is_a_warning():
    plugin = {"OTEL_PYTHON_EXPORTER_OTLP_HTTP_CREDENTIAL_PROVIDER": "gcp"}
    with http("401 Unauthorized") as endpoint:
        found = row(HTTP, plugin, {TO: f"http://127.0.0.1:{endpoint.port}"})

    assert found.state is State.WARNING
    assert found.remedy == (
        "OTEL_PYTHON_EXPORTER_OTLP_HTTP_CREDENTIAL_PROVIDER names a plug-in for credentials, which only a test trace "
        "uses: torchspan doctor --send"
    )


def test_all_endpoints_are_asked_at_the_same_time():
    with contextlib.ExitStack() as stack:
        hanging = [stack.enter_context(Endpoint(hangs=True)) for _ in range(3)]
        signals = zip(("TRACES", "METRICS", "LOGS"), hanging, strict=True)
        to = {f"OTEL_EXPORTER_OTLP_{each}_ENDPOINT": f"http://127.0.0.1:{to.port}" for each, to in signals}
        found = list(endpoints.reachable(Context(HTTP | to), 1.0))

        # Had they been asked one after the other, the second would not have been reached within the limit of the first.
        assert [len(each.requests) for each in hanging] == [1, 1, 1]
    assert [each.facts["answer"] for each in found] == ["timeout"] * 3


ANSWERS = {
    "401 Unauthorized": (
        State.FAILED,
        "HTTP 401 Unauthorized, 'no such key': it does not accept the credentials (headers sent: none).",
    ),
    "404 Not Found": (State.FAILED, "HTTP 404 Not Found, 'no such key': no OTLP endpoint at this path."),
    "415 Unsupported Media Type": (
        State.FAILED,
        "HTTP 415 Unsupported Media Type, 'no such key': it does not accept OTLP as protobuf.",
    ),
    "429 Too Many Requests": (State.WARNING, "HTTP 429 Too Many Requests, 'no such key': it limits the rate."),
    "400 Bad Request": (
        State.WARNING,
        "HTTP 400 Bad Request, 'no such key': it refuses a request without spans.",
    ),
    "503 Service Unavailable": (
        State.FAILED,
        "HTTP 503 Service Unavailable, 'no such key': the server behind it is not available now; exporters try again for 10 s.",
    ),
    "500 Oops": (State.FAILED, "HTTP 500 Oops, 'no such key': not accepted."),
}


@pytest.mark.parametrize("status", ANSWERS)
def test_an_answer_in_http_is_reported_with_its_meaning(status):
    with http(status, b"no such key", content_type="text/plain") as endpoint:
        found = row(HTTP, {TO: f"http://127.0.0.1:{endpoint.port}"})

    assert (found.state, said(found)) == ANSWERS[status]
    assert found.facts["answer"] == f"http {status[:3]}"
    assert found.remedy


def test_a_path_that_is_missing_is_named_where_the_exporter_adds_none():
    with http("404 Not Found") as endpoint:
        found = row(HTTP, {TO_TRACES: f"http://127.0.0.1:{endpoint.port}/"})

    assert endpoint.requests[0].startswith(b"POST / HTTP/1.1\r\n")
    assert found.remedy == (
        "The exporter uses OTEL_EXPORTER_OTLP_TRACES_ENDPOINT as it is written: add /v1/traces to it."
    )


def test_a_page_for_browsers_is_not_an_endpoint_although_the_exporter_counts_it_as_delivered():
    with http("200 OK", b"<html>", content_type="text/html; charset=utf-8") as endpoint:
        found = row(HTTP, {TO: f"http://127.0.0.1:{endpoint.port}"})

    assert found.state is State.FAILED
    assert said(found) == (
        "HTTP 200 OK with text/html: an OTLP endpoint does not answer like this, but the exporter counts the batch as delivered."
    )


def test_a_redirection_is_not_followed_and_shows_no_secret_of_its_target():
    with http("302 Found", location="https://jane:pw1234@login.invalid/abc123?token=xyz") as endpoint:
        found = row(HTTP, {TO: f"http://127.0.0.1:{endpoint.port}"})

    assert said(found) == (
        "HTTP 302 Found: redirects to https://***@login.invalid/***?***, which the exporter does not follow and counts as "
        "delivered."
    )


STATUSES = {
    "UNAUTHENTICATED": (State.FAILED, "it does not accept the credentials (headers sent: none)."),
    "PERMISSION_DENIED": (State.FAILED, "it does not accept the credentials (headers sent: none)."),
    "UNIMPLEMENTED": (State.FAILED, "it does not accept traces."),
    "UNAVAILABLE": (State.FAILED, "not available now; exporters try again for 10 s."),
    "RESOURCE_EXHAUSTED": (State.WARNING, "it limits the rate."),
    "INVALID_ARGUMENT": (State.WARNING, "it refuses a request without spans."),
    "INTERNAL": (State.FAILED, "not accepted."),
}


@pytest.mark.parametrize("code", STATUSES)
def test_a_status_of_grpc_is_reported_with_its_meaning(code):
    with GrpcEndpoint(code, "as it says") as endpoint:
        found = row(GRPC, {TO: f"http://127.0.0.1:{endpoint.port}"})

    state, meaning = STATUSES[code]
    assert (found.state, said(found)) == (state, f"gRPC {code}, 'as it says': {meaning}")
    assert found.facts["answer"] == f"grpc {code}"
    assert found.remedy


def test_http_to_a_port_of_grpc_names_the_protocol_to_set():
    with GrpcReceiver() as receiver:
        found = row(HTTP, {TO: receiver.url})

    assert found.facts["answer"] == "speaks grpc"
    assert said(found) == "the port speaks HTTP/2, as gRPC does, but the exporter sends HTTP/1.1."
    assert found.remedy == "Set OTEL_EXPORTER_OTLP_PROTOCOL=grpc, or name the port for HTTP, which is usually 4318."


def test_grpc_to_a_port_of_http_names_the_protocol_to_set():
    with http("404 Not Found") as endpoint:
        found = row(GRPC, {TO: f"http://127.0.0.1:{endpoint.port}"})

    assert found.facts["answer"] == "speaks http"
    assert said(found) == "the port speaks HTTP/1.1, but the exporter sends gRPC."
    assert found.remedy == (
        "Set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf, or name the port for gRPC, which is usually 4317."
    )


GARBAGE = [hostile.CLOSE, b"\x00\xffgarbage\r\n\r\n", b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 banana\r\n\r\n"]


@PROTOCOLS
@pytest.mark.parametrize("answer", GARBAGE, ids=["nothing", "bytes", "ssh", "half a status"])
def test_what_is_not_an_endpoint_at_all_fails_with_a_remedy(answer, protocol):
    with Endpoint(answer) as endpoint:
        found = row(protocol, {TO: f"http://127.0.0.1:{endpoint.port}"})

    assert found.state is State.FAILED
    assert found.remedy
    assert found.facts["answer"] in ("no http", "grpc UNAVAILABLE", "speaks http")


def test_a_private_authority_is_trusted_where_the_variable_names_it(secure_http, secure_grpc, authority):
    trusts = {"OTEL_EXPORTER_OTLP_CERTIFICATE": authority.file}
    found = [
        row(HTTP, trusts, {TO: f"https://127.0.0.1:{secure_http.port}"}),
        row(GRPC, trusts, {TO: f"https://127.0.0.1:{secure_grpc.port}"}),
    ]

    assert [said(each) for each in found] == ["accepts traces (HTTP 200 OK).", "accepts traces (gRPC OK)."]


@PROTOCOLS
def test_a_private_authority_that_no_variable_names_is_not_trusted(protocol, secure_http, secure_grpc):
    port = (secure_http if protocol is HTTP else secure_grpc).port
    found = row(protocol, {TO: f"https://127.0.0.1:{port}"})

    assert found.facts["answer"] == "tls untrusted"
    assert said(found) == "the endpoint's certificate is signed by an authority that this machine does not trust."
    assert found.remedy == ("Name its certificate: OTEL_EXPORTER_OTLP_CERTIFICATE=<file in PEM>.")


def test_the_variable_of_requests_wins_over_that_of_the_exporter(secure_http, authority, tmp_path_factory):
    other = Authority(tmp_path_factory.mktemp("other"))
    both = {"OTEL_EXPORTER_OTLP_CERTIFICATE": authority.file, "REQUESTS_CA_BUNDLE": other.file}
    found = row(HTTP, both, {TO: f"https://127.0.0.1:{secure_http.port}"})

    assert said(found) == (
        "the endpoint's certificate is signed by an authority that is not in the file of REQUESTS_CA_BUNDLE, which wins over "
        "OTEL_EXPORTER_OTLP_CERTIFICATE."
    )
    assert found.remedy == "Add its certificate to that file, or unset REQUESTS_CA_BUNDLE."


@PROTOCOLS
@pytest.mark.parametrize(
    ("options", "answer", "meaning"),
    [
        ({"host": "collector.example"}, "tls name", "the endpoint's certificate is not for 127.0.0.1."),
        (
            {"not_after": dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc)},
            "tls expired",
            "the endpoint's certificate is not valid now (certificate has expired).",
        ),
    ],
)
def test_a_certificate_that_does_not_hold_here_is_reported(protocol, options, answer, meaning, tmp_path):
    authority = Authority(tmp_path, **options)
    trusts = {"OTEL_EXPORTER_OTLP_CERTIFICATE": authority.file}
    ok = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    made = Endpoint(ok, tls=authority.server) if protocol is HTTP else GrpcEndpoint(credentials=authority.grpc_server)
    with made as endpoint:
        found = row(protocol, trusts, {TO: f"https://127.0.0.1:{endpoint.port}"})

    assert (found.facts["answer"], said(found)) == (answer, meaning)


def test_a_clients_certificate_is_presented_where_variables_name_it(authority, tmp_path):
    client = Authority(tmp_path)
    files = client.client_files(tmp_path)
    context = authority.server_that_asks(client.file)
    names = {
        "OTEL_EXPORTER_OTLP_CERTIFICATE": authority.file,
        "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE": files[0],
        "OTEL_EXPORTER_OTLP_CLIENT_KEY": files[1],
    }
    missing = {**names, "OTEL_EXPORTER_OTLP_CLIENT_KEY": str(tmp_path / "none.pem")}
    with Endpoint(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", tls=context) as endpoint:
        to = {TO: f"https://127.0.0.1:{endpoint.port}"}
        presented, unnamed = row(HTTP, names, to), row(HTTP, {"OTEL_EXPORTER_OTLP_CERTIFICATE": authority.file}, to)
        wrong = row(HTTP, missing, to)

    assert (presented.state, unnamed.state) == (State.OK, State.FAILED)
    assert said(unnamed) in (
        "the endpoint refuses the client's certificate, or requires one.",
        "the connection was closed without an HTTP answer.",  # it was reset before the alert was read
    )
    assert "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE" in unnamed.remedy
    assert said(wrong) == (
        "the file that OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE or _CLIENT_KEY names cannot be used: No such file or directory."
    )


@PROTOCOLS
def test_a_file_of_certificates_that_is_missing_is_reported(protocol, secure_http, secure_grpc, tmp_path):
    port = (secure_http if protocol is HTTP else secure_grpc).port
    missing = {"OTEL_EXPORTER_OTLP_CERTIFICATE": str(tmp_path / "none.pem")}
    found = row(protocol, missing, {TO: f"https://127.0.0.1:{port}"})

    assert said(found) == (
        "the file that OTEL_EXPORTER_OTLP_CERTIFICATE names cannot be used: No such file or directory."
    )


@PROTOCOLS
def test_http_in_the_endpoint_of_a_port_with_tls_is_reported(protocol, secure_http, secure_grpc):
    port = (secure_http if protocol is HTTP else secure_grpc).port
    found = row(protocol, {TO: f"http://127.0.0.1:{port}"})

    assert found.facts["answer"] == "speaks tls"
    assert "Write https://" in found.remedy


@PROTOCOLS
def test_https_in_the_endpoint_of_a_port_without_tls_is_reported(protocol):
    with http("200 OK") if protocol is HTTP else GrpcEndpoint() as endpoint:
        found = row(protocol, {TO: f"https://127.0.0.1:{endpoint.port}"})

    assert found.facts["answer"] == "speaks no tls"
    assert "Write http://" in found.remedy


def test_http_to_a_port_of_grpc_with_tls_is_reported(secure_grpc, authority):
    trusts = {"OTEL_EXPORTER_OTLP_CERTIFICATE": authority.file}
    found = row(HTTP, trusts, {TO: f"https://127.0.0.1:{secure_grpc.port}"})

    assert found.facts["answer"] == "speaks grpc"


def test_grpc_to_a_port_of_http_with_tls_is_reported(secure_http, authority):
    trusts = {"OTEL_EXPORTER_OTLP_CERTIFICATE": authority.file}
    found = row(GRPC, trusts, {TO: f"https://127.0.0.1:{secure_http.port}"})

    assert found.facts["answer"] == "speaks http"


def test_an_endpoint_without_a_scheme_is_tls_for_grpc():
    with GrpcEndpoint() as endpoint:
        found = row(GRPC, {TO: f"127.0.0.1:{endpoint.port}"})
        insecure = row(GRPC, {TO: f"127.0.0.1:{endpoint.port}", "OTEL_EXPORTER_OTLP_INSECURE": "true"})

    assert said(found) == "the port speaks gRPC without TLS, but the exporter uses TLS."
    assert found.remedy == (
        f"Write http://127.0.0.1:{endpoint.port} as the endpoint. Without http:// in front the exporter uses TLS."
    )
    assert insecure.state is State.OK


@pytest.mark.parametrize(
    ("protocol", "endpoint", "summary"),
    [
        (
            HTTP,
            "collector:4318",
            "collector:4318/v1/traces begins with neither http:// nor https://, so the exporter refuses every batch.",
        ),
        (HTTP, "http://collector:banana", "http://collector:banana/v1/traces has no host, or an invalid port."),
        (HTTP, "http://[::1", "The endpoint is not a URL."),
        (GRPC, "http://", "http:// has no host, or an invalid port."),
        (GRPC, "unix:///run/otel.sock", "unix:///***/*** is not an endpoint of gRPC."),
    ],
)
def test_an_endpoint_that_is_none_fails_without_a_connection(protocol, endpoint, summary):
    found = row(protocol, {TO: endpoint})

    assert (found.name, found.state, found.summary) == ("endpoints.traces", State.FAILED, summary)
    assert found.remedy


def test_a_name_that_cannot_be_resolved_is_reported():
    found = row(HTTP, {TO: "http://collector.invalid:4318"})

    assert found.facts["answer"] in ("name", "timeout")
    assert "collector.invalid" in found.summary


def test_a_header_that_the_exporter_cannot_send_is_reported_without_its_value():
    headers = {"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%0asecret99"}
    with http("200 OK") as one, GrpcEndpoint() as other:
        found = [
            row(HTTP, headers, {TO: f"http://127.0.0.1:{one.port}"}),
            row(GRPC, headers, {TO: f"http://127.0.0.1:{other.port}"}),
        ]

    assert [(each.state, each.facts["answer"]) for each in found] == [(State.FAILED, "header")] * 2
    assert "secret99" not in str(found)


def test_no_credential_is_in_any_row_even_where_the_endpoint_repeats_it():
    headers = {"OTEL_EXPORTER_OTLP_HEADERS": "api-key=k3y-1234567, authorization=Bearer%20t0ken-89"}
    body = b"key k3y-1234567 of t0ken-89 at /v1/traces/s3gment, secret pw-5678 unknown"
    with http("403 Forbidden", body, content_type="text/plain") as endpoint:
        to = {TO_TRACES: f"http://jane:pw-5678@127.0.0.1:{endpoint.port}/v1/traces/s3gment?key=qu3ry"}
        found = row(HTTP, headers, to)

    assert not [secret for secret in ("k3y-1234567", "t0ken-89", "pw-5678", "s3gment", "qu3ry") if secret in str(found)]
    assert found.summary.startswith(f"http://***@127.0.0.1:{endpoint.port}/v1/traces/***?*** over HTTP")
    assert said(found) == (
        "HTTP 403 Forbidden, 'key *** of *** at /v1/traces/***, secret *** unknown': it does not accept the credentials "
        "(headers sent: api-key, authorization)."
    )


def test_requests_go_through_the_proxy_that_the_environment_names():
    with http("200 OK") as proxy:
        through = {"http_proxy": f"http://jane:pw@127.0.0.1:{proxy.port}"}
        found = row(HTTP, through, {TO: "http://collector.invalid:4318"})
        excluded = row(HTTP, through, {TO: "http://collector.invalid:4318", "NO_PROXY": ".invalid"}, limit_s=5)

    assert said(found) == "accepts traces (HTTP 200 OK)."
    assert proxy.requests[0].startswith(b"POST http://collector.invalid:4318/v1/traces HTTP/1.1\r\n")
    assert b"\r\nproxy-authorization: Basic amFuZTpwdw==\r\n" in proxy.requests[0]
    assert excluded.state is State.FAILED


def test_grpc_goes_through_the_proxy_that_grpc_itself_takes():
    port = hostile.closed_port()
    found = row(GRPC, {"grpc_proxy": f"http://127.0.0.1:{port}"}, {TO: "http://collector.invalid:4317"})
    with GrpcEndpoint() as endpoint:
        to = {TO: f"http://127.0.0.1:{endpoint.port}"}
        excluded = row(GRPC, {"grpc_proxy": f"http://127.0.0.1:{port}", "no_proxy": "127.0.0.0/8"}, to)
        upper_case = row(GRPC, {"HTTPS_PROXY": f"http://127.0.0.1:{port}"}, to)

    assert found.summary.endswith(
        f"connection refused (the proxy http://127.0.0.1:{port}): no program listens on port {port} of 127.0.0.1."
    )
    assert (excluded.state, upper_case.state) == (State.OK, State.OK)


def test_a_proxy_that_does_not_connect_to_the_endpoint_is_reported():
    with http("403 Forbidden") as proxy:
        through = {"HTTPS_PROXY": f"http://127.0.0.1:{proxy.port}"}
        found = row(HTTP, through, {TO: "https://collector.invalid:4318"})

    assert proxy.requests[0].startswith(b"CONNECT collector.invalid:4318 HTTP/1.1\r\n")
    assert said(found) == f"the proxy http://127.0.0.1:{proxy.port} does not connect to it: 403 Forbidden."
    assert found.remedy == "Allow the host in the proxy, or add it to NO_PROXY."


def test_a_proxy_on_a_closed_port_is_reported_as_the_proxy():
    port = hostile.closed_port()
    found = row(HTTP, {"ALL_PROXY": f"http://127.0.0.1:{port}"}, {TO: "http://collector.invalid:4318"})

    assert said(found) == (
        f"connection refused (the proxy http://127.0.0.1:{port}): no program listens on port {port} of 127.0.0.1."
    )


def test_nothing_is_asked_where_the_sdk_is_disabled():
    with Receiver() as receiver:
        found = row(HTTP, {TO: receiver.url, "OTEL_SDK_DISABLED": "true"})

    assert (found.state, receiver.requests) == (State.NOTE, 0)
    assert found.summary == "Not contacted: OTEL_SDK_DISABLED=true, so nothing is sent."
