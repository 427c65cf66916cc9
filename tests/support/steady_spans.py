# SPDX-License-Identifier: Apache-2.0
"""Spans as they end, without those that depend on the speed of the machine."""

from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from torchspan.start.instrumentor import LIBRARIES

_PHASE, _BACKEND = "torch.compile_phase ", "torch.compile_phase backend_compile"
_WAIT = "torch.compile_wait"


class SteadySpans(InMemorySpanExporter):
    """Leaves out phases of torch.compile, waits and imports that are spans only because they took long.

    A phase stays if a span lies below it, because such a phase is a span however short it is. Traces of users have all
    of these spans. with_phases, with_waits: keep those. with_imports: of these libraries. The test
    controls how long they take.
    """

    def __init__(self):
        super().__init__()
        self.with_phases = self.with_waits = False
        self.with_imports = ()

    def get_finished_spans(self):
        spans = super().get_finished_spans()
        while len(steady := self._steady(spans)) < len(spans):
            spans = steady
        return spans

    def _steady(self, spans):
        """The spans without those at the ends of the tree that depend on the speed of the machine."""
        parents = {span.parent.span_id for span in spans if span.parent}
        return tuple(span for span in spans if span.context.span_id in parents or not self._may_be_short(span))

    def _may_be_short(self, span):
        """Whether there is such a span only if the work took long."""
        if span.name == "torchspan.import":
            return span.attributes["torchspan.import.module"] in {*LIBRARIES}.difference(self.with_imports)
        if span.name == _WAIT:
            return not self.with_waits
        return not self.with_phases and span.name.startswith(_PHASE) and span.name != _BACKEND
