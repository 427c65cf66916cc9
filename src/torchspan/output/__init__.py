# SPDX-License-Identifier: Apache-2.0
"""What becomes of events: spans, metrics, files."""
