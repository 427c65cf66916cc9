# SPDX-License-Identifier: Apache-2.0
"""Two recorded programs compared: where the time differs, and what else has changed.

    from torchspan import comparison

    result = comparison.compare("before.jsonl", "after.jsonl")
    print(result)  # the answer first
    for change in result.changes:
        print(change.subject, change.base, change.new)

Reading files needs neither the OpenTelemetry SDK nor torch.
"""

from torchspan.reading.comparison import *  # noqa: F403 - see `__all__`
from torchspan.reading.comparison import __all__  # noqa: F401
