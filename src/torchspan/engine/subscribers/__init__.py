# SPDX-License-Identifier: Apache-2.0
"""User callbacks: ATen's RecordFunction in Python. Knows neither torch nor OpenTelemetry."""

from torchspan.engine.subscribers.callback_registry import REGISTRY, Registry

__all__ = ["REGISTRY", "Registry"]
