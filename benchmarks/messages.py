# SPDX-License-Identifier: Apache-2.0
"""What a message costs that is compared with the table of messages: microseconds, the best of several passes."""

import sys
import time

import torch

from table import Row, write
from torchspan.words.redaction.messages import of_error, of_text

FAILING_CALL_US, LINE_US = 100, 20
UNKNOWN = "the patient has pain in the left hand and asks for help with the current loss of function "
LINES = {
    "a line of TensorRT's log": "Detected 17 inputs and 1 output network tensors.",
    "an error of TensorRT": "IBuilder::buildSerializedNetwork: Error Code 4: API Usage Error (Network must have at least one output.)",
    "an unknown line": UNKNOWN,
}


def microseconds(reduce, argument):
    reduce(argument)
    best = float("inf")
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(50):
            reduce(argument)
        best = min(best, (time.perf_counter() - start) / 50)
    return best * 1e6


def raised(call):
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def rows():
    errors = {
        "an exception of an operator": raised(lambda: torch.ones(2, 3) @ torch.ones(2, 3)),
        "an exception of a module": raised(lambda: torch.nn.ModuleDict({})[UNKNOWN]),
        "an exception with 1 kB": RuntimeError((UNKNOWN * 12)[:1000]),
    }
    for what, error in errors.items():
        figure = microseconds(of_error, error)
        yield Row(what, f"{figure:.0f} us", f"≤ {FAILING_CALL_US} us", figure <= FAILING_CALL_US)
    for what, line in LINES.items():
        figure = microseconds(of_text, line)
        yield Row(what, f"{figure:.0f} us", f"≤ {LINE_US} us", figure <= LINE_US)
    for size in (60_000, 10_000_000):
        figure = microseconds(of_text, (UNKNOWN * (size // len(UNKNOWN) + 1))[:size])
        what = f"an unknown text of {size:,} characters"
        yield Row(what, f"{figure:.0f} us", f"≤ {FAILING_CALL_US} us", figure <= FAILING_CALL_US)


def main():
    title = f"a message and the table, Python {sys.version.split()[0]}, torch {torch.__version__}"
    return write(title, list(rows()))


if __name__ == "__main__":
    raise SystemExit(main())
