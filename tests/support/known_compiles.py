# SPDX-License-Identifier: Apache-2.0
"""A known set of real traced compilations, and what the process that did them emitted.

Run as a program, it does the steps that it reads, one a line, on Torch-TensorRT's real pipeline without a GPU. It exports by
OTLP as the variables of OpenTelemetry say, and writes everything that it hands to the exporters to files as well.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

STEPS = ("good", "cached", "fallback", "failing", "frames")
"""What a process can be asked for, each once or more; an engine cache is shared by processes of one folder. `INDUCTOR` is a
further one.

good: a compilation with the engine cache, then three runs below a SERVER span `POST /predict` of the program, the last with
another shape, and one that raises because of its shape. cached: the same model again, whose engine comes from the
cache, below such a SERVER span, and a run. fallback: a model with an operator that has no converter, and two runs of its two
engines, the second of which no span is around; then two runs of an execution context of the program's own below a SERVER span,
and one that returns False. failing: a compilation that raises for such an operator, below a span `job` of the program. frames: what
torch.compile does without Torch-TensorRT, below such a SERVER span: graph breaks, a recompilation for a size, a recompile limit, a backward
graph, a function without a graph, a backend that fails, caught and not.
"""
IN_PROCESSES = (("good",), ("cached",), ("fallback",), ("failing", "frames"))
"""The same steps for processes that end after one or two."""
INDUCTOR = "inductor"
"""A step: the same graph three times for Inductor, whose own cache has it the second time, and AOTAutograd's the third."""
FAULTS = {"KNOWN_COMPILES_FAULTS": "1"}
"""Variables of a process in which one callback raises for each compilation."""
TRACES, METRICS = "spans.jsonl", "metrics.jsonl"
_PAUSING = "pausing"
WAIT_S = 240
"""For a step, the start included. Generous: machines that test are busy."""


# --- on the side of a test ----------------------------------------------------------------------------------------


@dataclass
class Emitted:
    """What one process handed to its exporters so far, read from its files."""

    folder: Path

    def trace_messages(self):
        """ExportTraceServiceRequests, a span each, in the order in which the spans ended."""
        return self._messages(TRACES, ExportTraceServiceRequest)

    def metric_messages(self):
        """ExportMetricsServiceRequests, one for each export; counts in them continue from export to export."""
        return self._messages(METRICS, ExportMetricsServiceRequest)

    def spans(self):
        """The spans, as messages of OTLP, in the order in which they ended."""
        return [
            span
            for message in self.trace_messages()
            for of_resource in message.resource_spans
            for of_scope in of_resource.scope_spans
            for span in of_scope.spans
        ]

    def _messages(self, name, kind):
        path = self.folder / name
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        return [json_format.Parse(line, kind()) for line in text.splitlines()]


@dataclass
class KnownProcess:
    """A process that does steps when it is asked to. results: what each step returned, as data that can be compared."""

    emitted: Emitted
    process: subprocess.Popen = field(repr=False)
    results: list = field(default_factory=list)
    _lines: list = field(default_factory=list, repr=False)
    _came: threading.Condition = field(default_factory=threading.Condition, repr=False)

    def do(self, step, *, while_it_builds=None):
        """Have a step done; returns its result. while_it_builds: called while the builder of each engine waits for it.

        What was measured so far has been exported when `while_it_builds` is called.
        """
        result = self._answer_to(step if while_it_builds is None else f"{step} {_PAUSING}")
        while result == _PAUSING:
            while_it_builds()
            result = self._answer_to("continue")
        self.results.append(result)
        return result

    def export(self):
        """Have everything so far exported, as a reader's interval does; returns whether the exporters said that it arrived."""
        return self._answer_to("export")

    def end(self):
        """Have the process end as a program does, and return its exit status."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        return self.process.wait(WAIT_S)

    def said(self):
        """What it printed to standard error."""
        return (self.emitted.folder / "stderr.txt").read_text(encoding="utf-8")

    def _answer_to(self, request):
        self.process.stdin.write(f"{request}\n")
        self.process.stdin.flush()
        with self._came:
            came = self._came.wait_for(lambda: self._lines or self.process.poll() is not None, WAIT_S)
            assert came and self._lines, f"no answer to {request!r}:\n{self.said()}"
            answer = self._lines.pop(0)
        if answer is None:
            raise AssertionError(f"it ended at {request!r}:\n{self.said()}")
        return json.loads(answer)

    def _read(self):
        for line in self.process.stdout:
            self._put(line)
        self._put(None)

    def _put(self, line):
        with self._came:
            self._lines.append(line)
            self._came.notify_all()


@contextlib.contextmanager
def process(folder, environment, *, cache=None):
    """A KnownProcess that has its files in `folder`, which is made, and exports as `environment` says.

    environment: OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_PROTOCOL (`grpc`, else HTTP), OTEL_SERVICE_NAME and so on.
    cache: folder of the engine cache; that of the process's own folder where it is None.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "TORCHSPAN_"))}
    tests = str(Path(__file__).resolve().parents[1])
    variables = {
        "PYTHONPATH": os.pathsep.join(filter(None, [tests, clean.get("PYTHONPATH", "")])),
        "TMPDIR": str(folder),
        "OTEL_METRIC_EXPORT_INTERVAL": "3600000",  # exports are asked for
        "TORCHINDUCTOR_COMPILE_THREADS": "1",  # no processes of its own
        **environment,
    }
    with (folder / "stderr.txt").open("w", encoding="utf-8") as said:
        started = subprocess.Popen(
            [sys.executable, "-W", "ignore", __file__, str(folder), str(cache or folder / "engine-cache")],
            env={**clean, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
        )
    known = KnownProcess(Emitted(folder), started)
    reading = threading.Thread(target=known._read, daemon=True)
    reading.start()
    try:
        yield known
    finally:
        known.end() if started.poll() is None else started.stdin.close()
        reading.join(WAIT_S)
        started.stdout.close()


def one_process(folder, environment, steps=STEPS, *, after_each=lambda: None, while_it_builds=None):
    """Do the steps in one process that lives on; what it emitted. Exports before the first, between them and at the end.

    after_each: called after each export. while_it_builds: see `KnownProcess.do`, for the first step.
    """
    with process(folder, environment) as known:
        known.export()
        after_each()
        for step in steps:
            known.do(step, while_it_builds=while_it_builds if step == steps[0] else None)
            known.export()
            after_each()
        assert known.end() == 0, known.said()
    return [known.emitted]


def process_each(folder, environment, processes=IN_PROCESSES):
    """Do the steps in processes that end after theirs, one after the other; what each of them emitted."""
    cache, done = Path(folder) / "engine-cache", []
    for number, steps in enumerate(processes):
        with process(Path(folder) / f"{number}-{steps[0]}", environment, cache=cache) as known:
            for step in steps:
                known.do(step)
            assert known.end() == 0, known.said()
        done.append(known.emitted)
    return done


# --- the program ----------------------------------------------------------------------------------------------------


def main(folder, cache):
    """Enable torchspan, then do what standard input asks for and answer with a line of JSON each."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is not an answer; TensorRT's logger does so in C++
    sys.stdout = sys.stderr
    spans, metrics = _start(Path(folder))
    work = _Work(cache)

    def answer(value):
        print(json.dumps(value), file=answers, flush=True)

    def pause(_record):
        metrics.force_flush()
        answer(_PAUSING)
        sys.stdin.readline()

    for line in sys.stdin:
        step, *options = line.split()
        with _calling(pause) if options else contextlib.nullcontext():
            answer(_export(spans, metrics) if step == "export" else getattr(work, step)())
    metrics.shutdown()
    spans.shutdown()


def _start(folder):
    from opentelemetry import metrics, trace
    from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter, SpanExportResult

    from torchspan import TorchspanInstrumentor, phase
    from torchspan.callbacks import RecordFunctionCallback, add_global_callback

    if os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL") == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    else:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    def write(name, message):
        with (folder / name).open("a", encoding="utf-8") as file:
            file.write(json_format.MessageToJson(message, indent=None) + "\n")

    class SpansToFile(SpanExporter):
        def export(self, spans):
            write(TRACES, encode_spans(spans))
            return SpanExportResult.SUCCESS

    class MetricsToFileToo(OTLPMetricExporter):
        def export(self, metrics_data, *arguments, **options):
            write(METRICS, encode_metrics(metrics_data))
            return super().export(metrics_data, *arguments, **options)

    spans = TracerProvider(shutdown_on_exit=False)
    spans.add_span_processor(SimpleSpanProcessor(SpansToFile()))
    spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    if os.environ.get("KNOWN_COMPILES_FAULTS"):
        add_global_callback(RecordFunctionCallback(lambda _record: 1 / 0, scopes={phase.COMPILE}))
    trace.set_tracer_provider(spans)
    measured = MeterProvider([PeriodicExportingMetricReader(MetricsToFileToo())], shutdown_on_exit=False)
    metrics.set_meter_provider(measured)
    TorchspanInstrumentor().instrument(without_gpu=True)
    return spans, measured


@contextlib.contextmanager
def _calling(function):
    """Call the function where each engine begins to be built."""
    from torchspan import phase
    from torchspan.callbacks import RecordFunctionCallback, add_global_callback, remove_callback

    handle = add_global_callback(RecordFunctionCallback(function, scopes={phase.BUILD_ENGINE}))
    try:
        yield
    finally:
        remove_callback(handle)


def _export(spans, metrics):
    """Whether both arrived, as far as the SDK says."""
    return [spans.force_flush(), metrics.force_flush()]


class _Work:
    """The steps."""

    def __init__(self, cache):
        import torch
        import torch_tensorrt
        from opentelemetry import trace

        from support import models

        self._torch, self._trt, self._trace, self._models = torch, torch_tensorrt, trace, models
        self._tracer = trace.get_tracer("known_compiles")
        self._cache = {
            "cache_built_engines": True,
            "reuse_cached_engines": True,
            "immutable_weights": False,
            "engine_cache_dir": cache,
        }

    def good(self):
        module = self._mlp()
        with self._request():
            results = [_numbers(module(self._rows(rows))) for rows in (2, 2, 3)]
        with self._request():
            try:
                module(self._rows(2)[:, 1:])
            except Exception as error:
                return [*results, type(error).__name__]
        raise RuntimeError("it ran")

    def cached(self):
        with self._request():
            return [_numbers(self._mlp()(self._rows(2)))]

    def fallback(self):
        module = self._compile(self._models.Fallback, self._models.image())
        results = [_numbers(module(self._models.image())) for _ in range(2)]
        return [*results, *self._runs_of_a_context(module)]

    def failing(self):
        with self._tracer.start_as_current_span("job"):
            try:
                self._compile(self._models.Fallback, self._models.image(), require_full_compilation=True)
            except AssertionError as error:
                return [type(error).__name__]
        raise RuntimeError("it compiled")

    def frames(self):
        from support import compiled

        config, ones = self._torch._dynamo.config, self._torch.ones(3, 3)
        run = self._compiled

        def failing(_graph, _inputs):
            raise ValueError("no graph is good enough")

        with self._request():
            results = [_numbers(run(compiled.breaks_twice)(ones)), run(compiled.without_a_tensor)(ones)]
            sized = run(compiled.plain, dynamic=False)
            results += [_numbers(sized(self._torch.ones(rows, 3))) for rows in (1, 2, 2)]
            with config.patch(recompile_limit=2):
                limited = run(compiled.adds, dynamic=False)
                results += [_numbers(limited(ones, number)) for number in range(4)]
            run(compiled.product, backend="aot_eager")(self._torch.ones(3, 3, requires_grad=True)).backward()
            try:
                run(compiled.halves, backend=failing)(ones)
            except Exception as error:
                results.append(type(error).__name__)
            with config.patch(suppress_errors=True):
                results.append(_numbers(run(compiled.halves, backend=failing)(ones)))
        return results

    def inductor(self):
        from support import compiled

        results = []
        with self._tracer.start_as_current_span("job"):
            for of_autograd in (True, False, True):
                self._torch._dynamo.reset()
                with self._torch._functorch.config.patch(enable_autograd_cache=of_autograd):
                    function = self._compiled(compiled.square, backend="inductor")
                    results.append(_numbers(function(self._torch.ones(3, 3))))
        return results

    def _compiled(self, function, *, backend="eager", **options):
        return self._torch.compile(function, backend=backend, **options)

    def _runs_of_a_context(self, module):
        """As a program does that uses TensorRT without Torch-TensorRT."""
        trt = sys.modules["tensorrt_rtx"]
        plan = next(each.serialized_engine for each in module.modules() if hasattr(each, "serialized_engine"))
        engine = trt.Runtime(trt.Logger(trt.Logger.ERROR)).deserialize_cuda_engine(plan)
        context, unbound = engine.create_execution_context(), engine.create_execution_context()
        tensors = (self._models.image(), self._torch.zeros(2, 8, 14, 14))
        for index, tensor in enumerate(tensors):
            context.set_tensor_address(engine.get_tensor_name(index), tensor.data_ptr())
        with self._request():
            results = [context.execute_async_v3(0) for _ in range(2)]
        with self._request():
            return [*results, unbound.execute_async_v3(0)]

    def _request(self):
        return self._tracer.start_as_current_span("POST /predict", kind=self._trace.SpanKind.SERVER)

    def _mlp(self):
        batches = self._trt.Input(min_shape=(2, 16), opt_shape=(2, 16), max_shape=(8, 16))
        return self._compile(self._models.Mlp, batches, **self._cache)

    def _rows(self, count):
        return self._torch.linspace(-1, 1, count * 16).reshape(count, 16)

    def _compile(self, model, example, **settings):
        module = self._models.seeded(model)
        return self._trt.compile(module, ir="dynamo", inputs=[example], min_block_size=1, **settings)


def _numbers(tensor):
    """Rounded so that a line stays readable."""
    return [round(each, 5) for each in tensor.flatten().tolist()]


if __name__ == "__main__":
    main(*sys.argv[1:])
