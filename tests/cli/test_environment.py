# SPDX-License-Identifier: Apache-2.0

from torchspan.cli.run import SITE, environment
from torchspan.start.launched.run_settings import RunSettings

SETTINGS = RunSettings(
    id="0123456789abcdef",
    file="/t/x.jsonl",
    reports="/report",
    span="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    started_ns=1_700_000_000_123_456_789,
)


def test_two_variables_are_added_and_none_of_opentelemetrys():
    assert environment({}, SETTINGS, {}) == {"PYTHONPATH": SITE, "TORCHSPAN_RUN": SETTINGS.to_text()}


def test_the_users_variables_are_kept_as_they_are():
    users = {
        "HOME": "/home",
        "PYTHONPATH": f"/a::{SITE}:/b",
        "OTEL_TRACES_EXPORTER": "otlp, console,torchspan_file",
        "OTEL_METRICS_EXPORTER": "otlp",
        "OTEL_LOGS_EXPORTER": "console",
        "OTEL_BSP_SCHEDULE_DELAY": "5",
        "OTEL_RESOURCE_ATTRIBUTES": "team=ml",
        "OTEL_SERVICE_NAME": "mine",
        "TRACEPARENT": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "TORCHSPAN_DETAIL": "passes",
        "TORCHSPAN_WITHOUT_GPU": "0",
        "TORCHSPAN_FILE": "elsewhere",
    }
    added = {"PYTHONPATH": f"{SITE}:/a::/b", "TORCHSPAN_RUN": SETTINGS.to_text()}
    assert environment(users, SETTINGS, {}) == {**users, **added}


def test_an_option_beats_the_variable():
    variables = {"TORCHSPAN_DETAIL": "stages", "TORCHSPAN_WITHOUT_GPU": "1"}
    result = environment({"TORCHSPAN_DETAIL": "passes"}, SETTINGS, variables)

    assert (result["TORCHSPAN_DETAIL"], result["TORCHSPAN_WITHOUT_GPU"]) == ("stages", "1")
