# SPDX-License-Identifier: Apache-2.0
"""Calls without a process: what a file of observed inputs has, and the report."""
