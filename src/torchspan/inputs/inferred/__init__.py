# SPDX-License-Identifier: Apache-2.0
"""What an export needs, inferred from aligned calls."""
