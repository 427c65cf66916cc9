# SPDX-License-Identifier: Apache-2.0
"""Compares what the last run of the tests emitted with the tables, both ways, and writes which hooks fired on which route.

Reads what `tests/support/run_log.py` wrote. A run of a part of the suite cannot show that a row is never emitted: what is
missing is then listed, and the status is 3.
"""

import os
import sys
import tempfile
import warnings
from pathlib import Path

import backends
import weaver
from suite_run import FOLDER, SuiteRun

ROOT = Path(__file__).resolve().parents[1]
REPORT = ROOT / ".reports" / "routes.md"
"""The reachability table as it was run: route, hook, `real` or what is needed for it."""
ONLY_A_PART = 3
"""Exit status: nothing is wrong, but rows are missing that the tests left out may emit."""

KINDS = {
    "histogram": ("Histogram", None),
    "counter": ("Sum", True),
    "observable_up_down_counter": ("Sum", False),
    "observable_gauge": ("Gauge", None),
}
"""Instrument -> what the SDK makes of it, and whether it is monotonic."""


class Tables:
    """The rows of torchspan's tables. unknown_settings: those that the installed Torch-TensorRT does not have."""

    def __init__(self, unknown_settings=()):
        from torchspan.words import phase, semconv

        self.attributes = {str(attribute): attribute for attribute in semconv.ATTRIBUTES}
        self.metrics = {str(metric): metric for metric in semconv.METRICS}
        self.phases = phase.SPANS
        self.unknown_settings = set(unknown_settings)

    def phase_of(self, span_name):
        """The row of the span table that a span's name belongs to, None when there is none."""
        found = [
            each
            for each in self.phases
            if span_name == each.name or (each.has_target and span_name.startswith(f"{each.name} "))
        ]
        assert len(found) < 2, (span_name, found)
        return found[0] if found else None


def undocumented(run, tables):
    """Sentences: what was emitted and is not in the tables, or not as they say."""
    names = sorted({row["name"] for row in run["span"]})
    yield from (f"span {name} is not in the table" for name in names if tables.phase_of(name) is None)
    yield from dict.fromkeys(_undocumented_metrics(run, tables))
    yield from dict.fromkeys(_undocumented_attributes(run, tables))
    yield from dict.fromkeys(_unnamed_operators(run))
    keys = sorted({row["key"] for row in run["left_out"]})
    yield from (f"{key} was to be emitted and is not in the table" for key in keys)
    for row in run["user_attribute"]:
        attribute = tables.attributes.get(row["key"])
        if attribute is None:
            continue
        if attribute.type != row["type"]:
            yield f"{row['key']} on a user's span is {row['type']}, the table says {attribute.type}"
        if "user's spans" not in attribute.brief:
            yield f"{row['key']} is on a user's span, which the table does not say"

    for row in run["resource_attribute"]:
        attribute = tables.attributes[row["key"]]
        if attribute.type != row["type"]:
            yield f"{row['key']} of a resource is {row['type']}, the table says {attribute.type}"


def _unnamed_operators(run):
    """Sentences: the operators that stay in PyTorch must be counted by reason, and named unless lists are cut.

    A compilation that failed and was left to PyTorch as a whole names only the operators that were to stay there anyway.
    """
    for row in run["operators"]:
        counted, named = ({reason: number for reason, number in row[key] if number} for key in ("counted", "named"))
        if sum(counted.values()) != row["left"]:
            yield f"{row['span']} leaves {row['left']} operators to PyTorch and counts {counted} as fallback"
        counted.pop("compile_failed", None)
        if named != counted and not row["omitted"]:
            yield f"{row['span']} counts {counted} as fallback and names {named}"


def _undocumented_metrics(run, tables):
    for row in run["metric"]:
        metric = tables.metrics.get(row["name"])
        if metric is None:
            yield f"{row['name']} is not in the table"
            continue
        emitted = ((row["instrument"], row["is_monotonic"]), row["unit"], tuple(row["bounds"]))
        expected = (KINDS[metric.instrument], metric.unit, tuple(metric.bounds))
        if emitted != expected:
            yield f"{row['name']} is {emitted}, the table says {expected}"
        beyond = {tuple(each) for each in row["attributes"]} - {(str(key), key.type) for key in metric.attributes}
        if beyond:
            yield f"{row['name']} has the attributes {sorted(beyond)}, which the table does not say"


def _undocumented_attributes(run, tables):
    for row in run["attribute"]:
        key, event, kind = row["key"], row["event"], row["type"]
        where = f"{key} on {row['span']}{f' in event {event}' if event else ''}"
        attribute = tables.attributes.get(key)
        if attribute is None:
            yield f"{where} is not in the table"
            continue
        if attribute.resource and not attribute.on:
            yield f"{where}: the table says that it is on resources alone"
        if kind not in {attribute.type, "empty"}:
            yield f"{where} is {kind}, the table says {attribute.type}"
        if event not in attribute.events and (event or (attribute.events and not attribute.on)):
            yield f"{where}: the table says event {' or '.join(attribute.events) or None}"
        if not event and attribute.on and tables.phase_of(row["span"]) not in attribute.on:
            yield f"{where}: the table does not name this span"


def never_emitted(run, tables):
    """Sentences: the rows of the tables that no test emitted."""
    emitted = (*run["attribute"], *run["user_attribute"], *run["resource_attribute"])
    keys = {row["key"] for row in emitted} | tables.unknown_settings
    for key, attribute in tables.attributes.items():
        if not attribute.metric and key not in keys:
            yield f"attribute {key}"
    measured = {(row["name"], key) for row in run["metric"] for key, _ in row["attributes"]}
    names = {row["name"] for row in run["metric"]}
    for name, metric in tables.metrics.items():
        if name not in names:
            yield f"metric {name}"
        else:
            yield from (
                f"attribute {key} of metric {name}" for key in metric.attributes if (name, str(key)) not in measured
            )
    spans = {tables.phase_of(row["name"]) for row in run["span"]}
    yield from (f"span {each.name}" for each in tables.phases if each not in spans)


def stable_names(run, tables):
    """Lines: how many of the stable names were emitted, and why another was not, where there is a reason."""
    spans = {row["name"] for row in run["span"]}
    emitted = {row["key"] for row in (*run["attribute"], *run["user_attribute"], *run["resource_attribute"])}
    emitted |= {key for row in run["metric"] for key, _ in row["attributes"]} | {row["name"] for row in run["metric"]}
    emitted |= {phase.name for phase in map(tables.phase_of, spans) if phase is not None}
    rows = {name: row.stable for name, row in (*tables.attributes.items(), *tables.metrics.items())}
    stable = {name for name, is_stable in rows.items() if is_stable}
    stable |= {phase.name for phase in tables.phases if phase.stable}
    yield f"{len(stable & emitted)} of {len(stable)} stable names were emitted"
    for key in sorted(tables.unknown_settings):
        yield f"{key} was not emitted: this version of Torch-TensorRT has no such setting"


def violations(run):
    """Sentences: what Weaver says against what was emitted, sent to it over OTLP. None without Weaver."""
    program = backends.BY_NAME["weaver"]
    executable, conventions = program.found(), backends.BY_NAME["conventions"].found()
    if executable is None:
        print(f"contract: not judged by Weaver: {program.how_to_get}")
        return
    with tempfile.TemporaryDirectory() as folder:
        registry = weaver.registry_in(folder, conventions)
        report = _live_check(run, registry, executable)
    counts = report["statistics"]["total_entities_by_type"]
    print(f"contract: Weaver judged {', '.join(f'{number} {kind}' for kind, number in sorted(counts.items()))}")
    for violation in report.violations:
        yield f"Weaver: {violation['message']} ({violation['signal_type']} {violation['signal_name']})"


def _live_check(run, registry, executable):
    with weaver.live_check(registry, executable) as live_check:
        weaver.send(run["sample"], run["metric"], live_check.otlp_endpoint)
        return live_check.end(timeout=600)


def never_fired(fired, hooks, resolved, *, cannot=frozenset(), need_not=frozenset()):
    """Sentences: the hooks of the installed version that fired on no route, and those that did although they `cannot`.

    fired: route -> hooks. hooks: hook -> targets of its probes. resolved: the targets that are there. need_not: hooks
    for which either is right.
    """
    present = {name for name, targets in hooks.items() if resolved.intersection(targets)}
    missing = present - set().union(*fired.values()) - need_not
    yield from (f"hook {name}" for name in sorted(missing - cannot))
    yield from (f"hook {name} is listed as one that cannot fire here" for name in sorted(cannot - missing))


def unknown_settings():
    """The rows for settings that this Torch-TensorRT does not have."""
    from torch_tensorrt.dynamo import CompilationSettings

    from torchspan.words import semconv

    return {str(row) for name, row in semconv.SETTINGS.items() if not hasattr(CompilationSettings(), name)}


def routes_never_fired(run, report=REPORT):
    """Sentences of `never_fired`, and for routes that did not run; writes the report when all of them did."""
    import torch_tensorrt

    import routes
    from torchspan.hooks import adapters

    fired = {row["name"]: set(row["hooks"]) for row in run["route"]}
    left_out = [route.name for route in routes.ROUTES if route.name not in fired]
    if left_out:
        yield from (f"route {name}" for name in left_out)
        return
    resolved = {each.probe.target for each in adapters.resolve_probes() if each.status == "resolved"}
    is_old = tuple(map(int, torch_tensorrt.__version__.split(".")[:2])) < (2, 14)
    yield from never_fired(
        fired,
        routes.HOOKS,
        resolved,
        need_not={"mutable.load"} if is_old else set(),
    )
    text = routes.report(fired)
    report.parent.mkdir(exist_ok=True)
    report.write_text(text, encoding="utf-8")
    cells = text.count("| real |")
    if cells <= 300:
        yield f"more than {cells} cells of {report.name}"


def judge(run, undocumented_rows, missing_rows):
    """Print what was found and return the exit status."""
    undocumented_rows, missing_rows = list(undocumented_rows), list(missing_rows)
    parts = run.missing_parts
    for sentence in undocumented_rows:
        print(f"contract: {sentence}")
    if missing_rows:
        print(f"contract: {len(missing_rows)} rows that no test emitted or that no route fired:")
        for sentence in missing_rows:
            print(f"  {sentence}")
    if parts:
        print(f"contract: only a part of the suite ran ({'; '.join(parts)}).")
    if undocumented_rows or (missing_rows and not parts):
        return 1
    if missing_rows:
        print("contract: so it is not known whether these rows are emitted; `make test ALL=1` finds out.")
        return ONLY_A_PART
    print("contract: everything emitted is in the tables, every row of the tables was emitted, every hook fired.")
    return 0


def main():
    run = SuiteRun.read(FOLDER)
    if not run["asked"]:
        print(f"contract: no run of the tests is in {FOLDER.relative_to(ROOT)}; `tools/check.py tests` makes one.")
        return 1
    sys.path.insert(0, str(ROOT / "tests"))
    _import_the_libraries()
    tables = Tables(unknown_settings())
    missing = [*never_emitted(run, tables), *routes_never_fired(run)]
    for line in stable_names(run, tables):
        print(f"contract: {line}")
    return judge(run, [*undocumented(run, tables), *violations(run)], missing)


def _import_the_libraries():
    for variable in [name for name in os.environ if name.startswith(("TORCHSPAN_", "OTEL_"))]:
        del os.environ[variable]
    import torchspan.testing

    torchspan.testing.without_gpu()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the libraries warn of while they are imported is theirs
        import torch_tensorrt  # noqa: F401


if __name__ == "__main__":
    raise SystemExit(main())
