# SPDX-License-Identifier: Apache-2.0
"""torchspan's sampler: the kind of a span decides whether it is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry import context as context_api
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult, TraceIdRatioBased
from opentelemetry.trace import Link, SpanContext, SpanKind, TraceState

from torchspan.base.logs import Log
from torchspan.output.sdk._rule_texts import RulesInUse
from torchspan.words.sampling import KEEP, KEPT, PARENT_SAMPLED
from torchspan.words.sampling.ids import IDS, Kept, threshold_text
from torchspan.words.sampling.rules import SamplingRules

OT = "ot"
"""OpenTelemetry's entry in a tracestate: https://opentelemetry.io/docs/specs/otel/trace/tracestate-handling/"""

_logger = Log("torchspan.sdk")


class TorchspanSampler(Sampler):
    """Keeps what torchspan has decided to keep, and decides every other span by its trace id.

    - Spans with `torchspan.keep` (compilations and what belongs to them) are kept, even below a span that is not; then they
      carry `torchspan.parent_sampled=false`.
    - Runs of engines that torchspan picked are kept, and no second decision is made about them. It picks by the rules that begin
      with `execute`, and also picks the first run of each engine and failed runs.
    - Every other span, mainly those of the program, is kept with the probability `other`, by its trace id, as the SDK's
      `TraceIdRatioBased` does.

    A span about which the sampler fails to decide is kept.

    Args:
        rules: Rules as in OTEL_TRACES_SAMPLER_ARG: `other=0.1,execute=0.01,execute_per_second=10`. An invalid rule causes one
            warning and has no effect. torchspan's settings `sample_*` win over the rules.
    """

    def __init__(self, rules: str | None = None) -> None:
        self._rules = RulesInUse(rules)
        self._ratio, self._bound = 1.0, TraceIdRatioBased.get_bound_for_rate(1.0)
        self._has_warned = False

    def execution_rules(self) -> SamplingRules:
        """The rules by which torchspan picks runs of engines."""
        return self._rules.now()

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,  # noqa: ARG002 - what a span is called decides nothing
        kind: SpanKind | None = None,  # noqa: ARG002
        attributes: Mapping[str, Any] | None = None,
        links: Sequence[Link] | None = None,  # noqa: ARG002
        trace_state: TraceState | None = None,  # noqa: ARG002 - the SDK passes none
    ) -> SamplingResult:
        """See `opentelemetry.sdk.trace.sampling.Sampler`."""
        try:
            return self._decide(parent_context, trace_id, attributes)
        except Exception as error:
            if not self._has_warned:
                self._has_warned = True
                _logger.warning(
                    "torchspan's sampler could not decide about a span, and keeps it (%s).", type(error).__name__
                )
            return SamplingResult(Decision.RECORD_AND_SAMPLE)

    def _decide(self, around: Context | None, trace_id: int, attributes: Mapping[str, Any] | None) -> SamplingResult:
        context = context_api.get_current() if around is None else around
        kept = context.get(KEPT)
        parent = trace.get_current_span(context).get_span_context()
        if isinstance(kept, Kept):
            return _kept(attributes, kept, parent)
        if attributes and attributes.get(KEEP) is True:
            return _kept(attributes, Kept(parent.trace_flags.sampled if parent.is_valid else None), parent)
        if self._keeps_other(parent, trace_id):
            return SamplingResult(Decision.RECORD_AND_SAMPLE, attributes, _state_of(parent))
        return SamplingResult(Decision.DROP, None, _state_of(parent))

    def get_description(self) -> str:
        """The rules, as the SDK's samplers describe theirs."""
        rules = self._rules.now()._asdict().items()
        return f"{type(self).__name__}{{{','.join(f'{name}={value:g}' for name, value in rules if value is not None)}}}"

    def _keeps_other(self, parent: SpanContext, trace_id: int) -> bool:  # noqa: ARG002 - see the subclass
        """Whether a span is kept about which torchspan has decided nothing."""
        ratio = self._rules.now().other
        if ratio != self._ratio:
            self._bound = TraceIdRatioBased.get_bound_for_rate(ratio)
            self._ratio = ratio  # last: other threads look at it first
        return trace_id & TraceIdRatioBased.TRACE_ID_LIMIT < self._bound


class ParentBasedTorchspanSampler(TorchspanSampler):
    """As `TorchspanSampler`, except that spans of the program follow their parent. The rules decide about roots.

    Args:
        rules: Rules as for `TorchspanSampler`.
    """

    def _keeps_other(self, parent: SpanContext, trace_id: int) -> bool:
        """See the base class."""
        return parent.trace_flags.sampled if parent.is_valid else super()._keeps_other(parent, trace_id)


def _state_of(parent: SpanContext) -> TraceState | None:
    return parent.trace_state if parent.is_valid else None


def _kept(attributes: Mapping[str, Any] | None, kept: Kept, parent: SpanContext) -> SamplingResult:
    if kept.parent_sampled is False:
        attributes = {**(attributes or {}), PARENT_SAMPLED: False}
    state = parent.trace_state if parent.is_valid else kept.trace_state
    if kept.threshold is not None and not parent.is_valid:
        state = TraceState([(OT, f"th:{threshold_text(kept.threshold)}")])
    elif kept.parent_sampled is False:
        state = without_threshold(state)
    return SamplingResult(Decision.RECORD_AND_SAMPLE, attributes, state)


def without_threshold(state: TraceState | None) -> TraceState | None:
    """The tracestate without the probability of a decision that does not hold for this span."""
    entry = None if state is None else state.get(OT)
    if state is None or entry is None or "th:" not in entry:
        return state
    rest = ";".join(member for member in entry.split(";") if not member.startswith("th:"))
    return state.update(OT, rest) if rest else state.delete(OT)


# --- Ids ------------------------------------------------------------------------------------------------------------
class TorchspanIdGenerator(IdGenerator):
    """Random span and trace ids that repeat neither after `random.seed` nor after a compilation by Dynamo.

    Use it as `TracerProvider(id_generator=TorchspanIdGenerator())`, or set `OTEL_PYTHON_ID_GENERATOR=torchspan` if OpenTelemetry's
    configurator makes the provider. Python's global generator is neither read nor advanced. Generators of one process
    share one source, which a forked child seeds again.
    """

    hands_out_wanted = True

    def generate_span_id(self) -> int:
        """A random 64-bit number, never 0."""
        return IDS.generate_span_id()

    def generate_trace_id(self) -> int:
        """A random 128-bit number, never 0. For a span that torchspan's sampler is to keep, one that marks the span as kept."""
        return IDS.generate_trace_id()

    def is_trace_id_random(self) -> bool:
        """Whether samplers may use the bits of the last trace id; see the base class."""
        return IDS.is_trace_id_random()
