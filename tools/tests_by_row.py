# SPDX-License-Identifier: Apache-2.0
"""Which tests `make test-versions` runs: names in tests/ (folders, or files that lie in tests/ itself).

`tests/conftest.py` gives the tests of `ONCE` the mark `once`; a test elsewhere may have that mark too.
"""

ONCE = {
    "advice": "remedies are the subject; they are followed with the newest versions",
    "collector": "the Collector's configurations are the subject",
    "compose": "the Compose files are the subject",
    "docs": "the documents are the subject; they show what the newest versions lead to",
    "kubernetes": "resources for Kubernetes are the subject, and what the Operator injects",
    "local": "`make up` is the subject",
    "mainwheel": "the wheel torch-tensorrt is installed with the newest version alone",
    "registry": "the registry of names is the subject, which is the same with all versions",
    "test_architecture.py": "what torchspan's modules may import is the subject",
    "tools": "the commands of the Makefile are the subject",
    "typing": "type checkers are the subject",
}
"""Name -> why its tests run in `make test` alone."""

WITHOUT_TORCH = (
    "_base",
    "adapters",
    "comparison",
    "engine",
    "probes",
    "semconv",
    "test_batching.py",
    "test_public_api.py",
    "test_semantic_conventions.py",
    "test_settings.py",
    "test_settings_properties.py",
    "test_what_grows.py",
    "test_wrong_arguments.py",
    "traces",
    "writer",
)
"""Run also with the oldest OpenTelemetry of the bridge, where neither PyTorch nor an exporter is installed."""

WITH_TORCH = (
    "_operators",
    "answers",
    "callbacks",
    "children",
    "cli",
    "declarative",
    "device",
    "dynamo",
    "enabling",
    "end_to_end",
    "failing",
    "gpu",
    "inputs",
    "launched",
    "leaving",
    "native",
    "observers",
    "pipeline",
    "plain",
    "privacy",
    "propagation",
    "redaction",
    "sdk",
    "soak",
    "test_config_file.py",
    "test_flush.py",
    "test_instrumentor.py",
    "testing",
    "views",
)
"""Run in every other row."""
