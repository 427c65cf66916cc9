# SPDX-License-Identifier: Apache-2.0
"""What an endpoint answered."""

from __future__ import annotations

import time
from typing import NamedTuple

from torchspan.cli.doctor._check import State


class Answer(NamedTuple):
    """What came of asking an endpoint.

    kind: stable, for the JSON: `accepted`, `refused`, `http 401`, `grpc UNAVAILABLE`. text: what it means, in a clause.
    """

    kind: str
    state: State
    text: str
    remedy: str = ""


class Progress:
    """How far the asking of one endpoint has come, and how much time is left.

    seconds: for all of it. stage: what is being done, in words that follow "while": `resolving its name`.
    """

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self.seconds = seconds
        self.stage = "resolving its name"

    @property
    def left(self) -> float:
        """Seconds, at least a little, because 0 means something else to sockets."""
        return max(self._end - time.monotonic(), 0.001)

    def late(self) -> Answer:
        """The answer of an endpoint that gave none."""
        return Answer(
            "timeout",
            State.FAILED,
            f"no answer within {self.seconds:g} s, while {self.stage}",
            "A firewall may drop the packets, or the endpoint hangs. Try from this machine: curl -v <endpoint>.",
        )
