# SPDX-License-Identifier: Apache-2.0
"""`python -m torchspan.native build`."""
