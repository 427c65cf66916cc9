# SPDX-License-Identifier: Apache-2.0
"""What the dashboards have in common: data sources and services to choose from, and links to each other."""

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models import dashboard as models

from dashboards.panels import PROMETHEUS
from dashboards.promql import series

TAG = "torchspan"


def framed(uid, title, description, *, since, every):
    """A dashboard without panels. since: how far back it shows at first, `now-24h`. every: how often it is brought up to date."""
    return (
        dashboard.Dashboard(f"torchspan: {title}")
        .uid(uid)
        .description(description)
        .tags([TAG])
        .time(since, "now")
        .timezone("browser")
        .refresh(every)
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .link(
            dashboard.DashboardLink("torchspan")
            .type(models.DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .include_vars(True)
            .keep_time(True)
        )
        .with_variable(dashboard.DatasourceVariable("prometheus").label("Prometheus").type("prometheus"))
        .with_variable(dashboard.DatasourceVariable("tempo").label("Tempo").type("tempo"))
    )


def with_services(of, metrics):
    """The dashboard with the variable `service`: the services that have one of the metrics."""
    names = "|".join(series(each, "count" if each.instrument == "histogram" else "") for each in metrics)
    return of.with_variable(
        dashboard.QueryVariable("service")
        .label("Service")
        .datasource(PROMETHEUS)
        .query({"query": f'label_values({{__name__=~"{names}"}}, job)', "refId": "services", "qryType": 5})
        .definition(f'label_values({{__name__=~"{names}"}}, job)')
        # Without the namespace, which traces have beside the name.
        .regex("/([^/]+)$/")
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(".*")
        .current(models.VariableOption(text="All", value="$__all"))
    )
