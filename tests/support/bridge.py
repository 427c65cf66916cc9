# SPDX-License-Identifier: Apache-2.0
"""Compilations that pass by the real bridge of this process, without a library that compiles."""

import re
from contextlib import contextmanager

import torchspan.observers  # noqa: F401 - with it the bridge comes
from torchspan import phase
from torchspan.engine import RUNNING
from torchspan.words import semconv


def _engine():
    assert RUNNING.engine is not None, "torchspan is not instrumented"
    return RUNNING.engine


@contextmanager
def compiling(label):
    """A compilation that continues for as long as the block does."""
    engine = _engine()
    compilation = engine.open(phase.COMPILE, {semconv.MODEL_CLASS: label})
    try:
        yield
    finally:
        engine.close(compilation)


def compiles(label, times=1):
    """Compilations of a model of class `label`, each with a build of an engine."""
    assert re.fullmatch("[A-Za-z]+", label)
    engine = _engine()
    for _ in range(times):
        compilation = engine.open(phase.COMPILE, {semconv.MODEL_CLASS: label})
        engine.close(engine.open(phase.BUILD_ENGINE, {}))
        engine.close(compilation)
