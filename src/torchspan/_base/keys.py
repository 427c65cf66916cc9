# SPDX-License-Identifier: Apache-2.0
"""What torchspan puts into OpenTelemetry's context, and what its sampler reads and writes.

Apart from the table of attributes, which takes longer to load than a start may.
"""

STARTED_BY = "torchspan.started_by"
"""The span context in which a thread or a process was started. Where no span is current any more, spans link to it."""

KEPT = "torchspan.kept"
"""In the context in which torchspan starts a span: the `torchspan._base.kept.Kept` that says why its sampler keeps it."""

KEEP = "torchspan.keep"
"""The attribute of spans that a sampler is to keep."""

PARENT_SAMPLED = "torchspan.parent_sampled"
"""The attribute of spans that were kept below a span that was not: False."""
