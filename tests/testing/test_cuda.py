# SPDX-License-Identifier: Apache-2.0
"""torch.cuda as a benchmark uses it."""

from __future__ import annotations

import concurrent.futures
import importlib.util
import pickle
import time

import pytest
import torch

import torchspan.testing

VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])


def test_the_program_sees_a_gpu():
    assert torch.cuda.is_available() and torch.cuda.device_count() >= 1


@pytest.mark.stand_in_only("libraries see a real GPU")
def test_the_libraries_see_no_gpu_and_the_program_sees_one():
    assert torch.cuda.device_count() == 1
    library = torch.utils._device.__dict__ | {"__name__": "torch_tensorrt.dynamo.utils"}
    assert eval("torch.cuda.is_available()", {**library, "torch": torch}) is False
    assert eval("torch.cuda.device_count()", {"__name__": "transformers.utils", "torch": torch}) == 0
    assert eval("torch.cuda.is_available()", {"__name__": "own_transformers", "torch": torch}) is True


@pytest.mark.stand_in_only("a real GPU is initialized")
def test_cuda_is_never_initialized():
    torch.cuda.init()
    torch.cuda.set_device("cuda:0")
    assert not torch.cuda.is_initialized()


def test_the_device_has_a_name_a_capability_and_memory():
    properties = torch.cuda.get_device_properties(0)
    assert (properties.major, properties.minor) == torch.cuda.get_device_capability()
    assert properties.name == torch.cuda.get_device_name("cuda")
    free, total = torch.cuda.mem_get_info()
    assert 0 < free < total == properties.total_memory
    with torch.cuda.device(0), torch.cuda.device_of(torch.ones(1)):
        assert torch.cuda.current_device() == 0


@pytest.mark.stand_in_only("the name and capability of a real GPU are its own")
def test_the_stand_in_has_its_own_name_and_a_capability_with_bf16():
    assert (torch.cuda.get_device_name(), torch.cuda.get_device_capability()) == ("torchspan stand-in", (8, 9))
    assert torch.cuda.is_bf16_supported()


def test_a_timing_loop_with_events_measures_the_hosts_time():
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    start.record()
    time.sleep(0.02)
    end.record()
    end.synchronize()
    assert end.query() and 19 <= start.elapsed_time(end) < 2000  # a GPU may come to the first event late


def test_events_without_timing_are_refused_before_those_that_were_not_recorded():
    timed, untimed = torch.cuda.Event(enable_timing=True), torch.cuda.Event()
    untimed.record()
    for start, end in ((timed, untimed), (untimed, timed)):
        with pytest.raises(ValueError, match=r"^Both events must be created with argument 'enable_timing=True'\.$"):
            start.elapsed_time(end)


def test_events_that_were_not_recorded_have_no_time_between_them():
    recorded, new = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    recorded.record()
    for start, end in ((recorded, new), (new, recorded)):
        with pytest.raises(ValueError, match=r"^Both events must be recorded before calculating elapsed time\.$"):
            start.elapsed_time(end)


def test_an_event_that_was_not_recorded_is_complete():
    assert torch.cuda.Event().query()


def test_an_event_is_recorded_on_a_stream_that_is_named():
    stream, start = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True)
    start.record(stream)
    end = stream.record_event(torch.cuda.Event(enable_timing=True))
    stream.synchronize()
    assert end.query() and start.elapsed_time(end) >= 0


@pytest.mark.skipif(VERSION < (2, 14), reason="older versions do not check it")
def test_what_is_neither_a_stream_nor_an_event_is_refused():
    event = torch.cuda.Event(enable_timing=True)
    with pytest.raises(RuntimeError, match=r"^expected stream to be a torch\.Stream or torch\.cuda\.Stream object$"):
        event.record(0)
    with pytest.raises(RuntimeError, match=r"^expected other to be a torch\.cuda\.Event object$"):
        event.elapsed_time(0)


def test_streams_nest_and_belong_to_their_thread():
    default, mine, other = torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream(priority=-1)
    assert torch.cuda.current_stream() == default and mine != other
    with torch.cuda.stream(mine):
        assert torch.cuda.current_stream() == mine
        with other, torch.cuda.stream(None):
            assert torch.cuda.current_stream() == other
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            assert pool.submit(torch.cuda.current_stream).result() == default
    mine.wait_stream(torch.cuda.current_stream())
    mine.wait_event(mine.record_event())
    mine.synchronize()
    assert torch.cuda.current_stream() == default and mine.query() and default.cuda_stream == 0
    torch.cuda.set_stream(mine)
    assert torch.cuda.current_stream() == mine
    torch.cuda.set_stream(default)
    torch.ones(1, device="cuda").record_stream(mine)


@pytest.mark.stand_in_only("a real GPU has memory in use")
def test_memory_statistics_are_empty():
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.empty_cache()
    assert torch.cuda.max_memory_allocated() == torch.cuda.memory_reserved("cuda") == 0
    assert torch.cuda.memory_stats() == {} and torch.cuda.memory.memory_allocated() == 0


def test_seeds_for_cuda_seed_what_stands_in_for_it():
    torch.cuda.manual_seed_all(7)
    first = torch.randn(3, device="cuda")
    torch.cuda.manual_seed(7)
    assert torch.equal(torch.randn(3, device="cuda"), first)
    with torch.random.fork_rng():
        torch.seed()


@pytest.mark.stand_in_only("refused")
@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: torch.cuda.CUDAGraph(), "torch.cuda.CUDAGraph"),
        (lambda: torch.cuda.graph(None), "torch.cuda.graph"),
        (lambda: torch.cuda.graphs.CUDAGraph(), "torch.cuda.CUDAGraph"),
    ],
)
def test_what_has_no_stand_in_raises_one_error_that_names_the_call(call, name):
    with pytest.raises(torchspan.testing.NeedsGpuError) as raised:
        call()
    assert raised.value.call == name
    assert str(raised.value).startswith(f"{name} needs a GPU") and "is_without_gpu()" in str(raised.value)


@pytest.mark.stand_in_only("refused")
@pytest.mark.parametrize("call", ["cudart", "current_blas_handle"])
def test_what_has_no_row_is_refused_where_it_asks_for_cuda(call):
    with pytest.raises(torchspan.testing.NeedsGpuError, match=rf"torch\.cuda\.{call} \(called at .*test_cuda.py:\d+\)"):
        getattr(torch.cuda, call)()


def test_the_error_keeps_its_message_across_processes():
    error = torchspan.testing.NeedsGpuError("torch.cuda.graph", "Leave it.")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.call, str(again)) == (type(error), error.call, str(error))
    assert isinstance(error, torchspan.testing.WithoutGpuError) and isinstance(error, RuntimeError)


@pytest.mark.stand_in_only("libraries see a real GPU")
def test_transformers_takes_its_cpu_branches():
    if importlib.util.find_spec("transformers") is None:
        pytest.skip("transformers is not installed")
    from transformers.utils import is_torch_cuda_available

    assert not is_torch_cuda_available()
