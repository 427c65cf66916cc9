# SPDX-License-Identifier: Apache-2.0
"""What every other part builds on. Standard library only, except for `wrapt`'s import hooks."""
