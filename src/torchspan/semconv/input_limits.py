# SPDX-License-Identifier: Apache-2.0
"""Attributes about calls and what engines were built for: what lies outside, and how far from opt calls are."""

from __future__ import annotations

from torchspan import phase
from torchspan.semconv._sizes import ArgumentPath
from torchspan.semconv._table import Attribute
from torchspan.semconv._values import Enumeration

OUTSIDE_EVENT = "torchspan.input.out_of_profile"
"""The span event of a call that lies outside what the engine was built for; also on the user's spans."""
OUTSIDE_PATHS = Attribute(
    "torchspan.input.outside.paths",
    "string[]",
    "Place of each tensor in the arguments that has a dimension outside what the engine was built for, once for each "
    "such dimension: `past[0][1]` (at most 20). On a compilation: of the call for which a module is compiled again.",
    phase.COMPILE,
    event=OUTSIDE_EVENT,
    kind=ArgumentPath(),
)
OUTSIDE_AXES = Attribute(
    "torchspan.input.outside.axes",
    "int[]",
    "Number of each dimension of `torchspan.input.outside.paths`, from 0 on; -1: the tensor has another number of "
    "dimensions, which then stands in place of a size.",
    phase.COMPILE,
    event=OUTSIDE_EVENT,
)
OUTSIDE_SIZES = Attribute(
    "torchspan.input.outside.sizes",
    "int[]",
    "Size of each dimension of `torchspan.input.outside.axes` in the call.",
    phase.COMPILE,
    event=OUTSIDE_EVENT,
)
OUTSIDE_MINIMUMS = Attribute(
    "torchspan.input.outside.minimums",
    "int[]",
    "Smallest size for which the engine was built, of each dimension of `torchspan.input.outside.axes`.",
    phase.COMPILE,
    event=OUTSIDE_EVENT,
)
OUTSIDE_MAXIMUMS = Attribute(
    "torchspan.input.outside.maximums",
    "int[]",
    "Largest size for which the engine was built, of each dimension of `torchspan.input.outside.axes`; -1: there is "
    "none.",
    phase.COMPILE,
    event=OUTSIDE_EVENT,
)

DRIFT_EVENT = "torchspan.input.drift"
"""The span event that says how far from opt the calls of a module are; also on the user's spans."""
DRIFT_CALLS = Attribute(
    "torchspan.input.drift.calls",
    "int",
    "Calls of the module so far, with one of its first 1,024 shapes.",
    event=DRIFT_EVENT,
)
DRIFT_AT_OPT = Attribute(
    "torchspan.input.drift.at_opt",
    "int",
    "How many of `torchspan.input.drift.calls` have, in every dimension that may vary, the size that the engine was "
    "optimized for.",
    event=DRIFT_EVENT,
)
DRIFT_PATH = Attribute(
    "torchspan.input.drift.path",
    "string",
    "Place of the tensor in the arguments whose usual size is another one than opt in most calls.",
    event=DRIFT_EVENT,
    kind=ArgumentPath(),
)
DRIFT_AXIS = Attribute(
    "torchspan.input.drift.axis", "int", "The dimension of `torchspan.input.drift.path`, from 0 on.", event=DRIFT_EVENT
)
DRIFT_SIZE = Attribute(
    "torchspan.input.drift.size",
    "int",
    "The most frequent size of the dimension `torchspan.input.drift.axis`.",
    event=DRIFT_EVENT,
)
DRIFT_SIZE_CALLS = Attribute(
    "torchspan.input.drift.size_calls",
    "int",
    "Calls in which the dimension `torchspan.input.drift.axis` has the size `torchspan.input.drift.size`.",
    event=DRIFT_EVENT,
)
DRIFT_OPT = Attribute(
    "torchspan.input.drift.opt",
    "int",
    "The size of the dimension `torchspan.input.drift.axis` that the engine was optimized for.",
    event=DRIFT_EVENT,
)

PROFILE_FIT = Attribute(
    "torchspan.input.profile.fit",
    "string",
    "`opt`: in every dimension that may vary, the call has the size that the engine was optimized for. `inside`: it "
    "has another one that the engine was built for. `outside`: it has one that the engine was not built for.",
    metric=True,
    kind=Enumeration("opt", "inside", "outside"),
)
