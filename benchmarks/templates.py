# SPDX-License-Identifier: Apache-2.0
"""What a message costs that is reduced to its template: microseconds for 1 kB, the best of several passes."""

import sys
import time

import torch

from table import NO_TARGET, Row, write
from torchspan._base.templates import template

TARGET_US = 50
TEXT = (
    "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! "
    "(when checking argument for argument mat1 in method wrapper_CUDA_addmm) "
)
MESSAGES = {
    "words of PyTorch's, 1 kB": ((TEXT * 8)[:1000], TARGET_US),
    "unknown words, 1 kB": (("qwerty " * 143)[:1000], TARGET_US),
    "names with dots only, 1 kB": (("zz.qq " * 167)[:1000], TARGET_US),
    "operators that there are not, 1 kB": (" ".join(f"aten.qq{n}.zz" for n in range(90))[:1000], TARGET_US),
    "numbers, 1 kB": (("17, " * 250), TARGET_US),
    "10 MB": ("a b " * 2_500_000, None),
}


def microseconds(text):
    template(text)
    best = float("inf")
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(50):
            template(text)
        best = min(best, (time.perf_counter() - start) / 50)
    return best * 1e6


def rows():
    for what, (text, target) in MESSAGES.items():
        figure = microseconds(text)
        met = NO_TARGET if target is None else figure <= target
        yield Row(what, f"{figure:.0f} us", "" if target is None else f"≤ {target} us", met)


def main():
    title = f"template of a message, Python {sys.version.split()[0]}, torch {torch.__version__}"
    return write(title, list(rows()))


if __name__ == "__main__":
    raise SystemExit(main())
