# SPDX-License-Identifier: Apache-2.0
"""What torchspan's sampler keeps, alongside the SDK's own samplers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider, sampling
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState

from support import installed
from torchspan.output.sdk._sampler import without_threshold
from torchspan.sdk import ParentBasedTorchspanSampler, TorchspanIdGenerator, TorchspanSampler
from torchspan.words import sampling as keys
from torchspan.words import semconv
from torchspan.words.sampling.ids import threshold_of, threshold_text

BOTH = [TorchspanSampler, ParentBasedTorchspanSampler]
ROOTS = 100_000


def sampled(sampler, parent=None, trace_id=1, attributes=None):
    return sampler.should_sample(parent, trace_id, "span", attributes=attributes).decision.is_sampled()


def below(*, is_sampled, is_remote=True, state=None):
    """A context whose current span is this one."""
    flags = TraceFlags(1 if is_sampled else 0)
    context = SpanContext(0xA, 0xB, is_remote=is_remote, trace_flags=flags, trace_state=state or TraceState())
    return trace.set_span_in_context(NonRecordingSpan(context))


# --- spans of the program -----------------------------------------------------------------------------------------

SAME = [(TorchspanSampler, sampling.ALWAYS_ON), (ParentBasedTorchspanSampler, sampling.DEFAULT_ON)]
PARENTS = [None, *(below(is_sampled=yes, is_remote=remote) for yes in (True, False) for remote in (True, False))]


@pytest.mark.parametrize(("kind", "same_as"), SAME)
@pytest.mark.parametrize("parent", PARENTS, ids=["root", "remote", "local", "remote unsampled", "local unsampled"])
def test_without_rules_spans_of_the_program_are_sampled_as_by_the_default_samplers(kind, same_as, parent):
    for trace_id in (1, 2**64 - 1, 2**128 - 1):
        assert sampled(kind(), parent, trace_id) is sampled(same_as, parent, trace_id)


RATIOS = [0.0, 1e-9, 0.01, 0.5, 0.999, 1.0]


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("parent", PARENTS, ids=["root", "remote", "local", "remote unsampled", "local unsampled"])
def test_with_a_ratio_they_are_sampled_as_by_the_samplers_of_trace_ids(ratio, parent):
    ids = TorchspanIdGenerator()
    for _ in range(200):
        trace_id = ids.generate_trace_id()
        for kind, same in (
            (TorchspanSampler, sampling.TraceIdRatioBased),
            (ParentBasedTorchspanSampler, sampling.ParentBasedTraceIdRatio),
        ):
            assert sampled(kind(f"other={ratio}"), parent, trace_id) is sampled(same(ratio), parent, trace_id)


def kept_of(kind, ratio, roots):
    """How many of so many roots of the program a provider keeps."""
    provider = TracerProvider(
        sampler=kind(f"other={ratio}"), id_generator=TorchspanIdGenerator(), shutdown_on_exit=False
    )
    tracer = provider.get_tracer("app")
    return sum(tracer.start_span("request").is_recording() for _ in range(roots))


def within_bounds(kept, ratio, roots):
    """Within six standard deviations of the binomial distribution: wrong once in 500 million runs."""
    return abs(kept - ratio * roots) < 6 * (ratio * (1 - ratio) * roots) ** 0.5


@pytest.mark.parametrize("kind", BOTH)
def test_of_100_000_roots_the_ratio_is_kept(kind):
    assert within_bounds(kept_of(kind, 0.1, ROOTS), 0.1, ROOTS)


@pytest.mark.parametrize("kind", BOTH)
def test_attributes_and_the_tracestate_of_the_parent_stay(kind):
    parent = below(is_sampled=True, state=TraceState([("vendor", "1"), ("ot", "th:8")]))
    result = kind().should_sample(parent, 1, "span", attributes={"a": 1})
    assert dict(result.attributes) == {"a": 1}
    assert result.trace_state == TraceState([("vendor", "1"), ("ot", "th:8")])


# --- what is kept -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("parent", PARENTS, ids=["root", "remote", "local", "remote unsampled", "local unsampled"])
def test_a_span_with_torchspan_keep_is_kept_whatever_surrounds_it(kind, parent):
    assert sampled(kind("other=0"), parent, attributes={"torchspan.keep": True})
    assert not sampled(kind("other=0"), None, attributes={"torchspan.keep": False})
    assert not sampled(kind("other=0"), None, attributes={"torchspan.keep": "yes"})


@pytest.mark.parametrize("kind", BOTH)
def test_it_is_marked_where_the_span_around_it_is_not_sampled(kind):
    attributes = {"torchspan.keep": True, "a": 1}
    found = [dict(kind().should_sample(each, 1, "span", attributes=attributes).attributes) for each in PARENTS]
    unsampled = {**attributes, "torchspan.parent_sampled": False}
    assert found == [attributes, attributes, attributes, unsampled, unsampled]


def test_the_probability_of_a_parent_that_was_not_sampled_is_not_that_of_the_span():
    parent = below(is_sampled=False, state=TraceState([("ot", "th:8;rv:01234567890abc"), ("vendor", "1")]))
    state = TorchspanSampler().should_sample(parent, 1, "span", attributes={"torchspan.keep": True}).trace_state
    assert dict(state) == {"ot": "rv:01234567890abc", "vendor": "1"}


@pytest.mark.parametrize(
    ("entry", "left"), [("th:8", None), ("rv:0;th:8", "rv:0"), ("rv:0", "rv:0"), ("th:8;p:2;rv:0", "p:2;rv:0")]
)
def test_a_probability_is_taken_out_of_a_tracestate(entry, left):
    expected = {"vendor": "1"} | ({} if left is None else {"ot": left})
    assert dict(without_threshold(TraceState([("ot", entry), ("vendor", "1")]))) == expected


def test_the_keys_are_those_of_the_table():
    assert str(semconv.KEEP) == keys.KEEP
    assert str(semconv.PARENT_SAMPLED) == keys.PARENT_SAMPLED


# --- thresholds ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("probability", "text"),
    [
        (1, "0"),
        (0.5, "8"),
        (0.25, "c"),
        (0.01, "fd70a3d70a3d71"),
        (2**-56, "ffffffffffffff"),
        (1e-30, "ffffffffffffff"),
    ],
)
def test_a_probability_is_written_as_opentelemetrys_threshold(probability, text):
    assert threshold_text(threshold_of(probability)) == text


# --- never in the program's way -----------------------------------------------------------------------------------


class Hostile:
    """Raises whatever is asked of it."""

    def __getattr__(self, name):
        raise RuntimeError(name)

    def __bool__(self):
        raise RuntimeError


@pytest.mark.fault("the SDK", "torchspan's sampler gets hostile attributes")
@pytest.mark.parametrize("kind", BOTH)
def test_nothing_is_raised_and_a_span_about_which_nothing_can_be_decided_is_kept(kind, caplog):
    sampler = kind("other=0")
    assert sampled(sampler, attributes=Hostile())
    assert sampled(sampler, parent=Hostile(), attributes={})
    assert caplog.messages == ["torchspan's sampler could not decide about a span, and keeps it (RuntimeError)."]


def test_the_description_names_the_rules():
    assert TorchspanSampler().get_description() == "TorchspanSampler{other=1,execute=0}"
    assert (
        ParentBasedTorchspanSampler("other=0.5,execute_target=9").get_description()
        == "ParentBasedTorchspanSampler{other=0.5,execute=0,execute_target=9}"
    )


# --- entry points -------------------------------------------------------------------------------------------------

PROGRAM = """
import json
from opentelemetry import trace
provider = trace.get_tracer_provider()
tracer = trace.get_tracer("app")
kept = tracer.start_span("compile", attributes={"torchspan.keep": True}).is_recording()
other = tracer.start_span("request").is_recording()
print(json.dumps([provider.sampler.get_description(), type(provider.id_generator).__name__, kept, other]))
"""


@pytest.fixture
def started(tmp_path):
    """What the program above prints under `opentelemetry-instrument` with these variables."""

    def start(**variables):
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "TORCHSPAN_"))}
        clean |= {f"OTEL_{signal}_EXPORTER": "none" for signal in ("TRACES", "METRICS", "LOGS")}
        script = tmp_path / "program.py"
        script.write_text(PROGRAM)
        command = [str(Path(sys.executable).with_name("opentelemetry-instrument")), sys.executable, str(script)]
        environment = {**clean, **installed.environment(tmp_path), **variables}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
        return json.loads(done.stdout)

    return start


def test_the_variables_of_opentelemetry_select_sampler_rules_and_ids(started):
    assert started(
        OTEL_TRACES_SAMPLER="parentbased_torchspan",
        OTEL_TRACES_SAMPLER_ARG="other=0,execute=0.01",
        OTEL_PYTHON_ID_GENERATOR="torchspan",
    ) == ["ParentBasedTorchspanSampler{other=0,execute=0.01}", "TorchspanIdGenerator", True, False]


@pytest.mark.parametrize("group", ["opentelemetry_traces_sampler", "opentelemetry_sampler"])
def test_one_callable_serves_both_groups_with_an_argument_or_none(group):
    declared = installed.declared_entry_points()[group].replace('"', "").splitlines()
    assert declared == [
        "torchspan = torchspan.sdk:TorchspanSampler",
        "parentbased_torchspan = torchspan.sdk:ParentBasedTorchspanSampler",
    ]
    for kind in BOTH:
        assert [type(each) for each in (kind(), kind(None), kind("other=1"))] == [kind] * 3


def test_the_generator_is_one_of_the_sdks():
    assert issubclass(TorchspanIdGenerator, IdGenerator)
