# SPDX-License-Identifier: Apache-2.0
"""Which names other packages bind to what."""

import sys

OWN = {"torchspan", "__main__", "failing", "support"}


def bound_names():
    """(module, name, …) -> the id of each function and class that a module of others binds, and of what such a class defines."""
    bound = {}
    for module_name, module in list(sys.modules.items()):
        if module is None or module_name.partition(".")[0] in OWN:
            continue
        for name, value in list(vars(module).items()):
            if callable(value):
                bound[module_name, name] = id(value)
            if type(value) is type and value.__module__ == module_name:
                bound.update(
                    {(module_name, name, key): id(part) for key, part in vars(value).items() if callable(part)}
                )
    return bound
