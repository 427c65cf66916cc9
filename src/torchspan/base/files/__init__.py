# SPDX-License-Identifier: Apache-2.0
"""Files and folders of torchspan's: opened without following links, and recognized again."""
