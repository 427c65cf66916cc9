# SPDX-License-Identifier: Apache-2.0
"""Trace ids on the log records of Torch-TensorRT and TensorRT."""

import logging
import logging.config

import pytest
import tensorrt_rtx
import torch
import torch_tensorrt
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from torch_tensorrt.dynamo import Debugger
from torch_tensorrt.logging import TRT_LOGGER

from support import models
from support.own_failures import consequences
from support.tree import named
from torchspan import TorchspanInstrumentor

pytestmark = pytest.mark.slow

INPUT = torch.ones(2, 16)
LIBRARY, TENSORRT = "torch_tensorrt", "torch_tensorrt [TensorRT Conversion Context]"
NAMES = ("otelTraceID", "otelSpanID", "otelTraceSampled", "otelServiceName")


def compiled():
    return torch_tensorrt.compile(models.seeded(models.Mlp), ir="dynamo", inputs=[INPUT], min_block_size=1)


class Keeping(logging.Handler):
    """A handler of the program: keeps each record as it is when it arrives."""

    def __init__(self):
        super().__init__()
        self.records = []

    def emit(self, record):
        self.records.append(dict(vars(record)))


@pytest.fixture
def root():
    """The root logger, restored afterwards: the Debugger and dictConfig change it."""
    logger = logging.getLogger()
    handlers, level = logger.handlers[:], logger.level
    yield logger
    for handler in logger.handlers[:]:
        logger.removeHandler(handler)
        if handler not in handlers:
            handler.close()
    for handler in handlers:
        logger.addHandler(handler)
    logger.setLevel(level)


@pytest.fixture
def records(root):
    """Records of all levels that reach a handler of the root logger."""
    keeping = Keeping()
    root.addHandler(keeping)
    root.setLevel(logging.DEBUG)
    yield keeping.records
    root.removeHandler(keeping)


def of(records, *loggers):
    return [each for each in records if each["name"] in loggers or each["name"].startswith(f"{LIBRARY}.")]


def loggers():
    return {name: each for name, each in logging.Logger.manager.loggerDict.items() if isinstance(each, logging.Logger)}


def state():
    """All that can be set on each logger there is."""
    return {
        name: (each.filters[:], each.handlers[:], each.level, each.propagate, each.disabled)
        for name, each in loggers().items()
        if name.startswith(LIBRARY)
    }


def test_records_of_both_libraries_have_the_ids_of_the_span_they_were_made_in(instrument, exporter, records):
    instrument(log_correlation=True)
    compiled()
    spans = exporter.get_finished_spans()
    by_id = {format(span.context.span_id, "016x"): span for span in spans}
    build = named(spans, "tensorrt.build_engine")
    from_tensorrt = [each for each in records if each["name"] == TENSORRT]
    assert len(from_tensorrt) > 50
    assert {each["otelSpanID"] for each in from_tensorrt} <= by_id.keys()
    during_the_build = [each for each in from_tensorrt if "Engine generation completed" in each["msg"]]
    assert [each["otelSpanID"] for each in during_the_build] == [format(build.context.span_id, "016x")]
    assert {each["otelTraceID"] for each in from_tensorrt} == {format(build.context.trace_id, "032x")}
    from_the_library = [each for each in of(records) if each["otelSpanID"] != "0"]
    assert {by_id[each["otelSpanID"]].name for each in from_the_library} >= {"torch_tensorrt.compile"}
    assert all(each["otelTraceSampled"] is True for each in from_the_library)


def test_each_record_of_theirs_has_them_and_no_other_record(instrument, records):
    instrument(log_correlation=True)
    logging.getLogger("the.program").warning("its own")
    compiled()
    assert all(set(NAMES) <= each.keys() for each in of(records, LIBRARY, TENSORRT))
    others = [each for each in records if not each["name"].startswith(LIBRARY)]
    assert "the.program" in {each["name"] for each in others}
    assert not [each for each in others if set(NAMES) & each.keys()]


def test_without_a_span_the_ids_are_zero(instrument, records, provider):
    instrument(log_correlation=True)
    TRT_LOGGER.log(tensorrt_rtx.ILogger.Severity.WARNING, "outside")
    (record,) = of(records, TENSORRT)
    assert {name: record[name] for name in NAMES} == {
        "otelTraceID": "0",
        "otelSpanID": "0",
        "otelTraceSampled": False,
        "otelServiceName": provider.resource.attributes["service.name"],
    }


def test_the_service_is_that_of_the_provider_and_the_users_own_span_counts(records):
    provider = TracerProvider(resource=Resource({"service.name": "shop"}), shutdown_on_exit=False)
    instrumentor = TorchspanInstrumentor()
    instrumentor.instrument(tracer_provider=provider, log_correlation=True)
    with provider.get_tracer("user").start_as_current_span("request") as span:
        logging.getLogger(LIBRARY).warning("inside")
    instrumentor.uninstrument()
    (record,) = of(records, LIBRARY)
    context = span.get_span_context()
    assert record["otelServiceName"] == "shop"
    assert record["otelTraceID"] == format(context.trace_id, "032x")
    assert record["otelSpanID"] == format(context.span_id, "016x")
    assert record["otelTraceSampled"] is True


def test_what_a_record_has_already_stays(instrument, records):
    instrument(log_correlation=True)
    logging.getLogger(LIBRARY).warning("text", extra={"otelTraceID": "mine", "otelSpanID": "mine too"})
    (record,) = of(records, LIBRARY)
    assert (record["otelTraceID"], record["otelSpanID"]) == ("mine", "mine too")
    assert "otelTraceSampled" not in record


def test_a_handler_on_a_logger_of_theirs_sees_them_as_well(instrument):
    instrument(log_correlation=True)
    logger, keeping = logging.getLogger("torch_tensorrt.dynamo._compiler"), Keeping()
    logger.addHandler(keeping)
    logger.warning("text")
    logger.removeHandler(keeping)
    assert set(NAMES) <= keeping.records[0].keys()


def test_a_logger_made_later_is_found_when_a_compilation_starts(instrument, records):
    instrument(log_correlation=True)
    late = logging.getLogger("torch_tensorrt.made_late")
    compiled()
    late.warning("text")
    assert set(NAMES) <= next(each for each in records if each["name"] == late.name).keys()
    before = late.filters[:]
    TorchspanInstrumentor().uninstrument()
    assert (len(before), late.filters) == (1, [])


def test_it_is_off_unless_asked_for(instrument, records):
    before = state()
    instrument()
    compiled()
    assert not [each for each in records if set(NAMES) & each.keys()]
    assert state() == before


def test_no_handler_and_no_level_is_touched_and_afterwards_everything_is_as_it_was(instrument):
    before, factory = state(), logging.getLogRecordFactory()
    instrumentor = instrument(log_correlation=True)
    compiled()
    during = state()
    instrumentor.uninstrument()
    assert state() == before
    assert {name: each[1:] for name, each in during.items()} == {name: each[1:] for name, each in before.items()}
    assert all(len(during[name][0]) == len(before[name][0]) + 1 for name in before)
    assert logging.getLogRecordFactory() is factory


@pytest.mark.parametrize("log_correlation", [False, True])
def test_a_program_without_logging_still_gets_warnings_on_stderr(
    instrument, root, monkeypatch, capsys, log_correlation
):
    monkeypatch.setattr(root, "handlers", [])  # then Python prints warnings itself: logging.lastResort
    instrument(log_correlation=log_correlation)
    logging.getLogger("torch_tensorrt.dynamo._compiler").warning("a warning of the library")
    TRT_LOGGER.log(tensorrt_rtx.ILogger.Severity.WARNING, "a warning of TensorRT")
    logging.getLogger(LIBRARY).info("only informs")
    assert capsys.readouterr().err == "a warning of the library\na warning of TensorRT\n"
    assert not logging.getLogger(LIBRARY).hasHandlers()


@pytest.mark.filterwarnings("ignore:Implicitly cleaning up:ResourceWarning")  # a temporary folder of the Debugger
def test_it_continues_inside_and_after_a_debugger(instrument, root, tmp_path):
    instrument(log_correlation=True)
    inside, after = Keeping(), Keeping()
    with Debugger(logging_dir=str(tmp_path), log_level="debug"):
        root.addHandler(inside)
        compiled()
    root.addHandler(after)
    root.setLevel(logging.DEBUG)
    compiled()
    for keeping in (inside, after):
        of_both = of(keeping.records, LIBRARY, TENSORRT)
        assert {TENSORRT} < {each["name"] for each in of_both}
        assert all(set(NAMES) <= each.keys() for each in of_both)
        assert {each["otelSpanID"] for each in of_both if each["name"] == TENSORRT} != {"0"}


def test_it_continues_after_the_program_has_configured_these_very_loggers(instrument, root):
    instrument(log_correlation=True)
    named_loggers = {name: {"level": "DEBUG", "handlers": []} for name in (LIBRARY, TENSORRT)}
    before = {name: loggers()[name].level for name in named_loggers}
    logging.config.dictConfig({"version": 1, "disable_existing_loggers": False, "loggers": named_loggers})
    keeping = Keeping()
    root.addHandler(keeping)
    compiled()
    for name, level in before.items():
        loggers()[name].setLevel(level)
    assert len(of(keeping.records, LIBRARY, TENSORRT)) > 50
    assert all(set(NAMES) <= each.keys() for each in of(keeping.records, LIBRARY, TENSORRT))


def test_a_failure_of_torchspan_stops_no_record(instrument, records, monkeypatch, caplog):
    def broken(_provider):
        raise RuntimeError("torchspan reads it")

    instrument(log_correlation=True)
    monkeypatch.setattr(TracerProvider, "resource", property(broken))
    for _ in range(5):
        logging.getLogger(LIBRARY).warning("text")
    assert len(of(records, LIBRARY)) == 5
    assert "marking log records failed; the program continues, with less telemetry." in consequences(caplog)
