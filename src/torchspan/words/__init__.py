# SPDX-License-Identifier: Apache-2.0
"""What may be said, and set: phases, attributes, kinds of text, rules of sampling, settings."""
