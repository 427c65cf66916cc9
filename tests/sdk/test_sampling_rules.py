# SPDX-License-Identifier: Apache-2.0
"""The sampler's rules as one text, and which of them hold."""

import random
import string
import subprocess
import sys

import pytest

import torchspan
from torchspan.output.sdk._rule_texts import _from_environment
from torchspan.sdk import TorchspanSampler
from torchspan.words.sampling.rules import SamplingRules


@pytest.fixture(autouse=True)
def _environment_read_again():
    _from_environment.cache_clear()
    yield
    _from_environment.cache_clear()


def rules(text):
    return TorchspanSampler(text).execution_rules()


def test_without_rules_spans_of_the_program_are_kept_and_runs_begin_no_trace():
    assert rules(None) == SamplingRules(other=1, execute=0, execute_per_second=None, execute_target=None)


@pytest.mark.parametrize("text", ["", " ", ",", " , ,"])
def test_an_empty_text_is_none(text, caplog):
    assert rules(text) == rules(None)
    assert caplog.messages == []


def test_each_rule_is_read():
    assert rules("other=0.5,execute=0.01,execute_per_second=20") == SamplingRules(0.5, 0.01, 20)
    assert rules(" Execute_Target = 7.5 ") == SamplingRules(execute_target=7.5)


def test_a_number_alone_is_what_traceidratio_takes():
    assert rules("0.25") == SamplingRules(other=0.25)


def test_a_limit_of_ten_a_second_holds_unless_there_is_a_limit_or_a_target():
    assert [rules(text).limit for text in (None, "execute_per_second=3", "execute_target=50")] == [10, 3, None]
    assert rules("execute_target=50,execute_per_second=3").limit == 3


BAD = {
    "execute=2": "expected a number from 0 to 1",
    "execute=": "expected a number from 0 to 1",
    "other=-1": "expected a number from 0 to 1",
    "other=nan": "expected a number from 0 to 1",
    "half": "expected a number from 0 to 1",
    "execute_per_second=0": "expected a number above 0, at most 1000000",
    "execute_target=1e7": "expected a number above 0, at most 1000000",
    "exceute=0.1": "there is no rule 'exceute' (did you mean 'execute'?)",
    "=1": "there is no rule '' (expected one of execute, execute_per_second, execute_target, other)",
    "compile=1": "there is no rule 'compile' (expected one of execute, execute_per_second, execute_target, other)",
}


@pytest.mark.parametrize("rule", BAD)
def test_a_bad_rule_is_one_warning_that_names_it_and_the_others_hold(rule, caplog):
    sampler = TorchspanSampler(f"execute_per_second=5,{rule}")
    for _ in range(3):
        assert sampler.execution_rules() == SamplingRules(execute_per_second=5)
    repeated = "an earlier rule sets 'execute_per_second' already"
    rest = repeated if rule.startswith("execute_per_second") else BAD[rule]
    assert caplog.messages == [f"torchspan's sampler ignores the rule {rule!r} in OTEL_TRACES_SAMPLER_ARG: {rest}."]


def test_a_bad_rule_alone_is_named_as_well(caplog):
    assert rules("execute_per_second=0") == SamplingRules()
    (message,) = caplog.messages
    assert message.endswith(": expected a number above 0, at most 1000000.")


def test_of_two_rules_of_one_name_the_first_holds(caplog):
    assert rules("execute=0.1,execute=0.2") == SamplingRules(execute=0.1)
    assert caplog.messages == [
        "torchspan's sampler ignores the rule 'execute=0.2' in OTEL_TRACES_SAMPLER_ARG: an earlier rule sets 'execute' already."
    ]


def test_any_text_gives_rules_and_nothing_is_raised(caplog):
    generator = random.Random(13)
    letters = string.printable + "=,.é\u202e\x00"
    for _ in range(500):
        found = rules("".join(generator.choices(letters, k=generator.randrange(40))))
        assert 0 <= found.other <= 1 and 0 <= found.execute <= 1
    assert rules("x" * 1_000_000) == SamplingRules()
    assert max(map(len, caplog.messages)) < 400


def test_a_setting_wins_over_the_text(monkeypatch):
    monkeypatch.setenv("TORCHSPAN_SAMPLE_EXECUTE", "0.5")
    assert rules("other=0.1,execute=0.1") == SamplingRules(other=0.1, execute=0.5)


def test_the_settings_that_torchspan_is_instrumented_with_hold_while_it_is(instrument, monkeypatch):
    monkeypatch.setenv("TORCHSPAN_SAMPLE_EXECUTE", "0.5")
    sampler = TorchspanSampler("other=0.1,execute=0.1")
    instrumentor = instrument(sample_execute=0.25, sample_other=0)
    assert sampler.execution_rules() == SamplingRules(other=0, execute=0.25)
    instrumentor.uninstrument()
    assert sampler.execution_rules() == SamplingRules(other=0.1, execute=0.5)


def test_a_bad_variable_is_one_warning_where_torchspan_is_not_instrumented(monkeypatch, caplog):
    monkeypatch.setenv("TORCHSPAN_SAMPLE_OTHER", "most")
    for _ in range(3):
        assert rules(None) == SamplingRules()
    assert caplog.messages == [
        "Invalid TORCHSPAN_SAMPLE_OTHER='most', using the default (`1`) (expected a number from 0 to 1)"
    ]


def test_the_sampler_imports_neither_torch_nor_the_table_of_attributes():
    program = """
import sys
from torchspan.sdk import TorchspanSampler
from opentelemetry.sdk.trace import TracerProvider
provider = TracerProvider(sampler=TorchspanSampler("other=0.5"), shutdown_on_exit=False)
provider.get_tracer("app").start_span("request")
names = ("torch", "torch_tensorrt", "tensorrt", "tensorrt_rtx")
print([name for name in sys.modules if name.split(".")[0] in names or name.startswith("torchspan.words.semconv")])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "[]"
    assert torchspan.__version__
