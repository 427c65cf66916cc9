# SPDX-License-Identifier: Apache-2.0
"""What all adapters share: from a probe to the object that it names, and to the wrapper that replaces it."""
