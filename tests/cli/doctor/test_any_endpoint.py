# SPDX-License-Identifier: Apache-2.0
"""Whatever the variables of exporters hold, each check answers, and prints no credential. Nothing is sent to a network."""

import contextlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.hostile_endpoints import Endpoint
from torchspan.cli.doctor import _destinations as destinations
from torchspan.cli.doctor import _endpoints as endpoints
from torchspan.cli.doctor import _exporters as exporters
from torchspan.cli.doctor import _urls as urls
from torchspan.cli.doctor._check import Context, State
from torchspan.cli.doctor._conflicts import conflicts
from torchspan.cli.doctor._destinations import AddressError
from torchspan.cli.doctor._exit import bounds
from torchspan.cli.doctor._files import writable

TEXTS = st.one_of(
    st.text(st.characters(exclude_characters="\0"), max_size=40),
    st.sampled_from(
        [
            "http://",
            "https://[::1",
            "http://h:99999",
            "unix:x",
            "//",
            "@",
            "http://u:p@h/p?q",
            "-1",
            "1e999",
            "nan",
            "\udc80",
        ]
    ),
)
SIGNALS = st.sampled_from(["", "TRACES_"])
VARIABLES = st.one_of(
    st.sampled_from(["OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG", "TORCHSPAN_FILE", "OTEL_BSP_SCHEDULE_DELAY"]),
    st.sampled_from(["OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_METRIC_EXPORT_INTERVAL", "OTEL_PYTHON_DISTRO", "PYTHONPATH"]),
    st.sampled_from(["OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER", "DD_TRACE_OTEL_ENABLED"]),
    *(
        SIGNALS.map(lambda signal, last=last: f"OTEL_EXPORTER_OTLP_{signal}{last}")
        for last in ("ENDPOINT", "PROTOCOL", "HEADERS", "TIMEOUT", "INSECURE", "CERTIFICATE")
    ),
)
ENVIRONMENTS = st.dictionaries(VARIABLES, TEXTS, max_size=6)


@settings(deadline=None, max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(environment=ENVIRONMENTS)
def test_every_environment_has_rows(environment, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    context = Context(environment)

    found = [row for check in (exporters.loadable, writable, bounds, conflicts) for row in check(context)]
    assert {row.state for row in found} <= set(State)
    assert list(tmp_path.iterdir()) == []


@settings(deadline=None, max_examples=60)
@given(environment=ENVIRONMENTS)
def test_every_endpoint_is_an_address_or_says_why_it_is_none(environment):
    context = Context({**environment, "OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"})
    for protocol in (exporters.GRPC, exporters.HTTP):
        (exporter,) = exporters.exporters("traces", context)
        with contextlib.suppress(AddressError):
            address = destinations.destination(exporter._replace(name=protocol), context).address
            assert address.host
            assert 0 <= address.port <= 65535


@settings(deadline=None, max_examples=100)
@given(secret=st.text(st.characters(codec="ascii", exclude_categories=["C", "Z"]), min_size=4, max_size=20))
def test_no_part_of_an_endpoint_that_may_be_a_credential_is_shown(secret):
    assert urls.shown(f"http://jane:{secret}@h:1/v1/traces") in ("http://***@h:1/v1/traces", "***")
    assert urls.shown(f"http://h:1/v1/traces?key={secret}") in ("http://h:1/v1/traces?***", "***")


@settings(deadline=None, max_examples=100)
@given(secret=st.text("aB9_%:.-", min_size=8, max_size=30))
def test_a_message_that_repeats_a_part_of_an_endpoint_is_printed_without_it(secret):
    for url in (f"http://u:{secret}@h/v1/traces", f"http://h/v1/{secret}", f"h/{secret}/v1", f"http://h?key={secret}"):
        assert urls.without_secrets(f"no <{secret}> here", urls.secrets_in(url)) == "no <***> here"


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
@settings(deadline=None, max_examples=15)
@given(answer=st.binary(max_size=100))
def test_whatever_a_port_answers_is_a_row_with_a_remedy(answer, protocol):
    with Endpoint(answer) as endpoint:
        environment = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{endpoint.port}",
            "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
            "OTEL_METRICS_EXPORTER": "none",
            "OTEL_LOGS_EXPORTER": "none",
        }
        (found,) = endpoints.reachable(Context(environment), 20)

    assert found.state is State.FAILED
    assert found.remedy
    assert found.facts["answer"] != "failed"
