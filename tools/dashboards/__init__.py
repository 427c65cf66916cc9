# SPDX-License-Identifier: Apache-2.0
"""torchspan's Grafana dashboards, made with Grafana's Foundation SDK (`tools/generate_dashboards.py`).

Each dashboard has a module that defines its panels. `promql` and `traceql` build queries from the rows of `torchspan.words.semconv`, so a query
cannot contain a name that torchspan does not emit. `panels` makes panels, and `frame` makes the dashboard around them.
"""
