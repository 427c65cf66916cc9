# SPDX-License-Identifier: Apache-2.0
"""What stands in for a GPU. Its public face is `torchspan.testing.without_gpu`."""
