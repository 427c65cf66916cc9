# SPDX-License-Identifier: Apache-2.0
"""A module that TORCHSPAN_INPUTS names, called with values of the user's."""

import contextlib

import torch
import torch_tensorrt
from opentelemetry import trace

from privacy import places

NAME, ARGUMENT = (places.canary(f"followed.{each}.name").text for each in ("class", "argument"))


def _class(name, parameters, returned):
    scope = {}
    exec(compile(f"def forward(self, {ARGUMENT}{parameters}):\n    return {returned}\n", __file__, "exec"), scope)
    return type(name, (torch.nn.Module,), {"__module__": __name__, "forward": scope["forward"]})


globals()[NAME] = _class(NAME, ", *texts, **others", "None")


def plant(place):
    """Calls with the user's texts, and under the user's keys."""
    place("followed.class.name"), place("followed.argument.name")
    model, x = globals()[NAME](), torch.ones(2)
    with trace.get_tracer("privacy").start_as_current_span("followed"):
        for _ in range(2):
            model(x, place("followed.string"), **{place("followed.keyword"): x})
            model({place("followed.dict.key"): [x]})
    _compiled()


def _compiled():
    """Calls of an engine that it was not built for, and many that are far from its opt."""
    rows, x = torch.export.Dim("rows", min=2, max=8), torch.ones(3, 4)
    model = _class("Compiled", "", f"{ARGUMENT} * 2")()
    program = torch.export.export(model, (x,), dynamic_shapes=({0: rows},))
    compiled = torch_tensorrt.dynamo.compile(program, arg_inputs=[x], min_block_size=1)
    with trace.get_tracer("privacy").start_as_current_span("compiled"):
        with contextlib.suppress(RuntimeError):
            compiled(torch.ones(9, 4))
        for _ in range(30):
            compiled(torch.ones(5, 4))
