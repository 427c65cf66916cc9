# SPDX-License-Identifier: Apache-2.0
"""Calls in production: counted by shape, and compared with what an engine takes."""
