# SPDX-License-Identifier: Apache-2.0
"""Log records as the SDK emits them, and as lines of OTLP JSON."""

import base64
import json

from opentelemetry.sdk._logs import export as logs_export

from support.emitted import EMITTED

CAN_EMIT = hasattr(logs_export, "InMemoryLogRecordExporter")
"""Whether this version of the SDK has log records as torchspan writes them."""

PROVIDERS = """
from opentelemetry import _logs, trace
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

spans, records = InMemorySpanExporter(), InMemoryLogRecordExporter()
provider, logs = TracerProvider(), LoggerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
logs.add_log_record_processor(SimpleLogRecordProcessor(records))
trace.set_tracer_provider(provider)
_logs.set_logger_provider(logs)
"""
"""The beginning of a program with a provider of each signal, which collect what ends in `spans` and `records`."""

if CAN_EMIT:

    class Records(logs_export.InMemoryLogRecordExporter):
        """Log records as they are emitted; each is also held against the attribute table at the end."""

        def export(self, batch):
            for each in batch:
                EMITTED.add_log_record(each.log_record)
            return super().export(batch)

        def all(self):
            return [each.log_record for each in self.get_finished_logs()]


def line(finished):
    """Records of a `Records` as a request of OTLP JSON, as the Collector's file exporter writes it."""
    from google.protobuf import json_format
    from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs

    request = json_format.MessageToDict(encode_logs(finished), use_integers_for_enums=True)
    for of_resource in request["resourceLogs"]:
        for of_scope in of_resource["scopeLogs"]:
            for record in of_scope["logRecords"]:
                for key in {"traceId", "spanId"} & record.keys():
                    record[key] = base64.b64decode(record[key]).hex()
    return json.dumps(request) + "\n"
