# SPDX-License-Identifier: Apache-2.0
"""The canary program. The tests run it below `torchspan run`: `program.py FOLDER arguments…`; FOLDER is where it leaves what they read.

Everything is planted at both details. What the SDK exports of it goes to the receiver that OTEL_EXPORTER_OTLP_ENDPOINT
names, and to the file of the run.
"""

import importlib
import logging
import os
import sys
import warnings
from pathlib import Path

SECTIONS = (
    "messages",
    "observing",
    "tensorrt_lines",
    "onnx_models",
    "files",
    "models",
    "conversions",
    "dynamo",
    "inputs",
    "followed",
    "operators",
)


def main():
    from privacy.planting import Planting

    place = Planting(sys.argv[1])
    os.dup2(os.open(place.folder / "program.err", os.O_WRONLY | os.O_CREAT), 2)  # what the libraries print is theirs
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    logs = _logs(place.folder)
    environments = {}
    for detail in ("stages", "passes"):
        if detail == "passes":
            _instrument_again(detail)
        for name in SECTIONS:
            with place.part(name):
                importlib.import_module(f"privacy.sections.{name}").plant(place)
        if detail == "stages":
            from privacy.sections import processes

            with place.part("processes"):
                environments = processes.plant(place)
    from privacy.sections import processes

    processes.reports(place)
    logs.shutdown()
    place.finish(environments=environments)


def _instrument_again(detail):
    from torchspan import TorchspanInstrumentor

    TorchspanInstrumentor().uninstrument()
    TorchspanInstrumentor().instrument(detail=detail)


def _logs(folder):
    """Log records go to the receiver: those of exceptions, and of Python's logging; torchspan's also to a file, from WARNING on."""
    from opentelemetry import _logs
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor

    provider = LoggerProvider()
    _logs.set_logger_provider(provider)
    provider.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
    logging.getLogger().addHandler(LoggingHandler(level=logging.WARNING, logger_provider=provider))
    handler = logging.FileHandler(Path(folder, "torchspan.log"))
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s"))
    handler.setLevel(logging.WARNING)
    logging.getLogger("torchspan").addHandler(handler)
    return provider


if __name__ == "__main__":
    main()
