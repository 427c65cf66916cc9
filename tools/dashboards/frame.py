# SPDX-License-Identifier: Apache-2.0
"""What the dashboards have in common: data sources to choose from, further variables, and links to each other."""

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models import dashboard as models

from dashboards.panels import PROMETHEUS

TAG = "torchspan"


def framed(uid, title, description, *variables, since, rows):
    """A dashboard. rows: title → its panels. since: how far back it shows at first, such as `now-24h`."""
    made = (
        dashboard.Dashboard(f"torchspan: {title}")
        .uid(uid)
        .description(description)
        .tags([TAG])
        .time(since, "now")
        .timezone("browser")
        .refresh("1m")
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
    for each in variables:
        made.with_variable(each)
    for name, panels in rows.items():
        made.with_row(dashboard.Row(name))
        for each in panels:
            made.with_panel(each)
    return made


def services(*series):
    """The variable `service`: the names of the services that have one of the series, without their namespaces."""
    return _chosen("service", "Service", f'label_values({{__name__=~"{"|".join(series)}"}}, job)').regex("/([^/]+)$/")


def collectors(series):
    """The variable `collector`: the addresses of the Collectors that have the series."""
    return _chosen("collector", "Collector", f"label_values({series}, instance)")


def percentile():
    """The variable `percentile`, a share."""
    shares = dashboard.CustomVariable("percentile").label("Percentile").values("0.5,0.9,0.95,0.99")
    return shares.current(models.VariableOption(text="0.95", value="0.95"))


def at_least():
    """The variable `at_least`, a duration in TraceQL's notation."""
    least = models.VariableOption(text="0s", value="0s")
    return dashboard.TextBoxVariable("at_least").label("Took at least").default_value("0s").current(least)


def _chosen(name, title, query):
    return (
        dashboard.QueryVariable(name)
        .label(title)
        .datasource(PROMETHEUS)
        .query({"query": query, "refId": name, "qryType": 5})
        .definition(query)
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(".*")
        .current(models.VariableOption(text="All", value="$__all"))
    )
