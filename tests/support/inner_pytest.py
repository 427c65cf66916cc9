# SPDX-License-Identifier: Apache-2.0
"""A session of pytest inside a test."""

WITHOUT = ("cacheprovider", "logging", "benchmark")
"""Plugins that the session does without. pytest-benchmark, which a machine may have, warns where xdist is active: an error here."""


def run_in_this_process(pytester, *options):
    """pytest in this process, whose torch is imported."""
    return pytester.runpytest_inprocess(*(f"-pno:{name}" for name in WITHOUT), *options)
