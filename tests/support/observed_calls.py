# SPDX-License-Identifier: Apache-2.0
"""Models with the signatures that tests of observed inputs call, and observers that have seen calls."""

import json

import torch

from torchspan.inputs import InputObserver


class Add(torch.nn.Module):
    def forward(self, x, y):
        return x + y


class Optional(torch.nn.Module):
    def forward(self, x, y=None, scale=1.0):
        return (x if y is None else x + y) * scale


class Nested(torch.nn.Module):
    """Adds up the tensors in a container."""

    def forward(self, items):
        return sum(each.sum() for each in torch.utils._pytree.tree_leaves(items) if isinstance(each, torch.Tensor))


class Variadic(torch.nn.Module):
    def forward(self, x, *others, **named):
        return x + sum(others) + sum(named.values())


class Anything(torch.nn.Module):
    """Takes what it gets, and returns the first argument."""

    def forward(self, x, other=None):
        return x


def ones(*sizes, dtype=torch.float32):
    return torch.ones(*sizes, dtype=dtype)


def shapes(arguments):
    """Arguments with the shape of each tensor in its place."""
    return torch.utils._pytree.tree_map(
        lambda each: tuple(each.shape) if isinstance(each, torch.Tensor) else each, arguments
    )


def kinds(observer):
    """Kind and path of each finding."""
    return [(each.kind, each.path) for each in observer.findings()]


def observed(model, *calls, **options):
    """An observer that has seen these calls, each a tuple or a dictionary of arguments."""
    observer = InputObserver(**options)
    with observer(model):
        for call in calls:
            model(*call) if isinstance(call, tuple) else model(**call)
    return observer


def recorded(observer, name="x"):
    """Of each distinct shape of calls the shape of one argument, in the order of the first calls of these shapes to return."""
    written = json.loads(observer.to_json())["observations"][0]["shapes"]
    return [tuple(each["arguments"][name]["shape"]) for each in written]
