# SPDX-License-Identifier: Apache-2.0
"""The calls of one module against what it was built for: reported where they lie outside, and counted all."""

import threading

import pytest
import torch

from support.observed_calls import Add, ones
from torchspan.inputs.observed.attachments import CallHook
from torchspan.inputs.observed.observations import SHAPES_LIMIT
from torchspan.inputs.observed.signatures import signature_of
from torchspan.inputs.watched.engine_limits import EngineLimits, LimitWatch, Outside, SizeRange, UsualSize
from torchspan.inputs.watched.traffic import Traffic

FOUR = SizeRange(4, 4, 4)
LIMITS = EngineLimits({("x",): (SizeRange(1, 8, 16), FOUR), ("y",): (SizeRange(1, 8, 16), FOUR)})


def watched(limits=LIMITS):
    """A module that adds, its watch, and a list of what that reports."""
    module, reports = Add(), []
    watch = LimitWatch(limits, reports.append)
    CallHook(module, Traffic(signature_of(module.forward), 1_000_000, [watch]).begin)
    return module, watch, reports


def counts(watch):
    return tuple(watch.counts()[fit] for fit in ("opt", "inside", "outside"))


def test_a_call_inside_the_limits_is_not_reported():
    module, watch, reports = watched()
    module(ones(8, 4), ones(8, 4))
    module(ones(3, 4), y=ones(3, 4))
    assert (reports, counts(watch)) == ([], (1, 1, 0))


def test_each_call_outside_is_reported_with_all_that_lies_outside():
    module, watch, reports = watched()
    for _ in range(3):
        module(ones(17, 4), ones(17, 4))
    assert reports == 3 * [(Outside(("x",), 0, 17, 1, 16), Outside(("y",), 0, 17, 1, 16))]
    assert counts(watch) == (0, 0, 3)


def test_a_call_outside_is_reported_before_the_module_runs_and_if_it_raises():
    module, _, reports = watched()
    seen = []
    module.forward = lambda x, y: seen.append(len(reports)) or x.no_such_attribute
    with pytest.raises(AttributeError):
        module(ones(17, 4), ones(1, 4))
    assert seen == [1]
    assert reports == [(Outside(("x",), 0, 17, 1, 16),)]


def test_positional_and_keyword_calls_of_one_shape_are_compared_once_and_counted_together():
    module, watch, _ = watched()
    module(ones(3, 4), ones(3, 4))
    module(y=ones(3, 4), x=ones(3, 4))
    assert watch.drift().calls == 2
    assert watch.drift().usual[0] == UsualSize(("x",), 0, 3, 2, 8)


def test_counts_of_eight_threads_are_exact():
    module, watch, reports = watched()
    tensors = [(ones(size, 4), ones(size, 4)) for size in (8, 3, 17)]

    def calls():
        for _ in range(200):
            for each in tensors:
                module(*each)

    threads = [threading.Thread(target=calls) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert counts(watch) == (1_600, 1_600, 1_600)
    assert len(reports) == 1_600


def test_beyond_the_limit_of_shapes_calls_are_counted_and_reported_and_take_no_memory():
    module, watch, reports = watched()
    empty = torch.empty
    for rows in range(1, SHAPES_LIMIT + 1):
        module(empty(rows, 4), empty(1, 4))
    before = len(reports)
    for rows in range(SHAPES_LIMIT + 1, SHAPES_LIMIT + 11):
        module(empty(rows, 4), empty(1, 4))
    module(empty(8, 4), empty(8, 4))
    assert (before, len(reports)) == (SHAPES_LIMIT - 16, SHAPES_LIMIT - 6)
    assert counts(watch) == (1, 16, SHAPES_LIMIT - 6)
    assert watch.drift().calls == SHAPES_LIMIT
