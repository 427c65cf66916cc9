# SPDX-License-Identifier: Apache-2.0
"""What a comparison of fastest times would say of two things that are the same."""

import random
import statistics


def noise_of(times, compare):
    """How large `compare` is between the fastest of two halves of `times`: not exceeded by nine of ten divisions."""
    shuffled, found = random.Random(0), []
    for _ in range(200):
        some = shuffled.sample(times, len(times))
        half = len(some) // 2
        found.append(abs(compare(min(some[:half]), min(some[half:]))))
    return statistics.quantiles(found, n=10)[-1]
