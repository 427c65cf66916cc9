# SPDX-License-Identifier: Apache-2.0
"""What sampling decisions are made of: ids, keys in the context, rules and ranks."""

from __future__ import annotations

# They are not in the table of attributes, because that takes longer to load than a start may take.
STARTED_BY = "torchspan.started_by"
"""The span context in which a thread or a process was started. Once no span is current any more, spans link to it."""

KEPT = "torchspan.kept"
"""In the context in which torchspan starts a span: the `torchspan.words.sampling.ids.Kept` by which its sampler keeps the span."""

KEEP = "torchspan.keep"
"""The attribute of spans that a sampler should keep."""

PARENT_SAMPLED = "torchspan.parent_sampled"
"""The attribute of spans that were kept below a span that was not sampled. Its value is False."""
