# SPDX-License-Identifier: Apache-2.0
"""Traces as files for other programs: a page for the browser, a file for Perfetto, Markdown for a comment, a picture."""

# General layout: `_timeline` (spans by process, thread and lane), `_critical_path`, `_tables` -> `_page_data` (the spans as JSON for
# `page.js`) -> `_page`; `_protobuf` -> `_perfetto`; `_markdown`, `_comparison_markdown`; `_picture`.

import re

from torchspan.reading.views._comparison_markdown import comparison_markdown
from torchspan.reading.views._markdown import markdown
from torchspan.reading.views._page import PAGE_MARK, page
from torchspan.reading.views._perfetto import PERFETTO_MARK, perfetto
from torchspan.reading.views._picture import PICTURE_MARK, Picture

WRITTEN = re.compile(b"|".join(mark.pattern for mark in (PAGE_MARK, PICTURE_MARK, PERFETTO_MARK)))
"""What a file begins with that one of these wrote."""

__all__ = ["WRITTEN", "Picture", "comparison_markdown", "markdown", "page", "perfetto"]
