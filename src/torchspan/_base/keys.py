# SPDX-License-Identifier: Apache-2.0
"""What torchspan puts into OpenTelemetry's context. Apart from the attributes, which take longer to load than a start may."""

STARTED_BY = "torchspan.started_by"
"""The span context in which a thread or a process was started. Where no span is current any more, spans link to it."""
