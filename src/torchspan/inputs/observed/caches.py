# SPDX-License-Identifier: Apache-2.0
"""What is in a cache of transformers, for a program that has not registered its class with torch's pytree.

Registering the class would change the program: torch.export and torch.compile ask pytree. So torchspan takes these caches apart
itself, as transformers does where it registers them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from torchspan._base import reading

_MODULE = "transformers.cache_utils"
_OF_LAYERS = frozenset({"DynamicCache", "StaticCache"})
_LAYERS = frozenset(
    {"DynamicLayer", "DynamicSlidingWindowLayer", "DummyLayer", "StaticLayer", "StaticSlidingWindowLayer"}
)
"""Kinds of layers that have only keys and values in them."""
_OF_CACHES = "EncoderDecoderCache"
_PARTS = {"key_cache": "keys", "value_cache": "values"}
"""Key in the cache as transformers flattens it, and the attribute of a layer."""

TakenApart = tuple[tuple[str, ...], list[Any], Any]
"""Keys, a part for each of them, and what pytree needs to make the cache."""


def taken_apart(value: Any) -> TakenApart | None:
    """What is in `value`, if its class is one of the caches that transformers has; otherwise None."""
    kind = type(value)
    name = reading.class_name(kind)
    if reading.module_of(kind) != _MODULE or reading.attribute(sys.modules.get(_MODULE), name) is not kind:
        return None
    if name == _OF_CACHES:
        names = ("self_attention_cache", "cross_attention_cache")
        return names, [reading.attribute(value, name) for name in names], None
    layers = reading.attribute(value, "layers")
    if name not in _OF_LAYERS or type(layers) is not list or not all(map(_is_known, layers)):
        return None
    return tuple(_PARTS), [_of_layers(layers, part) for part in _PARTS.values()], [list(_PARTS), _windows(layers)]


def _is_known(layer: Any) -> bool:
    return reading.module_of(type(layer)) == _MODULE and reading.class_name(type(layer)) in _LAYERS


def _of_layers(layers: Sequence[Any], name: str) -> list[Any]:
    tensors = [reading.attribute(layer, name) for layer in layers]
    return [tensor for tensor in tensors if tensor is not None]


def _windows(layers: Sequence[Any]) -> list[Any]:
    return [reading.attribute(layer, "sliding_window") for layer in layers]
