# SPDX-License-Identifier: Apache-2.0
"""Layer times of a real engine: their sum against the run, and the context afterwards."""

import statistics

import torch
from torch_tensorrt._features import tensorrt

import torchspan
from support import gpu_runs
from torchspan.words import semconv

pytestmark = gpu_runs.MARKS
EXECUTE, RUNS = "torch_tensorrt.execute", 20
NAMES = semconv.LAYER_NAMES


class Counting(tensorrt.IProfiler):
    """The program's own profiler."""

    def __init__(self):
        super().__init__()
        self.reports = 0

    def report_layer_time(self, layer_name, ms):
        self.reports += 1


def run(module, tracer, times):
    x = gpu_runs.rows()
    with tracer.start_as_current_span("request"):
        for _ in range(times):
            module(x)
            torch.cuda.synchronize()


def test_the_times_of_the_layers_add_up_to_the_time_of_the_run(timed, exporter, tracer, figure):
    timed()
    module = gpu_runs.compiled(python=True)
    exporter.clear()
    torchspan.layers(runs=RUNS)
    run(module, tracer, RUNS)
    runs = gpu_runs.arrived(exporter, EXECUTE, RUNS)
    (table,) = [span.attributes for span in runs if NAMES in span.attributes]
    assert table[semconv.LAYER_RUNS] == RUNS
    layers_ms = sum(table[semconv.LAYER_DURATIONS]) * 1000
    layers_ms += table.get(semconv.LAYERS_OMITTED_DURATION, 0) * 1000
    run_ms = statistics.median(span.attributes[semconv.EXECUTE_GPU_DURATION] for span in runs) * 1000
    figure("sum of the layers: the run", layers_ms, run_ms, "ms", (run_ms * 0.7, run_ms * 1.05))


def test_afterwards_the_context_reports_nothing_and_logs_no_error(timed, exporter, tracer, capfd):
    timed()
    module = gpu_runs.compiled(python=True)
    capfd.readouterr()
    torchspan.layers(runs=3)
    run(module, tracer, 3)
    gpu_runs.arrived(exporter, EXECUTE, 3)
    exporter.clear()
    context = gpu_runs.context_of(module)
    assert (context.enqueue_emits_profile, context.profiler.ms) == (False, {})
    run(module, tracer, 3)
    assert [NAMES in span.attributes for span in gpu_runs.arrived(exporter, EXECUTE, 3)] == [False, False, False]
    assert context.profiler.ms == {}
    assert capfd.readouterr().err == ""


def test_a_context_has_a_second_table_when_asked_again(timed, exporter, tracer):
    timed()
    module = gpu_runs.compiled(python=True)
    exporter.clear()
    for _ in range(2):
        torchspan.layers(runs=2)
        run(module, tracer, 2)
    runs = gpu_runs.arrived(exporter, EXECUTE, 4)
    assert [span.attributes.get(semconv.LAYER_RUNS) for span in runs] == [None, 2, None, 2]


def test_a_profiler_of_the_program_gets_every_report_and_stays(timed, exporter, tracer):
    timed()
    module = gpu_runs.compiled(python=True)
    own = Counting()
    gpu_runs.context_of(module).profiler = own
    run(module, tracer, 1)
    of_one_run = own.reports
    assert of_one_run > 0
    torchspan.layers(runs=3)
    run(module, tracer, 3)
    gpu_runs.arrived(exporter, EXECUTE, 3)
    assert gpu_runs.context_of(module).profiler is own
    run(module, tracer, 1)
    assert own.reports == 5 * of_one_run


def test_layers_of_a_context_that_the_program_made_add_up_to_its_time(timed, exporter, tracer, figure):
    timed()
    x, module = gpu_runs.rows(), gpu_runs.compiled()
    (plan,) = [child.serialized_engine for child in module.modules() if hasattr(child, "serialized_engine")]
    engine = tensorrt.Runtime(tensorrt.Logger(tensorrt.Logger.ERROR)).deserialize_cuda_engine(plan)
    context, output = engine.create_execution_context(), torch.empty_like(x)
    names = [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]
    for name in names:
        is_input = engine.get_tensor_mode(name) == tensorrt.TensorIOMode.INPUT
        if is_input:
            context.set_input_shape(name, tuple(x.shape))
        context.set_tensor_address(name, (x if is_input else output).data_ptr())
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    stream = torch.cuda.current_stream()
    took_ms = []
    torchspan.layers(runs=RUNS)
    with tracer.start_as_current_span("request"):
        for _ in range(RUNS):
            start.record(stream)
            assert context.execute_async_v3(stream.cuda_stream)
            end.record(stream)
            torch.cuda.synchronize()
            took_ms.append(start.elapsed_time(end))
    torch.testing.assert_close(output, module(x))
    runs = [span for span in exporter.get_finished_spans() if span.name == "tensorrt.execute"]
    (table,) = [span.attributes for span in runs if NAMES in span.attributes]
    layers_ms = (sum(table[semconv.LAYER_DURATIONS]) + table.get(semconv.LAYERS_OMITTED_DURATION, 0)) * 1000
    run_ms = statistics.median(took_ms)
    figure("sum of the layers of a plain context: CUDA events", layers_ms, run_ms, "ms", (run_ms * 0.7, run_ms * 1.05))
