# SPDX-License-Identifier: Apache-2.0
"""Compilations of torch.compile that take minutes are visible while they run."""

import time

import torch

from support import compiled
from support.tree import outline

ONES = torch.ones(3, 3)
LIMIT_S = 60


def waiting(exporter, running):
    """A backend that continues until a heartbeat has said that `running` is what runs."""
    timed = torch._dynamo.utils.dynamo_timed

    def backend(module, _inputs):
        with timed("inductor_compile"), timed("code_gen"):
            end = time.monotonic() + LIMIT_S
            while running not in {each.attributes.get("torchspan.progress.running") for each in reported(exporter)}:
                assert time.monotonic() < end
                time.sleep(0.01)
        return module.forward

    return backend


def reported(exporter):
    return [span for span in exporter.get_finished_spans() if span.name == "torchspan.progress"]


def test_a_heartbeat_says_in_which_phase_of_a_frame_the_compilation_is(every_phase, instrument, exporter, spans):
    instrument(heartbeat=0.1)
    torch.compile(compiled.plain, backend=waiting(exporter, "torch.compile_phase inductor_compile"))(ONES)
    (made,) = spans("torch.compile_frame")
    beats = reported(exporter)
    assert {each.attributes["torchspan.progress.work"] for each in beats} == {"torch.compile_frame"}
    assert {each.parent.span_id for each in beats} == {made.context.span_id}


def test_a_frame_that_is_being_compiled_is_active_and_not_a_build(instrument, metrics):
    instrument()
    seen = []

    def backend(module, _inputs):
        read = metrics.read()
        seen.append({name: point.value for name in read if name.endswith(".active") for point in read[name]})
        return module.forward

    torch.compile(compiled.plain, backend=backend)(ONES)
    assert seen == [{"torch.compile.active": 1}]
    assert metrics.values("torch.compile.active") == {(): 0}


def test_a_phase_that_has_turned_out_to_be_long_has_the_same_place_as_one_found_at_its_end(every_phase, exporter):
    timed = torch._dynamo.utils.dynamo_timed

    def backend(module, _inputs):
        with timed("inductor_compile"), timed("code_gen"), timed("compile_file"):
            pass
        with timed("gc"):
            pass
        return module.forward

    torch.compile(compiled.plain, backend=backend)(ONES)
    lines = outline(exporter.get_finished_spans())[0].splitlines()
    assert lines[3:8] == [
        "  torch.compile_phase backend_compile",
        "    torch.compile_phase inductor_compile",
        "      torch.compile_phase code_gen",
        "        torch.compile_phase compile_file",
        "    torch.compile_phase gc",
    ]


def test_a_phase_that_turns_out_to_be_long_has_the_time_of_its_thread_from_its_beginning(exporter, spans):
    exporter.with_phases = True

    def slow(graph, _inputs):
        with torch._dynamo.utils.dynamo_timed("slow_part"):
            end = time.thread_time() + 0.05
            while time.thread_time() < end:
                pass
        return graph.forward

    torch.compile(lambda x: x + 1, backend=slow)(torch.ones(3))
    (phase,) = spans("torch.compile_phase slow_part")
    assert phase.attributes["torchspan.cpu.thread_time"] >= 0.05
