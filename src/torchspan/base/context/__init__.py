# SPDX-License-Identifier: Apache-2.0
"""What OpenTelemetry's context and Python's threads do not offer: carriers into threads, and the ends of spans."""
