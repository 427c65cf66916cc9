# SPDX-License-Identifier: Apache-2.0
"""What reads traces: files as trees, answers, comparisons, and their views."""
