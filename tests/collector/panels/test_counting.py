# SPDX-License-Identifier: Apache-2.0
"""How panels count what only rises: the query of a committed panel, over series made for it."""

import json
import subprocess

import pytest

from support import panels
from support.needs import program

pytestmark = pytest.mark.needs("promtool")

SERIES = 'tensorrt_engine_build_size_bytes_count{{job="app", instance="{}"}}'
ENGINES = ("compiles", "Engines", "A")

CASES = {
    "a series that is born with its value counts whole": (["_x7 4 4 4"], 10, [4]),
    "what a series had before the window does not count": (["0+1x20"], 10, [5]),
    "a series that stays as it is counts nothing": (["7x20"], 10, [0]),
    "a process that ended within the window counts": (["0 0 0 0 0 1 2 3 _x5"], 10, [2]),
    "a series that Prometheus was reported is over counts": (["0 0 0 0 0 1 2 3 stale _x5"], 10, [2]),
    "a process that ended before the window counts nothing": (["0 1 2 _x10"], 10, []),
    "after a restart counts what came since": (["5 6 7 8 9 9 2 3 3 3 3"], 10, [3]),
    "what was missed for less than an hour counts once": (["7 _x50 7 9"], 52, [2]),
    "after more than an hour the whole value counts": (["7 _x70 9"], 71, [9]),
    "processes are added up": (["_x7 4 4 4", "0+1x20", "0 1 2 _x10"], 10, [9]),
}
"""(a value each minute of the series, the minute, what five minutes count)."""


@pytest.mark.parametrize(("values", "minute", "counted"), CASES.values(), ids=CASES)
def test_a_window_of_a_panel(tmp_path, values, minute, counted):
    (target,) = [each for each in panels.targets("prometheus") if each.key == ENGINES]
    tests = {
        "interval": "1m",
        "input_series": [{"series": SERIES.format(number), "values": each} for number, each in enumerate(values)],
        "promql_expr_test": [
            {
                "expr": panels.filled_in(target.text, service="app", __range="5m"),
                "eval_time": f"{minute}m",
                "exp_samples": [{"labels": "{}", "value": each} for each in counted],
            }
        ],
    }
    file = tmp_path / "tests.yaml"
    file.write_text(json.dumps({"evaluation_interval": "1m", "tests": [tests]}), encoding="utf-8")
    command = [program("promtool"), "test", "rules", file]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
