# SPDX-License-Identifier: Apache-2.0
"""Writes everything that is made from the source: pages, dashboards, resources of Kubernetes, and the diagram.

`--check` writes nothing, names each file that differs from what would be written, and exits with status 1 if there is one.
`tools/collect_graph_breaks.py` is apart: it reads the sources of several versions of PyTorch.
"""

import importlib
import sys

NAMES = (
    "semantic_conventions",
    "registry",
    "privacy_page",
    "settings_page",
    "signature",
    "metrics_page",
    "messages_page",
    "summary_schema",
    "cli_page",
    "phase_page",
    "compile_phases_page",
    "remedies_page",
    "compatibility_page",
    "gpu_page",
    "faults_page",
    "coexistence_page",
    "dashboards",
    "kubernetes",
    "architecture",
)
"""The generators, `generate_<name>.py` each."""


def main(arguments):
    """Run each generator in this process, and return 1 if one failed."""
    statuses = [importlib.import_module(f"generate_{name}").main(arguments) for name in NAMES]
    return int(any(statuses))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
