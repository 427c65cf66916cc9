# SPDX-License-Identifier: Apache-2.0
"""The kinds of work that torchspan observes.

The name of a phase is the name of its spans, and starts with the name of the library that does the work. If
`has_target` is set, a target follows the name. Targets come from a bounded set, such as lowering passes and TensorRT's
build phases. They are never models, subgraphs, shapes or paths.
"""

from torchspan.words.phase import *  # noqa: F403 - see `__all__`
from torchspan.words.phase import __all__  # type: ignore[attr-defined]  # noqa: F401 - type checkers see no `__all__` there
