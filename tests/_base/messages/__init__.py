# SPDX-License-Identifier: Apache-2.0
"""Real messages of the libraries, each with what is kept of it: a person must still understand it.

Of each message, what `_base/templates.py` keeps by its vocabulary, and what `redaction/` keeps by its table.
"""
