# SPDX-License-Identifier: Apache-2.0
"""Grafana's dashboards of torchspan, made with Grafana's Foundation SDK.

A module for each dashboard says what is drawn. `promql` and `traceql` write queries out of the rows of `torchspan.semconv`, so that a
name which torchspan does not emit cannot be written; `panels` makes the panels.
"""

from dashboards import bridge_health, compiles, runtime

DASHBOARDS = {"compiles": compiles.made, "runtime": runtime.made, "bridge-health": bridge_health.made}
"""Functions that make the dashboards, by the names of their files."""
