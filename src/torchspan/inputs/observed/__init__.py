# SPDX-License-Identifier: Apache-2.0
"""What happens to a call: hooks see it, and its shape is kept."""
