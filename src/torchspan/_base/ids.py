# SPDX-License-Identifier: Apache-2.0
"""Span and trace ids."""

from __future__ import annotations

import os
import random
import secrets

INVALID_ID = 0
"""Neither a span's nor a trace's id (W3C Trace Context, all zeros)."""


class IdGenerator:
    """Span and trace ids from a generator that no other code seeds.

    The SDK's own draws from Python's global generator. Programs seed that one, and Dynamo saves its state before it
    compiles and restores it afterwards: spans written while compiling and spans written next then have the same
    ids. A forked child starts from a new seed.
    """

    def __init__(self) -> None:
        self._random = random.Random()  # noqa: S311 - ids are no secrets
        self._seed()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._seed)

    def _seed(self) -> None:
        self._random.seed(secrets.randbits(256))

    def generate_span_id(self) -> int:
        """A random 64-bit number, never 0."""
        number = INVALID_ID
        while number == INVALID_ID:
            number = self._random.getrandbits(64)
        return number

    def generate_trace_id(self) -> int:
        """A random 128-bit number, never 0."""
        number = INVALID_ID
        while number == INVALID_ID:
            number = self._random.getrandbits(128)
        return number

    def is_trace_id_random(self) -> bool:
        """All bits are random: samplers may use any of them (W3C Trace Context, level 2)."""
        return True


IDS = IdGenerator()
"""One for the process: forgetting a generator would leave its hook for forks behind."""
