# SPDX-License-Identifier: Apache-2.0
"""Thread-local callbacks follow the work into threads and pools of threads, as `torchspan._base.threads` does it."""

from __future__ import annotations

from torchspan._base.threads import Passenger
from torchspan.subscribers.local_state import (
    RecordFunctionTLS,
    current,
    get_record_function_tls,
    set_record_function_tls,
)


class Following(Passenger):
    """What holds for a piece of work. To be added while a thread-local callback is registered anywhere in the process."""

    outside = RecordFunctionTLS()

    def __init__(self) -> None:
        super().__init__(
            "Carrying callbacks failed; the program goes on, and callbacks do not run in its other threads."
        )

    def for_thread(self) -> RecordFunctionTLS | None:
        """What holds here; None in code that is being traced, too."""
        tls = get_record_function_tls()
        return None if tls == self.outside else tls

    for_item = for_thread

    def enter(self, value: RecordFunctionTLS) -> RecordFunctionTLS:
        """Have `value` hold here; what did before."""
        before = current()
        set_record_function_tls(value)
        return before

    def leave(self, before: RecordFunctionTLS) -> None:
        """Have `before` hold here again."""
        set_record_function_tls(before)
