# SPDX-License-Identifier: Apache-2.0
"""Log records of Torch-TensorRT and TensorRT: they are made in their spans, and stay as they are."""

import logging

import pytest
import tensorrt_rtx
import torch
import torch_tensorrt
from opentelemetry import trace
from torch_tensorrt.logging import TRT_LOGGER

from support import models
from support.tree import named

pytestmark = pytest.mark.slow

INPUT = torch.ones(2, 16)
LIBRARY, TENSORRT = "torch_tensorrt", "torch_tensorrt [TensorRT Conversion Context]"


def compiled():
    return torch_tensorrt.compile(models.seeded(models.Mlp), ir="dynamo", inputs=[INPUT], min_block_size=1)


class Keeping(logging.Handler):
    """A handler of the program: keeps each record with the id of the span in which it arrives."""

    def __init__(self):
        super().__init__()
        self.records = []

    def emit(self, record):
        self.records.append({**vars(record), "span_id": trace.get_current_span().get_span_context().span_id})


@pytest.fixture
def root():
    """The root logger, restored afterwards."""
    logger = logging.getLogger()
    level = logger.level
    yield logger
    logger.setLevel(level)


@pytest.fixture
def records(root):
    """Records of all levels that reach a handler of the root logger."""
    keeping = Keeping()
    root.addHandler(keeping)
    root.setLevel(logging.DEBUG)
    yield keeping.records
    root.removeHandler(keeping)


def state():
    """All that can be set on each logger there is."""
    return {
        name: (each.filters[:], each.handlers[:], each.level, each.propagate, each.disabled)
        for name, each in logging.Logger.manager.loggerDict.items()
        if isinstance(each, logging.Logger) and name.startswith(LIBRARY)
    }


def test_records_of_both_libraries_are_made_in_their_spans(instrument, exporter, records):
    """So OpenTelemetry's instrumentation of logging adds the right ids."""
    instrument()
    compiled()
    spans = exporter.get_finished_spans()
    by_id = {span.context.span_id: span for span in spans}
    build = named(spans, "tensorrt.build_engine")
    from_tensorrt = [each for each in records if each["name"] == TENSORRT]
    assert len(from_tensorrt) > 50
    assert {each["span_id"] for each in from_tensorrt} <= by_id.keys()
    during_the_build = [each for each in from_tensorrt if "Engine generation completed" in each["msg"]]
    assert [each["span_id"] for each in during_the_build] == [build.context.span_id]
    from_the_library = [each["span_id"] for each in records if each["name"].startswith(f"{LIBRARY}.")]
    assert {by_id[each].name for each in from_the_library if each} >= {"torch_tensorrt.compile"}


def test_no_logger_is_touched(instrument, records):
    before, factory = state(), logging.getLogRecordFactory()
    instrument()
    compiled()
    assert state() == before
    assert logging.getLogRecordFactory() is factory


def test_a_program_without_logging_still_gets_warnings_on_stderr(instrument, root, monkeypatch, capsys):
    monkeypatch.setattr(root, "handlers", [])  # then Python prints warnings itself: logging.lastResort
    instrument()
    logging.getLogger("torch_tensorrt.dynamo._compiler").warning("a warning of the library")
    TRT_LOGGER.log(tensorrt_rtx.ILogger.Severity.WARNING, "a warning of TensorRT")
    logging.getLogger(LIBRARY).info("only informs")
    assert capsys.readouterr().err == "a warning of the library\na warning of TensorRT\n"
    assert not logging.getLogger(LIBRARY).hasHandlers()
