# SPDX-License-Identifier: Apache-2.0
"""Runs on a real GPU that take milliseconds there, and what torchspan and PyTorch's profiler say of them."""

import contextlib
import gc
import time
import warnings

import pytest
import torch

from torchspan.words import semconv

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what the library warns of while it is imported is its own
    import torch_tensorrt

VERSION = tuple(int(part) for part in torch_tensorrt.__version__.split(".")[:2])
MARKS = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore")]
"""Libraries warn of what they find on a GPU, such as Inductor of TensorFloat32 (`_warn_tf32_disabled`)."""
EVERY_RUN = {"sample_execute_per_second": 1_000_000}
"""Settings: no run is folded."""
LIMIT_S = 60
"""How long spans may take to arrive; the device needs milliseconds."""
SLEEP_CYCLES = 50_000_000
"""About 30 ms on the device: what a program queues there before a run, so that the run waits on the device and not for the host."""
ROWS, WIDTH = 32_768, 2_048


class Wide(torch.nn.Module):
    """Four large products: milliseconds on any GPU."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.Sequential(
            *(step for _ in range(4) for step in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()))
        )

    def forward(self, x):
        return self.layers(x)


def rows():
    """An input of `Wide`, on the device."""
    return torch.linspace(-1, 1, ROWS * WIDTH, device="cuda").reshape(ROWS, WIDTH)


def compiled(*, python=None):
    """`Wide` with its engine, which has run, so that the next run is like all later ones.

    python: Whether Torch-TensorRT's Python runtime runs the engine; None for the library's own choice. The test is skipped where
        the library does not do so: since 2.13 it takes the C++ runtime where there is one (`use_python_runtime`, "has no effect").
    """
    settings = {}
    if python is not None:
        has_cpp = torch_tensorrt.ENABLED_FEATURES.torch_tensorrt_runtime
        can_choose = has_cpp and VERSION < (2, 13)
        if can_choose:
            settings["use_python_runtime"] = python
        elif python == has_cpp:
            runtime = "C++" if has_cpp else "Python"
            pytest.skip(f"Torch-TensorRT {torch_tensorrt.__version__} takes the {runtime} runtime here")
    model = Wide().eval().cuda()
    module = torch_tensorrt.compile(model, ir="dynamo", inputs=[rows()], min_block_size=1, **settings)
    for _ in range(3):
        module(rows())
    torch.cuda.synchronize()
    return module


def square(x):
    """Inductor's code for it calls an operator: neither Triton nor a compiler is needed."""
    return x @ x


def compiled_square(x):
    """`square` compiled by Inductor, which has run."""
    torch._dynamo.reset()
    function = torch.compile(square)
    for _ in range(3):
        function(x)
    torch.cuda.synchronize()
    return function


@contextlib.contextmanager
def busy_device():
    """Inside, on a stream of the program, which has work already."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(SLEEP_CYCLES)
        yield stream


def arrived(exporter, name, count):
    """The last `count` spans of that name below another span, once each has its time on the device or why it has none.

    In the order of their starts. Without those below no span: first runs, with which the program made sure that all is compiled.
    """
    keys = {semconv.EXECUTE_GPU_DURATION, semconv.RUN_GRAPH_GPU_DURATION, semconv.GPU_TIME_MISSING}
    until = time.monotonic() + LIMIT_S
    while True:
        spans = [
            span for span in exporter.get_finished_spans() if span.name.startswith(name) and span.parent is not None
        ]
        spans = sorted(spans, key=lambda span: span.start_time)[-count:]
        if len(spans) == count and all(keys & span.attributes.keys() for span in spans):
            return spans
        assert time.monotonic() < until, f"{len(spans)} of {count} spans {name} in {LIMIT_S} s: {spans}"
        time.sleep(0.01)


def kernels_ms(profile):
    """Milliseconds from the start of the first kernel to the end of the last one, without those that keep the device busy."""
    kernels = [
        event.time_range
        for event in profile.events()
        if event.device_type == torch.autograd.DeviceType.CUDA and "spin_kernel" not in event.name
    ]
    assert kernels, "torch.profiler saw no kernel"
    return (max(each.end for each in kernels) - min(each.start for each in kernels)) / 1000


def profiled():
    """A profiler of the device alone."""
    return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])


def context_of(module):
    """The execution context of the only engine of a module with Torch-TensorRT's Python runtime."""
    holders = [holder for each in module.modules() for holder in (each, getattr(each, "engine", None))]
    contexts = [context for holder in holders if (context := getattr(holder, "context", None)) is not None]
    (context,) = {id(context): context for context in contexts}.values()
    return context


def freed():
    """Give back what earlier tests left on the device."""
    torch._dynamo.reset()
    gc.collect()
    torch.cuda.empty_cache()
