# SPDX-License-Identifier: Apache-2.0
"""Functions in place of a library's, which the running engine of torchspan observes as it observes those of a library."""

from torchspan.engine import RUNNING
from torchspan.hooks.adapters.machinery.provenance import Provenance
from torchspan.hooks.adapters.machinery.wrap import WrapperFactory
from torchspan.hooks.probes import Function, Record


class Hooked:
    """A function of a library that torchspan's running engine observes; the function itself without torchspan.

    make: makes the replacement, with a factory, for the function.
    """

    def __init__(self, make, function):
        self._make, self._function = make, function
        self._engine = self._replacement = None

    def __call__(self, *args):
        engine = RUNNING.engine
        if engine is None:
            return self._function(*args)
        if engine is not self._engine:
            self._engine, self._replacement = engine, self._function
            replacement = engine.guard.call("hooking into a library", self._replaced, engine)
            self._replacement = self._function if replacement is None else replacement
        return self._replacement(*args)

    def _replaced(self, engine):
        return self._make(WrapperFactory(engine, Provenance()), self._function)


def described(call, *_result):
    return {"torchspan.test.fact": str(call.args)}


def recorded(kind):
    target = Function(f"library:{kind.name}")
    return lambda factory, function: factory.record(target, Record(kind, start=described, end=described), function)
