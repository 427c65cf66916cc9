# SPDX-License-Identifier: Apache-2.0
"""What every other part builds on; standard library only, `wrapt`'s import hooks apart."""
