# SPDX-License-Identifier: Apache-2.0
"""Spans like those of a job that compiles models with torch.compile and Torch-TensorRT, in one trace, as long as is asked for.

The tree, names, attributes and durations are those of `torchspan demo` and `torchspan demo --torch-compile`, with random
numbers that depend on the seed alone. The SDK makes the spans, and torchspan's exporter writes them.
"""

import contextlib
import random
from pathlib import Path

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator

from torchspan import phase
from torchspan.sdk import FileSpanExporter
from torchspan.words import semconv

START_NS = 1_795_257_760_000_000_000
BATCH = 512
MODELS = {
    "ConvNet": ("stem", "layers", "head"),
    "BertModel": ("embeddings", "encoder.layer", "pooler"),
    "LlamaDecoder": ("embed_tokens", "layers", "lm_head"),
    "ViT": ("patch_embedding", "blocks", "classifier"),
}
OPERATORS = (
    "convolution",
    "linear",
    "relu",
    "_softmax",
    "layer_norm",
    "gelu",
    "add.Tensor",
    "matmul",
    "permute",
    "cat",
)
PASSES = ("constant_fold", "remove_detach", "fuse_prims_broadcast", "repair_input_as_output", "complex_lowering_pass",
          "annotate_fp8_sdpa", "normalize_negative_slice_stop", "remove_assert_nodes")  # fmt: skip
BUILD_PHASES = ("Optimizing graph", "Timing graph nodes", "Timing tensor reformats", "Computing reformatting costs",
                "Timing tactics", "Determining refit engines", "Generating code", "Optimizing memory")  # fmt: skip
FRAME_PHASES = ("inductor_codecache_torch_key", "_recursive_pre_grad_passes", "aot_collect_metadata",
                "aot_trace_joint_graph", "min_cut_rematerialization_partition")  # fmt: skip
INDUCTOR_PHASES = ("additional_fake_tensor_prop", "_recursive_post_grad_passes", "GraphLowering.run",
                   "Scheduler.fused_nodes", "Scheduler.codegen", "PythonWrapperCodegen.generate")  # fmt: skip


def written(path: Path, count: int, seed: int = 0) -> Path:
    """The path of a new file with so many spans."""
    memory, ids = InMemorySpanExporter(), _Ids(seed)
    resource = Resource.create({"service.name": "trainer", "service.instance.id": "5f2b7dd45a0ada62"})
    provider = TracerProvider(resource=resource, id_generator=ids, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    _Job(provider.get_tracer(semconv.SCOPE_NAME, "1.0"), count, seed).run()
    spans, exporter = memory.get_finished_spans(), FileSpanExporter(path)
    for first in range(0, count, BATCH):
        if exporter.export(spans[first : first + BATCH]) is not SpanExportResult.SUCCESS:
            raise SystemExit(f"{path} could not be written")
    exporter.shutdown()
    return path


class _Ids(IdGenerator):
    def __init__(self, seed):
        self._random = random.Random(seed)

    def generate_span_id(self):
        return self._random.getrandbits(64) or 1

    def generate_trace_id(self):
        return self._random.getrandbits(128) or 1


class _Job:
    """Its clock moves in `_work` alone."""

    def __init__(self, tracer, count, seed):
        self._tracer, self._left, self._random, self._now_ns = tracer, count, random.Random(seed), START_NS

    def run(self):
        with self._span("training"):
            for number in range(self._left):
                if not self._left:
                    break
                if self._random.random() < 0.5:
                    self._compile()
                else:
                    self._frame(number)
                self._work(20)

    # --- Torch-TensorRT ----------------------------------------------------------------------------------------------

    def _compile(self):
        model, nodes = self._random.choice(list(MODELS)), self._random.randint(40, 4000)
        engines, total = self._random.randint(1, 6), self._random.randint(30, 900)
        facts = {
            semconv.ENTRY_POINT: "torch_tensorrt.compile",
            semconv.IR: "dynamo",
            semconv.TORCH_VERSION: "2.14.1+cu130",
            semconv.TORCH_TENSORRT_VERSION: "2.14.0",
            semconv.TENSORRT_VERSION: "10.16.1",
            "torch_tensorrt.settings.min_block_size": self._random.randint(1, 9),
            "torch_tensorrt.settings.use_fast_partitioner": True,
            "torch_tensorrt.settings.cache_built_engines": self._random.random() < 0.5,
            "torch_tensorrt.settings.workspace_size": 0,
        }
        with self._span(phase.COMPILE, {semconv.MODEL_CLASS: model, **facts}) as compiled:
            for stage in (phase.TRACE, phase.LOWER_PRE_EXPORT, phase.DECOMPOSE, phase.LOWER):
                with self._span(stage, {semconv.MODEL_CLASS: model, semconv.NODES_BEFORE: nodes}) as span:
                    for name in PASSES if stage is phase.LOWER else ():
                        about = {semconv.PASS_NAME: name, semconv.NODES_BEFORE: nodes}
                        with self._span(f"{phase.PASS.name} {name}", about) as one:
                            self._work(0.4)
                            nodes -= self._random.randint(0, 3)
                            one.set_attribute(semconv.NODES_AFTER, nodes)
                    self._work(40)
                    span.set_attribute(semconv.NODES_AFTER, nodes)
            with self._span(phase.PARTITION, {semconv.PARTITIONER: "fast", semconv.OPERATORS_TOTAL: total}):
                self._work(6)
            for number in range(engines):
                self._convert(model, f"_run_on_acc_{2 * number}", total // engines)
            refused = self._random.randint(0, 3)
            compiled.set_attributes(
                {
                    semconv.OPERATORS_TOTAL: total,
                    semconv.OPERATORS_TENSORRT: total - refused,
                    semconv.COVERAGE: (total - refused) / total,
                    semconv.ENGINE_COUNT: engines,
                    semconv.COMPILE_OUTCOME: "fallback" if refused else "full",
                    semconv.FALLBACK_REASON_CLASSES: ["no_converter"] * bool(refused),
                    **self._steps("ExportedProgram.module", "get_decompositions", "construct_submodule_inputs"),
                }
            )

    def _convert(self, model, engine, operators):
        size, engine_id = self._random.randint(10**5, 10**9), self._digest()
        first, middle, _ = MODELS[model]
        facts = {
            semconv.MODEL_CLASS: model,
            semconv.ENGINE_NAME: engine,
            semconv.ENGINE_MODULES: [
                f"{first}.{self._random.randint(0, 3)}",
                f"{middle}.{self._random.randint(4, 31)}",
            ],
            semconv.ENGINE_OPERATORS: operators,
            semconv.INPUT_SHAPES: [self._shape() for _ in range(self._random.randint(1, 3))],
            semconv.INPUT_DTYPES: ["float16"],
        }
        with self._span(phase.CONVERT, facts) as span:
            used = self._random.sample(OPERATORS, 4)
            counts = [self._random.randint(1, 40) for _ in used]
            converters = {
                semconv.NETWORK_LAYERS: operators * 2,
                semconv.CONVERTER_OPERATORS: [f"torch.ops.aten.{name}" for name in used],
                semconv.CONVERTER_COUNTS: counts,
                semconv.CONVERTER_DURATIONS: [self._random.expovariate(2000) for _ in used],
            }
            with self._span(phase.CONSTRUCT_NETWORK, converters):
                self._work(9)
            builder = {
                semconv.NETWORK_LAYERS: operators * 2,
                semconv.BUILDER_FLAGS: ["FP16", "TF32"],
                semconv.BUILDER_LEVEL: 3,
                semconv.BUILDER_WORKSPACE: 68_719_476_736,
                semconv.MEMORY_BEFORE: self._random.randint(10**8, 10**10),
                semconv.ENGINE_SIZE: size,
                semconv.ENGINE_ID: engine_id,
            }
            with self._span(phase.BUILD_ENGINE, builder), self._build_phase("Building engine"):
                for name in ("Cloning network graph", "Preparing graph for optimization"):
                    with self._build_phase(name):
                        self._work(1)
                for _ in range(self._random.randint(1, 4)):
                    with self._build_phase("Building engine from subgraph"):
                        for name in self._random.sample(BUILD_PHASES, self._random.randint(2, 8)):
                            with self._build_phase(name):
                                self._work(60)
            with self._span(phase.SETUP_ENGINE, {semconv.ENGINE_NAME: engine, semconv.ENGINE_ID: engine_id}):
                with self._span(phase.DESERIALIZE_ENGINE, {semconv.ENGINE_SIZE: size}):
                    self._work(12)
                self._work(2)
            if self._random.random() < 0.03:
                message = f"Could not find any implementation for node {engine}_{self._random.randint(0, 500)}"
                span.record_exception(RuntimeError(message), timestamp=self._now_ns)
                span.set_status(trace.StatusCode.ERROR)
            span.set_attributes({semconv.ENGINE_SIZE: size, semconv.ENGINE_ID: engine_id, **self._steps("serialize")})

    def _build_phase(self, name):
        return self._span(f"{phase.BUILD_PHASE.name} {name}", {semconv.BUILD_PHASE_NAME: name})

    # --- torch.compile -----------------------------------------------------------------------------------------------

    def _frame(self, number):
        model = self._random.choice(list(MODELS))
        facts = {
            semconv.COMPILE_ID: f"{number}/{self._random.randint(0, 2)}",
            semconv.CODE_FUNCTION: "forward",
            semconv.CODE_FILE: f"models/{model.lower()}.py",
            semconv.CODE_LINE: self._random.randint(10, 900),
        }
        with self._span(phase.COMPILE_FRAME, facts) as frame:
            with self._compile_phase("bytecode_tracing"):
                self._work(80)
            with self._compile_phase("backend_compile"):
                for name in FRAME_PHASES:
                    with self._compile_phase(name):
                        self._work(15)
                with self._compile_phase("inductor_compile"), self._compile_phase("fx_codegen_and_compile"):
                    for name in INDUCTOR_PHASES:
                        with self._compile_phase(name):
                            self._work(10)
                    self._workers(self._random.randint(1, 4))
            with self._compile_phase("build_guards"):
                self._work(12)
            parts = [f"inductor_config[{name}.*]" for name in OPERATORS]
            frame.set_attributes(
                {
                    semconv.FRAME_OUTCOME: "compiled",
                    semconv.GUARDS_COUNT: self._random.randint(5, 400),
                    semconv.GRAPH_OPERATORS: self._random.randint(1, 300),
                    semconv.INDUCTOR_CACHE: self._random.choice(("hit", "miss")),
                    semconv.INDUCTOR_CACHE_KEY: self._digest(),
                    semconv.INDUCTOR_CACHE_KEY_PARTS: parts,
                    semconv.INDUCTOR_CACHE_KEY_DIGESTS: [self._digest() for _ in parts],
                    **self._steps("gc"),
                }
            )
            if self._random.random() < 0.3:
                size = self._random.randint(2, 512)
                reason = f"tensor 'x' size mismatch at index 0. expected {size}, actual {size + 1}"
                about = {semconv.RECOMPILE_CLASS: "size", semconv.RECOMPILE_REASON: reason}
                frame.add_event("torch.compile.recompile", about, timestamp=self._now_ns)

    def _compile_phase(self, name):
        return self._span(f"{phase.COMPILE_PHASE.name} {name}", {semconv.COMPILE_PHASE_NAME: name})

    def _workers(self, count):
        """Threads that begin together, and the wait for the last one."""
        begin_ns, ends_ns = self._now_ns, []
        for number in range(count):
            self._now_ns = begin_ns
            facts = {semconv.WORKER_KIND: "thread", semconv.THREAD_ID: 140_207_127_000_768 + number}
            with self._span(phase.COMPILE_WORKER, facts), self._compile_phase("compile_file"):
                self._work(300)
            ends_ns.append(self._now_ns)
        self._now_ns = begin_ns
        with self._compile_phase("async_compile.wait"):
            self._now_ns = max(ends_ns)

    # --- both --------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _span(self, name, attributes=None):
        """A span around the work inside, or nothing once there are enough."""
        if not self._left:
            yield trace.INVALID_SPAN
            return
        self._left -= 1
        start_ns = self._now_ns
        self._work(0.05)
        span = self._tracer.start_span(
            str(getattr(name, "name", name)), attributes={**(attributes or {}), semconv.KEEP: True}, start_time=start_ns
        )
        with trace.use_span(span):
            yield span
        self._work(0.05)
        took_s = (self._now_ns - start_ns) / 1e9
        if took_s >= 0.001 and semconv.BUILD_PHASE_NAME not in span.attributes:
            span.set_attribute(semconv.CPU_THREAD_TIME, round(took_s * self._random.uniform(0.2, 1), 9))
        span.end(self._now_ns)

    def _work(self, median_ms):
        self._now_ns += round(median_ms * 1e6 * self._random.lognormvariate(0, 1))

    def _shape(self):
        return str([self._random.choice((1, 8, 32)), *(2 ** self._random.randint(3, 11) for _ in range(3))])

    def _digest(self):
        return f"{self._random.getrandbits(64):016x}"

    def _steps(self, *names):
        return {
            semconv.STEP_NAMES: names,
            semconv.STEP_COUNTS: [self._random.randint(1, 9) for _ in names],
            semconv.STEP_DURATIONS: [self._random.expovariate(100) for _ in names],
        }
