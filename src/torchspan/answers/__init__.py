# SPDX-License-Identifier: Apache-2.0
"""What a trace answers: what took the time, and what to change."""
