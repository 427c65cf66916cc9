# SPDX-License-Identifier: Apache-2.0
"""What sampling decisions are made of: ids, keys in the context, rules and ranks."""
