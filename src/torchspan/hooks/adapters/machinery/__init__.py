# SPDX-License-Identifier: Apache-2.0
"""Code that all adapters share: it finds the object that a probe names, and makes the wrapper that replaces the object."""
