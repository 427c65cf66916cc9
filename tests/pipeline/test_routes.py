# SPDX-License-Identifier: Apache-2.0
"""Every route of `tests/routes.py`: which hooks fire, and what the trace is."""

import keyword
from collections import Counter

import pytest

import routes
from pipeline.expected import VERSION
from support import run_log
from support.fired import Fired
from support.tree import assert_times_nest, outline
from torchspan import observers
from torchspan.hooks import adapters
from torchspan.hooks.probes import PROBES
from torchspan.phase import PHASES

pytestmark = pytest.mark.slow

RESOLVED = {each.probe.target for each in adapters.resolve_probes() if each.status == "resolved"}


def test_a_probe_is_in_a_row_of_the_table_at_most_once():
    """One that is in none has tests of its own. The check `contract` fails for a hook that never fired."""
    listed = [target for targets in routes.HOOKS.values() for target in targets]
    assert len(listed) == len({*listed} & {probe.target for probe in PROBES})


def test_route_names_are_unique():
    names = [route.name for route in routes.ROUTES]
    assert len(set(names)) == len(names)


@pytest.mark.filterwarnings("ignore")  # what the libraries warn of on their rarer routes is theirs
@pytest.mark.parametrize("route", routes.ROUTES, ids=lambda route: route.name)
def test_exactly_the_hooks_of_the_route_fire_and_its_official_observers_report_each_span(
    route, instrument, exporter, tmp_path, monkeypatch
):
    reported = {name: Reported(pair) for name, pair in official_pairs()}
    try:
        fired, error = run_under_the_bridge(route, instrument, tmp_path, monkeypatch)
    finally:
        for each in reported.values():
            each.stop()
    whole = {name for name, targets in routes.HOOKS.items() if fired >= RESOLVED.intersection(targets) != set()}
    partly = {name for name, targets in routes.HOOKS.items() if fired & set(targets)} - whole
    run_log.write("route", name=route.name, hooks=sorted(whole | partly))
    if VERSION < (2, 14):
        pytest.skip("the cells are those of 2.14; here only what fired on some route is held against the rows")
    assert isinstance(error, route.raises or type(None)), repr(error)
    assert {"missed": route.hooks - whole, "beyond": (whole | partly) - route.hooks} == {
        "missed": set(),
        "beyond": set(),
    }
    spans = [span for span in exporter.get_finished_spans() if not span.name.startswith("torch_tensorrt.pass ")]
    assert "\n".join(outline(spans)) == route.tree
    assert_times_nest(exporter.get_finished_spans())
    opened = Counter(span.name.split(" ")[0] for span in exporter.get_finished_spans())
    for name in ("torch_tensorrt.execute", "tensorrt.execute", "torch.compile_phase"):  # only some of these are spans
        runs = reported.pop(name)
        assert runs.before == runs.after >= opened.pop(name, 0)
    assert {name: (each.before, each.after) for name, each in reported.items() if each.before or each.after} == {
        name: (count, count) for name, count in opened.items()
    }


def official_pairs():
    """The name of each phase with an official pair, and the pair."""
    for each in PHASES:
        library, _, name = each.name.partition(".")
        if library != "torchspan":
            name = name.replace(".", "_")
            yield each.name, getattr(getattr(observers, library), f"{name}_" if keyword.iskeyword(name) else name)


class Reported:
    """How often each of an official pair's observers fired."""

    def __init__(self, pair):
        self.before = self.after = 0
        self._added = (pair.pre.add(self._pre), pair.post.add(self._post))

    def _pre(self, context):
        assert callable(context.callable) and context.outcome is None
        self.before += 1

    def _post(self, context):
        assert context.outcome in {"returned", "raised"}
        self.after += 1

    def stop(self):
        for each in self._added:
            each.remove()


def run_under_the_bridge(route, instrument, tmp_path, monkeypatch):
    """Targets of the probes that fired, and what the program got."""
    fired = Fired(monkeypatch)
    error = None
    try:
        work = route.prepare(tmp_path, monkeypatch)
    except Exception as unprepared:
        return set(), unprepared  # older versions cannot do everything
    fired.record()
    try:
        instrument(detail="passes", build_phases="off")
        work()
    except Exception as raised:
        error = raised
    return fired.targets, error
