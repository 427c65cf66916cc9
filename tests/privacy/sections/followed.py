# SPDX-License-Identifier: Apache-2.0
"""A module that TORCHSPAN_INPUTS names, called with values of the user's."""

import torch
from opentelemetry import trace

from privacy import places

NAME, ARGUMENT = (places.canary(f"followed.{each}.name").text for each in ("class", "argument"))


def _class():
    scope = {}
    exec(compile(f"def forward(self, {ARGUMENT}, *texts, **others):\n    return None\n", __file__, "exec"), scope)
    return type(NAME, (torch.nn.Module,), {"__module__": __name__, "forward": scope["forward"]})


globals()[NAME] = _class()


def plant(place):
    """Calls with the user's texts, and under the user's keys."""
    place("followed.class.name"), place("followed.argument.name")
    model, x = globals()[NAME](), torch.ones(2)
    with trace.get_tracer("privacy").start_as_current_span("followed"):
        for _ in range(2):
            model(x, place("followed.string"), **{place("followed.keyword"): x})
            model({place("followed.dict.key"): [x]})
