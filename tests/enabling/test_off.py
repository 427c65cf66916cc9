# SPDX-License-Identifier: Apache-2.0
"""Where OpenTelemetry is off: OTEL_SDK_DISABLED, suppressed instrumentation, an API without SDK."""

import json

import pytest

from support.receiver import Receiver

OBSERVED = """
import json
import sys
import threading
from opentelemetry import trace
from torchspan import callbacks, observers

seen = []

@observers.observable()
def work(x):
    return x + 1, trace.get_current_span().get_span_context().is_valid

work.observers.post.add(lambda context: seen.append(context.outcome))
"""

DISABLED = f"""{OBSERVED}
result = work(1)
print(json.dumps([result, seen, "torchspan" in str([type(each).__module__ for each in threading.enumerate()])]))
"""


def test_with_the_sdk_disabled_nothing_is_sent_and_observers_work(instrumented):
    with Receiver() as receiver:
        endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}
        done = instrumented(DISABLED, **endpoint, OTEL_SDK_DISABLED="true")
        assert (done.status, done.err) == (0, "")
        assert json.loads(done.out) == [[2, False], ["returned"], False]
        assert receiver.spans() == []
        assert receiver.metrics() == []


SUPPRESSED = f"""{OBSERVED}
from opentelemetry.instrumentation.utils import suppress_instrumentation

with suppress_instrumentation():
    inside = work(1)
outside = work(1)
print(json.dumps([inside, outside, seen]))
"""


def test_suppressed_work_leaves_no_span_and_no_count_and_observers_work(instrumented):
    with Receiver() as receiver:
        endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}
        done = instrumented(SUPPRESSED, **endpoint)
        assert (done.status, done.err) == (0, "")
        assert json.loads(done.out) == [[2, False], [2, True], ["returned", "returned"]]
        assert [span.name for span in receiver.spans()] == ["torchspan.observed work"]


WITHOUT_SDK = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name == "opentelemetry.sdk" or name.startswith(("opentelemetry.sdk.", "opentelemetry.exporter")):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
import logging
logging.basicConfig(level=logging.DEBUG)
import torchspan
torchspan.instrument()
"""


@pytest.fixture(scope="module")
def without_sdk(ran):
    program = f"""{WITHOUT_SDK}{OBSERVED}
results = [work(1) for _ in range(3)]
torchspan.uninstrument()
results.append(work(1))
loaded = [name for name in sys.modules if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter"))]
print(json.dumps([results, seen, loaded, threading.active_count()]))
"""
    return ran(program)


@pytest.mark.fault("the SDK", "it is missing, so that nothing takes spans")
def test_with_an_api_without_sdk_the_program_runs_as_usual_and_observers_work(without_sdk):
    assert without_sdk.status == 0, without_sdk.err
    assert json.loads(without_sdk.out) == [[[2, False]] * 4, ["returned"] * 4, [], 1]


def test_an_api_without_sdk_is_not_a_failure_that_is_logged(without_sdk):
    assert [line for line in without_sdk.err.splitlines() if "torchspan" in line] == []
