# SPDX-License-Identifier: Apache-2.0
"""`python -m torchspan`: the command line, for a Python whose scripts are not on the path."""

import sys

from torchspan.cli import main

if __name__ == "__main__":
    sys.exit(main())
