# SPDX-License-Identifier: Apache-2.0
"""Who switches tracing on: `instrument()`, the bridge, and the part of torchspan in the processes below `torchspan run`."""
