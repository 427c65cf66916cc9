# SPDX-License-Identifier: Apache-2.0
import json

import pytest

from torchspan.start.launched.run_settings import RunSettings

SETTINGS = RunSettings(
    id="0123456789abcdef",
    file="/t/x-%p.jsonl",
    reports="/t/reports",
    span="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    started_ns=1_700_000_000_123_456_789,
    exit_s=2.5,
    inputs=("net:Net",),
)
TEXT = (
    '{"id":"0123456789abcdef","file":"/t/x-%p.jsonl","reports":"/t/reports",'
    '"span":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",'
    '"started_ns":1700000000123456789,"exit_s":2.5,"inputs":["net:Net"]}'
)


def test_the_settings_of_a_run_are_one_variable_as_json():
    assert SETTINGS.to_text() == TEXT
    assert RunSettings.from_environment({"TORCHSPAN_RUN": TEXT}) == SETTINGS


def test_a_path_that_is_not_ascii_comes_back_as_it_was():
    settings = SETTINGS._replace(file='/t/Größe \udce9 ".jsonl')
    assert settings.to_text().isascii()
    assert RunSettings.from_environment({"TORCHSPAN_RUN": settings.to_text()}) == settings


def test_the_processs_own_environment_is_read_by_default(monkeypatch):
    monkeypatch.setenv("TORCHSPAN_RUN", TEXT)
    assert RunSettings.from_environment() == SETTINGS


@pytest.mark.parametrize("text", ["", "no json", "[]", "1", json.dumps({"id": "a"}), TEXT.replace("2.5", '"soon"')])
def test_what_is_not_text_of_settings_counts_as_no_run(text):
    assert RunSettings.from_environment({"TORCHSPAN_RUN": text}) is None


def test_without_the_variable_there_is_no_run():
    assert RunSettings.from_environment({}) is None
