# SPDX-License-Identifier: Apache-2.0
"""Remedies for programs with Torch-TensorRT are shown where following them as printed helps, and nowhere else."""

import pytest
import torch
from torch_tensorrt.dynamo.conversion import _ConverterRegistry as registry

from support.advice import alike, helped, run, with_settings
from support.advice.engines import PROGRAMS


@pytest.fixture(autouse=True)
def as_before():
    """Converters and the grad mode that a program changes are as before after it."""
    yield
    registry.DYNAMO_ATEN_CONVERTERS.pop(torch.ops.aten.erfinv.default, None)
    torch.set_grad_enabled(True)


def of(kind):
    return [program for program in PROGRAMS if program.kind == kind]


@helped(of("engine_cache"))
def test_an_engine_is_built_once_with_the_settings_that_turn_the_cache_on(program):
    before = run(program.source)
    after = run(with_settings(program.source, before.shown["engine_cache"][0]))
    assert (before.results, after.results) == ([True, True], [True, True])
    assert (before.builds, after.builds) == (2, 1)
    assert "engine_cache" not in after.shown


@alike(of("engine_cache"))
def test_the_cache_is_not_to_be_turned_on_where_that_saves_no_build(program):
    before = run(program.source)
    assert (before.results, before.builds) == ([True, True], 2)
    assert "engine_cache" not in before.shown
    if program.would:
        assert run(with_settings(program.source, program.would)).builds == 2


def left(ran):
    return sum(fallback.count for fallback in ran.said.fallbacks)


@helped(of("min_block_size"))
def test_fewer_operators_are_left_to_pytorch_with_the_smaller_block_size(program):
    before = run(program.source)
    after = run(with_settings(program.source, before.shown["min_block_size"][0]))
    assert (before.results, after.results) == ([True], [True])
    assert left(after) < left(before)
    assert "min_block_size" not in after.shown


@alike(of("min_block_size"))
def test_no_other_block_size_is_named_where_operators_are_left_for_another_reason(program):
    before = run(program.source)
    assert "min_block_size" not in before.shown
    assert left(run(with_settings(program.source, program.would))) == left(before) == 1


FAILURES = ("partial_compilation", "excluded", "excluded_in_options")


@helped([program for kind in FAILURES for program in of(kind)])
def test_a_compilation_that_failed_succeeds_with_the_settings(program):
    before = run(program.source)
    (remedy,) = before.shown[program.kind]
    after = run(with_settings(program.source, remedy))
    assert before.said.errors
    assert (after.error, after.results, after.said.errors) == (None, [True], ())


@alike([program for kind in FAILURES for program in of(kind)])
def test_no_setting_is_named_where_the_compilation_would_fail_with_it_as_well(program):
    before = run(program.source)
    assert program.kind not in before.shown
    if program.would:
        assert type(run(with_settings(program.source, program.would)).error) is type(before.error) is not type(None)
