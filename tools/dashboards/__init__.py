# SPDX-License-Identifier: Apache-2.0
"""Grafana's dashboards of torchspan, made with Grafana's Foundation SDK (`tools/generate_dashboards.py`).

A module for each dashboard says what is drawn. `promql` and `traceql` write queries out of the rows of `torchspan.semconv`, so that a
name which torchspan does not emit cannot be written; `panels` makes panels, and `frame` what is around them.
"""
