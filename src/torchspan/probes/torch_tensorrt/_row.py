# SPDX-License-Identifier: Apache-2.0
"""The part that all rows of this library share."""

from __future__ import annotations

from functools import partial

from torchspan.probes._probe import Probe

row = partial(Probe, library="torch_tensorrt")
