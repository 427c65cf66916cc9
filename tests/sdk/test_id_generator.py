# SPDX-License-Identifier: Apache-2.0
"""Ids for the spans of a whole program, and what is said where a program's own repeat."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator

from support import installed
from torchspan.sdk import TorchspanIdGenerator
from torchspan.words.sampling.ids import IDS, KeptRange, SameTrace


@pytest.fixture
def ids():
    return TorchspanIdGenerator()


# --- ids ----------------------------------------------------------------------------------------------------------


def test_it_is_a_generator_of_the_sdk(ids):
    assert isinstance(ids, IdGenerator)


def test_seeding_the_global_generator_repeats_no_id_and_its_numbers_stay(ids):
    random.seed(0)
    expected = [random.random() for _ in range(50)]
    random.seed(0)
    seen, numbers = set(), []
    for _ in range(50):
        seen |= {ids.generate_trace_id(), ids.generate_span_id()}
        numbers.append(random.random())
    assert len(seen) == 100
    assert numbers == expected
    for _ in range(50):
        random.seed(0)
        seen |= {ids.generate_trace_id(), ids.generate_span_id()}
    assert len(seen) == 200


def test_ids_have_their_lengths_and_use_all_bits(ids):
    traces, spans = 0, 0
    for _ in range(200):
        traces |= ids.generate_trace_id()
        spans |= ids.generate_span_id()
    assert (traces, spans) == (2**128 - 1, 2**64 - 1)


def test_trace_ids_say_that_they_are_random(provider, ids):
    tracer = TracerProvider(id_generator=ids, shutdown_on_exit=False).get_tracer("tests")
    with tracer.start_as_current_span("root") as span:
        assert getattr(span.get_span_context().trace_flags, "random_trace_id", True)


RANK = """
import random
random.seed(0)
from opentelemetry import trace
tracer = trace.get_tracer("app")
for _ in range(20):
    context = tracer.start_span("step").get_span_context()
    print(context.trace_id, context.span_id)
print(random.random())
"""


def test_two_ranks_that_seed_alike_share_no_id_under_the_variable(tmp_path):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "TORCHSPAN_"))}
    environment |= {"OTEL_PYTHON_ID_GENERATOR": "torchspan", "OTEL_TRACES_EXPORTER": "none"}
    environment |= {"OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}
    environment |= installed.environment(tmp_path)
    script = tmp_path / "rank.py"
    script.write_text(RANK)
    command = [str(Path(sys.executable).with_name("opentelemetry-instrument")), sys.executable, str(script)]
    outputs = [
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120).stdout.split()
        for _ in range(2)
    ]
    random.seed(0)
    assert [output.pop() for output in outputs] == [str(random.random())] * 2
    assert [len(output) for output in outputs] == [40, 40]
    assert len({number for output in outputs for number in output}) == 80


# --- trace ids that a decision wants ------------------------------------------------------------------------------


def test_a_wanted_trace_id_is_given_once(ids):
    with IDS.next_trace(SameTrace(0xABC, is_random=True)):
        assert ids.generate_trace_id() == 0xABC
        assert ids.generate_trace_id() != 0xABC
    assert ids.generate_trace_id() != 0xABC


@pytest.mark.parametrize("is_random", [True, False])
def test_a_trace_id_that_was_there_is_as_random_as_it_was(ids, is_random):
    with IDS.next_trace(SameTrace(0xABC, is_random=is_random)):
        ids.generate_trace_id()
        assert ids.is_trace_id_random() is is_random
    assert ids.is_trace_id_random()


def test_what_was_wanted_and_not_asked_for_is_forgotten(ids):
    with IDS.next_trace(SameTrace(0xABC, is_random=False)):
        pass
    assert ids.generate_trace_id() != 0xABC
    assert ids.is_trace_id_random()


def test_a_kept_trace_id_has_a_randomness_of_at_least_the_threshold(ids):
    threshold = 2**56 - 2**56 // 100
    found = []
    for _ in range(1000):
        with IDS.next_trace(KeptRange(threshold)):
            found.append(ids.generate_trace_id())
    randomness = [each & (2**56 - 1) for each in found]
    assert min(randomness) >= threshold
    middle = (threshold + 2**56) // 2
    assert 400 < sum(each >= middle for each in randomness) < 600  # 6 standard deviations are 95
    assert len({each >> 56 for each in found}) == 1000


def test_another_thread_gets_ids_of_its_own(ids):
    import threading

    found = []
    with IDS.next_trace(SameTrace(0xABC, is_random=True)):
        thread = threading.Thread(target=lambda: found.append(ids.generate_trace_id()))
        thread.start()
        thread.join()
    assert found != [0xABC]
