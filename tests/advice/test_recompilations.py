# SPDX-License-Identifier: Apache-2.0
"""Remedies for functions that are compiled again are shown where following them as printed helps, and nowhere else."""

import torch

from support.advice import alike, before_each_call, helped, run, with_a_raised_limit
from support.advice.recompilations import PROGRAMS

SIZES, LIMITS = (
    [program for program in PROGRAMS if program.kind == kind] for kind in ("mark_dynamic", "recompile_limit")
)


@helped(SIZES)
def test_sizes_that_are_marked_before_each_call_need_fewer_compilations(program):
    before = run(program.source)
    source = program.source
    for remedy in dict.fromkeys(before.shown["mark_dynamic"]):
        source = before_each_call(source, remedy)
    after = run(source)
    torch.testing.assert_close(after.results, before.results)
    assert after.graphs < before.graphs
    assert "mark_dynamic" not in after.shown


@alike(SIZES)
def test_sizes_are_not_to_be_marked_where_that_saves_no_compilation(program):
    before = run(program.source)
    assert "mark_dynamic" not in before.shown
    if program.would:
        assert run(before_each_call(program.source, program.would)).graphs == before.graphs


@helped(LIMITS)
def test_no_limit_is_reached_any_more_where_it_is_raised_in_the_thread_that_compiles(program):
    before = run(program.source)
    (remedy,) = before.shown["recompile_limit"]
    after = run(with_a_raised_limit(program.source, remedy))
    torch.testing.assert_close(after.results, before.results)
    assert [again.limit for again in after.said.recompiles if again.limit] == []
    assert (before.graphs, after.graphs) == (8, 9)


@alike(LIMITS)
def test_a_limit_is_not_to_be_raised_where_another_setting_decides(program):
    before = run(program.source)
    assert "recompile_limit" not in before.shown
    if program.would:
        assert run(with_a_raised_limit(program.source, program.would)).graphs == before.graphs
