# SPDX-License-Identifier: Apache-2.0
"""docs/reference/doctor.md names what doctor prints."""

import json
import re
from pathlib import Path

from torchspan.cli.doctor import _printed as report
from torchspan.cli.doctor._check import Context, State
from torchspan.cli.doctor._endpoints import reachable
from torchspan.cli.doctor._exporters import installed, writable

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "doctor.md").read_text(encoding="utf-8")


def names():
    cells = re.findall(r"^\| (`[a-z_]+\.[^|]+) \|", PAGE, re.M)
    return {name for cell in cells for name in re.findall(r"`([\w.<>]+)`", cell)}


def test_every_row_is_described_on_the_page(rows):
    found = {re.sub(r"^settings\.(?!unknown$).*", "settings.<name>", name) for name in rows()}

    assert found - names() == set()


def test_every_row_about_where_traces_go_is_described_on_the_page(tmp_path):
    checks = (installed, reachable, writable)
    contexts = [
        Context({"OTEL_TRACES_EXPORTER": "torchspan_file", "OTEL_SDK_DISABLED": "true"}),
        Context({"OTEL_CONFIG_FILE": str(tmp_path / "none.yaml")}),
    ]
    found = {row.name for check in checks for context in contexts for row in check(context)}

    assert found == {"exporters.traces", "exporters.metrics", "exporters.logs", "file.path"}
    assert found - names() == set()


def test_every_state_is_described_on_the_page():
    assert re.findall(r"^\| `(\w+)` \| [A-Z]", PAGE.partition("## JSON")[0], re.M) == [state.value for state in State]


def test_the_json_on_the_page_has_the_keys_of_the_real_one(rows):
    (example,) = (json.loads(text) for text in re.findall(r"^```json\n(.*?)^```", PAGE, re.M | re.S))
    real = json.loads(report.document([rows()["sdk.installed"]]))

    assert list(example) == list(real)
    assert [list(row) for row in example["checks"]] == [list(row) for row in real["checks"]]
