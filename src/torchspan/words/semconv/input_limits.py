# SPDX-License-Identifier: Apache-2.0
"""Attributes that compare calls with what engines were built for: sizes outside, and the distance from opt."""

from __future__ import annotations

from torchspan.words import phase
from torchspan.words.redaction.kinds_of_text import Enumeration
from torchspan.words.redaction.size_text import ArgumentPath
from torchspan.words.semconv._table import Attribute

OUTSIDE_EVENT = "torchspan.input.out_of_profile"
"""Event of a call with sizes for which the engine was not built. Also on the user's spans."""
OUTSIDE_PATHS = Attribute(
    "torchspan.input.outside.paths",
    [ArgumentPath()],
    "Path in the arguments, such as `past[0][1]`, of each tensor with a dimension outside the sizes for which the "
    "engine was built. A tensor is listed once for each such dimension (at most 20). On the span of a compilation, "
    "the paths are those of the call that caused the recompilation.",
    phase.COMPILE,
    event=OUTSIDE_EVENT,
)
OUTSIDE_AXES = Attribute(
    "torchspan.input.outside.axes",
    "int[]",
    "Number of the dimension for each of `torchspan.input.outside.paths`, starting from 0. -1 means that the tensor "
    "has the wrong number of dimensions; its size, minimum and maximum are then numbers of dimensions.",
    phase.COMPILE,
    event=OUTSIDE_EVENT,
)
OUTSIDE_SIZES = Attribute(
    "torchspan.input.outside.sizes",
    "int[]",
    "Size, in the call, of the dimension for each of `torchspan.input.outside.paths`.",
    phase.COMPILE,
    event=OUTSIDE_EVENT,
)
OUTSIDE_MINIMUMS = Attribute(
    "torchspan.input.outside.minimums",
    "int[]",
    "Smallest size for which the engine was built, of the dimension for each of `torchspan.input.outside.paths`.",
    phase.COMPILE,
    event=OUTSIDE_EVENT,
)
OUTSIDE_MAXIMUMS = Attribute(
    "torchspan.input.outside.maximums",
    "int[]",
    "Largest size for which the engine was built, of the dimension for each of `torchspan.input.outside.paths`. -1 "
    "means that there is no largest size.",
    phase.COMPILE,
    event=OUTSIDE_EVENT,
)

DRIFT_EVENT = "torchspan.input.drift"
"""Event that compares the usual size of a dimension in the calls of a module with the size for which the engine
was optimized. Also on the user's spans."""
DRIFT_CALLS = Attribute(
    "torchspan.input.drift.calls",
    "int",
    "Number of calls of the module so far with one of its first 1,024 shapes.",
    event=DRIFT_EVENT,
)
DRIFT_AT_OPT = Attribute(
    "torchspan.input.drift.at_opt",
    "int",
    "Number of calls in `torchspan.input.drift.calls` with the sizes for which the engine was optimized, in every "
    "dimension that may vary.",
    event=DRIFT_EVENT,
)
DRIFT_PATH = Attribute(
    "torchspan.input.drift.path",
    ArgumentPath(),
    "Path in the arguments of the tensor with a dimension that deviates. In at least half of the calls, this "
    "dimension has the same size, which is not the size for which the engine was optimized.",
    event=DRIFT_EVENT,
)
DRIFT_AXIS = Attribute(
    "torchspan.input.drift.axis",
    "int",
    "Number of the dimension that deviates, in the tensor `torchspan.input.drift.path`, starting from 0.",
    event=DRIFT_EVENT,
)
DRIFT_SIZE = Attribute(
    "torchspan.input.drift.size",
    "int",
    "Most frequent size of the dimension `torchspan.input.drift.axis`.",
    event=DRIFT_EVENT,
)
DRIFT_SIZE_CALLS = Attribute(
    "torchspan.input.drift.size_calls",
    "int",
    "Number of calls in which the dimension `torchspan.input.drift.axis` has the size `torchspan.input.drift.size`.",
    event=DRIFT_EVENT,
)
DRIFT_OPT = Attribute(
    "torchspan.input.drift.opt",
    "int",
    "Size of the dimension `torchspan.input.drift.axis` for which the engine was optimized.",
    event=DRIFT_EVENT,
)

PROFILE_FIT = Attribute(
    "torchspan.input.profile.fit",
    Enumeration("opt", "inside", "outside"),
    "How a call fits the engine. `opt`: every dimension that may vary has the size for which the engine was "
    "optimized. `inside`: the engine was built for the sizes of the call, but at least one is not the size for which "
    "it was optimized, or no dimension may vary. `outside`: the engine was not built for one of the sizes.",
    metric=True,
)
