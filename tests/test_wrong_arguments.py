# SPDX-License-Identifier: Apache-2.0
"""What `batch`, `flush`, `without_gpu`, `traces`, `sdk` and `inputs` refuse, when it is given: each error says why."""

import io

import pytest
from opentelemetry.trace import INVALID_SPAN

import torchspan
from torchspan import traces
from torchspan.inputs import InputObserver
from torchspan.sdk import FileSpanExporter


def message_of(call, error=TypeError):
    with pytest.raises(error) as raised:
        call()
    return str(raised.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: torchspan.batch(3), "requests must be a list of spans, span contexts or contexts, not 3"),
        (lambda: torchspan.batch(None), "requests must be a list of spans, span contexts or contexts, not None"),
        (lambda: torchspan.flush("5"), "timeout must be a number of seconds, not '5'"),
        (lambda: torchspan.flush(True), "timeout must be a number of seconds, not True"),
        (lambda: torchspan.flush(None), "timeout must be a number of seconds, not None"),
        (lambda: FileSpanExporter(3), "path must be a str or an os.PathLike, not 3"),
        (lambda: FileSpanExporter(max_size="1 GiB"), "max_size must be an int or None, not '1 GiB'"),
        (lambda: FileSpanExporter(mode="600"), "mode must be an int or None, not '600'"),
        (lambda: InputObserver(3), "value_if_missing must be a dictionary by argument, not 3"),
    ],
)
def test_a_wrong_argument_is_named_with_its_value(call, message):
    assert message_of(call) == message


@pytest.mark.parametrize("timeout", [-1, 86_401, float("inf"), float("nan")])
def test_a_timeout_of_flush_outside_its_range_is_refused(timeout):
    expected = f"timeout must be 0 to 86400 seconds, not {timeout}"
    assert message_of(lambda: torchspan.flush(timeout), ValueError) == expected


def test_a_span_in_place_of_a_list_of_spans_is_refused_with_what_to_write():
    assert message_of(lambda: torchspan.batch(INVALID_SPAN)).endswith(": write batch([request])")


@pytest.mark.parametrize("read", [traces.read, traces.strings], ids=["read", "strings"])
@pytest.mark.parametrize(
    "source", [3, None, b"trace.jsonl", ["trace.jsonl"], io.StringIO("{}")], ids=lambda each: type(each).__name__
)
def test_a_source_that_is_neither_a_path_nor_a_binary_file_is_refused(read, source):
    expected = f"a source must be a path (str or os.PathLike) or a file open in binary mode, not {source!r}"
    assert message_of(lambda: read(source)) == expected


@pytest.mark.parametrize("ask", ["find", "one"])
def test_a_name_of_a_span_that_is_not_a_string_is_refused(ask):
    file = traces.read(io.BytesIO(b"{}"))
    assert message_of(lambda: getattr(file, ask)(3)) == "name must be a str, the name of a span, not 3"


@pytest.mark.parametrize(
    ("mode", "hint"),
    [(640, " (did you mean 0o640?)"), (0o440, ""), (0o1600, ""), (-1, ""), (0, "")],
)
def test_permissions_that_are_none_of_a_file_of_ones_own_are_refused(mode, hint):
    expected = f"mode must be permissions such as 0o600 or 0o640, not {mode}{hint}"
    assert message_of(lambda: FileSpanExporter(mode=mode), ValueError) == expected


def test_a_negative_size_of_a_file_is_refused():
    assert message_of(lambda: FileSpanExporter(max_size=-1), ValueError) == "max_size must be 0 bytes or more, not -1"
