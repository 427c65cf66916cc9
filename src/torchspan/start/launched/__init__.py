# SPDX-License-Identifier: Apache-2.0
"""The part of torchspan in the processes below `torchspan run`. Standard library only until the first span or observed library."""
