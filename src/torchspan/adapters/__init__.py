# SPDX-License-Identifier: Apache-2.0
"""How each observed library is hooked: one file a source, each with `install(engine) -> undo`.

No library is ever imported here; an adapter waits until the program does.
"""

from torchspan.adapters._loggers import mark_log_records
from torchspan.adapters._resolve import ResolvedProbe
from torchspan.adapters.torch_tensorrt import DETAILS, install, is_supported, resolve_probes, versions

__all__ = ["DETAILS", "ResolvedProbe", "install", "is_supported", "mark_log_records", "resolve_probes", "versions"]
