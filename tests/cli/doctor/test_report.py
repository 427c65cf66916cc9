# SPDX-License-Identifier: Apache-2.0
"""What happens to rows, whatever the checks are."""

import json

import pytest

from torchspan.cli.doctor import _printed as report
from torchspan.cli.doctor._check import Check, Context, State

ROWS = [
    Check("sdk.installed", State.FAILED, "It is not installed.", "Install it.", {"version": None}),
    Check("libraries.torch", State.WARNING, "It is old.", "Take another one.", {"version": "2.4"}),
    Check("settings.detail", State.OK, "detail is `stages`."),
]


def text(found, width=80, lists_all=True):
    lines = report.lines(found, width, lists_all=lists_all)
    return "\n".join("".join(piece for piece, _ in line) for line in lines)


def found_by(check, **environment):
    return list(report.rows([check], Context(environment)))


def test_a_row_is_state_and_name_then_what_was_found_then_what_to_do():
    assert text(ROWS, 40).splitlines()[1:] == [
        "failed   sdk.installed",
        "         It is not installed.",
        "         Install it.",
        "warning  libraries.torch",
        "         It is old.",
        "         Take another one.",
        "ok       settings.detail",
        "         detail is `stages`.",
        "",
        "1 failed, 1 warning, 0 note, 1 ok",
    ]


def test_without_all_only_what_needs_a_look_is_listed_and_the_others_are_counted():
    others = [
        Check("settings.heartbeat", State.OK, "heartbeat: 5.", facts={"source": "default"}),
        Check("settings.ranks", State.OK, "ranks: 0.", facts={"source": "variable"}),
        Check("sdk.sampler", State.NOTE, "It is not set.", "Set it."),
    ]
    assert text([*others, *ROWS], 90, lists_all=False).splitlines()[1:] == [
        "failed   sdk.installed",
        "         It is not installed.",
        "         Install it.",
        "warning  libraries.torch",
        "         It is old.",
        "         Take another one.",
        "",
        "1 failed, 1 warning, 1 note, 3 ok; torchspan doctor --all lists every check",
    ]


def test_the_result_of_a_test_trace_is_listed_also_where_it_is_good():
    sent = Check("send", State.OK, "Sent with the trace id 1.")
    assert text([sent], lists_all=False).splitlines()[1:3] == ["ok       send", "         Sent with the trace id 1."]


def test_the_json_has_a_version_and_the_same_rows():
    assert json.loads(report.document(ROWS)) == {
        "version": 1,
        "torchspan": "0.1.0",
        "checks": [
            {
                "name": "sdk.installed",
                "state": "failed",
                "summary": "It is not installed.",
                "remedy": "Install it.",
                "facts": {"version": None},
            },
            {
                "name": "libraries.torch",
                "state": "warning",
                "summary": "It is old.",
                "remedy": "Take another one.",
                "facts": {"version": "2.4"},
            },
            {
                "name": "settings.detail",
                "state": "ok",
                "summary": "detail is `stages`.",
                "remedy": "",
                "facts": {},
            },
        ],
    }


@pytest.mark.parametrize(
    ("states", "status"),
    [((State.OK, State.NOTE, State.WARNING), 0), ((State.OK, State.FAILED), 1), ((), 0)],
)
def test_the_exit_status_is_1_only_where_something_failed(states, status):
    assert report.exit_status([Check("a.b", state, "") for state in states]) == status


def test_a_check_that_raises_is_a_failed_row_alongside_what_it_had_found():
    def half(_context):
        yield ROWS[2]
        raise OSError("no such thing")

    assert found_by(half) == [
        ROWS[2],
        Check(
            "doctor.half",
            State.FAILED,
            "This check itself failed: OSError: no such thing",
            "Please report it, and include this line. The other rows are valid.",
        ),
    ]


def test_a_check_that_ends_the_process_is_a_failed_row():
    def ending(_context):
        raise SystemExit("enough")
        yield

    (row,) = found_by(ending)

    assert (row.state, row.summary) == (State.FAILED, "This check itself failed: SystemExit: enough")


def test_control_characters_of_an_environment_do_not_reach_the_terminal():
    assert "\\x1b[2J" in text([Check("a.b", State.NOTE, "value \x1b[2J")])


HEADERS = "authorization=Bearer%20tok3n, x-key=s3cret"


@pytest.mark.parametrize(
    ("variables", "said", "printed"),
    [
        ({"OTEL_EXPORTER_OTLP_HEADERS": HEADERS}, "got Bearer tok3n", "got ***"),
        ({"OTEL_EXPORTER_OTLP_HEADERS": HEADERS}, "got Bearer%20tok3n", "got ***"),
        ({"OTEL_EXPORTER_OTLP_HEADERS": HEADERS}, "got 'tok3n'", "got '***'"),
        ({"OTEL_EXPORTER_OTLP_TRACES_HEADERS": "k=s3cret"}, "got s3cret", "got ***"),
        ({"OTEL_EXPORTER_OTLP_HEADERS": "s3cret"}, "not a header: s3cret", "not a header: ***"),
        ({}, "POST http://me:pa%40ss@host:4318/v1", "POST http://***@host:4318/v1"),
        ({}, "POST HTTPS://t0ken@host", "POST HTTPS://***@host"),
        ({}, "http://me:p@ss@host/", "http://***@host/"),
        ({"HTTPS_PROXY": "me:s3cret@proxy:3128"}, "via me:s3cret@proxy:3128", "via ***@proxy:3128"),
        ({"https_proxy": "me:s3cre%40@proxy:3128"}, "password s3cre@", "password ***"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "grpc://tok3n@host:1"}, "tok3n refused", "*** refused"),
        ({"OTEL_EXPORTER_OTLP_HEADERS": "x-tenant=1,x-scope=prod"}, "1 product in prod", "1 product in ***"),
        ({}, "http://host/v1?api_key=s3cret&a=b#x", "http://host/v1?***#x"),
        ({"OTEL_EXPORTER_OTLP_HEADERS": "k=a%0As3cret"}, f"got {['a' + chr(10) + 's3cret']!r}", "got ['***']"),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "https://host/tok3n?k=s3cret"},
            "url: /tok3n/v1/logs s3cret",
            "url: ***/v1/logs ***",
        ),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "https://host/v1/traces"}, "is /v1/traces there", "is /v1/traces there"),
    ],
)
def test_credentials_are_hidden_in_every_part_of_a_row(variables, said, printed):
    def check(_context):
        yield Check("a.b", State.OK, said, said, {"key": said, "list": [said, {said: 1}], "number": 7})
        raise ValueError(said)

    row, raised = found_by(check, **variables)

    assert row == Check(
        "a.b", State.OK, printed, printed, {"key": printed, "list": [printed, {printed: 1}], "number": 7}
    )
    assert raised.summary == f"This check itself failed: ValueError: {printed}"
