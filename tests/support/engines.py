# SPDX-License-Identifier: Apache-2.0
"""Engines with a pipeline, for tests."""

from torchspan.engine import Pipeline
from torchspan.writer import is_suppressed


def extend(engine, *callbacks):
    """Have `callbacks` run around the engine's events, inside those that it has already."""
    engine.pipeline = Pipeline((*engine.pipeline.callbacks, *callbacks), is_suppressed=is_suppressed)
