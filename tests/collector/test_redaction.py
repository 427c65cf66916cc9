# SPDX-License-Identifier: Apache-2.0
"""`redaction.yaml`: what does not leave for the backend, and that torchspan's own spans pass unchanged."""

import pytest

from support import backends, otlp
from support.receiver import Receiver, mapping
from torchspan.words import semconv

pytestmark = pytest.mark.needs("otelcol-torchspan")

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ3YW5kYSJ9.c2lnbmF0dXJl"


@pytest.fixture(scope="module")
def redacted():
    """Sends one span of the program (or, with scope, of another) and returns it as it arrives, with its resource."""
    with (
        Receiver() as backend,
        backends.collector(
            "base.yaml", "redaction.yaml", environment={"TORCHSPAN_OTLP_ENDPOINT": backend.url}
        ) as collector,
    ):
        ids = iter(range(1, 1000))

        def redacted(attributes=None, *, event=None, scope="app", resource=None, status=None):
            made = otlp.Ids(next(ids))
            span = otlp.make_span(made, "span", made.trace(), attributes=attributes or {}, status=status)
            if event:
                span.events.add(name="exception", attributes=otlp.pairs(event))
            sent = otlp.request([span], scope=scope, resource=resource)
            otlp.post(collector.http, sent)

            def found():
                return [
                    (of_resource, each)
                    for message in backend.messages()
                    for of_resource in message.resource_spans
                    for of_scope in of_resource.scope_spans
                    for each in of_scope.spans
                    if each.span_id == span.span_id
                ]

            backend.wait_for(lambda _: found())
            ((of_resource, arrived),) = found()
            return sent.resource_spans[0], of_resource, arrived

        yield redacted
        collector.stop()
        assert collector.complaints() == []


SECRET_KEYS = [
    "password",
    "db.passwd",
    "CLIENT_SECRET",
    "token",
    "hf_token",
    "access-token",
    "http.request.header.authorization",
    "http.request.header.x-api-key",
    "openai_api_key",
    "http.request.header.cookie",
    "http.response.header.set-cookie",
    "ssh.private_key",
]


@pytest.mark.parametrize("key", SECRET_KEYS)
def test_what_has_the_key_of_a_secret_is_masked(redacted, key):
    _, _, span = redacted({key: "wanda", "other": "krol"})
    assert mapping(span.attributes) == {key: "****", "other": "krol"}


def test_lists_below_the_key_of_a_secret_are_masked_too(redacted):
    _, _, span = redacted({"http.request.header.authorization": ["wanda", "krol"]})
    assert mapping(span.attributes) == {"http.request.header.authorization": "****"}


HARMLESS_KEYS = ["gen_ai.usage.input_tokens", "tokens", "secretary", "password_changed", "torch.cookies"]


@pytest.mark.parametrize("key", HARMLESS_KEYS)
def test_what_only_sounds_like_a_secret_stays(redacted, key):
    _, _, span = redacted({key: 12})
    assert mapping(span.attributes) == {key: 12}


SECRET_VALUES = [
    ("Bearer abc.def", "****"),
    ("curl -H 'authorization: bearer abc' http://x", "curl -H 'authorization: ****' http://x"),
    ("AKIAIOSFODNN7EXAMPLE", "****"),
    (f"token={JWT}", "token=****"),
    ("postgres://wanda:krol@db/x", "postgres****db/x"),
]


@pytest.mark.parametrize(("value", "left"), SECRET_VALUES)
def test_what_looks_like_a_secret_is_masked_whatever_its_key(redacted, value, left):
    _, _, span = redacted({"any": value})
    assert mapping(span.attributes) == {"any": left}


def test_resources_and_events_are_looked_through_as_spans_are(redacted):
    _, of_resource, span = redacted(
        event={"exception.type": "E", "password": "wanda", "any": "Bearer krol"},
        resource={"service.name": "app", "password": "wanda", "any": "Bearer krol"},
    )
    assert mapping(span.events[0].attributes) == {"exception.type": "E", "password": "****", "any": "****"}
    assert mapping(of_resource.resource.attributes) == {"service.name": "app", "password": "****", "any": "****"}


def test_what_exceptions_of_the_program_say_does_not_leave(redacted):
    _, _, span = redacted(
        event={"exception.type": "E", "exception.message": "wanda", "exception.stacktrace": "krol"},
        status=otlp.Status(code=otlp.Status.STATUS_CODE_ERROR, message="E: wanda"),
    )
    assert mapping(span.events[0].attributes) == {"exception.type": "E"}
    assert (span.status.code, span.status.message) == (otlp.Status.STATUS_CODE_ERROR, "")


def test_statements_and_what_follows_the_question_mark_do_not_leave(redacted):
    _, _, span = redacted(
        {
            "db.query.text": "SELECT wanda",
            "db.statement": "SELECT wanda",
            "db.system.name": "postgresql",
            "url.query": "name=wanda",
            "url.full": "https://example.org/a?name=wanda",
            "http.url": "https://example.org/a?name=wanda&b=c",
            "url.path": "/a",
        }
    )
    assert mapping(span.attributes) == {
        "db.system.name": "postgresql",
        "url.full": "https://example.org/a?",
        "http.url": "https://example.org/a?",
        "url.path": "/a",
    }


def test_what_torchspan_says_of_exceptions_stays(redacted):
    """It is a template without values of the program."""
    said = {"exception.type": "E", "exception.message": "No converter for ?"}
    _, _, span = redacted(
        event=said, scope="torchspan", status=otlp.Status(code=otlp.Status.STATUS_CODE_ERROR, message="No ?")
    )
    assert mapping(span.events[0].attributes) == said
    assert span.status.message == "No ?"


def test_every_attribute_of_torchspan_passes_unchanged(redacted):
    example = {
        "string": "x",
        "boolean": True,
        "int": 3,
        "double": 0.5,
        "string[]": ["a", "b"],
        "int[]": [1, 2],
        "double[]": [0.5],
    }
    attributes = {str(each): example[each.type] for each in semconv.ATTRIBUTES}
    sent, of_resource, span = redacted(attributes, scope="torchspan")
    of_resource.scope_spans[0].spans[0].ClearField("status")
    assert str(of_resource) == str(sent)
    assert len(span.attributes) > 100
