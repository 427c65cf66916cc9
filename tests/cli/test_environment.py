# SPDX-License-Identifier: Apache-2.0

import pytest

from torchspan.cli._environment import RunOptions, environment, service_name

OPTIONS = RunOptions(file="/t/x.jsonl", run_id="r1", site="/otel", report="/report")


def test_the_whole_environment_of_a_program_started_without_one():
    assert environment({}, ["python", "app.py"], OPTIONS) == {
        "OTEL_BSP_MAX_QUEUE_SIZE": "65536",
        "OTEL_BSP_SCHEDULE_DELAY": "1000",
        "OTEL_LOGS_EXPORTER": "none",
        "OTEL_METRICS_EXPORTER": "none",
        "OTEL_RESOURCE_ATTRIBUTES": "torchspan.run.id=r1",
        "OTEL_SERVICE_NAME": "app.py",
        "OTEL_TRACES_EXPORTER": "torchspan_file",
        "PYTHONPATH": "/otel",
        "TORCHSPAN_FILE": "/t/x.jsonl",
        "TORCHSPAN_RUN_REPORT": "/report",
    }


def test_the_users_variables_are_kept_and_added_to():
    users = {
        "HOME": "/home",
        "PYTHONPATH": "/a::/otel:/b",
        "OTEL_TRACES_EXPORTER": "otlp, console,torchspan_file",
        "OTEL_METRICS_EXPORTER": "otlp",
        "OTEL_LOGS_EXPORTER": "console",
        "OTEL_BSP_SCHEDULE_DELAY": "5",
        "OTEL_BSP_MAX_QUEUE_SIZE": "6",
        "OTEL_RESOURCE_ATTRIBUTES": "team=ml",
        "OTEL_SERVICE_NAME": "mine",
        "TORCHSPAN_DETAIL": "passes",
        "TORCHSPAN_WITHOUT_GPU": "0",
        "TORCHSPAN_FILE": "elsewhere",
    }
    assert environment(users, ["python", "app.py"], OPTIONS) == {
        **users,
        "PYTHONPATH": "/otel:/a::/b",
        "OTEL_TRACES_EXPORTER": "otlp,console,torchspan_file",
        "OTEL_RESOURCE_ATTRIBUTES": "team=ml,torchspan.run.id=r1",
        "TORCHSPAN_FILE": "/t/x.jsonl",
        "TORCHSPAN_RUN_REPORT": "/report",
    }


def test_an_option_beats_the_variable():
    variables = {"TORCHSPAN_DETAIL": "stages", "TORCHSPAN_WITHOUT_GPU": "1"}
    options = RunOptions("/t/x.jsonl", "r1", "/otel", "/report", variables)
    result = environment({"TORCHSPAN_DETAIL": "passes"}, ["python"], options)

    assert (result["TORCHSPAN_DETAIL"], result["TORCHSPAN_WITHOUT_GPU"]) == ("stages", "1")


def test_no_exporter_of_the_users_is_none_of_the_users():
    assert environment({"OTEL_TRACES_EXPORTER": "none"}, ["x"], OPTIONS)["OTEL_TRACES_EXPORTER"] == "torchspan_file"


def test_a_service_name_among_the_resource_attributes_is_the_users_too():
    assert "OTEL_SERVICE_NAME" not in environment({"OTEL_RESOURCE_ATTRIBUTES": "service.name=mine"}, ["x"], OPTIONS)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["python", "-u", "src/train.py", "--epochs", "3"], "train.py"),
        (["torchrun", "--nproc-per-node", "2", "train.py"], "train.py"),
        (["python", "-m", "app.main", "x"], "app.main"),
        (["/usr/bin/serve"], "serve"),
        (["python", "-m"], "python"),
    ],
)
def test_the_service_is_named_after_the_script(command, name):
    assert service_name(command) == name
