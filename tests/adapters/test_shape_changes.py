# SPDX-License-Identifier: Apache-2.0
"""A run says where its inputs have other shapes than those of the engine's last recorded run."""

import gc
import weakref

import pytest
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from support.engines import Callback, extend
from support.sampled_runs import SampledRuns, TrtEngine
from torchspan.words import semconv

torch = pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture
def runs():
    """Runs that are all recorded, with the events of those so far."""
    made = SampledRuns(ALWAYS_ON)
    made.events = []
    extend(made.engine, Callback("events", lambda event: event, lambda event, _: made.events.append(event)))
    with made.tracer.start_as_current_span("request"):
        yield made
    made.close()


def changes(runs):
    return [event.attributes.get(semconv.EXECUTE_SHAPES_CHANGED) for event in runs.events]


def test_a_run_with_other_shapes_than_the_engines_last_recorded_run_is_marked(runs):
    trt_engine = TrtEngine()
    small, large = torch.ones(2, 16), torch.ones(4, 16)
    for each in (small, small, large, large, small):
        runs.run([each], trt_engine)
    assert changes(runs) == [None, None, True, None, True]


def test_shapes_are_compared_with_those_of_the_same_engine(runs):
    one, other = TrtEngine(), TrtEngine()
    runs.run([torch.ones(2)], one)
    runs.run([torch.ones(3)], other)
    runs.run([torch.ones(2)], one)
    assert changes(runs) == [None, None, None]


def test_each_input_counts_for_a_change_of_shapes(runs):
    trt_engine = TrtEngine()
    runs.run([torch.ones(2), torch.ones(2)], trt_engine)
    runs.run([torch.ones(2), torch.ones(3)], trt_engine)
    runs.run([torch.ones(2)], trt_engine)
    assert changes(runs) == [None, True, True]


def test_shapes_do_not_keep_an_engine_alive(runs):
    trt_engine = TrtEngine()
    alive = weakref.ref(trt_engine)
    runs.run([torch.ones(2)], trt_engine)
    runs.events.clear()
    del trt_engine
    gc.collect()
    assert alive() is None
