# SPDX-License-Identifier: Apache-2.0
"""The makers of the rows that need no function of their own: names for values, so that rows stay data."""

from __future__ import annotations

from torchspan.testing import _stand_in_streams
from torchspan.testing._cuda import (
    FREE_BYTES,
    TOTAL_BYTES,
    OnDevice,
    for_program,
    returns,
    returns_new,
    stands_in,
)
from torchspan.testing._cuda import (
    PROPERTIES as _PROPERTIES,
)

AVAILABLE = for_program(answer=True, library_answer=False)
DEVICE_COUNT = for_program(answer=1, library_answer=0)
NOTHING = returns(None)
ZERO = returns(0)
TRUE = returns(True)
FALSE = returns(False)
TEXT = returns("")
DICT = returns_new(dict)
NAME = returns(_PROPERTIES.name)
CAPABILITY = returns((_PROPERTIES.major, _PROPERTIES.minor))
PROPERTIES = returns(_PROPERTIES)
MEMORY = returns((FREE_BYTES, TOTAL_BYTES))
ON_DEVICE = stands_in(OnDevice)
STREAM = stands_in(_stand_in_streams.Stream)
EVENT = stands_in(_stand_in_streams.StandInEvent)
STREAM_CONTEXT = stands_in(_stand_in_streams.StreamContext)
CURRENT_STREAM = stands_in(_stand_in_streams.current_stream)
DEFAULT_STREAM = stands_in(_stand_in_streams.default_stream)
SET_STREAM = stands_in(_stand_in_streams.set_stream)
