# SPDX-License-Identifier: Apache-2.0
"""Calls that are observed and written to a file."""

from collections import OrderedDict, namedtuple

import torch

from torchspan.inputs import InputObserver

FILE = "observed.inputs.json"


def plant(place):
    """A model of the program's, called with a value of the program's in every kind of place."""
    parameter, default = place("observed.parameter.name"), place("observed.constant.default")
    names = {"torch": torch, "DEFAULT": default}
    exec(f"def forward(self, x, {parameter}=None, mode=DEFAULT, **named):\n    return x", names)
    model = type(place("observed.class.identifier"), (torch.nn.Module,), {"forward": names["forward"]})()
    value = place("observed.opaque.value")
    opaque = type(place("observed.opaque.identifier"), (), {"__repr__": lambda _self: value})
    unspeakable = type(place("observed.opaque.text"), (), {})
    fields = namedtuple("Fields", [place("observed.namedtuple.field")])  # noqa: PYI024
    registered = type("Registered", (), {})
    context = place("observed.context")
    torch.utils._pytree.register_pytree_node(registered, lambda _object: ([X], context), lambda *_: registered())
    container = {
        place("observed.dict.key"): X,
        place("observed.dict.identifier"): [place("observed.list.string"), opaque(), unspeakable()],
        4711: OrderedDict({place("observed.ordered_dict.key"): place("observed.dict.value")}),
        "fields": fields((registered(), place("observed.long_string") * 100)),
    }
    observer = InputObserver(value_if_missing={parameter: {place("observed.missing.key"): X}})
    try:
        with observer(model):
            model(X, container, place("observed.constant.string"))
            model(X, **{place("observed.keyword.name"): place("observed.keyword.value")})
            model(X, {place("observed.other.key"): X}, place("observed.constant.other"))
    finally:
        torch.utils._pytree._deregister_pytree_node(registered)
    observer.to_json(place.folder / FILE)
    observer.report()


X = torch.ones(2, 4)
