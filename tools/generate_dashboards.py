# SPDX-License-Identifier: Apache-2.0
"""Writes the dashboards in collector-config/grafana/dashboards from tools/dashboards, with Grafana's Foundation SDK.

Needs Python 3.11 or newer, as the Foundation SDK does. `--check` writes nothing and exits with status 1 if a file differs from what would be
written.
"""

import json
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "collector-config" / "grafana" / "dashboards"


def documents():
    """The files, by their names: JSON with the panels numbered in their order."""
    from grafana_foundation_sdk.cog.encoder import JSONEncoder

    from dashboards import bridge_health, compiles, runtime, torch_compile

    made = {}
    modules = {
        "compiles": compiles,
        "torch-compile": torch_compile,
        "runtime": runtime,
        "bridge-health": bridge_health,
    }
    for name, module in modules.items():
        content = json.loads(JSONEncoder().encode(module.made().build()))
        for number, panel in enumerate(content["panels"], 1):
            panel["id"] = number
        made[f"{name}.json"] = json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    return made


def main(arguments):
    """Write the dashboards, or check them. Returns the exit status."""
    if sys.version_info < (3, 11):
        print("dashboards: not looked at, because Grafana's Foundation SDK needs Python 3.11 or newer")
        return 0
    written = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}
    made = documents()
    if "--check" not in arguments:
        FOLDER.mkdir(parents=True, exist_ok=True)
        for name in written.keys() - made.keys():
            (FOLDER / name).unlink()
        for name, text in made.items():
            (FOLDER / name).write_text(text, encoding="utf-8")
        return 0
    other = sorted(name for name in written.keys() | made.keys() if written.get(name) != made.get(name))
    if other:
        print(
            f"collector-config/grafana/dashboards: {', '.join(other)} differs from tools/dashboards; "
            "write it with: make docs",
            file=sys.stderr,
        )
    return int(bool(other))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
