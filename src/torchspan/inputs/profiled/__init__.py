# SPDX-License-Identifier: Apache-2.0
"""The ranges of sizes that an engine is built for."""
