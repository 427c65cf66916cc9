# SPDX-License-Identifier: Apache-2.0
"""Real messages of the libraries, each with what is kept of it: a person must still understand it."""
