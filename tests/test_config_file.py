# SPDX-License-Identifier: Apache-2.0
import os
import sys

import pytest
from opentelemetry.configuration.file import substitute_env_vars

from torchspan.words import config_file
from torchspan.words.config_file import InstrumentationNode, UnreadableFileError

NODE = "instrumentation/development:\n  python:\n    torchspan:\n"


@pytest.fixture
def read(tmp_path):
    """`read(text)`: what a file with this text says of torchspan."""

    def call(text, name="otel.yaml"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return config_file.read(str(path))

    return call


def test_a_node_has_its_options_and_is_enabled(read):
    assert read(NODE + "      detail: passes\n      propagation: off\n") == InstrumentationNode(
        True, {"detail": "passes", "propagation": False}
    )
    assert read(NODE + "      enabled: true\n") == InstrumentationNode(True, {})


@pytest.mark.parametrize("value", ["false", "no", "${TRACE_IT:-false}", "&no false"])
def test_a_node_may_be_disabled(read, value):
    assert read(NODE + f"      enabled: {value}\n") == InstrumentationNode(False, {})


def test_a_variable_that_is_not_set_is_empty_or_an_error_as_in_opentelemetrys_reader(read):
    text = NODE + "      enabled: ${TRACE_IT}\n"
    try:
        substitute_env_vars(text)
    except Exception:  # up to 0.65
        with pytest.raises(UnreadableFileError, match="'TRACE_IT' not found"):
            read(text)
    else:
        assert read(text) == InstrumentationNode(False, {})


def test_variables_in_options_are_filled_in(read, monkeypatch):
    monkeypatch.setenv("BEAT", "7")
    text = NODE + '      heartbeat: ${BEAT}\n      detail: "${DETAIL:-passes}"\n      ready_after: a$$b: c\n'
    assert read(text.replace("a$$b: c", '"a$$b: c: d"')) == InstrumentationNode(
        True, {"heartbeat": 7, "detail": "passes", "ready_after": "a$b: c: d"}
    )


def test_json_is_read_too(read):
    text = '{"instrumentation/development": {"python": {"torchspan": {"enabled": false}}}}'
    assert read(text, "otel.json") == InstrumentationNode(False, {})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# torchspan",
        "- torchspan",
        "torchspan",
        "tracer_provider: {sampler: {torchspan: {}}}",
        NODE,
        NODE.replace("torchspan:", "torchspan: false"),
        "instrumentation/development: {python: [torchspan]}",
    ],
)
def test_a_file_without_a_node_says_nothing(read, text):
    assert read(text) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: b\n torchspan: c: d", "otel.yaml: line 2, column 11 is not YAML (ScannerError)"),
        ("!!python/object/apply:os.system [torchspan]", "otel.yaml: line 1, column 1 is not YAML (ConstructorError)"),
        ("torchspan: *s3cret", "otel.yaml: line 1, column 12 is not YAML (ComposerError)"),
        (b"torchspan: \xff", "otel.yaml: 'utf-8' codec can't decode byte 0xff"),
    ],
)
def test_what_is_not_yaml_is_said_with_its_place(read, text, message):
    with pytest.raises(UnreadableFileError) as caught:
        read(text)
    assert message in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_a_file_that_is_missing_is_said_and_switches_nothing_off(tmp_path):
    missing = str(tmp_path / "otel.yaml")
    with pytest.raises(UnreadableFileError, match="No such file or directory"):
        config_file.read(missing)
    assert not config_file.disables({"OTEL_CONFIG_FILE": missing})
    assert not config_file.disables({})


@pytest.mark.parametrize("make", [os.mkdir, getattr(os, "mkfifo", os.mkdir)])
def test_what_is_not_a_file_is_not_waited_for(tmp_path, make):
    make(tmp_path / "otel.yaml")
    with pytest.raises(UnreadableFileError, match="not a file"):
        config_file.read(str(tmp_path / "otel.yaml"))
    assert not config_file.disables({"OTEL_CONFIG_FILE": str(tmp_path / "otel.yaml")})


@pytest.mark.parametrize("path", ["a\0.yaml", "\ud800.yaml", "x" * 5000])
def test_a_name_that_no_file_can_have_switches_nothing_off(path):
    assert not config_file.disables({"OTEL_CONFIG_FILE": path})


def test_the_package_that_reads_the_file_is_missing_only_where_there_is_a_file(monkeypatch):
    assert config_file.missing_package({"OTEL_CONFIG_FILE": "otel.yaml"}) is None
    monkeypatch.setitem(sys.modules, "opentelemetry.configuration", None)
    assert config_file.missing_package({}) is None
    assert config_file.missing_package({"OTEL_CONFIG_FILE": "otel.yaml"}) == (
        "OTEL_CONFIG_FILE is set, but the package opentelemetry-configuration that reads it is not installed"
    )
    with pytest.raises(
        UnreadableFileError, match="opentelemetry-configuration that reads OTEL_CONFIG_FILE is not installed"
    ):
        config_file.read("otel.yaml")
