# SPDX-License-Identifier: Apache-2.0
"""Pure functions that turn a call of an observed function into attributes, one file a stage.

They read only what costs next to nothing, keep nothing alive, and touch no object in a way it could notice.
"""
