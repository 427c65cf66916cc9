# SPDX-License-Identifier: Apache-2.0
"""The at most eight answers under a waterfall: time, what Dynamo did, what fell back, caches, errors, sizes of inputs."""

from __future__ import annotations

from collections.abc import Sequence

from torchspan.answers import _limit_answer
from torchspan.answers._answer import Answer, words
from torchspan.answers._cache_answer import cache_answers
from torchspan.answers._error_answer import error_answers
from torchspan.answers._fallback_answer import fallback_answers
from torchspan.answers._frame_answer import dynamos_share, frame_findings
from torchspan.answers._limit_answer import limit_answers
from torchspan.answers._stages import covered_ns, time_answers
from torchspan.answers.lines import Style
from torchspan.answers.units import plural
from torchspan.traces import Node, Trace

MOST_ANSWERS = 5
"""That of torch.compile and those of sizes are not among them."""
_DYNAMO = "Dynamo"
_ORDER = ("Own time", _DYNAMO, "Fallback", "Cache", "Error", _limit_answer.OUTSIDE, _limit_answer.DRIFT)
_MOST_FINDINGS = 6
"""Paragraphs about frames; the others are counted."""


def answers(trace: Trace) -> list[Answer]:
    """At most eight, none of them empty: time, torch.compile, fallback (a line for each reason), caches, error, sizes."""
    nodes = list(trace.nodes())
    whole_ns = covered_ns(nodes)
    around = [*time_answers(nodes, whole_ns), *cache_answers(nodes), *error_answers(nodes)]
    fallback = fallback_answers(nodes, MOST_ANSWERS - len(around))
    every = [*around, *_frames(nodes, whole_ns), *fallback, *limit_answers(nodes)]
    return sorted(every, key=lambda answer: _ORDER.index(answer.head))


def _frames(nodes: Sequence[Node], whole_ns: int) -> list[Answer]:
    """At most one answer; none without a frame of torch.compile that there is something to say about."""
    said = [finding.paragraph for finding in frame_findings(nodes)]
    if len(said) > _MOST_FINDINGS:
        rest = plural(len(said) - _MOST_FINDINGS + 1, "further reason")
        said = [*said[: _MOST_FINDINGS - 1], words(f"{rest}; see the lines above")]
    paragraphs = (*dynamos_share(nodes, whole_ns), *said)
    return [Answer(_DYNAMO, paragraphs, style=Style.FALLBACK if said else Style.PLAIN)] if paragraphs else []
