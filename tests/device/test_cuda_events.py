# SPDX-License-Identifier: Apache-2.0
"""The time of a run on the device: what is recorded, when the event of the run is complete, and what is never called."""

import os
import threading
import time

import pytest
import torch

from support.asynchronous_device import ILLEGAL_ADDRESS
from support.forked import in_forked_child
from torchspan.base.boundaries import Failures
from torchspan.hooks.device import _cuda_events, _driver
from torchspan.hooks.device._cuda_events import PAIRS
from torchspan.words import semconv

DURATION, MISSING = semconv.EXECUTE_GPU_DURATION, semconv.GPU_TIME_MISSING


# --- the time -----------------------------------------------------------------------------------------------------
def test_a_run_has_the_time_that_its_work_takes_on_the_device(gpu, runs):
    runs.run(0.012)
    gpu.finish()
    assert runs.wait(1) == [{DURATION: pytest.approx(0.012)}]


def test_the_event_of_a_run_keeps_the_end_that_the_host_saw(gpu, runs):
    runs.run(3_600)
    after_ns = time.time_ns()
    gpu.finish()
    runs.wait(1)
    assert runs.completed[0].end_ns <= after_ns


def test_an_event_is_not_complete_before_the_device_has_finished_its_run(gpu, runs):
    runs.run(0.002)
    runs.run(0.005)
    gpu.finish(1)
    assert runs.wait(1) == [{DURATION: pytest.approx(0.002)}]
    gpu.finish()
    assert runs.wait(2)[1] == {DURATION: pytest.approx(0.005)}


def test_work_that_the_stream_had_before_does_not_count(gpu, runs):
    gpu.launch(10)
    runs.run(0.012)
    gpu.launch(10)
    gpu.finish()
    assert runs.wait(1) == [{DURATION: pytest.approx(0.012)}]


def test_the_stream_is_that_of_the_program(gpu, runs):
    side = torch.cuda.Stream()
    gpu.launch(10)  # on the default stream, which the run does not wait for
    with torch.cuda.stream(side):
        runs.run(0.003)
    gpu.finish(1)
    assert runs.wait(1) == [{DURATION: pytest.approx(0.003)}]


def test_each_device_has_cuda_events_of_its_own(gpu, runs):
    for index in (0, 1):
        with torch.cuda.stream(torch.cuda.Stream(device=index)):
            runs.run(0.001 * (index + 1))
    gpu.finish()
    assert runs.wait(2) == [{DURATION: pytest.approx(0.001)}, {DURATION: pytest.approx(0.002)}]


def test_cuda_events_are_used_again(gpu, runs):
    for number in range(1, 21):
        runs.run(0.001)
        gpu.finish()
        runs.wait(number)
    assert [call.name for call in gpu.calls].count("Event") == 2


def test_runs_on_two_streams_at_once_have_the_time_of_their_stream(gpu, runs):
    for seconds in (0.004, 0.002):
        with torch.cuda.stream(torch.cuda.Stream()):
            runs.run(seconds)
    gpu.finish()
    assert runs.wait(2) == [{DURATION: pytest.approx(0.004)}, {DURATION: pytest.approx(0.002)}]


# --- no time ------------------------------------------------------------------------------------------------------
def test_a_program_that_has_not_initialized_cuda_is_not_touched(gpu, runs):
    gpu.is_initialized = False
    runs.run(work=lambda: None)
    assert runs.wait(1) == [{}]
    assert {call.name for call in gpu.calls} == {"is_initialized"}


def test_a_run_that_is_captured_has_none_and_the_capture_stays_valid(gpu, runs):
    with gpu.capturing(torch.cuda.Stream()):
        runs.run(0.001)
    assert runs.wait(1) == [{MISSING: "capturing"}]
    assert "Event.record" not in [call.name for call in gpu.calls]


def test_a_run_in_which_a_capture_begins_has_none(gpu, runs):
    capture = gpu.capturing(torch.cuda.Stream())
    runs.run(work=capture.__enter__)
    capture.__exit__(None, None, None)
    assert runs.wait(1) == [{MISSING: "capturing"}]


def test_a_capture_of_another_thread_stays_valid_while_runs_are_looked_at(gpu, runs):
    runs.run(0.001)
    with gpu.capturing(torch.cuda.Stream()):
        before = len(gpu.calls)
        wait_until(lambda: [call.name for call in gpu.calls[before:]].count("Event.query") >= 3)
    gpu.finish()
    assert runs.wait(1) == [{DURATION: pytest.approx(0.001)}]


def test_without_the_driver_function_for_captures_the_device_is_not_asked(gpu, runs, monkeypatch):
    monkeypatch.setattr(_driver, "set_thread_local_capture", lambda: False)
    runs.run(0.001)
    assert runs.wait(1) == [{MISSING: "failed"}]
    assert "Event.query" not in [call.name for call in gpu.calls]


def test_a_run_on_another_device_than_the_current_one_has_none(gpu, runs, monkeypatch):
    monkeypatch.setattr(_cuda_events, "_device_of", lambda _inputs, _torch: 1)  # tensors on a device need one
    runs.run(0.001)
    assert runs.wait(1) == [{MISSING: "other_device"}]


def test_more_unfinished_runs_than_pairs_of_events_have_none(gpu, runs):
    for _ in range(PAIRS + 2):
        runs.run(0.001)
    assert runs.wait(2) == [{MISSING: "pool"}] * 2
    gpu.finish()
    assert runs.wait(PAIRS + 2)[:PAIRS] == [{DURATION: pytest.approx(0.001)}] * PAIRS


@pytest.mark.fault(
    "libraries", "the device never answers", lost="the time on the GPU", counted="torchspan.gpu_time.missing_runs"
)
def test_a_device_that_never_answers_is_given_up_at_the_limit(gpu, make_runs):
    runs = make_runs(limit_s=0.05)
    gpu.is_dead = True
    runs.run(0.001)
    assert runs.wait(1) == [{MISSING: "unanswered"}]


def test_a_run_that_was_given_up_gives_its_events_back_and_later_runs_have_their_time(gpu, make_runs):
    runs = make_runs(limit_s=1)
    with torch.cuda.stream(torch.cuda.Stream()):
        runs.run(3_600)
    runs.wait(1)
    wait_until(lambda: len(runs.times._pairs) == PAIRS)
    for number in range(2, 7):
        runs.run(0.001)
        gpu.run(0.001)
        assert runs.wait(number)[-1] == {DURATION: pytest.approx(0.001)}


@pytest.mark.fault(
    "libraries", "CUDA fails at an event", lost="the time on the GPU", counted="torchspan.gpu_time.missing_runs"
)
def test_an_error_of_cuda_at_the_first_event_costs_the_time_alone(gpu, runs, caplog):
    gpu.error = ILLEGAL_ADDRESS
    assert runs.run(inputs=[1, 2], work=lambda: None) == [1, 2]
    assert runs.wait(1) == [{MISSING: "failed"}]
    assert "recording a CUDA event failed; the program continues, with less telemetry" in caplog.text


def test_an_error_of_cuda_at_the_second_event_costs_the_time_alone(gpu, runs):
    def fail_from_now_on():
        gpu.error = ILLEGAL_ADDRESS

    assert runs.run(inputs=[3], work=fail_from_now_on) == [3]
    assert runs.wait(1) == [{MISSING: "failed"}]


@pytest.mark.parametrize("fails_at_once", [True, False], ids=["at the first event", "at the second"])
def test_a_run_after_errors_of_cuda_in_a_row_has_the_reason_too(gpu, runs, fails_at_once):
    def fail_from_now_on():
        gpu.error = ILLEGAL_ADDRESS

    for _ in range(3):
        gpu.error = ILLEGAL_ADDRESS if fails_at_once else None
        runs.run(work=fail_from_now_on)
        gpu.error = None
    assert runs.run(inputs=[1]) == [1]  # recording is paused
    assert runs.wait(4) == [{MISSING: "failed"}] * 4


def test_an_error_of_cuda_while_the_device_is_asked_costs_the_time_alone(gpu, runs):
    runs.run(0.001)
    gpu.error = ILLEGAL_ADDRESS
    assert runs.wait(1) == [{MISSING: "failed"}]


@pytest.fixture
def graph_runs(gpu, instrument, exporter, tracer, monkeypatch):
    """Makes a run of a graph, compiled while the program had not initialized CUDA, that queues 4 ms of work on the device."""
    instrument(gpu_time="sampled", graph_runs=True)
    monkeypatch.setattr(
        torch.cuda, "is_available", lambda: False
    )  # Dynamo saves the states of random numbers of a device
    torch._dynamo.reset()

    def backend(graph, _inputs):
        def run(*args):
            if gpu.is_initialized:
                gpu.launch(0.004)
            return graph(*args)

        return run

    def facts(function, *args):
        gpu.is_initialized = False
        compiled = torch.compile(function, backend=backend)
        compiled(*args)
        gpu.is_initialized = True
        with tracer.start_as_current_span("request"):
            compiled(*args)
        gpu.finish()
        wait_until(lambda: "torch.run_graph" in [span.name for span in exporter.get_finished_spans()])
        (run,) = (span for span in exporter.get_finished_spans() if span.name == "torch.run_graph")
        return {key: run.attributes[key] for key in run.attributes if "gpu" in key}

    return facts


def test_a_graph_whose_inputs_are_on_the_host_has_none(gpu, graph_runs):
    assert graph_runs(lambda x: x * 2, torch.ones(2)) == {}
    assert "Event.record" not in [call.name for call in gpu.calls]


def test_a_graph_without_inputs_has_the_time_on_the_current_device(graph_runs):
    assert graph_runs(lambda: torch.ones(2) + 1) == {semconv.RUN_GRAPH_GPU_DURATION: pytest.approx(0.004)}


# --- runs that fail, and the program's end ----------------------------------------------------------------------------
def test_a_run_that_raises_is_complete_at_once_and_gives_its_events_back(gpu, runs):
    def fail():
        gpu.launch(3_600)
        raise ValueError("the program's own")

    for _ in range(PAIRS):
        with pytest.raises(ValueError, match="the program's own"):
            runs.run(work=fail)
    assert runs.wait(PAIRS) == [{}] * PAIRS
    gpu.finish()
    wait_until(lambda: not runs.times._launched)
    runs.run(0.001)
    gpu.finish()
    assert runs.wait(PAIRS + 1)[-1] == {DURATION: pytest.approx(0.001)}


def test_a_flush_completes_what_the_device_has_finished_with_its_time(gpu, runs):
    runs.run(0.001)
    gpu.finish()
    runs.times.flush()
    assert [dict(event.additions) for event in runs.completed] == [{DURATION: pytest.approx(0.001)}]


def test_a_flush_completes_what_still_runs_without_a_time(gpu, runs):
    runs.run(0.001)
    runs.times.flush()
    assert [dict(event.additions) for event in runs.completed] == [{MISSING: "running"}]


def test_a_run_after_the_thread_has_failed_has_its_time(gpu, runs, monkeypatch):
    failures = Failures.total
    with monkeypatch.context() as patch:
        patch.setattr(runs.times, "_look", None)
        runs.run(0.001)
        wait_until(lambda: Failures.total == failures + 1)
    runs.run(0.001)
    gpu.finish()
    assert runs.wait(2) == [{DURATION: pytest.approx(0.001)}] * 2


def test_the_stop_of_the_engine_completes_what_still_runs_and_ends_the_thread(gpu, runs):
    runs.run(0.001)
    wait_until(lambda: "torchspan device times" in thread_names())
    runs.times.flush()
    runs.engine.stop()
    assert [dict(event.additions) for event in runs.completed] == [{MISSING: "running"}]
    wait_until(lambda: "torchspan device times" not in thread_names())


def test_a_forked_child_measures_nothing_and_completes_nothing_of_its_parent(gpu, runs):
    runs.run(0.001)

    def in_child():
        runs.run(work=lambda: None)
        runs.times.flush()
        return [dict(event.additions) for event in runs.completed]

    assert in_forked_child(in_child) == "[{}]"
    gpu.finish()
    assert runs.wait(1) == [{DURATION: pytest.approx(0.001)}]


def test_a_forked_child_of_a_program_without_cuda_measures_its_own_runs(gpu, runs):
    gpu.is_initialized = False
    runs.run(work=lambda: None)

    def in_child():
        gpu._pid, gpu.is_initialized = os.getpid(), True
        runs.run(0.001)
        gpu.finish()
        return runs.wait(2)[-1]

    assert "gpu_duration" in in_forked_child(in_child)


# --- what is never called ---------------------------------------------------------------------------------------------
def test_nothing_that_synchronizes_is_called_while_sixteen_threads_run_engines(gpu, runs):
    def work():
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(25):
                runs.run(0.001)
                gpu.run(0.001)

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gpu.finish()
    measured = runs.wait(400)
    assert gpu.synchronizing_calls() == []
    assert {key for facts in measured for key in facts} <= {DURATION, MISSING}
    assert all(len(facts) == 1 for facts in measured)
    assert sum(DURATION in facts for facts in measured) >= PAIRS


def test_the_device_is_asked_by_torchspans_thread_alone(gpu, runs):
    runs.run(0.001)
    gpu.finish()
    runs.wait(1)
    runs.times.flush()
    asked = {call.thread for call in gpu.calls if call.name in {"Event.query", "Event.elapsed_time"}}
    assert asked == {"torchspan device times"}


def test_the_thread_sleeps_while_no_run_is_unfinished(gpu, runs):
    runs.run(0.001)
    gpu.finish()
    runs.wait(1)
    wait_until(lambda: not runs.times._is_polling)
    before = len(gpu.calls)
    time.sleep(0.2)
    assert len(gpu.calls) == before


def wait_until(is_true, patience_s=30):
    """Wait for what another thread does."""
    deadline = time.monotonic() + patience_s
    while not is_true():
        assert time.monotonic() < deadline, "it did not become true"
        time.sleep(0.001)


def thread_names():
    return [thread.name for thread in threading.enumerate()]
