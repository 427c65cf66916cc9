# SPDX-License-Identifier: Apache-2.0
"""The command `python -m torchspan.native build`, which builds the C++ library that records PyTorch's operators."""

import sys

from torchspan.hooks.native.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
