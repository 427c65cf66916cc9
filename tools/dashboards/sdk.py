# SPDX-License-Identifier: Apache-2.0
"""The series that OpenTelemetry's SDK has of itself where OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED is `true`."""

from dashboards.promql import RANGE, SERVICES, Counter, Level, Matches

ERROR = "error.type"
_LOST = {ERROR: Matches(".+")}


def lost(name):
    """How many spans the counter `name` has counted as lost within the range. No series where it is not measured."""
    return f"{Counter(name, SERVICES).counted(RANGE, where=_LOST)} or 0 * {Level(name, SERVICES).now()}"


PROCESSED = "otel_sdk_processor_span_processed_total"
EXPORTED = "otel_sdk_exporter_span_exported_total"
