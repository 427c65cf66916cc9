# SPDX-License-Identifier: Apache-2.0
"""Traces as files for other programs: a page for the browser, a file for Perfetto, Markdown for a comment."""
