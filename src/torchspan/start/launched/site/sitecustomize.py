# SPDX-License-Identifier: Apache-2.0
"""Starts torchspan's part in a process below `torchspan run`, then runs the `sitecustomize` that would run without it.

Every Python that the program starts imports this file, whatever its version and with torchspan or without it. So it uses
nothing that Python 2.7 does not know, and it writes nothing.
"""


def _start():
    import os
    import sys

    this = sys.modules.pop("sitecustomize", None)
    here = os.path.dirname(__file__)
    programs = frozenset(sys.modules)
    sys.path[:] = [entry for entry in sys.path if entry != here]
    try:
        from torchspan.start.launched.start import start

        start(here, programs)
    except Exception:  # noqa: S110 - no torchspan here, or a Python version that it does not know
        pass
    # As `site` would: the module is the program's, and so are its exceptions, including the one if there is no such module.
    import sitecustomize  # noqa: F401

    return this  # Python 2 empties a module that nothing refers to, and this function is part of it


_start()
