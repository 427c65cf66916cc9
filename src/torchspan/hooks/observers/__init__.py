# SPDX-License-Identifier: Apache-2.0
"""Functions that users observe, and the official pairs. Its public face is `torchspan.observers`."""
