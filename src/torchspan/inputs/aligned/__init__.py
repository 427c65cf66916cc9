# SPDX-License-Identifier: Apache-2.0
"""All calls side by side: what they have in common, and what prevents an export."""
