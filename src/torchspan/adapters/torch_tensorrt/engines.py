# SPDX-License-Identifier: Apache-2.0
"""Engines that are made while nothing is recorded. They are remembered, because their first run is recorded."""

from __future__ import annotations

import functools
from typing import Any

from torchspan.adapters.machinery.wrap import WrapperFactory
from torchspan.probes import Call, Creates, Target, signature_of
from torchspan.probes.describe import conversion

_CREATES = Creates(runner=conversion.module_itself, serialized=conversion.serialized_of)


def tap_engine(factory: WrapperFactory, target: Target, original: Any) -> Any:
    """`TRTEngine._setup_engine(self)`, which remembers the engine and its bytes, inside an event or not."""
    signature, engine = signature_of(original), factory.engine
    remember = engine.guard.around(f"remembering {target}")(factory.provenance.created)

    @functools.wraps(original)
    def observed_making(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if engine.active:
            remember(_CREATES, Call(signature, args, kwargs), engine.current)
        return result

    return observed_making
