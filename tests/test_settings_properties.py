# SPDX-License-Identifier: Apache-2.0
"""Any text in any variable, and any value in a configuration file: each setting is legal or the default."""

import json
import logging
import os
import tempfile
from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from torchspan import TorchspanInstrumentor
from torchspan.sdk import FileSpanExporter
from torchspan.start.launched.run_settings import RunSettings
from torchspan.words import settings as _settings
from torchspan.words.settings import SETTINGS, VARIABLES, Source
from torchspan.words.settings.kinds import Choice

FUZZ = settings(deadline=None, database=None, derandomize=True)

# What an environment can hold: no NUL; bytes that are not UTF-8 are lone surrogates.
CHARACTERS = st.one_of(
    st.characters(exclude_categories=("Cs",), exclude_characters="\0"), st.integers(0xDC80, 0xDCFF).map(chr)
)
WORDS = sorted({word for row in SETTINGS if isinstance(row.kind, Choice) for word in row.kind.choices})
NUMBERS = st.one_of(st.floats().map(repr), st.integers().map(str), st.integers(0, 0o7777).map("{:o}".format))
TEXTS = st.one_of(
    st.text(CHARACTERS),
    NUMBERS,
    st.sampled_from(
        [*WORDS, "1", "true", "TRUE", "no", "~", "~unknown", "0x1", "1e400", "-0", "٣", "1_000", "9" * 5000]
    ),
)
NAMES = [row.variable for row in (*SETTINGS, *VARIABLES)]
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.sampled_from(WORDS)),
    lambda values: st.one_of(st.lists(values), st.dictionaries(st.text(), values)),
    max_leaves=5,
)


class Messages(logging.Handler):
    """What is logged on `torchspan` while the handler is there, formatted."""

    def __init__(self):
        super().__init__()
        self.texts = []

    def emit(self, record):
        self.texts.append(record.getMessage().encode().decode())  # a terminal must be able to show it

    def __enter__(self):
        _settings._warned.clear()
        logging.getLogger("torchspan").addHandler(self)
        return self

    def __exit__(self, *_):
        logging.getLogger("torchspan").removeHandler(self)


def is_legal(row, value):
    return value == row.default or row.kind.parse(value) == value


@settings(FUZZ, max_examples=100)
@given(
    st.dictionaries(st.sampled_from(NAMES), TEXTS),
    st.dictionaries(st.sampled_from(SETTINGS).map(lambda s: s.name), VALUES),
)
@example({}, {"heartbeat": 10**5000})
def test_each_setting_is_legal_or_its_default_and_each_refused_value_is_one_warning(environment, file):
    rows = (*_settings.resolved({}, file=file, environment=environment), *_settings.resolved_variables(environment))
    with Messages() as said:
        for _ in range(2):
            found = _settings.load({}, environment, file)
            for variable in VARIABLES:
                _settings.value_of(variable.variable, environment)

    assert all(is_legal(row, getattr(found, row.name)) for row in SETTINGS)
    assert sorted(said.texts) == sorted(row.refused for row in rows if row.refused)
    for row in rows:
        text = environment.get(row.setting.variable, "").strip()
        assert row.source is not Source.VARIABLE or text
        if row.refused is None and not file.get(getattr(row.setting, "name", "")):
            assert (row.source is Source.VARIABLE) == bool(text)


@settings(FUZZ, max_examples=50)
@given(
    st.fixed_dictionaries(
        {}, optional=dict.fromkeys(("TORCHSPAN_FILE_MAX_SIZE", "TORCHSPAN_FILE_MODE", "TORCHSPAN_FILE"), TEXTS)
    )
)
def test_the_exporter_of_a_file_raises_nothing_into_the_program(environment):
    environment = {name: text.replace("/", "_").replace("\\", "_") for name, text in environment.items()}
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, environment):
        before = os.getcwd()
        os.chdir(folder)
        try:
            provider = TracerProvider(shutdown_on_exit=False)
            provider.add_span_processor(SimpleSpanProcessor(FileSpanExporter()))
            provider.get_tracer("app").start_span("work").end()
            provider.shutdown()
        finally:
            os.chdir(before)


LIGHT = [name for name in NAMES if name != "TORCHSPAN_WITHOUT_GPU"]  # which may import torch


@settings(FUZZ, max_examples=50)
@given(st.dictionaries(st.sampled_from(LIGHT), TEXTS))
def test_torchspan_starts_and_stops_whatever_the_variables_say(environment):
    instrumentor = TorchspanInstrumentor()
    with mock.patch.dict(os.environ, environment), mock.patch("torchspan.start.bridge.Bridge"), Messages():
        instrumentor.instrument()
        assert instrumentor.is_instrumented_by_opentelemetry
        instrumentor.uninstrument()
    assert not instrumentor.is_instrumented_by_opentelemetry


@settings(FUZZ, max_examples=100)
@given(st.one_of(st.text(CHARACTERS), VALUES.map(repr), st.just('{"started_ns": 1e999}')))
def test_what_run_hands_on_is_settings_or_nothing(text):
    assert RunSettings.from_environment({"TORCHSPAN_RUN": text}) is None


RUN = {"id": "a", "file": "/t/a", "reports": "/t/b", "span": "", "started_ns": 1, "exit_s": 1, "inputs": []}


@pytest.mark.parametrize(
    "text",
    [
        "1e999",
        "[" * 100_000,
        *(json.dumps(RUN | {"started_ns": number}) for number in (float("inf"), float("nan"), "soon")),
        *(json.dumps(RUN | {name: path}) for name in ("file", "reports") for path in ("/t/\0", "/t/\ud800")),
        *(json.dumps(RUN | {"exit_s": number}) for number in (-1, float("nan"), float("inf"))),
    ],
)
def test_a_hostile_text_of_run_is_not_a_run(text):
    assert RunSettings.from_environment({"TORCHSPAN_RUN": text}) is None
