# SPDX-License-Identifier: Apache-2.0
"""What traces say: what was compiled how often and why, what fell back, what caches did, where the time went, and what to change.

    from torchspan import answers

    report = answers.read("trace.jsonl")
    print(report)  # the answers, then the waterfalls
    for recompile in report.answers.recompiles:
        print(recompile.sentence, recompile.remedy)

Reading files needs neither the OpenTelemetry SDK nor torch.
"""

from torchspan.reading.answers import *  # noqa: F403 - see `__all__`
from torchspan.reading.answers import __all__  # noqa: F401
