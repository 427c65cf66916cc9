# SPDX-License-Identifier: Apache-2.0
"""Metrics of real compilations and runs, against what the spans of the same run add up to."""

import time
from collections import Counter
from types import SimpleNamespace

import pytest
import torch
import torch_tensorrt
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

import torchspan
from pipeline.expected import since_2_13
from support import models
from support.metrics import Metrics
from support.tree import named
from torchspan.engine import rate_limits
from torchspan.start.instrumentor import LIBRARIES

OPERATOR = torch.ops.aten.special_i1e.default
COMPILE, EXECUTE = "torch_tensorrt.compile", "torch_tensorrt.execute"


def work(tracer, cache_folder):
    """Two compilations with an engine cache, the second of which hits, one by torch.compile, and runs of each kind."""
    x = models.image()
    cache = {
        "cache_built_engines": True,
        "reuse_cached_engines": True,
        "immutable_weights": False,
        "engine_cache_dir": str(cache_folder),
    }
    for _ in range(2):
        torch._dynamo.reset()
        program = torch_tensorrt.dynamo.trace(models.seeded(models.Fallback), arg_inputs=[x])
        module = torch_tensorrt.dynamo.compile(program, arg_inputs=[x], min_block_size=1, **cache)
    module(x)  # first runs
    for _ in range(3):
        module(x)  # no reader collects
    with tracer.start_as_current_span("request"):
        for _ in range(15):
            module(x)  # some are spans, the others folded
    torch.compile(models.seeded(models.Mlp), backend="tensorrt", options={"min_block_size": 50})(torch.ones(2, 16))
    return 2 * (1 + 3 + 15)


def seconds(span):
    return (span.end_time - span.start_time) / 1e9


def summed(spans, key, value):
    """key of a span -> the sum of value of a span."""
    found = Counter()
    for span in spans:
        found[key(span)] += value(span)
    return dict(found)


@pytest.fixture
def one_second(monkeypatch):
    """All runs are in one second of the limits, however slow the machine is."""
    now_s = time.perf_counter()
    monkeypatch.setattr(rate_limits, "time", SimpleNamespace(perf_counter=lambda: now_s))


@pytest.mark.usefixtures("one_second")
def test_each_metric_is_what_the_spans_of_the_same_run_add_up_to(instrument, exporter, metrics, tracer, tmp_path):
    exporter.with_phases = exporter.with_waits = True
    exporter.with_imports = LIBRARIES
    instrument(detail="passes", build_phases="on")
    runs = work(tracer, tmp_path)
    spans = [span for span in exporter.get_finished_spans() if span.instrumentation_scope.name == "torchspan"]
    compilations = [span for span in spans if span.name == COMPILE]

    entry_point = "torch_tensorrt.entry_point"
    of = lambda key: lambda span: span.attributes[key]
    assert metrics.counts("torch_tensorrt.compile.duration", entry_point) == summed(
        compilations, of(entry_point), lambda _: 1
    )
    assert metrics.sums("torch_tensorrt.compile.duration", entry_point) == pytest.approx(
        summed(compilations, of(entry_point), seconds)
    )

    def phase_of(span):
        """Names are the phase, with the target behind it where it has one."""
        has_target = span.name.startswith(("torch_tensorrt.pass ", "tensorrt.build_phase ", "torch.compile_phase "))
        return span.name.partition(" ")[0] if has_target else span.name

    measured_elsewhere = (COMPILE, EXECUTE, "torch.compile_frame", "torch.compile_phase")
    rest = [span for span in spans if phase_of(span) not in measured_elsewhere]
    of_torch = [span for span in rest if span.name.startswith("torch.")]
    rest = [span for span in rest if span not in of_torch]
    assert metrics.counts("torch.phase.duration", "torchspan.phase") == summed(of_torch, phase_of, lambda _: 1)
    counts = metrics.counts("torch_tensorrt.phase.duration", "torchspan.phase")
    assert counts == summed(rest, phase_of, lambda _: 1)
    assert {"torch_tensorrt.pass", "tensorrt.build_phase", "tensorrt.build_engine"} <= counts.keys()
    assert metrics.sums("torch_tensorrt.phase.duration", "torchspan.phase") == pytest.approx(
        summed(rest, phase_of, seconds)
    )

    sizes = [span.attributes["tensorrt.engine.size"] for span in spans if span.name == "torch_tensorrt.convert"]
    assert metrics.counts("tensorrt.engine.build.size") == {(): len(sizes)} == {(): 4}
    assert metrics.sums("tensorrt.engine.build.size") == {(): sum(sizes)}

    result = "torch_tensorrt.engine_cache.result"
    lookups = [span for span in spans if span.name == "torch_tensorrt.engine_cache.lookup"]
    assert metrics.values("torch_tensorrt.engine_cache.lookups", result) == summed(lookups, of(result), lambda _: 1)
    assert {span.attributes[result] for span in lookups} == {"miss", "hit"}

    operators, subgraphs = Counter(), Counter()
    for span in compilations:
        totals = "torch_tensorrt.fallback.totals"
        reasons = span.attributes[f"{totals}.reasons"]
        operators.update(dict(zip(reasons, span.attributes[f"{totals}.operators"], strict=True)))
        subgraphs.update(dict(zip(reasons, span.attributes[f"{totals}.subgraphs"], strict=True)))
    reason = "torch_tensorrt.fallback.reason_class"
    assert metrics.values("torch_tensorrt.fallback.operators", reason) == dict(operators)
    assert metrics.values("torch_tensorrt.fallback.subgraphs", reason) == dict(subgraphs)
    skipped = compilations[-1].attributes["torch_tensorrt.operators.total"]
    assert dict(operators) == {"no_converter": 2, "min_block_size": skipped}
    assert dict(subgraphs) == {"no_converter": 2, "min_block_size": 1}

    request = named(exporter.get_finished_spans(), "request").attributes
    executions = [span for span in spans if span.name == EXECUTE]
    assert request["torch_tensorrt.execute.folded.count"] > 0
    unseen = runs - len(executions) - request["torch_tensorrt.execute.folded.count"]
    assert unseen == 2 * 3
    assert metrics.counts("torch_tensorrt.execute.duration") == {(): runs}

    assert metrics.values("torchspan.span.emitted", "torchspan.phase") == summed(spans, phase_of, lambda _: 1)

    read = metrics.read()
    assert "torchspan.span.dropped" not in read
    assert "torchspan.callback.failures" not in read
    assert metrics.values("torch_tensorrt.build.active") == {(): 0}


def test_with_a_sampler_that_drops_everything_the_counts_are_the_same(instrument, provider, exporter, tmp_path):
    def counted(tracer_provider, folder):
        metrics = Metrics()
        instrument(tracer_provider=tracer_provider, meter_provider=metrics.provider, detail="passes", build_phases="on")
        work(tracer_provider.get_tracer("user"), folder)
        return {
            name: sorted((sorted(each.attributes.items()), each.value, each.count) for each in points)
            for name, points in metrics.read().items()
        }

    everything = counted(provider, tmp_path / "on")
    nothing = counted(TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False), tmp_path / "off")
    ((reason, dropped, _),) = nothing.pop("torchspan.span.dropped")
    assert reason == [("torchspan.dropped.reason", "sampler")]
    # Phases of torch.compile are spans only where they took long, and the two runs differ in that.
    assert dropped >= sum("torchspan.keep" in span.attributes for span in exporter.get_finished_spans())
    assert "torchspan.span.emitted" not in nothing
    del everything["torchspan.span.emitted"]
    assert everything == nothing
    assert everything["torch_tensorrt.execute.duration"] == [([], None, 38)]


class ManyPieces(torch.nn.Module):
    """Pieces for PyTorch of several reasons, and more kinds of operators in them than a list holds."""

    NAMES = ("airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "entr", "erfcx", "i0e", "i1", "i1e",
             "log_ndtr", "modified_bessel_i0", "modified_bessel_i1", "modified_bessel_k0", "modified_bessel_k1",
             "ndtri", "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "spherical_bessel_j0", "digamma",
             "gammaln", "psi", "i0")  # fmt: skip

    def forward(self, x):
        for name in self.NAMES:
            x = getattr(torch.special, name)(x)
        x = torch.sin(torch.cos(torch.relu(x)))
        x = torch.exp(torch.special.i1e(x))
        return torch.relu(torch.tanh(torch.sigmoid(x)))


@pytest.mark.parametrize("fast", [True, False], ids=["fast", "global"])
def test_fallback_is_exact_where_the_lists_on_the_spans_are_cut(instrument, exporter, metrics, fast):
    instrument()
    x = torch.ones(2, 8)
    program = torch_tensorrt.dynamo.trace(ManyPieces().eval(), arg_inputs=[x])
    excluded = {"torch.ops.aten.tanh.default"}
    torch_tensorrt.dynamo.compile(
        program, arg_inputs=[x], min_block_size=2, torch_executed_ops=excluded, use_fast_partitioner=fast
    )
    compilation = named(exporter.get_finished_spans(), COMPILE).attributes
    left = compilation["torch_tensorrt.operators.total"] - compilation["torch_tensorrt.operators.tensorrt"]
    assert compilation["torch_tensorrt.fallback.operators.omitted"] > 0
    assert sum(compilation["torch_tensorrt.fallback.operators.counts"]) < left
    reason = "torch_tensorrt.fallback.reason_class"
    operators = metrics.values("torch_tensorrt.fallback.operators", reason)
    assert sum(operators.values()) == left
    assert operators["user_excluded"] == 1
    assert operators["no_converter"] >= 24
    subgraphs = metrics.values("torch_tensorrt.fallback.subgraphs", reason)
    partition = named(exporter.get_finished_spans(), "torch_tensorrt.partition").attributes
    assert sum(subgraphs.values()) == partition["torch_tensorrt.subgraphs.torch"]
    assert bool(subgraphs) is fast, "the global partitioner leaves operators where they are"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_one_build_is_active_inside_a_compilation_and_none_after_it_failed(instrument, metrics, converter, error):
    instrument()
    seen = []

    def body():
        seen.append(metrics.values("torch_tensorrt.build.active"))
        raise error

    converter(body)
    with pytest.raises(error):
        torch_tensorrt.compile(models.seeded(models.Fallback), ir="dynamo", inputs=[models.image()], min_block_size=1)
    assert seen == [{(): 1}]
    assert metrics.values("torch_tensorrt.build.active") == {(): 0}
    assert metrics.counts("torch_tensorrt.compile.duration", "error.type") == {error.__name__: 1}
    failed = metrics.counts("torch_tensorrt.phase.duration", "torchspan.phase", "error.type")
    assert failed[("torch_tensorrt.convert", error.__name__)] == 1


def test_a_compilation_that_torch_compile_gives_up_leaves_the_whole_graph_to_pytorch(
    instrument, exporter, metrics, converter
):
    def body():
        raise RuntimeError  # of all exceptions the one that the library catches here

    converter(body)
    instrument()
    torch.compile(models.seeded(models.Fallback), backend="tensorrt", options={"min_block_size": 1})(models.image())
    compilation = named(exporter.get_finished_spans(), COMPILE).attributes
    reason = "torch_tensorrt.fallback.reason_class"
    assert metrics.values("torch_tensorrt.fallback.operators", reason) == {
        "compile_failed": compilation["torch_tensorrt.operators.total"]
    }
    assert metrics.values("torch_tensorrt.fallback.subgraphs", reason) == {"compile_failed": 1}


@pytest.fixture
def ready():
    yield torchspan.mark_ready
    torchspan.mark_not_ready()


def test_a_compilation_while_serving_is_marked_on_its_span_and_its_metrics(
    instrument, exporter, metrics, tracer, ready
):
    instrument()
    compiled = torch.compile(
        models.seeded(models.Mlp), backend="tensorrt", dynamic=False, options={"min_block_size": 1}
    )
    compiled(torch.ones(2, 16))
    with tracer.start_as_current_span("GET /", kind=trace.SpanKind.SERVER):
        compiled(torch.ones(3, 16))  # another shape: compiled again, while a caller waits
    ready()
    compiled(torch.ones(4, 16))
    marks = [
        span.attributes.get("torchspan.while_serving") for span in exporter.get_finished_spans() if span.name == COMPILE
    ]
    assert marks == [None, True, True]
    assert metrics.counts("torch_tensorrt.compile.duration", "torchspan.while_serving") == {None: 1, True: 2}
    counted = metrics.values("torchspan.serving.compilations", "torchspan.phase", "torchspan.serving.kind")
    assert counted == {("torch.compile_frame", "recompilation"): 2}, (
        "the compilation by Torch-TensorRT is inside the frame"
    )


def test_a_sampler_sees_that_a_compilation_is_while_serving(instrument, ready):
    from pipeline.test_sampling import Asked

    sampler = Asked()
    instrument(tracer_provider=TracerProvider(sampler=sampler, shutdown_on_exit=False))
    ready()
    torch_tensorrt.compile(models.seeded(models.Mlp), ir="dynamo", inputs=[torch.ones(2, 16)], min_block_size=1)
    assert sampler.seen[COMPILE]["torchspan.while_serving"] is True


@since_2_13
def test_exporting_a_compiled_module_counts_no_run(instrument, metrics):
    instrument()
    x = torch.ones(2, 16)
    module = torch_tensorrt.compile(models.seeded(models.Mlp), ir="dynamo", inputs=[x], min_block_size=1)
    module(x)
    torch.export.export(module, (x,))
    assert metrics.counts("torch_tensorrt.execute.duration") == {(): 1}


def test_results_are_the_same_bit_by_bit_while_runs_are_timed(instrument, metrics):
    x = torch.ones(2, 16)
    instrument(meter_provider=None)
    module = torch_tensorrt.compile(models.seeded(models.Mlp), ir="dynamo", inputs=[x], min_block_size=1)
    expected = module(x)
    instrument()
    assert torch.equal(module(x), expected)
    assert metrics.counts("torch_tensorrt.execute.duration") == {(): 1}


def test_a_compilation_is_counted_by_its_outcome(instrument, metrics):
    instrument()
    x = models.image()
    torch_tensorrt.compile(models.seeded(models.ConvNet), ir="dynamo", inputs=[x], min_block_size=1)
    torch_tensorrt.compile(models.seeded(models.Fallback), ir="dynamo", inputs=[x], min_block_size=1)
    with pytest.raises(AssertionError):
        torch_tensorrt.compile(
            models.seeded(models.Fallback), ir="dynamo", inputs=[x], min_block_size=1, require_full_compilation=True
        )
    keys = ("torch_tensorrt.compile.outcome", "error.type")
    assert metrics.counts("torch_tensorrt.compile.duration", *keys) == {
        ("complete", None): 1,
        ("fallback", None): 1,
        ("failed", "AssertionError"): 1,
    }


def test_a_conversion_is_timed_by_what_the_engine_cache_had(instrument, metrics, tracer, tmp_path):
    instrument()
    work(tracer, tmp_path)
    keys = ("torchspan.phase", "torch_tensorrt.engine_cache.result")
    counts = metrics.counts("torch_tensorrt.phase.duration", *keys)
    assert {key: count for key, count in counts.items() if key[1]} == {
        ("torch_tensorrt.convert", "miss"): 2,
        ("torch_tensorrt.convert", "hit"): 2,
        ("torch_tensorrt.engine_cache.lookup", "miss"): 2,
        ("torch_tensorrt.engine_cache.lookup", "hit"): 2,
    }
