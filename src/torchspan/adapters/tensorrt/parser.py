# SPDX-License-Identifier: Apache-2.0
"""TensorRT's ONNX parser. It does not tell which network it fills, so that is remembered when it is made."""

from __future__ import annotations

import functools
import weakref
from typing import Any

from torchspan.adapters._machinery.wrap import Wrapping
from torchspan.probes import Call, Probe
from torchspan.probes.describe import parse


class Networks:
    """The network of each parser that lives, neither kept alive by this."""

    def __init__(self) -> None:
        self._networks: weakref.WeakKeyDictionary[Any, weakref.ref[Any]] = weakref.WeakKeyDictionary()

    def remember(self, call: Call) -> None:
        """Of `OnnxParser(network, logger)`."""
        self._networks[call.args[0]] = weakref.ref(call.get("network", position=1))

    def before(self, parser: Any) -> parse.Before:
        """What the description of a parse needs to know from before it."""
        network = self._networks.get(parser)
        return parse.Before(None if network is None else network(), parser.num_errors)


def wrap_parser(wrapping: Wrapping, networks: Networks, probe: Probe, original: Any) -> Any:
    """`OnnxParser.__init__(network, logger)`: nothing is recorded."""

    @functools.wraps(original)
    def observed_init(*args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        if wrapping.engine.active:
            wrapping.engine.guard.call(f"remembering {probe.target}", networks.remember, Call(None, args, kwargs))

    return observed_init


def wrap_parse(wrapping: Wrapping, networks: Networks, probe: Probe, original: Any) -> Any:
    """A method of a parser that parses a model, as an event."""

    @functools.wraps(original)
    def observed_parse(*args: Any, **kwargs: Any) -> Any:
        call = Call(None, args, kwargs)
        event = wrapping.begin(probe, call, original)
        if event is None:
            return original(*args, **kwargs)
        call.before = (
            wrapping.engine.guard.call(f"preparing {probe.target}", networks.before, args[0]) if args else None
        )
        return wrapping.run(probe, original, call, event)

    return observed_parse
