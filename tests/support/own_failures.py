# SPDX-License-Identifier: Apache-2.0
"""What torchspan logged of failures of its own."""


def consequences(caplog):
    """The messages, without the cause (a class and a place) that a warning about a failure of torchspan's ends with."""
    return [message.partition(" Cause: ")[0] for message in caplog.messages]
