# SPDX-License-Identifier: Apache-2.0
"""A program that seeds its generators and runs an engine: prints how many runs were recorded, and the first ones' numbers."""

import random
import sys

from opentelemetry.sdk.trace import SpanProcessor

from support.sampled_runs import SampledRuns, TrtEngine
from torchspan.sdk import TorchspanSampler


class Numbers(SpanProcessor):
    """Which runs were recorded."""

    def __init__(self):
        self.run, self.found = 0, []

    def on_start(self, span, parent_context=None):
        self.found.append(self.run)


def main(share, runs):
    random.seed(0)
    numbers = Numbers()
    sampled = SampledRuns(TorchspanSampler(f"execute={share},execute_per_second=1000000"), processors=[numbers])
    engine, inputs = TrtEngine(), []
    for numbers.run in range(runs):
        sampled.run(inputs, engine)
    print(len(numbers.found), *numbers.found[:5])


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]))
