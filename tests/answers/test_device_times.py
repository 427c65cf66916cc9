# SPDX-License-Identifier: Apache-2.0
"""Time on the device: next to the host's on the line of a run, in the answers, and layer by layer where TensorRT timed them."""

import pytest

from support.device_times import engine_run, layer_table
from torchspan.words import semconv as s

MUCH = "\N{MULTIPLICATION SIGN}"


@pytest.fixture
def below_title(drawn):
    """The waterfall without its title, in a drawing of some columns."""

    def lines(width=100):
        every = drawn(width)
        title = next(index for index, line in enumerate(every) if line.startswith("trace "))
        return every[title + 1 :]

    return lines


# --- the line of a run ------------------------------------------------------------------------------------------------
def facts_of(line):
    """What the line of the only span says between its subject and its bar."""
    return line.partition("Net · _run_on_acc_0")[2].partition("█")[0].strip()


def test_the_line_of_a_run_has_its_time_on_the_device(recording, below_title):
    engine_run(recording, 0, 4, gpu_ms=3.2)
    assert facts_of(below_title(120)[0]) == "device 3.20 ms"


def test_a_run_whose_span_ends_before_the_device_was_launched_and_is_still_running(recording, below_title):
    engine_run(recording, 0, 4, gpu_ms=12, attributes={s.EXECUTE_FIRST: True})
    assert facts_of(below_title(140)[0]) == "first run · device 12.0 ms, launched, still running"


def test_a_run_that_the_device_had_not_finished_when_its_span_was_written_is_still_running(recording, below_title):
    engine_run(recording, 0, 4, attributes={s.GPU_TIME_MISSING: "running"})
    assert facts_of(below_title(120)[0]) == "launched, still running"


@pytest.mark.parametrize("reason", ["capturing", "other_device", "pool", "unanswered", "failed"])
def test_why_a_run_has_no_time_on_the_device_is_on_its_line(recording, below_title, reason):
    engine_run(recording, 0, 4, attributes={s.GPU_TIME_MISSING: reason})
    assert facts_of(below_title(140)[0]) == f"no time on the device: {reason.replace('_', ' ')}"


def test_a_device_that_was_as_long_as_the_host_had_finished(recording, below_title):
    engine_run(recording, 0, 4, gpu_ms=4)
    assert facts_of(below_title(120)[0]) == "device 4.00 ms"


@pytest.mark.parametrize("wrong", ["12 ms", -0.012, float("nan"), [0.012], True])
def test_a_time_on_the_device_that_cannot_be_one_is_left_out(recording, below_title, said, wrong):
    engine_run(recording, 0, 4, attributes={s.EXECUTE_GPU_DURATION: wrong})
    assert (facts_of(below_title(120)[0]), said().gpu_times) == ("", ())


def test_runs_that_share_a_line_have_the_range_of_their_times_on_the_device(recording, below_title):
    work = recording.span("work", 0, 1000, scope="app")
    for number in range(10):
        engine_run(recording, 100 * number, 100 * number + 90 - number, gpu_ms=1 + number, parent=work)
    line = next(line for line in below_title(160) if MUCH in line)
    assert " ".join(line.partition("█")[0].split()) == (
        f"└─ torch_tensorrt.execute {MUCH}7 81.0 ms to 87.0 ms each · device 4.00 ms to 10.0 ms each"
    )


# --- layers -----------------------------------------------------------------------------------------------------------
def test_below_a_run_with_a_table_of_layers_are_the_slowest_and_the_rest_as_one_line(recording, below_title):
    rows = [("conv1 + relu1", 6), ("fc", 2), *((f"layer {number}", 0.5) for number in range(8))]
    engine_run(recording, 0, 20, attributes=layer_table(*rows, omitted=3, omitted_ms=4))
    assert below_title()[1:] == [
        "   Layers  median and share of 20 runs, in which the host waited for the device",
        "             6.00 ms  38 %  conv1 + relu1",
        "             2.00 ms  12 %  fc",
        "              500 µs   3 %  layer 0",
        "              500 µs   3 %  layer 1",
        "              500 µs   3 %  layer 2",
        "              500 µs   3 %  layer 3",
        "              500 µs   3 %  layer 4",
        "              500 µs   3 %  layer 5",
        "             5.00 ms  31 %  5 more layers",
    ]


def test_the_name_of_a_layer_is_shortened_where_there_is_no_room(recording, below_title):
    engine_run(recording, 0, 20, attributes=layer_table(("x" * 100 + "_end", 6)))
    assert below_title(50)[-1] == "             6.00 ms 100 %  xxxxxxxxxxx…xxxxxx_end"


@pytest.mark.parametrize(
    "wrong",
    [
        {s.LAYER_NAMES: ["conv1"]},
        {s.LAYER_NAMES: "conv1"},
        {s.LAYER_DURATIONS: [0.006, -1.0]},
        {s.LAYER_SHARES: [0.75, float("nan")]},
        {s.LAYER_SHARES: "most"},
    ],
)
def test_a_table_whose_lists_do_not_fit_together_is_left_out(recording, below_title, said, wrong):
    engine_run(recording, 0, 20, attributes={**layer_table(("conv1", 6), ("fc", 2)), **wrong})
    assert ([line for line in below_title() if "Layers" in line], said().layers) == ([], ())


# --- the first screen and the summary ---------------------------------------------------------------------------------
def test_the_first_screen_has_the_medians_of_device_and_host_and_the_slowest_layer(recording, findings):
    for number, (host_ms, gpu_ms) in enumerate([(4, 3), (5, 12), (6, 14)]):
        attributes = layer_table(("conv1 + relu1", 6), ("fc", 2)) if number == 2 else None
        engine_run(recording, 100 * number, 100 * number + host_ms, gpu_ms=gpu_ms, attributes=attributes)
    assert findings()[:2] == [
        "Net · _run_on_acc_0: device 12.0 ms, host 5.00 ms, median of 3 runs; 2 ended before the device did",
        "slowest layer: conv1 + relu1 in Net · _run_on_acc_0: 6.00 ms 75 %",
    ]


def test_the_engines_that_took_most_of_the_devices_time_are_named_and_the_others_counted(recording, findings):
    work = recording.span("work", 0, 1000, scope="app")
    for number in range(5):
        own = {s.ENGINE_NAME: f"_run_on_acc_{number}"}
        engine_run(recording, 100 * number, 100 * number + 90, gpu_ms=1 + number, attributes=own, parent=work)
    assert findings()[:4] == [
        "Net · _run_on_acc_4: device 5.00 ms, host 90.0 ms, 1 run",
        "Net · _run_on_acc_3: device 4.00 ms, host 90.0 ms, 1 run",
        "Net · _run_on_acc_2: device 3.00 ms, host 90.0 ms, 1 run",
        "2 more with times on the device",
    ]


def test_the_summary_has_the_times_on_the_device_in_seconds(recording, said):
    engine_run(recording, 0, 4, gpu_ms=12)
    graph = {s.CODE_FUNCTION: "forward", s.COMPILE_ID: "0/1", s.RUN_GRAPH_GPU_DURATION: 0.002}
    recording.span("torch.run_graph", 10, 14, graph)
    assert said().document()["gpu_times"] == [
        {
            "sentence": "Net · _run_on_acc_0: device 12.0 ms, host 4.00 ms, 1 run; 1 ended before the device did",
            "remedy": "",
            "root": "torch_tensorrt.execute",
            "name": "Net · _run_on_acc_0",
            "runs": 1,
            "gpu_s": 0.012,
            "host_s": 0.004,
            "still_running": 1,
        },
        {
            "sentence": "forward 0/1: device 2.00 ms, host 4.00 ms, 1 run",
            "remedy": "",
            "root": "torch.run_graph",
            "name": "forward 0/1",
            "runs": 1,
            "gpu_s": 0.002,
            "host_s": 0.004,
            "still_running": 0,
        },
    ]


def test_the_summary_has_the_layers_of_the_last_table_of_each_engine(recording, said):
    engine_run(recording, 0, 20, attributes=layer_table(("conv1", 9)))
    engine_run(recording, 30, 50, attributes=layer_table(("conv1", 6), ("fc", 2), runs=5))
    layers = said().document()["layers"]
    assert [layer["name"] for layer in layers] == ["conv1", "fc"]
    assert layers[0] == {
        "sentence": "conv1 in Net · _run_on_acc_0: 6.00 ms 75 %",
        "remedy": "",
        "engine": "Net · _run_on_acc_0",
        "name": "conv1",
        "s": 0.006,
        "share": 0.75,
        "runs": 5,
    }


def test_without_times_on_the_device_nothing_is_said_of_it(recording, said, drawn):
    engine_run(recording, 0, 4)
    assert (said().gpu_times, said().layers) == ((), ())
    assert "device" not in "\n".join(drawn(200))
