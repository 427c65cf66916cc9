# SPDX-License-Identifier: Apache-2.0
"""TensorRT's ONNX parser. It does not expose the network that it fills, so the network is remembered when the parser is made."""

from __future__ import annotations

import functools
from typing import Any

from torchspan._base.reading import attribute
from torchspan.adapters.machinery.provenance import Provenance
from torchspan.adapters.machinery.wrap import WrapperFactory
from torchspan.probes import Call, Record, Target
from torchspan.probes.describe import parse


def tap_parser(factory: WrapperFactory, target: Target, original: Any) -> Any:
    """`OnnxParser.__init__(self, network, logger)`, which remembers the network."""
    engine, provenance = factory.engine, factory.provenance

    @engine.guard.around(f"remembering {target}")
    def remember(call: Call) -> None:
        provenance.fills(call.args[0], call.get("network", position=1))

    @functools.wraps(original)
    def observed_init(*args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        if engine.active:
            remember(Call(None, args, kwargs))

    return observed_init


def wrap_parse(factory: WrapperFactory, target: Target, action: Record, original: Any) -> Any:
    """A method of a parser that parses a model, as an event. `call.before` describes the state before the call."""
    before = factory.engine.guard.around(f"preparing {target}")(_before)

    @functools.wraps(original)
    def observed_parse(*args: Any, **kwargs: Any) -> Any:
        call = Call(None, args, kwargs)
        event = factory.open(target, action, call, original)
        if event is None:
            return original(*args, **kwargs)
        if args:
            call.before = before(factory.provenance, args[0])
        return factory.run(target, action, original, call, event)

    return observed_parse


def _before(provenance: Provenance, parser: Any) -> parse.Before:
    return parse.Before(provenance.network_of(parser), attribute(parser, "num_errors", 0))
