# SPDX-License-Identifier: Apache-2.0
"""The simulated GPU has the rules of a real one. `support/asynchronous_device.py` names the source of each.

On a real GPU the same tests ask that one, except for those that only a simulation can do.
"""

import threading
import time

import pytest
import torch

from support.asynchronous_device import (
    CAPTURED_EVENT,
    GLOBAL,
    ILLEGAL_ADDRESS,
    INITIALIZATION,
    INVALID_HANDLE,
    INVALID_VALUE,
    INVALIDATED,
    RELAXED,
    THREAD_LOCAL,
    UNSAFE,
    AsynchronousDevice,
    Call,
)
from support.forked import in_forked_child

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
simulated = pytest.mark.stand_in_only("what only a simulation can do")


def timed():
    return torch.cuda.Event(enable_timing=True)


def recorded(stream=None):
    event = timed()
    event.record(stream)
    return event


def reached():
    """An event that the device has reached."""
    event = recorded()
    event.synchronize()
    return event


def around_work(device, seconds=0.012):
    """Events recorded before and after work on the current stream."""
    start = recorded()
    device.launch(seconds)
    return start, recorded()


def in_thread(function):
    """What the function returns, or raises, in another thread."""
    outcomes = []

    def run():
        try:
            outcomes.append(function())
        except Exception as error:
            outcomes.append(error)

    thread = threading.Thread(target=run, name="other")
    thread.start()
    thread.join()
    return outcomes[0]


def raises_cuda_error(text):
    return pytest.raises(torch.AcceleratorError, match=f"CUDA error: {text}\n")


# --- time -----------------------------------------------------------------------------------------------------------------
@simulated
def test_an_event_is_complete_when_the_work_before_it_is(device):
    start, end = around_work(device)
    assert (start.query(), end.query()) == (True, False)
    device.finish()
    assert end.query()
    assert start.elapsed_time(end) == 12.0


@simulated
def test_the_time_is_that_of_the_device_and_not_of_the_host(device):
    start = recorded()
    device.run(0.003)
    device.launch(0.012)
    end = recorded()
    device.run(1)
    assert start.elapsed_time(end) == 15.0


@simulated
def test_work_of_one_stream_is_done_one_after_the_other(device):
    first, second = around_work(device), around_work(device)
    device.finish(1)
    assert (first[1].query(), second[1].query()) == (True, False)
    device.finish(1)
    assert second[0].elapsed_time(second[1]) == 12.0


@simulated
def test_time_passes_piece_by_piece(device):
    _, end = around_work(device)
    device.run(0.011)
    assert not end.query()
    device.run(0.001)
    assert end.query()


@simulated
def test_streams_do_not_wait_for_each_other(device):
    device.launch(1)
    with torch.cuda.stream(torch.cuda.Stream()):
        start, end = around_work(device)
    device.run(0.012)
    assert start.elapsed_time(end) == 12.0


def test_a_stream_that_waits_for_an_event_continues_after_it(device):
    # The stream comes first and the work is long: on an H100, 12 ms of work were done before a stream that was made after it waited.
    stream = torch.cuda.Stream()
    _, end = around_work(device, 0.2)
    stream.wait_event(end)
    later = recorded(stream)
    assert not later.query()
    device.finish()
    assert later.query()


@simulated
def test_an_event_that_is_recorded_again_has_the_later_time(device):
    start, end = around_work(device)
    end.record()
    device.launch(0.004)
    end.record()
    device.finish()
    assert start.elapsed_time(end) == 16.0


@simulated
def test_in_real_time_work_ends_by_itself(monkeypatch):
    device = AsynchronousDevice(real_time=True)
    device.install(monkeypatch)
    start, end = around_work(device)
    while not end.query():
        time.sleep(0.001)
    assert 12 <= start.elapsed_time(end) < 5000


@simulated
def test_a_device_that_is_dead_completes_nothing(device):
    _, before = around_work(device)
    device.is_dead = True
    after, on_an_idle_stream = recorded(), recorded(torch.cuda.Stream())
    device.run(60)
    device.finish()
    assert [event.query() for event in (before, after, on_an_idle_stream)] == [False, False, False]


# --- events ---------------------------------------------------------------------------------------------------------------
def test_an_event_that_was_never_recorded_is_complete_and_has_no_device(device):
    assert (timed().query(), timed().device) == (True, None)


def test_an_event_has_the_device_of_its_stream(two_devices):
    assert recorded(torch.cuda.Stream(device=1)).device == torch.device("cuda", 1)


def test_events_without_timing_have_no_time_even_before_they_are_recorded(device):
    with pytest.raises(ValueError, match=r"^Both events must be created with argument 'enable_timing=True'\.$"):
        timed().elapsed_time(torch.cuda.Event())


def test_events_that_were_not_recorded_have_no_time(device):
    with pytest.raises(ValueError, match=r"^Both events must be recorded before calculating elapsed time\.$"):
        recorded().elapsed_time(timed())


def test_events_that_are_not_complete_have_no_time(device):
    start, end = around_work(device)
    with pytest.raises(RuntimeError, match=r"^Both events must be completed before calculating elapsed time\.$"):
        start.elapsed_time(end)


def test_events_of_two_devices_have_no_time_between_them(two_devices):
    start, end = recorded(), recorded(torch.cuda.Stream(device="cuda:1"))
    with raises_cuda_error(INVALID_HANDLE):
        start.elapsed_time(end)


def test_an_event_is_not_recorded_on_a_second_device(two_devices):
    event = recorded()
    with pytest.raises(RuntimeError, match=r"^Event device 0 does not match recording stream's device 1\.$"):
        event.record(torch.cuda.Stream(device=1))


@pytest.mark.stand_in_only("only some versions of PyTorch refuse it")
def test_what_is_neither_a_stream_nor_an_event_is_refused(device):
    with pytest.raises(RuntimeError, match=r"^expected stream to be a torch\.Stream or torch\.cuda\.Stream object$"):
        timed().record(0)
    with pytest.raises(RuntimeError, match=r"^expected other to be a torch\.cuda\.Event object$"):
        timed().elapsed_time(0)


@simulated
def test_after_an_error_of_the_device_every_call_raises_it(device):
    event = recorded()
    device.error = ILLEGAL_ADDRESS
    for call in (event.record, event.query, torch.cuda.mem_get_info, torch.cuda.is_current_stream_capturing):
        with raises_cuda_error(ILLEGAL_ADDRESS) as raised:
            call()
        assert (raised.value.error_code, isinstance(raised.value, RuntimeError)) == (700, True)


# --- streams --------------------------------------------------------------------------------------------------------------
def test_the_current_stream_is_a_new_object_that_is_equal(device):
    first, second = torch.cuda.current_stream(), torch.cuda.current_stream()
    assert first is not second
    assert (first, hash(first)) == (second, hash(second))
    assert first != torch.cuda.Stream()


def test_each_thread_has_its_own_current_stream_and_device(two_devices):
    stream = torch.cuda.Stream(device=1)
    with torch.cuda.stream(stream), torch.cuda.stream(None):
        assert (torch.cuda.current_stream(), torch.cuda.current_device()) == (stream, 1)
        assert in_thread(torch.cuda.current_stream) == torch.cuda.default_stream(0)
        assert in_thread(torch.cuda.current_device) == 0
    assert torch.cuda.current_stream() == torch.cuda.default_stream()


# --- capture --------------------------------------------------------------------------------------------------------------
def test_a_capture_is_that_of_the_stream_which_is_current_in_the_thread(device):
    with device.capturing(torch.cuda.Stream()):
        assert torch.cuda.is_current_stream_capturing()
        assert in_thread(torch.cuda.is_current_stream_capturing) is False
    assert not torch.cuda.is_current_stream_capturing()


@simulated
def test_work_that_is_captured_is_not_done(device):
    with device.capturing(torch.cuda.Stream()):
        device.launch(1)
    device.finish()
    assert device._now_ns() == 0


@pytest.mark.stand_in_only("PyTorch's own capture refuses it")
def test_the_default_stream_is_not_captured(device):
    with (
        pytest.raises(RuntimeError, match=r"^CUDA graphs must be captured on a non-default stream\. "),
        device.capturing(torch.cuda.default_stream()),
    ):
        pass


@pytest.mark.parametrize("read", [lambda event: event.query(), lambda event: event.elapsed_time(event)])
def test_an_event_that_was_recorded_in_a_capture_cannot_be_read_after_it(device, read):
    """The error is another one than inside the capture: so it is on an H100 (PyTorch 2.11, CUDA 13.0, driver 580)."""
    with device.capturing(torch.cuda.Stream()):
        event = recorded()
    with raises_cuda_error(INVALID_VALUE):
        read(event)


def test_an_event_of_a_capture_that_is_recorded_outside_can_be_read(device):
    with device.capturing(torch.cuda.Stream()):
        event = recorded()
    event.record()
    assert event.query()


@pytest.mark.parametrize("mode", [GLOBAL, THREAD_LOCAL, RELAXED])
def test_to_read_an_event_of_a_capture_inside_it_invalidates_it_in_every_mode(device, mode):
    device.exchange_capture_mode(RELAXED)
    with raises_cuda_error(INVALIDATED), device.capturing(torch.cuda.Stream(), mode):
        with raises_cuda_error(CAPTURED_EVENT):
            recorded().query()


def test_a_query_by_another_thread_is_refused_and_invalidates_a_global_capture(device):
    event = recorded()
    with raises_cuda_error(INVALIDATED), device.capturing(torch.cuda.Stream()):
        error = in_thread(event.query)
        assert str(error).startswith(f"CUDA error: {UNSAFE}\nSearch for `cudaErrorStreamCaptureUnsupported' in ")
        assert torch.cuda.is_current_stream_capturing()


def test_a_query_by_another_thread_with_a_mode_of_its_own_leaves_the_capture(device):
    event = reached()

    def query():
        assert device.set_thread_local_capture()
        return event.query()

    with device.capturing(torch.cuda.Stream()):
        assert in_thread(query) is True


@pytest.mark.parametrize("mode", [THREAD_LOCAL, RELAXED])
def test_a_capture_that_is_not_global_allows_queries_by_other_threads(device, mode):
    event = reached()
    with device.capturing(torch.cuda.Stream(), mode):
        assert in_thread(event.query) is True


@pytest.mark.parametrize("mode", [GLOBAL, THREAD_LOCAL])
def test_a_query_by_the_thread_that_captures_is_refused_unless_it_is_relaxed(device, mode):
    event = recorded()
    with raises_cuda_error(INVALIDATED), device.capturing(torch.cuda.Stream(), mode):
        with raises_cuda_error(UNSAFE):
            event.query()
    with device.capturing(torch.cuda.Stream(), RELAXED):
        assert event.query()


def test_to_query_what_was_never_recorded_does_not_ask_the_device(device):
    event = timed()
    with device.capturing(torch.cuda.Stream()):
        assert in_thread(event.query) is True


def test_a_record_by_another_thread_leaves_the_capture(device):
    with device.capturing(torch.cuda.Stream()):
        event = in_thread(recorded)
    assert event.query()


def test_the_mode_of_a_thread_is_its_own_and_the_exchange_returns_the_one_before(device):
    assert device.exchange_capture_mode(RELAXED) == GLOBAL
    assert in_thread(lambda: device.exchange_capture_mode(THREAD_LOCAL)) == GLOBAL
    assert device.exchange_capture_mode(GLOBAL) == RELAXED


def test_nothing_is_recorded_in_a_capture_that_is_invalid(device):
    event = recorded()
    with raises_cuda_error(INVALIDATED), device.capturing(torch.cuda.Stream()):
        in_thread(event.query)
        with raises_cuda_error(INVALIDATED):
            recorded()


# --- initialization, contexts and forks -----------------------------------------------------------------------------------
@simulated
def test_before_cuda_is_initialized_only_calls_that_do_not_initialize_it_pass(device):
    device.is_initialized = False
    assert torch.cuda.is_initialized() is False
    assert torch.cuda.is_current_stream_capturing() is False
    assert torch._C._cuda_hasPrimaryContext(0) is False
    assert timed().query() is True
    calls = (
        torch.cuda.current_stream,
        torch.cuda.current_device,
        torch.cuda.mem_get_info,
        torch.cuda.synchronize,
        torch.cuda.Stream,
        timed().record,
    )
    for call in calls:
        with pytest.raises(AssertionError, match="would initialize CUDA"):
            call()
    assert len(device.violations) == 6
    device.violations.clear()


@simulated
def test_a_device_that_was_not_used_has_no_context_and_gets_none(two_devices):
    assert [torch._C._cuda_hasPrimaryContext(index) for index in (0, 1)] == [True, False]
    with pytest.raises(AssertionError, match="would make a context on device 1"):
        torch.cuda.mem_get_info(1)
    two_devices.violations.clear()
    two_devices.launch(1, torch.cuda.default_stream(1))
    assert torch.cuda.mem_get_info(torch.device("cuda", 1)) == (20 << 30, 24 << 30)


def test_a_device_that_does_not_exist_has_no_answer(device):
    with pytest.raises(
        RuntimeError, match=r"^hasPrimaryContext expects a valid device index, but got device_index=99$"
    ):
        torch._C._cuda_hasPrimaryContext(99)


def test_in_a_forked_child_cuda_is_not_initialized_and_cannot_be(device):
    assert in_forked_child(torch.cuda.is_initialized) == "False"
    for call in (torch.cuda.current_stream, torch.cuda.current_device, torch.cuda.mem_get_info, torch.cuda.synchronize):
        assert "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with" in in_forked_child(call)


def test_in_a_forked_child_an_event_of_the_parent_that_was_complete_is_still_complete(device):
    """So an H100 answered (PyTorch 2.11, CUDA 13.0, driver 580)."""
    event = recorded()
    device.finish()
    assert event.query()
    assert in_forked_child(event.query) == "True"


def test_in_a_forked_child_nothing_is_recorded_and_no_capture_is_found(device):
    stream = torch.cuda.current_stream()
    for call in (lambda: timed().record(stream), torch.cuda.is_current_stream_capturing):
        assert f"torch.AcceleratorError: CUDA error: {INITIALIZATION}\n" in in_forked_child(call)


def test_in_a_forked_child_the_driver_does_not_say_which_device_has_a_context(device):
    assert f"CUDA driver error: {INITIALIZATION}" in in_forked_child(lambda: torch._C._cuda_hasPrimaryContext(0))


@simulated
def test_a_child_of_a_parent_that_did_not_use_cuda_may_initialize_it(device):
    device.is_initialized = False
    assert "AssertionError: this call would initialize CUDA" in in_forked_child(torch.cuda.current_device)


# --- what was called ------------------------------------------------------------------------------------------------------
@simulated
def test_calls_are_kept_with_their_thread_and_the_module_that_called(device):
    in_thread(lambda: timed().query())
    assert device.calls == [Call("Event", "other", __name__), Call("Event.query", "other", __name__)]


@simulated
def test_a_call_that_synchronizes_is_refused_where_it_is_forbidden_and_kept(device):
    event, stream = recorded(), torch.cuda.current_stream()
    device.forbid_synchronizing = True
    calls = {
        "Event.synchronize": event.synchronize,
        "Event.wait": event.wait,
        "Stream.synchronize": stream.synchronize,
        "Stream.wait_event": lambda: stream.wait_event(event),
        "Stream.wait_stream": lambda: stream.wait_stream(stream),
        "synchronize": torch.cuda.synchronize,
    }
    for name, call in calls.items():
        with pytest.raises(AssertionError, match=f"{name} synchronizes"):
            call()
    assert [call.name for call in device.synchronizing_calls()] == list(calls)
    assert len(device.violations) == 6
    device.violations.clear()


@pytest.mark.parametrize("wait", [lambda event: event.synchronize(), lambda _: torch.cuda.synchronize()])
def test_a_call_that_synchronizes_lets_time_pass_until_the_device_is_done(device, wait):
    _, end = around_work(device)
    wait(end)
    assert end.query()


@simulated
def test_a_call_that_synchronizes_with_a_dead_device_would_never_return(device):
    device.is_dead = True
    _, end = around_work(device)
    with pytest.raises(AssertionError, match="would never return"):
        end.synchronize()
    device.violations.clear()
