# SPDX-License-Identifier: Apache-2.0
"""The hot path as the bridge puts it together, on a provider with any sampler, over a function of a test's."""

from opentelemetry.sdk.trace import TracerProvider

from support.ports import make_ports
from torchspan import phase
from torchspan.engine import Engine, RateLimits, RunSampling
from torchspan.engine.subscribers.callback_registry import Registry
from torchspan.hooks.adapters import Provenance
from torchspan.hooks.adapters.engine_runs import wrap_run
from torchspan.hooks.adapters.machinery.wrap import WrapperFactory
from torchspan.hooks.probes import PROBES, Runs
from torchspan.output.writer import SpanParents, SpanWriter

(OPERATOR, *_) = (each for each in PROBES if isinstance(each.action, Runs) and each.action.phase is phase.EXECUTE)
(CONTEXT, *_) = (each for each in PROBES if isinstance(each.action, Runs) and each.action.excluded_callers)
(MODULE, *_) = (each for each in PROBES if isinstance(each.action, Runs) and each.action.arguments is None)


class TrtEngine:
    """Stands for the engine that runs."""


def echo(input_tensors, engine):
    return input_tensors


class SampledRuns:
    """run: the hooked function. rules: those that are set for other samplers. clock: see `RunSampling`."""

    def __init__(
        self, sampler, original=echo, *, probe=OPERATOR, rules=None, clock=None, processors=(), ids=None, registry=None
    ):
        self.provider = TracerProvider(sampler=sampler, id_generator=ids, shutdown_on_exit=False)
        for each in processors:
            self.provider.add_span_processor(each)
        self.tracer = self.provider.get_tracer("app")
        self.sampling = RunSampling(RateLimits(), rules, clock=clock)
        self.parents = SpanParents()
        self.engine = Engine(registry or Registry())
        self.writer = SpanWriter(self.provider, parents=self.parents, holds=self.sampling.use)
        self.engine.listen([self.writer])
        self.provenance = Provenance()
        ports = make_ports(parents=self.parents, sampling=self.sampling)
        factory = WrapperFactory(self.engine, self.provenance)
        self.run = wrap_run(factory, ports, probe.target, probe.action, original)
        self.writer.look_for_provider()

    def close(self):
        self.engine.stop()
        self.parents.close()
